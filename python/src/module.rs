//! The extension module of a package.

use pyo3::prelude::*;
use tilekit_launch::Program;

use crate::kernel::Kernel;

/// The extension module `$module` with these kernels: of each, `$kernel.json` and `$kernel.cubin` stand beside the source that
/// calls the macro.
///
/// ```text
/// tilekit_python::module! { _native: softmax_bf16_4096_8, matmul_tma_bf16_128_128_16 }
/// ```
#[macro_export]
macro_rules! module {
    ($module:ident: $($kernel:ident),+ $(,)?) => {
        #[$crate::pyo3::pymodule]
        #[pyo3(crate = "::tilekit_python::pyo3")]
        fn $module(
            module: &$crate::pyo3::Bound<'_, $crate::pyo3::types::PyModule>,
        ) -> $crate::pyo3::PyResult<()> {
            const COUNT: usize = [$(stringify!($kernel)),+].len();
            static PROGRAMS: [(&str, &str, $crate::Program); COUNT] = [$((
                stringify!($kernel),
                include_str!(concat!(stringify!($kernel), ".json")),
                $crate::Program::new(
                    include_str!(concat!(stringify!($kernel), ".json")),
                    {
                        static CODE: &$crate::Aligned<[u8]> = &$crate::Aligned(
                            *include_bytes!(concat!(stringify!($kernel), ".cubin")),
                        );
                        CODE
                    },
                ),
            )),+];
            $crate::fill(module, &PROGRAMS)
        }
    };
}

/// Puts the class of kernels and these kernels, each with its name and its manifest, into an extension module.
///
/// # Errors
/// What Python refuses.
pub fn fill(
    module: &Bound<'_, PyModule>,
    programs: &'static [(&'static str, &'static str, Program)],
) -> PyResult<()> {
    module.add_class::<Kernel>()?;
    for (name, manifest, program) in programs {
        module.add(*name, Kernel::new(name, manifest, program))?;
    }
    Ok(())
}

//! The extension module of a package.

use pyo3::prelude::*;
use tilekit_launch::Program;

use crate::kernel::Kernel;

/// The extension module `$module` with these kernels, and the functions of tvm-ffi by which each is called too: of each kernel, `$kernel.json` and
/// `$kernel.cubin` stand beside the source that calls the macro.
///
/// ```text
/// tilekit_python::module! { _native: softmax_bf16_4096_8 as __tvm_ffi_softmax_bf16_4096_8 }
/// ```
#[macro_export]
macro_rules! module {
    ($module:ident: $($kernel:ident as $function:ident),+ $(,)?) => {
        #[allow(non_upper_case_globals, reason = "a kernel's name")]
        mod programs {
            $(pub(super) static $kernel: $crate::Named = $crate::Named {
                name: stringify!($kernel),
                manifest: include_str!(concat!(stringify!($kernel), ".json")),
                program: $crate::Program::new(
                    include_str!(concat!(stringify!($kernel), ".json")),
                    {
                        static CODE: &$crate::Aligned<[u8]> = &$crate::Aligned(
                            *include_bytes!(concat!(stringify!($kernel), ".cubin")),
                        );
                        CODE
                    },
                ),
            };)+
        }

        #[$crate::pyo3::pymodule]
        #[pyo3(crate = "::tilekit_python::pyo3")]
        fn $module(
            module: &$crate::pyo3::Bound<'_, $crate::pyo3::types::PyModule>,
        ) -> $crate::pyo3::PyResult<()> {
            $crate::fill(module, &[$(&programs::$kernel),+])
        }

        $(
            /// The kernel as a function of tvm-ffi.
            ///
            /// # Safety
            /// Called as tvm-ffi calls a `TVMFFISafeCallType`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $function(
                _library: *mut ::core::ffi::c_void,
                arguments: *const $crate::tvm_ffi::Any,
                count: i32,
                result: *mut $crate::tvm_ffi::Any,
            ) -> i32 {
                // SAFETY: by the caller's word.
                unsafe { $crate::tvm_ffi::call(&programs::$kernel.program, arguments, count, result) }
            }
        )+
    };
}

/// A kernel of a package: its name, its manifest as JSON, its code.
pub struct Named {
    /// The name in the package.
    pub name: &'static str,
    /// The table as JSON.
    pub manifest: &'static str,
    /// The manifest and the code, for launches.
    pub program: Program,
}

/// Puts the class of kernels and these kernels, each with its name and its manifest, into an extension module.
///
/// # Errors
/// What Python refuses.
pub fn fill(module: &Bound<'_, PyModule>, kernels: &[&'static Named]) -> PyResult<()> {
    module.add_class::<Kernel>()?;
    for Named {
        name,
        manifest,
        program,
    } in kernels
    {
        module.add(*name, Kernel::new(name, manifest, program))?;
    }
    Ok(())
}

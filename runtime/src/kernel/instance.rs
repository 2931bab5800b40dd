//! Kernel functions, with and without their types.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use diag::Diagnostics;
use gluon_lang::lang::{KernelFn, Traced};
use gluon_lang::rt::{KernelEntry, KernelInstance};

use super::compile::Compiler;
use super::costs::{self, BankConflicts, Coalescing};
use super::typed::CompiledKernel;
use crate::error::Result;

/// A `#[kernel]` function whose compile-time parameters are fixed, such as `vector_add::<1024>`, to be compiled and
/// launched. `H` is the tuple of its parameters' handles.
pub trait Kernel<H>: KernelFn<H> + Send + Sync + 'static {
    /// Compiles it to PTX.
    ///
    /// # Errors
    /// [`Error::Kernel`](crate::Error::Kernel) with what is wrong with it.
    fn compile(self, compiler: &Compiler) -> Result<CompiledKernel<H>> {
        Ok(CompiledKernel::new(compiler.compile(&Instance::of(self))?))
    }

    /// What each access to global memory through pointers costs a warp, in the order of the kernel's text: for a test that
    /// they coalesce. Without a GPU, from the layouts and from the facts about the addresses; of addresses that are not
    /// known, each lane's counts as a sector of its own.
    ///
    /// # Errors
    /// [`Error::Kernel`](crate::Error::Kernel) with what is wrong with the kernel.
    ///
    /// ```
    /// use tilekit::prelude::*;
    ///
    /// #[kernel]
    /// fn copy(x: Ptr<f32>, out: Ptr<f32>) {
    ///     let i = arange(0..512, Coalesced);
    ///     out.at(i).store(x.at(i).load());
    /// }
    ///
    /// for access in copy.coalescing()? {
    ///     assert_eq!((access.thread_bytes, access.wasted_sectors()), (16, 0));
    /// }
    /// # Ok::<(), tilekit::Error>(())
    /// ```
    fn coalescing(self) -> Result<Vec<Coalescing>> {
        costs::coalescing(self)
    }

    /// What each move of a tile between registers and shared memory costs a warp, in the order of the kernel's text: for a
    /// test that it has no bank conflicts. Of one layout of registers and one of memory,
    /// [`bank_conflicts`](crate::layout::local::bank_conflicts) says the same.
    ///
    /// # Errors
    /// [`Error::Kernel`](crate::Error::Kernel) with what is wrong with the kernel.
    fn bank_conflicts(self) -> Result<Vec<BankConflicts>> {
        costs::bank_conflicts(self)
    }
}

impl<H, K: KernelFn<H> + Send + Sync + 'static> Kernel<H> for K {}

/// A kernel without its types: what can be listed, compiled and shown.
#[derive(Clone)]
pub struct Instance {
    trace: Arc<dyn Fn() -> Result<Traced, Diagnostics> + Send + Sync>,
    type_name: Cow<'static, str>,
}

impl Instance {
    /// That of a kernel function.
    pub fn of<H, K: Kernel<H>>(kernel: K) -> Instance {
        Instance {
            trace: Arc::new(move || kernel.trace()),
            type_name: std::any::type_name::<K>().into(),
        }
    }

    /// Runs the function once and records what it does.
    ///
    /// # Errors
    /// What is wrong with the kernel.
    pub fn trace(&self) -> Result<Traced, Diagnostics> {
        (self.trace)()
    }

    /// The function's full path with its compile-time parameters, as rustc writes it: unique in the program. For people
    /// there is [`display`](Self::display).
    pub fn path(&self) -> &str {
        &self.type_name
    }

    /// Its name with its compile-time parameters, for people: `vector_add<1024>`.
    pub fn display(&self) -> String {
        display_of(&self.type_name)
    }
}

/// `vector_add<1024>` of `examples::vector_add::vector_add<1024>`: names without their modules.
pub(crate) fn display_of(path: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let pieces = path.split_inclusive(|c| !is_part(c));
    let text: String = pieces
        .map(|piece| piece.rsplit("::").next().unwrap_or(piece))
        .collect();
    text.replace(' ', "").replace(',', ", ")
}

impl Instance {
    /// That of an instance which the kernel's attribute declares.
    pub(crate) fn declared(entry: &KernelEntry, instance: &KernelInstance) -> Instance {
        let arguments = instance.arguments;
        let path = format!("{}::{}", entry.module, entry.name);
        let path = if arguments.is_empty() {
            path
        } else {
            format!("{path}<{arguments}>")
        };
        let trace = instance.trace;
        Instance {
            trace: Arc::new(trace),
            type_name: path.into(),
        }
    }
}

impl PartialEq for Instance {
    fn eq(&self, other: &Instance) -> bool {
        self.type_name == other.type_name
    }
}

impl Eq for Instance {}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({})", self.type_name)
    }
}

#[cfg(test)]
mod tests {
    use super::display_of;

    #[test]
    fn paths_of_functions_are_shortened() {
        for (path, expected) in [
            ("examples::vector_add::vector_add<1024>", "vector_add<1024>"),
            (
                "a::softmax<half::bfloat::bf16, 4096>",
                "softmax<bf16, 4096>",
            ),
            ("a::k<a::Pair<f32,a::b::C>,8>", "k<Pair<f32, C>, 8>"),
            ("a::plain", "plain"),
        ] {
            assert_eq!(display_of(path), expected);
        }
    }
}

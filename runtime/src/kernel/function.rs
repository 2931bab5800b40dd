//! Kernel functions with their types: what a test of their author asks them.

use gluon_lang::lang::KernelFn;

use super::compile::Compiler;
use super::costs::{self, BankConflicts, Coalescing};
use super::instance::Instance;
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
        costs::coalescing(&Instance::of(self))
    }

    /// What each move of a tile between registers and shared memory costs a warp, in the order of the kernel's text: for a
    /// test that it has no bank conflicts. Of one layout of registers and one of memory,
    /// [`bank_conflicts`](crate::layout::local::bank_conflicts) says the same.
    ///
    /// # Errors
    /// [`Error::Kernel`](crate::Error::Kernel) with what is wrong with the kernel.
    fn bank_conflicts(self) -> Result<Vec<BankConflicts>> {
        costs::bank_conflicts(&Instance::of(self))
    }
}

impl<H, K: KernelFn<H> + Send + Sync + 'static> Kernel<H> for K {}

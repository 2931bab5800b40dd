//! Kernels from the host's side: compiled, loaded, launched with checked arguments.
//!
//! ```text
//! vector_add::<1024>.compile(&compiler)?.load(&device)?.launch(&stream, grid, (&x, &y, &out, n))?
//! ```
//!
//! A kernel is the function that the author wrote; its parameter types say which arguments a launch takes.

mod arguments;
mod compile;
mod costs;
mod function;
mod instance;
mod packing;
mod promises;
mod typed;

pub use arguments::{Argument, Arguments};
pub use compile::{Compiled, Compiler, StepTime};
pub use costs::{BankConflicts, Coalescing};
pub use function::Kernel;
pub use instance::Instance;
pub(crate) use instance::display_of;
pub use packing::Packing;
pub(crate) use promises::overlap;
pub use typed::{CompiledKernel, LoadedKernel};

//! What Python packages of exported kernels share: tensors of any framework in, checks, launches.
//!
//! `cargo tilekit export --to python` writes a package whose extension module is one call of [`module!`]. Each kernel is a
//! [`Kernel`] there: its manifest and its cubin, both inside of the module. Nothing of CUDA is opened before the first launch:
//! the module is imported on a machine without a GPU.
//!
//! - Tensors: the C exchange API of DLPack where their type has it, else `__dlpack__`, else
//!   `__cuda_array_interface__`. They are borrowed for a call.
//! - The stream: the caller's, else the one on which the tensors' producer works now.
//! - Launches: in the primary context of the tensors' GPU, without the GIL.
//! - tvm-ffi: each kernel is a function of its calling convention too ([`tvm_ffi`]), which needs nothing of Python.
//! - Errors: `TypeError` for a type, `ValueError` for a value, `RuntimeError` for what driver and GPU refuse.

mod arguments;
mod context;
mod kernel;
mod module;
mod recent;
mod refusal;
mod scalar;
mod stream;
mod tensor;
pub mod tvm_ffi;

pub use arguments::Passed;
pub use kernel::{Kernel, grid_of};
pub use module::{Named, fill};
pub use pyo3;
pub use refusal::raised;
pub use tensor::Place;
pub use tilekit_launch::{Aligned, Program};

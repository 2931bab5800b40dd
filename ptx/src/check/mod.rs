//! Is a module legal PTX for its version and target?

mod address;
mod arithmetic;
mod atomic;
mod bits;
mod cache;
mod call;
mod compare;
mod context;
mod conversion;
mod copy;
mod error;
mod forms;
mod instructions;
mod legal;
mod matrix;
mod memory;
mod module;
mod mov;
mod remote_store;
mod requirements;
mod sync;
mod tensor_map;

pub use error::{CheckError, Problem};
pub use requirements::{Requirement, requirement};

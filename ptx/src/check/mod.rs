//! Is a module legal PTX for its version and target?

mod arithmetic;
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
mod requirements;
mod sync;

pub use error::{CheckError, Problem};
pub use requirements::{Requirement, requirement};

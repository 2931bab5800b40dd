//! PTX as data: what kernels for the GPUs of crate `target` need of the PTX instruction set, typed, with a printer, a parser and a
//! checker.
//!
//! - [`Module`] is a file, [`Entry`] a kernel, [`Body`] its registers, labels, locations and statements.
//! - [`Inst`] is an instruction: one struct per family, every modifier an enum, no strings.
//! - [`EntryBuilder`] builds entries; [`Module::to_text`] prints them.
//! - [`Module::mutations`] lists ways to break a module's synchronization, for tests of what checks it.
//!
//! Section numbers in comments are those of the PTX ISA 8.x.

mod builder;
mod canonical;
mod check;
mod inst;
mod module;
mod mutate;
mod operand;
mod parameters;
mod parse;
mod print;
mod registers;
mod spelling;
mod statement;
mod stats;
mod tensor_map;
mod types;

pub use builder::EntryBuilder;
pub use check::{CheckError, Problem, Requirement, requirement};
pub use inst::*;
pub use module::*;
pub use mutate::{Mutation, MutationKind};
pub use operand::*;
pub use parameters::ParameterOffsets;
pub use parse::ParseError;
pub use print::PrintOptions;
pub use registers::{RegClass, RegGroup, Registers};
pub use smallvec;
pub use statement::*;
pub use stats::{Stats, is_kind, kind_by_line, kinds};
pub use target::Target;
pub use tensor_map::{
    EncodedTensorMap, L2Promotion, TensorAccess, TensorElement, TensorMap, TensorMapError,
};
pub use types::*;

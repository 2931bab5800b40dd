//! PTX text to data.

mod error;
mod lexer;
mod number;
mod operands;
mod scope;
mod tokens;

pub use error::ParseError;
pub(crate) use error::Reject;
pub(crate) use operands::OperandParser;

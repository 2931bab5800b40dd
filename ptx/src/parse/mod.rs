//! PTX text to data.

mod body;
mod declarations;
mod error;
mod lexer;
mod locations;
mod module;
mod number;
mod opcode;
mod operands;
mod scope;
mod tokens;

pub use error::ParseError;
pub(crate) use error::Reject;
pub(crate) use operands::OperandParser;

use crate::module::Module;

impl Module {
    /// Reads a module. The text may be hand-written or made by a compiler, as long as it keeps to the
    /// instructions of [`Inst`](crate::Inst); line comments inside bodies are kept.
    ///
    /// # Errors
    ///
    /// The first place that cannot be understood, with what was expected there.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        module::ModuleParser::new(text)?.run()
    }
}

impl std::str::FromStr for Module {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

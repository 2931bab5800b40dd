//! Where and why a text is not PTX of this subset.

use std::fmt;

/// The first thing in a text that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from one.
    pub line: u32,
    /// Column in characters, from one.
    pub column: u32,
    /// What was found, what was expected, and which alternatives exist.
    pub message: String,
}

impl ParseError {
    pub(crate) fn at(source: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = &source[..offset.min(source.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() as u32 + 1,
            column: before[line_start..].chars().count() as u32 + 1,
            message: message.into(),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Why an instruction was not read.
#[derive(Debug)]
pub(crate) enum Reject {
    /// The opcode does not belong to the family that was tried.
    Modifiers,
    /// The opcode fits, the operands do not.
    Operands(ParseError),
}

impl From<crate::spelling::Mismatch> for Reject {
    fn from(_: crate::spelling::Mismatch) -> Self {
        Self::Modifiers
    }
}

impl From<ParseError> for Reject {
    fn from(error: ParseError) -> Self {
        Self::Operands(error)
    }
}

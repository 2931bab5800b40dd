//! What an op says when its operands or results do not fit; the caller knows the place.

use crate::entity::Value;
use diag::Code;

/// A mistake at one op, before it is given its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpError {
    /// Which kind of mistake.
    pub code: Code,
    /// What is there and what was wanted.
    pub message: String,
    /// Operands to blame, each shown at its own origin with its text.
    pub origins: Vec<(Value, String)>,
    /// Facts.
    pub notes: Vec<String>,
    /// The help: what to do.
    pub help: Option<String>,
}

impl OpError {
    /// A mistake with its message.
    pub fn new(code: Code, message: impl Into<String>) -> OpError {
        OpError {
            code,
            message: message.into(),
            origins: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// Points at where an operand was made.
    #[must_use]
    pub fn origin(mut self, value: Value, text: impl Into<String>) -> OpError {
        self.origins.push((value, text.into()));
        self
    }

    /// Points at where an operand was made, and says of what type it is.
    #[must_use]
    pub fn typed(self, value: Value, ty: impl std::fmt::Display) -> OpError {
        self.origin(value, format!("this is {ty}"))
    }

    /// With a fact.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> OpError {
        self.notes.push(text.into());
        self
    }

    /// With help.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> OpError {
        self.help = Some(text.into());
        self
    }
}

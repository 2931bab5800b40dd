//! The forms of messages.

use serde::{Deserialize, Serialize};

/// What a diagnostic is turned into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageFormat {
    /// The author's line with carets, both origins, notes and help.
    #[default]
    Human,
    /// `file:line:column: error[TK0001]: message`.
    Short,
    /// One JSON object a line, in rustc's schema.
    Json,
}

//! Formats of messages.

use serde::{Deserialize, Serialize};

/// How a diagnostic is printed.
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

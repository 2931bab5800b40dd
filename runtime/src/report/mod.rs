//! Diagnostics as a person, a terminal or an editor reads them.
//!
//! A [`Diagnostic`] knows its places by file, line and column. [`Sources`] finds the files again, [`span_at`] finds the
//! tokens that start there, and a [`Reporter`] shows them: in rustc's style, as one line each, or as rustc's JSON.

mod fault;
mod human;
mod json;
mod lex;
mod short;
mod sources;

#[cfg(test)]
mod tests;

use diag::Diagnostic;

pub use fault::fault_diagnostic;
pub use lex::span_at;
pub use protocol::{MessageFormat, Remark};
pub use sources::Sources;

/// Renders diagnostics. Every text it gives ends in a newline.
#[derive(Debug)]
pub struct Reporter {
    /// The form.
    pub format: MessageFormat,
    /// Colour the human form.
    pub color: bool,
    /// Where the author's files are found.
    pub sources: Sources,
}

impl Reporter {
    /// The whole text of one diagnostic.
    pub fn render(&self, diagnostic: &Diagnostic) -> String {
        match self.format {
            MessageFormat::Human => human::render(diagnostic, &self.sources, self.color),
            MessageFormat::Short => short::render(diagnostic),
            MessageFormat::Json => json::render(diagnostic, &self.sources),
        }
    }
}

//! Diagnostics: what is wrong with the author's kernel, where, and help.
#![forbid(unsafe_code)]

mod code;
mod place;
mod words;

use std::fmt;

pub use code::Code;
pub use place::{Call, Place};
pub use words::as_written;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is produced.
    Error,
    /// Something is produced that is probably not what the author wants.
    Warning,
}

/// A place and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where; `None` when the thing has no place of its own (a kernel read from text).
    pub at: Option<Place>,
    /// What is there.
    pub text: String,
}

/// One mistake of the author's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which kind of mistake; for machines, tests and `cargo tilekit explain`.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, both sides with shapes, units and layouts.
    pub message: String,
    /// The author's line.
    pub primary: Label,
    /// Other places that matter: the other origin of a conflict.
    pub related: Vec<Label>,
    /// Facts that help to understand.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at `at`.
    pub fn error(code: Code, at: Option<Place>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: Label {
                at,
                text: String::new(),
            },
            related: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// The same as a warning.
    #[must_use]
    pub fn warning(mut self) -> Diagnostic {
        self.severity = Severity::Warning;
        self
    }

    /// The same as an error.
    #[must_use]
    pub fn error_instead(mut self) -> Diagnostic {
        self.severity = Severity::Error;
        self
    }

    /// With a text under the caret.
    #[must_use]
    pub fn labelled(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    /// With another place.
    #[must_use]
    pub fn related(mut self, at: Option<Place>, text: impl Into<String>) -> Diagnostic {
        self.related.push(Label {
            at,
            text: text.into(),
        });
        self
    }

    /// With a fact.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// With help.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }
}

/// One line per fact: for logs and for errors that are shown without their source.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.message)?;
        if let Some(at) = &self.primary.at {
            write!(f, "\n  --> {at}")?;
        }
        if !self.primary.text.is_empty() {
            write!(f, "\n      {}", self.primary.text)?;
        }
        for label in &self.related {
            write!(f, "\n  ::: ")?;
            match &label.at {
                Some(at) => write!(f, "{at}: {}", label.text)?,
                None => f.write_str(&label.text)?,
            }
        }
        for note in &self.notes {
            write!(f, "\n  = note: {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  = help: {help}")?;
        }
        Ok(())
    }
}

/// Several diagnostics, in the order found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Is there an error among them?
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// Is there none at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            d.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Diagnostics {
        Diagnostics(vec![d])
    }
}

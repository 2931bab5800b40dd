//! How a snapshot differs from the accepted one.

use std::io;
use std::path::{Path, PathBuf};

use super::facts::{Change, losses};
use super::store::{Kind, split_assembly};
use crate::harness::files::{remove, write_whole};

/// How a snapshot differs from the accepted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::harness) enum Difference {
    /// Nothing was accepted yet.
    Missing {
        /// Where it belongs.
        path: PathBuf,
        /// The whole text.
        new: String,
    },
    /// Something else was accepted.
    Changed {
        /// Where it is.
        path: PathBuf,
        /// What was accepted.
        old: String,
        /// What it is now.
        new: String,
    },
    /// No variant has it any more.
    Stale {
        /// Where it is.
        path: PathBuf,
        /// What was accepted.
        old: String,
    },
}

impl Difference {
    /// The file.
    pub(in crate::harness) fn path(&self) -> &Path {
        match self {
            Difference::Missing { path, .. }
            | Difference::Changed { path, .. }
            | Difference::Stale { path, .. } => path,
        }
    }

    /// What was accepted and what is now.
    pub(in crate::harness) fn texts(&self) -> (&str, &str) {
        match self {
            Difference::Missing { new, .. } => ("", new),
            Difference::Changed { old, new, .. } => (old, new),
            Difference::Stale { old, .. } => (old, ""),
        }
    }

    /// Would accepting it drop what ptxas said of the text before, with nothing in its place?
    pub(in crate::harness) fn loses_assembly(&self) -> bool {
        match self {
            Difference::Changed { path, old, new } if Kind::Facts.is_of(path) => {
                split_assembly(old).1.is_some() && split_assembly(new).1.is_none()
            }
            _ => false,
        }
    }

    /// The variant's part of the file's name, of whichever kind.
    pub(in crate::harness) fn stem(&self) -> String {
        let name = self.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        name.split('.').next().unwrap_or_default().to_string()
    }

    /// The variant, by what its header says.
    pub(in crate::harness) fn variant(&self) -> &str {
        let (old, new) = self.texts();
        let text = if new.is_empty() { old } else { new };
        let said = text.lines().next().unwrap_or_default();
        said.strip_prefix("// kernel: ").unwrap_or(said)
    }

    /// The costs that are greater than those accepted.
    pub(in crate::harness) fn losses(&self) -> Vec<Change> {
        match self {
            Difference::Changed { path, old, new } if Kind::Facts.is_of(path) => losses(old, new),
            _ => Vec::new(),
        }
    }

    /// In a word.
    pub(in crate::harness) fn word(&self) -> &'static str {
        match self {
            Difference::Missing { .. } => "new",
            Difference::Changed { .. } => "changed",
            Difference::Stale { .. } => "stale",
        }
    }

    /// Accepts it.
    ///
    /// # Errors
    /// A file that cannot be written or removed.
    pub(in crate::harness) fn accept(&self) -> io::Result<()> {
        match self {
            Difference::Missing { path, new } | Difference::Changed { path, new, .. } => {
                write_whole(path, new.as_bytes())
            }
            Difference::Stale { path, .. } => remove(path),
        }
    }
}

//! The author's files, found again by the names that the compiler gave them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Reads source files and keeps them.
///
/// rustc names a file of a workspace relative to the workspace's root, and a test does not run there. So a relative name
/// is tried below each root in turn, and a root stands for all folders above it too.
#[derive(Debug, Default)]
pub struct Sources {
    roots: Vec<PathBuf>,
    known: Mutex<HashMap<String, Option<Arc<str>>>>,
}

impl Sources {
    /// Files below one of `roots`, or below a folder above one of them.
    pub fn below(roots: impl IntoIterator<Item = PathBuf>) -> Sources {
        Sources {
            roots: roots.into_iter().collect(),
            known: Mutex::default(),
        }
    }

    /// Makes the text of `file` known without reading it: a kernel edited by hand that was given by another name.
    #[must_use]
    pub fn with(self, file: &str, text: &str) -> Sources {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(file.to_string(), Some(text.into()));
        drop(known);
        self
    }

    /// The text of `file`, if it can be read.
    pub fn text(&self, file: &str) -> Option<Arc<str>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .entry(file.to_string())
            .or_insert_with(|| self.read(file))
            .clone()
    }

    fn read(&self, file: &str) -> Option<Arc<str>> {
        let path = self.find(file)?;
        fs::read_to_string(path).ok().map(Arc::from)
    }

    /// Where `file` is on this machine.
    pub fn find(&self, file: &str) -> Option<PathBuf> {
        let name = Path::new(file);
        if name.is_absolute() {
            return name.is_file().then(|| name.to_path_buf());
        }
        let folders = self.roots.iter().flat_map(|root| root.ancestors());
        folders
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    }
}

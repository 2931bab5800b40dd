//! Which file imports which.

use std::collections::BTreeMap;

use crate::resolve::Crate;

/// For each file, the files that it imports, each with the first path that says so.
#[derive(Default)]
pub(crate) struct Imports(pub(crate) BTreeMap<String, BTreeMap<String, String>>);

impl Imports {
    /// Those of the files of a crate.
    pub(crate) fn add(&mut self, of: &Crate) {
        for module in of.0.values() {
            let imported = self.0.entry(module.file.clone()).or_default();
            for path in &module.named {
                let file = of.file(module, path).filter(|file| *file != module.file);
                if let Some(file) = file {
                    let text = path.join("::");
                    imported.entry(file.to_owned()).or_insert(text);
                }
            }
        }
    }

    /// How many files import how many others in all.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// The files that `file` imports.
    pub(crate) fn of<'a>(&'a self, file: &str) -> impl Iterator<Item = &'a str> {
        let imported = self.0.get(file).into_iter().flatten();
        imported.map(|(other, _)| other.as_str())
    }
}

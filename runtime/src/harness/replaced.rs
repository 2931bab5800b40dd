//! Kernels edited by hand, kept below `target/` until they are taken back.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{remove, write_whole};

/// The kernels of a package that are used in an edited form, by the name of their entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Replaced {
    kernels: Arc<BTreeMap<String, ReplacedKernel>>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct ReplacedKernel {
    /// The PTX to run.
    pub(super) text: String,
    /// The file that the author named.
    pub(super) origin: String,
}

const ORIGIN: &str = "// from: ";

impl Replaced {
    /// What is kept in `folder`.
    ///
    /// # Errors
    /// A kept file that cannot be read any more; the help is to reset it.
    pub(super) fn read(folder: &Path) -> Result<Replaced, String> {
        let mut kernels = BTreeMap::new();
        for path in kept_files(folder) {
            let complain = |what: String| {
                format!(
                    "{}: {what}; `cargo tilekit build --reset` removes it",
                    path.display()
                )
            };
            let text = fs::read_to_string(&path).map_err(|error| complain(error.to_string()))?;
            let module = ptx::Module::parse(&text).map_err(|error| complain(error.to_string()))?;
            let first = text.lines().next().unwrap_or_default();
            let origin = first
                .strip_prefix(ORIGIN)
                .unwrap_or("an unknown file")
                .to_string();
            let Some(entry) = module.entries.into_iter().next() else {
                return Err(complain("it defines no entry".to_string()));
            };
            kernels.insert(entry.name, ReplacedKernel { text, origin });
        }
        Ok(Replaced {
            kernels: Arc::new(kernels),
        })
    }

    /// Keeps `ptx` in `folder` for the entry that it defines.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn keep(
        folder: &Path,
        entry: &str,
        ptx: &str,
        origin: &Path,
    ) -> io::Result<PathBuf> {
        let path = folder.join(format!("{entry}.ptx"));
        write_whole(
            &path,
            format!("{ORIGIN}{}\n{ptx}", origin.display()).as_bytes(),
        )?;
        Ok(path)
    }

    /// Takes all of `folder` back, and says which entries those were.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub(super) fn reset(folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for path in kept_files(folder) {
            remove(&path)?;
            names.extend(
                path.file_stem()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
        Ok(names)
    }

    /// The edited form of an entry.
    pub(super) fn get(&self, entry: &str) -> Option<&ReplacedKernel> {
        self.kernels.get(entry)
    }

    /// Are there none?
    pub(super) fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &ReplacedKernel)> {
        self.kernels
            .iter()
            .map(|(name, kernel)| (name.as_str(), kernel))
    }
}

fn kept_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "ptx"))
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";

    #[test]
    fn a_kernel_is_kept_under_its_entry_until_it_is_taken_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("override");
        assert_eq!(Replaced::read(&folder).expect("nothing").iter().count(), 0);
        Replaced::keep(&folder, "k", PTX, Path::new("edited.ptx")).expect("written");
        let kept = Replaced::read(&folder).expect("one");
        assert_eq!(
            kept.get("k").map(|kernel| kernel.origin.as_str()),
            Some("edited.ptx")
        );
        assert_eq!(Replaced::reset(&folder).expect("removed"), ["k"]);
        assert_eq!(Replaced::read(&folder).expect("nothing").iter().count(), 0);
    }

    #[test]
    fn a_kept_file_that_is_broken_has_a_help() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("k.ptx"), "nonsense").expect("written");
        let error = Replaced::read(folder.path()).expect_err("no PTX");
        assert!(
            error.contains("k.ptx") && error.contains("--reset"),
            "{error}"
        );
    }
}

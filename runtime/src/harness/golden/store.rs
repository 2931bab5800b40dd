//! The files: one of IR and one of PTX for each variant.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::harness::files::{remove, write_whole};

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::harness) enum Kind {
    /// Tile IR after resolution.
    Ir,
    /// PTX without source locations.
    Ptx,
}

impl Kind {
    const fn suffix(self) -> &'static str {
        match self {
            Kind::Ir => ".ir.snap",
            Kind::Ptx => ".ptx.snap",
        }
    }
}

/// The snapshot of one variant as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::harness) struct Golden {
    /// `<kernel>-<variant>`.
    pub(in crate::harness) name: String,
    /// What it holds.
    pub(in crate::harness) kind: Kind,
    /// Header and text, without what ptxas says.
    pub(in crate::harness) text: String,
    /// What ptxas says, if there is one: `ptxas 13.0.88: 16 registers, ...`.
    pub(in crate::harness) assembly: Option<String>,
}

impl Golden {
    /// The release of ptxas that its figures are of.
    pub(in crate::harness) fn release(&self) -> Option<&str> {
        release(self.assembly.as_deref())
    }
}

/// Begins the line of a snapshot that says what ptxas said.
const ASSEMBLY: &str = "// ptxas ";

/// How a snapshot differs from what was accepted.
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
    /// No variant has it.
    Orphaned {
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
            | Difference::Orphaned { path, .. } => path,
        }
    }

    /// What was accepted and what is now.
    pub(in crate::harness) fn texts(&self) -> (&str, &str) {
        match self {
            Difference::Missing { new, .. } => ("", new),
            Difference::Changed { old, new, .. } => (old, new),
            Difference::Orphaned { old, .. } => (old, ""),
        }
    }

    /// Would accepting it drop what ptxas said of the text before, with nothing in its place?
    pub(in crate::harness) fn loses_assembly(&self) -> bool {
        match self {
            Difference::Changed { old, new, .. } => {
                split_assembly(old).1.is_some() && split_assembly(new).1.is_none()
            }
            Difference::Missing { .. } | Difference::Orphaned { .. } => false,
        }
    }

    /// In a word.
    pub(in crate::harness) fn word(&self) -> &'static str {
        match self {
            Difference::Missing { .. } => "new",
            Difference::Changed { .. } => "changed",
            Difference::Orphaned { .. } => "orphaned",
        }
    }

    /// Makes it what was accepted.
    ///
    /// # Errors
    /// A file that cannot be written or removed.
    pub(in crate::harness) fn accept(&self) -> io::Result<()> {
        match self {
            Difference::Missing { path, new } | Difference::Changed { path, new, .. } => {
                write_whole(path, new.as_bytes())
            }
            Difference::Orphaned { path, .. } => remove(path),
        }
    }
}

/// The folder of a package's snapshots.
#[derive(Clone, Debug)]
pub(in crate::harness) struct Folder(pub(in crate::harness) PathBuf);

impl Folder {
    /// How `golden` differs from its file, if it does.
    pub(in crate::harness) fn compare(&self, golden: &Golden) -> Option<Difference> {
        self.difference(golden, false)
    }

    /// The same for writing: what another release of ptxas says, or what it says for the first time, is news too.
    pub(in crate::harness) fn refresh(&self, golden: &Golden) -> Option<Difference> {
        self.difference(golden, true)
    }

    /// The release of ptxas whose figures were accepted for `golden`, if no figures of that release are at hand to
    /// compare them with.
    pub(in crate::harness) fn uncompared(&self, golden: &Golden) -> Option<String> {
        let (_, accepted) = split_assembly(&self.accepted(golden)?);
        let accepted = release(accepted.as_deref())?;
        (golden.release() != Some(accepted)).then(|| accepted.to_string())
    }

    /// What was accepted for `golden`. Checked out by git on another system, lines may end otherwise.
    ///
    /// What stands there and cannot be read was not accepted as it is: it differs, and is not taken for missing.
    fn accepted(&self, golden: &Golden) -> Option<String> {
        match fs::read(self.path(golden)) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).replace("\r\n", "\n")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(format!("cannot be read: {error}\n")),
        }
    }

    fn difference(&self, golden: &Golden, wants_news: bool) -> Option<Difference> {
        let path = self.path(golden);
        let Some(old) = self.accepted(golden) else {
            let new = with_assembly(&golden.text, golden.assembly.as_deref());
            return Some(Difference::Missing { path, new });
        };
        let (old_text, old_assembly) = split_assembly(&old);
        let is_same_text = old_text == golden.text;
        // Registers of another text say nothing of this one.
        let kept = old_assembly.clone().filter(|_| is_same_text);
        let assembly = golden.assembly.clone().or(kept);
        if is_same_text && !is_worse(old_assembly.as_deref(), assembly.as_deref(), wants_news) {
            return None;
        }
        let new = with_assembly(&golden.text, assembly.as_deref());
        Some(Difference::Changed { path, old, new })
    }

    /// Files of the folder that belong to none of `goldens`.
    pub(in crate::harness) fn orphans(&self, goldens: &[Golden]) -> Vec<Difference> {
        let wanted: BTreeSet<PathBuf> = goldens.iter().map(|golden| self.path(golden)).collect();
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| is_snapshot(path))
            .collect();
        paths.sort();
        let orphan = |path: PathBuf| {
            let old = fs::read_to_string(&path).unwrap_or_default();
            Difference::Orphaned { path, old }
        };
        paths
            .into_iter()
            .filter(|path| !wanted.contains(path))
            .map(orphan)
            .collect()
    }

    fn path(&self, golden: &Golden) -> PathBuf {
        self.0
            .join(format!("{}{}", golden.name, golden.kind.suffix()))
    }
}

fn is_snapshot(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(Kind::Ir.suffix()) || name.ends_with(Kind::Ptx.suffix())
}

/// The text with what ptxas says below the header's other lines.
fn with_assembly(text: &str, assembly: Option<&str>) -> String {
    let Some(assembly) = assembly else {
        return text.to_string();
    };
    let header: usize = text
        .split_inclusive('\n')
        .take_while(|line| line.starts_with("//"))
        .map(str::len)
        .sum();
    format!("{}// {assembly}\n{}", &text[..header], &text[header..])
}

/// The text without, and what ptxas said.
fn split_assembly(text: &str) -> (String, Option<String>) {
    let mut assembly = None;
    let mut rest = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if assembly.is_none() && line.starts_with(ASSEMBLY) {
            assembly = Some(line.trim_start_matches("// ").trim_end().to_string());
        } else {
            rest.push_str(line);
        }
    }
    (rest, assembly)
}

/// Does what ptxas says now matter beside what it said before? Another release may well say something else.
fn is_worse(old: Option<&str>, new: Option<&str>, wants_news: bool) -> bool {
    let is_same_release = release(old).is_some() && release(old) == release(new);
    old != new && (is_same_release || wants_news)
}

/// `ptxas 13.0.88` of `ptxas 13.0.88: 16 registers`.
fn release(assembly: Option<&str>) -> Option<&str> {
    assembly?.split(':').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(text: &str, assembly: Option<&str>) -> Golden {
        Golden {
            name: "add-64".into(),
            kind: Kind::Ptx,
            text: format!("// kernel: add<64>\n{text}\n"),
            assembly: assembly.map(str::to_string),
        }
    }

    struct Place {
        _keep: tempfile::TempDir,
        folder: Folder,
    }

    /// A folder in which `accepted` was accepted.
    fn place(accepted: &Golden) -> Place {
        let keep = tempfile::tempdir().expect("a folder");
        let folder = Folder(keep.path().to_path_buf());
        folder
            .compare(accepted)
            .expect("it is new")
            .accept()
            .expect("written");
        Place {
            _keep: keep,
            folder,
        }
    }

    #[track_caller]
    fn check(accepted: &Golden, now: &Golden, expected: Option<&str>) {
        let Place { folder, _keep } = place(accepted);
        let found = folder.compare(now);
        assert_eq!(found.as_ref().map(Difference::word), expected);
        if let Some(difference) = found {
            difference.accept().expect("written");
            assert_eq!(folder.compare(now), None, "what was accepted is equal");
        }
    }

    #[test]
    fn the_text_is_compared_and_ptxas_only_where_its_release_is_the_same() {
        let plain = golden("ret;", None);
        let old = golden("ret;", Some("ptxas 13.0.88: 16 registers"));
        check(&plain, &plain, None);
        check(&plain, &golden("exit;", None), Some("changed"));
        check(&old, &plain, None);
        check(&plain, &old, None);
        check(
            &old,
            &golden("ret;", Some("ptxas 12.9.86: 18 registers")),
            None,
        );
        check(
            &old,
            &golden("ret;", Some("ptxas 13.0.88: 18 registers")),
            Some("changed"),
        );
        check(&old, &golden("exit;", None), Some("changed"));
    }

    #[test]
    fn accepting_takes_news_of_ptxas_and_keeps_what_it_said_where_there_is_none() {
        let registers =
            |release: &str| golden("ret;", Some(&format!("ptxas {release}: 16 registers")));
        let Place { folder, _keep } = place(&golden("ret;", None));
        let news = folder
            .refresh(&registers("13.0.88"))
            .expect("it says something for the first time");
        news.accept().expect("written");
        assert_eq!(folder.refresh(&registers("13.0.88")), None);
        assert_eq!(folder.refresh(&golden("ret;", None)), None);
        assert_eq!(
            folder
                .refresh(&registers("12.9.86"))
                .map(|news| news.word()),
            Some("changed")
        );
    }

    #[test]
    fn the_line_of_ptxas_stands_at_the_end_of_the_header() {
        let Place { folder, _keep } = place(&golden("ret;", Some("ptxas 13.0.88: 16 registers")));
        let text = fs::read_to_string(folder.0.join("add-64.ptx.snap")).expect("a file");
        assert_eq!(
            text,
            "// kernel: add<64>\n// ptxas 13.0.88: 16 registers\nret;\n"
        );
    }

    #[test]
    fn registers_are_forgotten_with_the_text_they_were_of() {
        let Place { folder, _keep } = place(&golden("ret;", Some("ptxas 13.0.88: 16 registers")));
        let difference = folder
            .compare(&golden("exit;", None))
            .expect("a difference");
        assert!(!difference.texts().1.contains("registers"));
        assert!(
            difference.loses_assembly(),
            "which whoever accepts it must know"
        );
        let difference = folder
            .compare(&golden("exit;", Some("ptxas 12.9.86: 8 registers")))
            .expect("a difference");
        assert!(!difference.loses_assembly());
    }

    #[test]
    fn figures_without_their_release_are_known_to_be_uncompared() {
        let Place { folder, _keep } = place(&golden("ret;", Some("ptxas 13.0.88: 16 registers")));
        let uncompared = |assembly| folder.uncompared(&golden("exit;", assembly));
        let expected = Some("ptxas 13.0.88".to_string());
        assert_eq!(uncompared(None), expected);
        assert_eq!(uncompared(Some("ptxas 12.9.86: 8 registers")), expected);
        assert_eq!(uncompared(Some("ptxas 13.0.88: 8 registers")), None);
        let Place { folder, _keep } = place(&golden("ret;", None));
        assert_eq!(folder.uncompared(&golden("ret;", None)), None);
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_missing() {
        let Place { folder, _keep } = place(&golden("ret;", None));
        let path = folder.0.join("add-64.ptx.snap");
        fs::write(&path, b"// kernel: \xff\xfe\nret;\n").expect("written");
        let word = || {
            folder
                .compare(&golden("ret;", None))
                .map(|found| found.word())
        };
        assert_eq!(word(), Some("changed"));
        fs::remove_file(&path).expect("removed");
        assert_eq!(word(), Some("new"));
        fs::create_dir(&path).expect("a folder in its place");
        assert_eq!(word(), Some("changed"));
        let found = folder.compare(&golden("ret;", None)).expect("a difference");
        let error = found.accept().expect_err("a folder is not replaced");
        assert!(
            error
                .to_string()
                .contains("add-64.ptx.snap cannot be written")
        );
    }

    #[test]
    fn files_of_no_variant_are_orphans_and_are_removed() {
        let Place { folder, _keep } = place(&golden("ret;", None));
        fs::write(folder.0.join("README.md"), "kept").expect("written");
        assert_eq!(folder.orphans(&[golden("ret;", None)]), []);
        let orphans = folder.orphans(&[]);
        assert_eq!(
            orphans.iter().map(Difference::word).collect::<Vec<_>>(),
            ["orphaned"]
        );
        orphans[0].accept().expect("removed");
        assert_eq!(folder.orphans(&[]), []);
        assert!(folder.0.join("README.md").exists());
    }
}

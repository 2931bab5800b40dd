//! The files: one of facts for each variant, and one of IR and one of PTX for each kernel.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::difference::Difference;
use super::names::with_names_of;

/// What a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::harness) enum Kind {
    /// The facts of a variant.
    Facts,
    /// The tile IR of a kernel's smallest variant after resolution.
    Ir,
    /// The PTX of a kernel's smallest variant, without source locations.
    Ptx,
}

impl Kind {
    const fn suffix(self) -> &'static str {
        match self {
            Kind::Facts => ".facts.snap",
            Kind::Ir => ".ir.snap",
            Kind::Ptx => ".ptx.snap",
        }
    }

    /// The file of this kind of the variant called `name`.
    pub(in crate::harness) fn file_name(self, name: &str) -> String {
        format!("{name}{}", self.suffix())
    }

    /// Is the file at `path` of this kind?
    pub(super) fn is_of(self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(self.suffix())
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
    /// What ptxas says, a fact of the variant, if there is a ptxas: `ptxas 13.0.88: 16 registers, ...`.
    pub(in crate::harness) assembly: Option<String>,
}

impl Golden {
    /// The name of its file.
    pub(in crate::harness) fn file_name(&self) -> String {
        self.kind.file_name(&self.name)
    }

    /// The release of ptxas that its figures are of.
    pub(in crate::harness) fn release(&self) -> Option<&str> {
        release(self.assembly.as_deref())
    }
}

/// Begins the line of a snapshot that says what ptxas said.
const ASSEMBLY: &str = "// ptxas ";

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
        if golden.kind != Kind::Facts {
            return None;
        }
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
            let text = with_names_of("", &golden.text, golden.kind);
            let new = with_assembly(&text, golden.assembly.as_deref());
            return Some(Difference::Missing { path, new });
        };
        let (old_text, old_assembly) = match golden.kind {
            Kind::Facts => split_assembly(&old),
            Kind::Ir | Kind::Ptx => (old.clone(), None),
        };
        let text = with_names_of(&old_text, &golden.text, golden.kind);
        let is_same_text = old_text == text;
        // Registers of another text say nothing of this one.
        let kept = old_assembly.clone().filter(|_| is_same_text);
        let assembly = golden.assembly.clone().or(kept);
        if is_same_text && !is_worse(old_assembly.as_deref(), assembly.as_deref(), wants_news) {
            return None;
        }
        let new = with_assembly(&text, assembly.as_deref());
        Some(Difference::Changed { path, old, new })
    }

    /// The snapshots of the folder that are none of `goldens`, among those that `is_looked_at` by their file's name.
    pub(in crate::harness) fn stale(
        &self,
        goldens: &[Golden],
        is_looked_at: impl Fn(&str) -> bool,
    ) -> Vec<Difference> {
        let wanted: BTreeSet<String> = goldens.iter().map(Golden::file_name).collect();
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| is_snapshot(name) && !wanted.contains(name) && is_looked_at(name))
            .collect();
        names.sort();
        let stale = |name: String| {
            let path = self.0.join(name);
            let old = fs::read_to_string(&path).unwrap_or_default();
            Difference::Stale { path, old }
        };
        names.into_iter().map(stale).collect()
    }

    fn path(&self, golden: &Golden) -> PathBuf {
        self.0.join(golden.file_name())
    }
}

fn is_snapshot(file_name: &str) -> bool {
    let path = Path::new(file_name);
    [Kind::Facts, Kind::Ir, Kind::Ptx]
        .iter()
        .any(|kind| kind.is_of(path))
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
pub(super) fn split_assembly(text: &str) -> (String, Option<String>) {
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
            kind: Kind::Facts,
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
        let text = fs::read_to_string(folder.0.join("add-64.facts.snap")).expect("a file");
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
        assert!(difference.loses_assembly(), "which `--accept` must refuse");
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
        let path = folder.0.join("add-64.facts.snap");
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
                .contains("add-64.facts.snap cannot be written")
        );
    }

    #[test]
    fn files_of_no_variant_are_stale_and_are_removed() {
        let Place { folder, _keep } = place(&golden("ret;", None));
        fs::write(folder.0.join("README.md"), "kept").expect("written");
        assert_eq!(folder.stale(&[golden("ret;", None)], |_| true), []);
        assert_eq!(folder.stale(&[], |name| name == "other.facts.snap"), []);
        let stale = folder.stale(&[], |name| name == "add-64.facts.snap");
        let words: Vec<_> = stale.iter().map(Difference::word).collect();
        assert_eq!(words, ["stale"]);
        stale[0].accept().expect("removed");
        assert_eq!(folder.stale(&[], |_| true), []);
        assert!(folder.0.join("README.md").exists());
    }

    #[test]
    fn numbers_of_registers_are_not_compared() {
        let ptx = |[a, b]: [u32; 2]| Golden {
            kind: Kind::Ptx,
            ..golden(
                &format!(
                    "\t.reg .b32 %r<2>;\n\tmov.u32 %r{a}, %tid.x;\n\tadd.u32 %r{b}, %r{a}, 1;"
                ),
                None,
            )
        };
        check(&ptx([0, 1]), &ptx([1, 0]), None);
        check(&ptx([0, 1]), &ptx([0, 0]), Some("changed"));
    }
}

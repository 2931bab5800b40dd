//! Imports between the source files of a crate: files may not import each other in a circle of more than three, and imports and method calls
//! of the emulator's machine go from higher layers to lower ones.
//!
//! A file imports another if it names something that the other defines: in a `use`, or by a path in an expression, a type or a macro's body.
//! A re-export is followed to the file that defines the name, and is no import of the file that has it unless its own code uses the name:
//! a `mod.rs` that lists what its folder offers stands above its files, and they do not stand above it. Unit tests count as another file.

mod circles;
mod graph;
mod layers;
mod module;
mod resolve;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use circles::{LONGEST, describe, of_more_than};
use graph::Imports;
use resolve::Crate;

/// Sources by their path below `src`: `lib.rs`, `emit/mod.rs`.
type Sources = BTreeMap<String, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folders `src` of the workspace's members.
fn members() -> Vec<PathBuf> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is read");
    let list = manifest.split_once("members = [").expect("members").1;
    let list = list.split(']').next().expect("an end of the members");
    let names = list.split('"').skip(1).step_by(2);
    names.map(|name| root().join(name).join("src")).collect()
}

fn read(folder: &Path) -> Sources {
    let mut found = Sources::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).expect("a source folder is read") {
            let path = entry.expect("an entry is read").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(folder).expect("it lies below");
                let name = name.to_string_lossy().replace('\\', "/");
                let text = fs::read_to_string(&path).expect("a source file is read");
                found.insert(name, text);
            }
        }
    }
    found
}

/// The imports between `sources`, each crate of which has a root, `lib.rs` or `main.rs`.
fn imports(sources: &Sources) -> Imports {
    let mut all = Imports::default();
    for root in ["lib.rs", "main.rs"] {
        if sources.contains_key(root) {
            all.add(&Crate::new(sources, root));
        }
    }
    all
}

fn sources_of(files: &[(&str, &str)]) -> Sources {
    let file = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    files.iter().map(file).collect()
}

#[test]
fn no_more_than_three_files_of_a_crate_import_each_other_in_a_circle() {
    let (mut files, mut arrows, mut found) = (0, 0, Vec::new());
    for folder in members() {
        let sources = read(&folder);
        let imports = imports(&sources);
        files += sources.len();
        arrows += imports.len();
        for circle in of_more_than(LONGEST, &imports) {
            let name = folder.parent().and_then(Path::file_name);
            let name = name.unwrap_or_default().to_string_lossy();
            found.push(format!("{name}: {}", describe(&circle, &imports)));
        }
    }
    // Readers that find nothing would find no circle either.
    assert!(
        files > 700 && arrows > 2500,
        "{files} files, {arrows} arrows"
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_circle_of_four_files_is_found_with_who_imports_whom() {
    let sources = sources_of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("a.rs", "use crate::{c::{self, Third}, b::Second};"),
        (
            "b.rs",
            "pub(crate) struct Second; fn f() { crate::c::third() }",
        ),
        (
            "c.rs",
            "pub struct Third; pub fn third() { let x: super::d::Fourth; }",
        ),
        (
            "d.rs",
            "pub struct Fourth; macro_rules! m { () => { $crate::a::first() } }",
        ),
        ("e.rs", "use super::a;"),
    ]);
    let imports = imports(&sources);
    let circles = of_more_than(LONGEST, &imports);
    let texts: Vec<String> = circles.iter().map(|c| describe(c, &imports)).collect();
    let expected = "4 files import each other in a circle, at most 3 may; what two of them need belongs in a file below both\n  \
        a.rs imports b.rs (crate::b::Second)\n  \
        a.rs imports c.rs (crate::c)\n  \
        b.rs imports c.rs (crate::c::third)\n  \
        c.rs imports d.rs (super::d::Fourth)\n  \
        d.rs imports a.rs (crate::a::first)";
    assert_eq!(texts, [expected]);
}

#[test]
fn a_circle_of_three_files_passes() {
    let sources = sources_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
    ]);
    let imports = imports(&sources);
    assert_eq!(of_more_than(2, &imports).len(), 1);
    assert_eq!(of_more_than(LONGEST, &imports).len(), 0);
}

//! Paths that ARCHITECTURE.md, CONTRIBUTING.md and README.md name exist.

use crate::{at, read};

/// What stands between backquotes, and the targets of links.
fn names(text: &str) -> Vec<&str> {
    let code = text.split('`').skip(1).step_by(2);
    let links = text.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split([')', '#']).next());
    code.chain(links).collect()
}

/// A path of the repository, rather than of a system, an address, or a command: `emulator/src/decode/<family>.rs`.
fn is_path(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    let is_of_repository = !first.is_empty() && at(first).is_dir() && first != "target";
    name.contains('/') && is_of_repository && !name.contains(char::is_whitespace)
}

/// `{a,b}.rs` as `a.rs` and `b.rs`.
fn alternatives(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(head, rest)| {
        let (list, tail) = rest.split_once('}')?;
        Some((head, list, tail))
    });
    match parts {
        Some((head, list, tail)) => list
            .split(',')
            .map(|part| format!("{head}{part}{tail}"))
            .collect(),
        None => vec![name.to_owned()],
    }
}

/// Whether the path, or the folder in front of a `<placeholder>` in it, exists; `emit/{tensor_cores}` may leave out `.rs`.
fn exists(path: &str) -> bool {
    let known = path.split('<').next().unwrap_or_default();
    let known =
        known.rsplit_once('/').map_or(
            known,
            |(folder, _)| {
                if path.contains('<') { folder } else { known }
            },
        );
    at(known).exists() || at(&format!("{known}.rs")).exists()
}

#[test]
fn every_path_of_the_doors_exists() {
    let (mut count, mut missing) = (0, Vec::new());
    for door in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        let text = read(&at(door));
        for name in names(&text).into_iter().filter(|name| is_path(name)) {
            for path in alternatives(name) {
                count += 1;
                if !exists(&path) {
                    missing.push(format!("{door}: {path}"));
                }
            }
        }
    }
    assert!(count > 100, "{count} paths");
    assert_eq!(missing, [""; 0]);
}

#[test]
fn paths_are_told_from_commands_and_missing_ones_from_others() {
    let text = "`ir/src/{ops,nowhere}/<family>.rs` [x](docs/src/library.md#a) `cargo run` `/usr/bin` `a/b`";
    let found: Vec<&str> = names(text).into_iter().filter(|n| is_path(n)).collect();
    assert_eq!(
        found,
        ["ir/src/{ops,nowhere}/<family>.rs", "docs/src/library.md"]
    );
    let exist: Vec<bool> = alternatives(found[0]).iter().map(|p| exists(p)).collect();
    assert_eq!(exist, [true, false]);
}

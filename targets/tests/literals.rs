//! A limit of the machine stands in its table, and nowhere else in the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits that no other quantity is written like. `|` separates spellings.
const LIMITS: [&str; 7] = [
    "227 * 1024|227 << 10|227 KiB|232448|232_448",
    "228 * 1024|228 << 10|228 KiB|233472|233_472",
    "48 KiB|49152|49_152",
    "65535|65_535",
    "1048575|1_048_575|(1 << 20) - 1|2^20 - 1",
    "32764|32_764",
    "i32::MAX as u32,",
];

#[test]
fn no_source_but_the_tables_spells_a_limit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = root.expect("the crate lies in the repository");
    let mut files = Vec::new();
    for room in fs::read_dir(root).expect("the repository can be read") {
        let sources = room.expect("the repository can be read").path();
        // Numbers of kernels are their authors', and mutated texts try numbers of all kinds.
        if sources.ends_with("examples") || sources.ends_with("fuzz") {
            continue;
        }
        for folder in ["src", "macros/src", "emulate/src"] {
            collect(&sources.join(folder), &mut files);
        }
    }
    assert!(files.len() > 400, "{} files", files.len());
    let found: Vec<String> = files.iter().flat_map(|file| spelled(file)).collect();
    assert_eq!(found, [""; 0]);
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_dir() && name != Some("tests") {
            collect(&path, files);
        } else if name != Some("tests.rs") && is_source(&path) {
            files.push(path);
        }
    }
}

/// Rust, and what is written into exports.
fn is_source(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    kind.is_some_and(|kind| ["rs", "c", "h", "py", "pyi"].contains(&kind))
}

/// Lines of a file, but for its tests, that spell a limit.
fn spelled(file: &Path) -> Vec<String> {
    if file.components().any(|part| part.as_os_str() == "targets") {
        return Vec::new();
    }
    let text = fs::read_to_string(file).expect("the file can be read");
    let is_limit = |line: &&str| {
        LIMITS
            .iter()
            .any(|of| of.split('|').any(|s| line.contains(s)))
    };
    without_tests(&text)
        .into_iter()
        .filter(is_limit)
        .map(|line| format!("{}: {}", file.display(), line.trim()))
        .collect()
}

/// The lines but for items under `#[cfg(test)]`: one that ends with a semicolon is its line, any other goes on to a line that is
/// indented alike.
fn without_tests(text: &str) -> Vec<&str> {
    let mut lines = text.lines();
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        if lines.next().is_some_and(|item| item.ends_with('{')) {
            lines.by_ref().find(|line| *line == end);
        }
    }
    kept
}

#[test]
fn items_of_tests_are_left_out_and_what_follows_them_is_read() {
    let text = "a\n#[cfg(test)]\nmod tests;\nb\n    #[cfg(test)]\n    fn f() {\n        {\n        }\n    }\nc\n#[cfg(test)]\nmod inline {\n    x\n}\nd";
    assert_eq!(without_tests(text), ["a", "b", "c", "d"]);
}

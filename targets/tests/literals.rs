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
        for folder in ["src", "macros/src"] {
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
        } else if name != Some("tests.rs") && path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// Lines before the tests of a file that spell a limit.
fn spelled(file: &Path) -> Vec<String> {
    if file.components().any(|part| part.as_os_str() == "targets") {
        return Vec::new();
    }
    let text = fs::read_to_string(file).expect("the file can be read");
    let own = text.split("#[cfg(test)]").next().unwrap_or_default();
    let is_limit = |line: &&str| {
        LIMITS
            .iter()
            .any(|of| of.split('|').any(|s| line.contains(s)))
    };
    own.lines()
        .filter(is_limit)
        .map(|line| format!("{}: {}", file.display(), line.trim()))
        .collect()
}

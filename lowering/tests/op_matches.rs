//! No hidden lists of ops: outside of the ops themselves and of emission, code asks ops questions (`OpRules`). A file that still matches on ops
//! says why in one line, `Matches on ops: ...`; an op that is added must be thought of there.

use std::fs;
use std::path::{Path, PathBuf};

const REASON: &str = "Matches on ops: ";

/// The files below `folder` of the workspace, but for what lies in `exempt` and for tests.
fn sources(folder: &str, exempt: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut open = vec![root.join(folder)];
    let mut found = Vec::new();
    while let Some(at) = open.pop() {
        let entries = fs::read_dir(&at).expect("a folder of the workspace is read");
        for path in entries.map(|entry| entry.expect("an entry is read").path()) {
            if path == root.join(exempt) || path.ends_with("tests.rs") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The lines of a file, without its tests, that name a variant of `Op`.
fn matches(text: &str) -> Vec<(usize, &str)> {
    let code = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let lines = code.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, line)| names_a_variant(line))
        .collect()
}

/// `Op::Load`, but not `BinaryOp::Add` and not `Op::from`.
fn names_a_variant(line: &str) -> bool {
    line.match_indices("Op::").any(|(at, name)| {
        let is_part_of_name = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let variant = &line[at + name.len()..];
        // A constant of the enum, `Op::MNEMONICS`, is no variant.
        let mut letters = variant.chars();
        let starts_high = letters.next().is_some_and(|c| c.is_ascii_uppercase());
        let goes_on_low = letters.next().is_some_and(|c| c.is_ascii_lowercase());
        !is_part_of_name && starts_high && goes_on_low
    })
}

/// What is wrong with a file: matches without a reason, or a reason without matches.
fn fault(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).expect("a source file is read");
    let has_reason = text.lines().any(|line| {
        let comment = line
            .trim_start()
            .trim_start_matches(['/', '!'])
            .trim_start();
        line.trim_start().starts_with("//")
            && comment
                .strip_prefix(REASON)
                .is_some_and(|reason| reason.len() > 10)
    });
    match (matches(&text).first(), has_reason) {
        (Some((at, line)), false) => Some(format!(
            "{}:{at}: `{}` without a line `{REASON}why`; ask the op instead, by a method of `OpRules`",
            path.display(),
            line.trim()
        )),
        (None, true) => Some(format!(
            "{}: `{REASON}` in a file that does not",
            path.display()
        )),
        _ => None,
    }
}

#[test]
fn code_outside_of_ops_and_emission_asks_ops_or_says_why_not() {
    let mut files = sources("lowering/src", "lowering/src/emit");
    files.extend(sources("ir/src", "ir/src/ops"));
    files.extend(sources("gluon-lang/src", ""));
    files.extend(sources("prove/src", ""));
    assert!(files.len() > 100, "only {} files were found", files.len());
    let faults: Vec<String> = files.iter().filter_map(|path| fault(path)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn variants_of_op_are_distinguished_from_other_enums() {
    for line in [
        "Op::Load(op) => 1,",
        "if matches!(op, Op::If(_)) {",
        "(ops::Op::Store(_), _)",
    ] {
        assert!(names_a_variant(line), "{line}");
    }
    for line in [
        "BinaryOp::Add",
        "Op::from(x)",
        "Op::NAMES",
        "Op { .. }",
        "ops::Options",
    ] {
        assert!(!names_a_variant(line), "{line}");
    }
    assert_eq!(matches("// Op::Load\nlet x = 1;"), []);
    assert_eq!(matches("let x = Op::Load;").len(), 1);
}

//! Kernels that rustc or the macros refuse. For each `//~ text` at the end of a line of `cases/*.rs` there must be an error on that line
//! whose message contains the text, and there may be no other.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The library as cargo has built it for the tests, and the folder of what it depends on.
fn library() -> (PathBuf, PathBuf) {
    let cargo = std::env::var("CARGO").expect("cargo says where it is");
    let out = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            "gluon-lang",
            "--lib",
            "--message-format",
            "json",
        ])
        .output()
        .expect("cargo runs");
    let text = String::from_utf8(out.stdout).expect("cargo's messages are UTF-8");
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifact = messages
        .filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == "gluon_lang")
        .find_map(|m| {
            let files = m["filenames"].as_array()?.clone();
            let mut paths = files.iter().filter_map(Value::as_str).map(PathBuf::from);
            paths.find(|path| path.extension().is_some_and(|e| e == "rlib"))
        });
    let rlib = artifact.expect("cargo builds the library");
    let deps = rlib.parent().expect("a file is in a folder").join("deps");
    (rlib, deps)
}

/// The errors that rustc reports for a file: line and message.
fn errors(file: &Path, (rlib, deps): &(PathBuf, PathBuf)) -> Vec<(u64, String)> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let out = Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
            "--error-format",
            "json",
        ])
        .arg("--out-dir")
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg("--extern")
        .arg(format!("tilekit={}", rlib.display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg(file)
        .output()
        .expect("rustc runs");
    let text = String::from_utf8(out.stderr).expect("rustc's messages are UTF-8");
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found: Vec<_> = messages
        .filter(|m| m["level"] == "error")
        .filter_map(|m| {
            let span = m["spans"]
                .as_array()?
                .iter()
                .find(|s| s["is_primary"] == true)?
                .clone();
            Some((
                span["line_start"].as_u64()?,
                m["message"].as_str()?.to_owned(),
            ))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn check(name: &str, library: &(PathBuf, PathBuf)) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/compile_fail/cases")
        .join(name);
    let source = std::fs::read_to_string(&file).expect("the case is there");
    let mut found = errors(&file, library);
    let mut missing = Vec::new();
    for (i, line) in source.lines().enumerate() {
        let at = i as u64 + 1;
        for wanted in line.split("//~").skip(1).map(str::trim) {
            match found
                .iter()
                .position(|(line, message)| *line == at && message.contains(wanted))
            {
                Some(i) => drop(found.remove(i)),
                None => missing.push((at, wanted)),
            }
        }
    }
    assert!(
        missing.is_empty() && found.is_empty(),
        "{name}: missing {missing:#?}, not expected {found:#?}"
    );
}

#[test]
fn what_cannot_be_written_is_refused_at_its_place() {
    let library = library();
    for name in [
        "macros.rs",
        "types.rs",
        "carried.rs",
        "host_only.rs",
        "in_flight.rs",
        "moved.rs",
        "right.rs",
    ] {
        check(name, &library);
    }
}

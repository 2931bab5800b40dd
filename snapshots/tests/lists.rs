//! Lists for readers that are made of what they list. `UPDATE_LISTS=1 cargo test -p snapshots --test lists` writes them.

use std::fs;
use std::path::{Path, PathBuf};

use gluon_lang::diag::Code;
use lowering::{PIPELINE, Pass};

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The file at `path` says what `wanted` makes of it.
#[track_caller]
fn check(path: &str, wanted: impl Fn(&str) -> String) {
    let path = at(path);
    let have = fs::read_to_string(&path).unwrap_or_default();
    let wanted = wanted(&have);
    if std::env::var_os("UPDATE_LISTS").is_some() {
        fs::write(&path, &wanted).expect("the list can be written");
    } else {
        let path = path.display();
        assert_eq!(have, wanted, "{path}: UPDATE_LISTS=1 writes it anew");
    }
}

#[test]
fn every_code_is_in_the_book() {
    let entry = |code: &Code| {
        format!(
            "## {}: {}\n\n{}\n",
            code.number(),
            code.slug(),
            code.explanation()
        )
    };
    let entries: Vec<String> = Code::ALL.iter().map(entry).collect();
    let head = "# Codes\n\nWhat `cargo tilekit explain CODE` says of each kind of mistake.\n\n";
    check("docs/src/codes.md", |_| {
        head.to_owned() + &entries.join("\n")
    });
}

#[test]
fn every_page_of_the_book_is_listed_and_its_code_tested() {
    let (summary, lib) = (
        read(&at("docs/src/SUMMARY.md")),
        read(&at("runtime/src/lib.rs")),
    );
    let tested = lib
        .split("pages!(")
        .nth(1)
        .and_then(|rest| rest.split(')').next());
    let tested: Vec<&str> = tested
        .expect("the pages are there")
        .split_whitespace()
        .collect();
    for page in fs::read_dir(at("docs/src")).expect("the book is there") {
        let path = page.expect("it can be read").path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_listed = name == "SUMMARY" || summary.contains(&format!("({name}.md)"));
        assert!(is_listed, "{name} is not in the summary");
        let has_code = read(&path).contains("```rust");
        assert_eq!(has_code, tested.contains(&name.as_str()), "{name}");
    }
}

/// The first sentence of a file's own documentation.
fn idea(path: &Path) -> String {
    let text = read(path);
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let sentence = text.split_inclusive(". ").next().unwrap_or_default().trim();
    // Links of rustdoc lead nowhere from here.
    let mut shown = sentence.trim_end_matches('.').to_owned();
    while let (Some(begin), Some(end)) = (shown.find("](crate::"), shown.find(')')) {
        shown.replace_range(begin..=end, "");
    }
    shown.replace("[`", "`")
}

#[test]
fn every_example_is_listed_with_its_idea() {
    let lib = read(&at("examples/src/lib.rs"));
    let modules = lib.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    let (mut examples, mut shared) = (Vec::new(), Vec::new());
    for module in modules {
        let path = at(&format!("examples/src/{module}.rs"));
        let row = format!("| [{module}](src/{module}.rs) | {} |\n", idea(&path));
        if read(&path).contains("#[kernel(") {
            examples.push(row);
        } else {
            shared.push(row);
        }
    }
    let wanted = format!(
        "# Examples\n\nThe kernels that TileKit ships, one idea a file, each with its case beside it. `cargo tilekit run` runs all, \
         `cargo tilekit run NAME` one of them.\n\n| example | idea |\n| --- | --- |\n{}\nWhat several of them share:\n\n| file | what is in it |\n| --- | --- |\n{}",
        examples.concat(),
        shared.concat()
    );
    check("examples/README.md", |_| wanted.clone());
}

#[test]
fn the_passes_are_those_of_the_table() {
    let row = |(at, pass): (usize, &Pass)| {
        let gives = format!("{:?}", pass.gives).to_lowercase();
        format!(
            "| {} | `{}` | {} | {gives} |\n",
            at + 1,
            pass.name,
            pass.summary
        )
    };
    let rows: String = PIPELINE.iter().enumerate().map(row).collect();
    let head = "| | pass | what it does | stage after it |\n| --- | --- | --- | --- |\n";
    check("ARCHITECTURE.md", |have| {
        let begin = have.find(head).expect("the table has its head") + head.len();
        let end = begin + have[begin..].find("\n\n").expect("text follows") + 1;
        format!("{}{rows}{}", &have[..begin], &have[end..])
    });
}

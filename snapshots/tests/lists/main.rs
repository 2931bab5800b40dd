//! Lists for readers that are made of what they list. `UPDATE_LISTS=1 cargo test -p snapshots --test lists` writes them.

mod doors;
mod gluon;
mod operations;
mod path;
mod pictures;
mod source;
mod spills;

use std::fs;
use std::path::{Path, PathBuf};

use diag::Code;
use gluon_lang::lang::ACCURACY;
use lowering::{PIPELINE, Pass};
use target::{Fact, SM_90A, describe_products};

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The pages of the book, by name.
fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(at("docs/src")).expect("the book is there");
    let paths = entries.map(|page| page.expect("it can be read").path());
    let mut pages: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.sort();
    pages
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

/// A row for each number of the target, which pages name by `<!--=name-->value<!--/-->`.
#[test]
fn the_book_lists_the_limits_of_the_target() {
    let row = |fact: &Fact| format!("| {} | {} | `{}` |\n", fact.meaning, fact.value, fact.name);
    let rows: String = SM_90A.facts().iter().map(row).collect();
    let products = describe_products(SM_90A.wgmma.types, |_| true);
    let of_warps = describe_products(SM_90A.mma.types, |_| true);
    let head = format!(
        "# Limits\n\nWhat {} (`{}`: {}) can do. Fields of `target::Target`, with their sources, are in the documentation of crate `target`.\n\n",
        SM_90A.code_name, SM_90A.arch, SM_90A.gpus
    );
    let table = format!("| limit | value | field |\n| --- | --- | --- |\n{rows}\n");
    let types = format!("`wgmma` multiplies {products}.\n\n`mma.sync` multiplies {of_warps}.\n");
    check("docs/src/limits.md", |_| head.clone() + &table + &types);
}

#[test]
fn pages_take_limits_from_the_table() {
    for page in pages() {
        let name = page
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        check(&format!("docs/src/{name}"), |text| {
            SM_90A
                .fill_page(text)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        });
    }
}

/// Numbers that can be nothing but a limit stand in a mark, or in a page that is made of the table.
#[test]
fn no_page_names_a_limit_of_its_own() {
    let is_telling = |fact: &&Fact| fact.value.len() >= 5 && fact.value != SM_90A.code_name;
    let telling: Vec<Fact> = SM_90A
        .facts()
        .into_iter()
        .filter(|f| is_telling(&f))
        .collect();
    assert!(telling.len() > 4, "{telling:?}");
    for path in pages() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == "limits.md" || name == "codes.md" {
            continue;
        }
        let text = read(&path);
        for fact in telling.iter().filter(|fact| fact.name != "arch") {
            let unmarked = text.replace(&format!("-->{}<!--/-->", fact.value), "");
            let is_named = unmarked.contains(&fact.value);
            assert!(!is_named, "{name} names {} ({})", fact.value, fact.name);
        }
    }
}

#[test]
fn explanations_of_codes_name_fields_that_exist() {
    for code in Code::ALL {
        let text = code.explanation();
        let open = text
            .split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}'));
        let left: Vec<&str> = open
            .map(|(name, _)| name)
            .filter(|name| name.contains('.'))
            .collect();
        assert!(left.is_empty(), "{}: {left:?}", code.number());
    }
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
    for path in pages() {
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

/// The modules that the file at `path` declares, with and without kernels.
fn modules(path: &str) -> Vec<String> {
    let text = read(&at(path));
    let name = |line: &str| {
        let line = line.trim_start_matches("pub ").strip_prefix("mod ")?;
        Some(line.strip_suffix(';')?.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// One row of a list of examples: the module in the file `path` and its idea.
fn row(module: &str, path: &str) -> String {
    let idea = idea(&at(&format!("examples/{path}")));
    format!("| [{module}]({path}) | {idea} |\n")
}

/// What the list of examples says of one folder of `examples/src`: its idea, its kernels, and what they share.
fn theme(folder: &str) -> String {
    let (mut examples, mut shared) = (String::new(), String::new());
    for module in modules(&format!("examples/src/{folder}/mod.rs")) {
        let path = format!("src/{folder}/{module}.rs");
        let text = read(&at(&format!("examples/{path}")));
        let has_kernel = text.contains("#[kernel(");
        *(if has_kernel {
            &mut examples
        } else {
            &mut shared
        }) += &row(&module, &path);
    }
    let said = idea(&at(&format!("examples/src/{folder}/mod.rs")));
    let text = format!("## {folder}\n\n{said}.\n\n| example | idea |\n| --- | --- |\n{examples}\n");
    match shared.as_str() {
        "" => text,
        shared => format!("{text}| shared | what is in it |\n| --- | --- |\n{shared}\n"),
    }
}

#[test]
fn every_example_is_listed_with_its_idea() {
    let (mut themes, mut shared) = (String::new(), String::new());
    for module in modules("examples/src/lib.rs") {
        if at(&format!("examples/src/{module}")).is_dir() {
            themes += &theme(&module);
        } else {
            shared += &row(&module, &format!("src/{module}.rs"));
        }
    }
    let wanted = format!(
        "# Examples\n\nThe kernels that TileKit ships, one idea a file, each with its case beside it. `cargo tile run` runs all, \
         `cargo tile run NAME` one of them.\n\n{themes}## Shared by several folders\n\n| file | what is in it |\n| --- | --- |\n{shared}",
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

#[test]
fn the_bounds_of_functions_are_in_the_book() {
    let mut sorted = ACCURACY.to_vec();
    sorted.sort_by_key(|function| function.name);
    let row = |f: &gluon_lang::lang::Accuracy| {
        format!("| `{}` | {} | {} |\n", f.name, f.single, f.double)
    };
    let rows: String = sorted.iter().filter(|f| f.double > 0.0).map(row).collect();
    let head = "| function | f32 | f64 |\n| --- | --- | --- |\n";
    check("docs/src/math.md", |have| {
        let begin = have.find(head).expect("the table has its head") + head.len();
        let end = begin + have[begin..].find("\n\n").expect("text follows") + 1;
        format!("{}{rows}{}", &have[..begin], &have[end..])
    });
}

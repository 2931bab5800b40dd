//! The layers of the machine: imports and method calls go one way, and no files import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders of `src/machine`, from the lowest layer to the highest.
const LAYERS: [&str; 7] = [
    "order", "state", "memory", "units", "execute", "schedule", "emulator",
];

/// Source files by module path (`machine::state::warp`), without comments, strings and unit tests.
struct Sources(BTreeMap<String, String>);

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        list(&root, &mut files);
        let read = |file: PathBuf| {
            let text = std::fs::read_to_string(&file).expect("a source file is readable text");
            let within = file.strip_prefix(&root).expect("files lie in src");
            (module_path(within), code_of(&text))
        };
        Self(files.into_iter().map(read).collect())
    }

    /// The file that a path of names leads into: its longest prefix that is a module.
    fn file_of(&self, path: &[String]) -> Option<String> {
        let prefixes = (1..=path.len())
            .rev()
            .map(|length| path[..length].join("::"));
        prefixes.into_iter().find(|name| self.0.contains_key(name))
    }

    /// For each file, the files that it names by `crate::` and `super::` paths.
    fn imports(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let of = |(module, code): (&'_ String, &String)| {
            let paths = paths(module, code);
            let found = paths.iter().filter_map(|path| self.file_of(path));
            found.filter(|other| other != module).collect()
        };
        self.0
            .iter()
            .map(|file| (file.0.as_str(), of(file)))
            .collect()
    }

    /// For each file of the machine, the files whose `impl Worker`, `impl Scene` and `impl Cluster` blocks it calls
    /// methods of: rustc asks for no import there.
    fn calls(&self) -> BTreeMap<&str, BTreeSet<String>> {
        let mut homes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, code) in &self.0 {
            for name in shared_methods(code) {
                homes.entry(name).or_default().insert(module);
            }
        }
        homes.retain(|_, files| files.len() == 1);
        let of = |code: &String| {
            let called = homes
                .iter()
                .filter(|(name, _)| code.contains(&format!(".{name}(")));
            called
                .flat_map(|(_, files)| files.iter().map(|file| (*file).to_owned()))
                .collect()
        };
        self.0
            .iter()
            .map(|(module, code)| (module.as_str(), of(code)))
            .collect()
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder)
        .expect("a source folder is readable")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn module_path(file: &Path) -> String {
    let name = file.with_extension("");
    let mut parts: Vec<_> = name.iter().filter_map(|part| part.to_str()).collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    parts.join("::")
}

fn code_of(text: &str) -> String {
    let code = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The absolute paths that a file names.
fn paths(module: &str, code: &str) -> Vec<Vec<String>> {
    let own: Vec<String> = module.split("::").map(str::to_owned).collect();
    let mut found = children(&own, code);
    for (start, _) in code
        .match_indices("crate::")
        .chain(code.match_indices("super::"))
    {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == ':') {
            continue;
        }
        let mut rest = &code[start..];
        let mut base = own.clone();
        if let Some(after) = rest.strip_prefix("crate::") {
            (base, rest) = (Vec::new(), after);
        }
        while let Some(after) = rest.strip_prefix("super::") {
            base.pop();
            rest = after;
        }
        expand(base, rest, &mut found);
    }
    found
}

/// Paths through the modules that a file declares, which it names without `crate::`.
fn children(own: &[String], code: &str) -> Vec<Vec<String>> {
    let declared = code.lines().filter_map(|line| {
        let (_, after) = line.split_once("mod ")?;
        after.strip_suffix(';')
    });
    let is_named = |child: &&str| {
        let path = format!("{child}::");
        let starts = code.match_indices(path.as_str());
        let mut before = starts.map(|(at, _)| code[..at].chars().next_back());
        before.any(|c| c.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':'))
    };
    let path = |child: &str| [own, &[child.to_owned()]].concat();
    declared.filter(is_named).map(path).collect()
}

/// Appends `base::a::b` for what `rest` starts with, and for each name in braces.
fn expand(mut base: Vec<String>, mut rest: &str, found: &mut Vec<Vec<String>>) {
    loop {
        if let Some(inside) = rest.strip_prefix('{') {
            for item in items(inside) {
                expand(base.clone(), item.trim(), found);
            }
            return;
        }
        let length = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        base.push(rest[..length].to_owned());
        match rest[length..].strip_prefix("::") {
            Some(after) => rest = after,
            None => return found.push(base),
        }
    }
}

/// What stands between commas up to the brace that closes a list.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(&list[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.retain(|item| !item.trim().is_empty());
    items
}

/// Names of the methods that a file gives the types which every layer has at hand.
fn shared_methods(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_shared = false;
    for line in code.lines() {
        if line.starts_with("impl") {
            is_shared = ["Worker<", "Scene<", "Cluster "]
                .iter()
                .any(|name| line.contains(name));
        }
        let after = line.trim_start().split_once("fn ").map(|(_, after)| after);
        if let Some(after) = after.filter(|_| is_shared && line.starts_with("    ")) {
            names.extend(after.split(['(', '<']).next());
        }
    }
    names
}

fn layer(module: &str) -> Option<usize> {
    let within = module.strip_prefix("machine::")?;
    let folder = within.split("::").next()?;
    Some(
        LAYERS
            .iter()
            .position(|name| *name == folder)
            .expect("each folder of the machine is a layer"),
    )
}

/// Arrows from a lower layer to a higher one.
fn upward(arrows: &BTreeMap<&str, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    for (from, to) in arrows {
        let Some(own) = layer(from) else { continue };
        let above = to
            .iter()
            .filter(|to| layer(to).is_some_and(|other| other > own));
        found.extend(above.map(|to| format!("{from} -> {to}")));
    }
    found
}

/// Files from which a path of imports leads back.
fn circles(arrows: &BTreeMap<&str, BTreeSet<String>>) -> Vec<String> {
    let leads_back = |start: &&&str| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> = vec![start];
        while let Some(file) = open.pop() {
            for next in arrows.get(file).into_iter().flatten() {
                if next == *start {
                    return true;
                }
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        false
    };
    arrows
        .keys()
        .filter(leads_back)
        .map(|file| (*file).to_owned())
        .collect()
}

#[test]
fn imports_of_the_machine_go_from_higher_layers_to_lower_ones() {
    assert_eq!(upward(&Sources::read().imports()), Vec::<String>::new());
}

#[test]
fn method_calls_of_the_machine_go_from_higher_layers_to_lower_ones() {
    assert_eq!(upward(&Sources::read().calls()), Vec::<String>::new());
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    assert_eq!(circles(&Sources::read().imports()), Vec::<String>::new());
}

#[test]
fn an_import_against_the_layers_and_a_circle_are_found() {
    let code = "use crate::machine::units::{tma::copy, in_flight::{deposit}};\nfn f() { super::warp::g() }";
    let names = [
        "machine::units::in_flight",
        "machine::units::tma::copy",
        "machine::state::warp",
        "machine::state::cta",
    ];
    let mut sources: BTreeMap<String, String> = names
        .iter()
        .map(|name| ((*name).to_owned(), String::new()))
        .collect();
    sources.insert("machine::state::cta".to_owned(), code.to_owned());
    sources.insert(
        "machine::state::warp".to_owned(),
        "use super::cta::Cta;".to_owned(),
    );
    let sources = Sources(sources);
    let expected = [
        "machine::state::cta -> machine::units::in_flight",
        "machine::state::cta -> machine::units::tma::copy",
    ];
    assert_eq!(upward(&sources.imports()), expected);
    assert_eq!(
        circles(&sources.imports()),
        ["machine::state::cta", "machine::state::warp"]
    );
}

//! The layers of the emulator's machine: imports and method calls go one way.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::of_more_than;
use crate::graph::Imports;
use crate::tokens::{behind_group, tokens};
use crate::{Sources, imports, read, root, sources_of};

/// Folders and files of `src/machine`, from the lowest layer to the highest.
const LAYERS: [&str; 7] = [
    "order", "state", "memory", "units", "execute", "schedule", "emulator",
];

/// Types that every layer has at hand, whose methods stand in the files of several layers.
const SHARED: [&str; 3] = ["Worker", "Scene", "Cluster"];

fn layer(file: &str) -> Option<usize> {
    let within = file.strip_prefix("machine/")?;
    let name = within
        .split(['/', '.'])
        .next()
        .filter(|name| *name != "mod")?;
    let at = LAYERS.iter().position(|layer| *layer == name);
    Some(at.expect("each folder of the machine is a layer"))
}

/// Arrows from a lower layer to a higher one.
fn upward<'a>(arrows: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let goes_up = |(from, to): &(&str, &str)| {
        let to = layer(to);
        layer(from).zip(to).is_some_and(|(from, to)| from < to)
    };
    let found = arrows.into_iter().filter(goes_up);
    found.map(|(from, to)| format!("{from} -> {to}")).collect()
}

fn arrows(imports: &Imports) -> impl Iterator<Item = (&str, &str)> {
    let files = imports.0.keys();
    files.flat_map(|from| imports.of(from).map(move |to| (from.as_str(), to)))
}

/// For each file, the files whose methods of the shared types it calls: rustc asks for no import there.
fn calls(sources: &Sources) -> BTreeSet<(&str, &str)> {
    let read = |(file, text): (&'_ String, &String)| (file.clone(), tokens(text));
    let code: BTreeMap<String, Vec<String>> = sources.iter().map(read).collect();
    let mut homes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in sources.keys() {
        for method in shared_methods(&code[file]) {
            homes.entry(method).or_default().insert(file);
        }
    }
    // A name that two files define says nothing of which is called.
    homes.retain(|_, files| files.len() == 1);
    let mut found = BTreeSet::new();
    for file in sources.keys() {
        let tokens = &code[file];
        let called = tokens.windows(3).filter(|at| at[0] == "." && at[2] == "(");
        let homes = called.filter_map(|at| homes.get(at[1].as_str()));
        found.extend(homes.flatten().map(|home| (file.as_str(), *home)));
    }
    found
}

/// The methods that a file gives to shared types.
fn shared_methods(tokens: &[String]) -> Vec<&str> {
    let mut methods = Vec::new();
    let starts = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| *token == "impl");
    for (start, _) in starts {
        let Some(open) = tokens[start..].iter().position(|token| token == "{") else {
            continue;
        };
        let block = &tokens[start + open..behind_group(tokens, start + open)];
        let header = &tokens[start..start + open];
        if header.iter().any(|word| SHARED.contains(&word.as_str())) {
            let names = block.windows(2).filter(|at| at[0] == "fn");
            methods.extend(names.map(|at| at[1].as_str()));
        }
    }
    methods
}

fn emulator() -> Sources {
    read(&root().join("emulator/src"))
}

#[test]
fn imports_of_the_machine_go_from_higher_layers_to_lower_ones() {
    let imports = imports(&emulator());
    assert!(imports.len() > 300, "{} arrows", imports.len());
    assert_eq!(upward(arrows(&imports)), [""; 0]);
}

#[test]
fn method_calls_of_the_machine_go_from_higher_layers_to_lower_ones() {
    let sources = emulator();
    let calls = calls(&sources);
    assert!(calls.len() > 50, "{} arrows", calls.len());
    assert_eq!(upward(calls), [""; 0]);
}

#[test]
fn no_files_of_the_machine_import_each_other_in_a_circle() {
    let imports = imports(&emulator());
    let circles = of_more_than(1, &imports);
    let is_machine = |file: &&str| file.starts_with("machine/");
    let found: Vec<_> = circles
        .iter()
        .flatten()
        .filter(|file| is_machine(file))
        .collect();
    assert_eq!(found, [&""; 0]);
}

#[test]
fn an_import_and_a_call_against_the_layers_are_found() {
    let sources = sources_of(&[
        ("lib.rs", "mod machine;"),
        ("machine/mod.rs", "mod state; mod units;"),
        ("machine/state/mod.rs", "mod cta; mod warp;"),
        (
            "machine/state/cta.rs",
            "use crate::machine::units::{tma::copy, in_flight::{deposit}}; impl Scene<'_> { fn enter(&self) { self.launch_copy() } }",
        ),
        ("machine/state/warp.rs", "use super::cta::Cta;"),
        ("machine/units/mod.rs", "mod in_flight; mod tma;"),
        ("machine/units/in_flight.rs", "pub fn deposit() {}"),
        ("machine/units/tma/mod.rs", "pub mod copy;"),
        (
            "machine/units/tma/copy.rs",
            "impl Worker<'_> { fn launch_copy(&self) { self.enter() } }",
        ),
    ]);
    let expected = [
        "machine/state/cta.rs -> machine/units/in_flight.rs",
        "machine/state/cta.rs -> machine/units/tma/copy.rs",
    ];
    assert_eq!(upward(arrows(&imports(&sources))), expected);
    assert_eq!(upward(calls(&sources)), expected[1..]);
}

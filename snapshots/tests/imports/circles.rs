//! Files that import each other in a circle: the strongly connected components of the imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Imports;

/// The most files that may import each other in a circle: a type, its parts and what makes them.
pub(crate) const LONGEST: usize = 3;

/// The circles of more than `most` files.
pub(crate) fn of_more_than(most: usize, imports: &Imports) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .0
        .keys()
        .map(|file| (file.as_str(), reachable(file, imports)))
        .collect();
    let mut circles = BTreeSet::new();
    for (file, from) in &reached {
        let leads_back = |other: &&&str| reached.get(**other).is_some_and(|to| to.contains(file));
        let circle: BTreeSet<&str> = from.iter().filter(leads_back).copied().collect();
        circles.insert(circle);
    }
    let is_long = |circle: &BTreeSet<&str>| circle.len() > most;
    circles.into_iter().filter(is_long).collect()
}

/// The files that one or more imports lead to.
fn reachable<'a>(file: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = imports.of(file).collect();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            open.extend(imports.of(next));
        }
    }
    seen
}

/// The files of a circle, and by which paths they import each other.
pub(crate) fn describe(circle: &BTreeSet<&str>, imports: &Imports) -> String {
    let mut lines = vec![format!(
        "{} files import each other in a circle, at most {LONGEST} may; what two of them need belongs in a file below both",
        circle.len()
    )];
    for file in circle {
        for (other, path) in &imports.0[*file] {
            if circle.contains(other.as_str()) {
                lines.push(format!("  {file} imports {other} ({path})"));
            }
        }
    }
    lines.join("\n")
}

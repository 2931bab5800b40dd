//! What recorders and events are called: by the names of the kernel, and by what the author's source says at their places.

use std::collections::HashMap;

use diag::Place;
use lowering::trace::{EventKind, TraceEvent, TraceTable};

use crate::report::Sources;

/// Names by number of recorder and by id of event.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) recorders: Vec<String>,
    pub(crate) events: Vec<String>,
}

/// Lines above a place among which the `let` of its statement is looked for.
const STATEMENT_LINES: usize = 6;

impl Names {
    pub(crate) fn of(table: &TraceTable, sources: &Sources) -> Names {
        let found = table
            .recorders
            .iter()
            .enumerate()
            .map(|(number, recorder)| {
                let given = recorder.place.as_ref();
                given
                    .and_then(|place| partition_name(place, sources))
                    .unwrap_or_else(|| match number {
                        0 if table.recorders.len() == 1 => "kernel".to_string(),
                        0 => "main".to_string(),
                        _ => format!("worker {number}"),
                    })
            });
        Names {
            recorders: distinct(found.collect()),
            events: table
                .events
                .iter()
                .map(|event| event_name(event, sources))
                .collect(),
        }
    }
}

/// Numbers those that are called the same.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in &names {
        *counts.entry(name.clone()).or_default() += 1;
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let number = |name: String| {
        if counts[&name] == 1 {
            return name;
        }
        let at = seen.entry(name.clone()).or_default();
        *at += 1;
        format!("{name} #{at}")
    };
    names.into_iter().map(number).collect()
}

fn event_name(event: &TraceEvent, sources: &Sources) -> String {
    let name = event.name.as_deref();
    let or = |other: &str| name.unwrap_or(other).to_string();
    match event.kind {
        EventKind::Wait => barrier_name(event, sources),
        EventKind::Copy => format!("load {}", or("bytes")),
        EventKind::StoreIssue => format!("store {}", or("bytes")),
        EventKind::StoreWait => "wait for TMA stores".to_string(),
        EventKind::Products => "wgmma".to_string(),
        EventKind::ProductsWait => "wait for wgmma".to_string(),
        EventKind::Barrier | EventKind::BarrierArrive => format!("{} barrier", or("CTA")),
        EventKind::ClusterBarrier => "cluster barrier".to_string(),
        EventKind::ThreadCopyWait => "wait for cp.async".to_string(),
        EventKind::Store => format!("store {}", or("global")),
        EventKind::LaunchWait => "launch_wait".to_string(),
        EventKind::LaunchDependents => "launch_dependents".to_string(),
        EventKind::Loop => match &event.place {
            Some(place) => format!("steps (line {})", place.line),
            None => "steps".to_string(),
        },
        EventKind::Mark | EventKind::Range => or("mark"),
    }
}

/// `pipeline.full`: the variable that the barrier was made for, and what the library calls it.
fn barrier_name(event: &TraceEvent, sources: &Sources) -> String {
    let owner = event.origin.as_ref().and_then(|at| variable(at, sources));
    match (owner, event.name.as_deref()) {
        (Some(owner), Some(label)) => format!("{owner}.{label}"),
        (Some(owner), None) => owner,
        (None, Some(label)) => label.to_string(),
        (None, None) => "mbarrier".to_string(),
    }
}

/// The variable of the `let` in whose statement a place lies, or the innermost call of those around it that lies in one.
pub(crate) fn variable(place: &Place, sources: &Sources) -> Option<String> {
    let own = (&place.file, place.line, place.column);
    let calls = place.calls.iter();
    let calls = calls.map(|call| (&call.file, call.line, call.column));
    std::iter::once(own)
        .chain(calls)
        .find_map(|(file, line, column)| {
            let text = sources.text(file)?;
            variable_at(&text, line as usize, column as usize)
        })
}

fn variable_at(text: &str, line: usize, column: usize) -> Option<String> {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let statement = lines.iter().rev().take(STATEMENT_LINES);
    for (above, line) in statement.enumerate() {
        // A line in front that ends a statement or begins a block is not of this one.
        let is_over = line.trim_end().ends_with([';', '{', '}']);
        if above > 0 && is_over {
            return None;
        }
        let Some(rest) = line.trim_start().strip_prefix("let ") else {
            continue;
        };
        if rest.starts_with('(') && above == 0 {
            return part_of_tuple(line, column);
        }
        return identifier(rest.trim_start_matches("mut "));
    }
    None
}

/// Of `let (a, b) = (x(), y());` the variable of the part in which a column lies, from 1.
fn part_of_tuple(line: &str, column: usize) -> Option<String> {
    let (names, _) = line.split_once(" = (")?;
    let start = names.len() + " = (".len();
    let before = line.get(start..column.max(start + 1) - 1)?;
    let (mut depth, mut part) = (0_i32, 0);
    for c in before.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => part += 1,
            _ => {}
        }
    }
    let names = names.trim_start().trim_start_matches("let (");
    let name = names.trim_end_matches(')').split(',').nth(part)?;
    identifier(name.trim().trim_start_matches("mut "))
}

fn identifier(text: &str) -> Option<String> {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    let name: String = text.chars().take_while(is_part).collect();
    (!name.is_empty()).then_some(name)
}

/// The function that `.main(..)` or `.worker(..)` at a place is given.
fn partition_name(place: &Place, sources: &Sources) -> Option<String> {
    let text = sources.text(&place.file)?;
    let start: usize = text
        .split_inclusive('\n')
        .take(place.line as usize - 1)
        .map(str::len)
        .sum();
    let call = text.get(start + place.column as usize - 1..)?;
    function_name(last_argument(call)?)
}

/// The last argument of the call that a text begins with.
fn last_argument(call: &str) -> Option<&str> {
    let open = call.find('(')?;
    let (mut depth, mut start, mut last) = (0_i32, open + 1, None);
    for (at, c) in call[open..].char_indices() {
        let at = open + at;
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth == 0 {
                    let text = call[start..at].trim();
                    return if text.is_empty() { last } else { Some(text) };
                }
            }
            ',' if depth == 1 => {
                last = Some(call[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// `multiply`, or `multiply(0)` of `|| multiply(0)`.
fn function_name(argument: &str) -> Option<String> {
    let is_path = |text: &str| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        !text.is_empty() && text.chars().all(is_part)
    };
    let body = match argument.trim_start_matches("move ").strip_prefix('|') {
        Some(closure) => closure.split_once('|')?.1.trim(),
        None => argument,
    };
    let function = body.split('(').next()?.trim();
    if !is_path(function) {
        return None;
    }
    let name = function.rsplit("::").next()?;
    let arguments = body[body.find('(').unwrap_or(body.len())..].trim();
    // Long arguments say less than the name.
    if arguments.len() > 2 && arguments.len() <= 12 && arguments.ends_with(')') {
        return Some(format!("{name}{arguments}"));
    }
    Some(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_named_by_their_functions() {
        for (call, name) in [
            ("main(|| multiply(0))\n.worker(", Some("multiply(0)")),
            ("worker(Warps(1).registers(40), copy)", Some("copy")),
            (
                "workers(1..N, Warps(4), |n| parts::run(n, &a, &b, &c, d))",
                Some("run"),
            ),
            ("worker(Warps(1), move || {\n x();\n})", None),
            ("main(\n    consume,\n)", Some("consume")),
        ] {
            let found = last_argument(call).and_then(function_name);
            assert_eq!(found.as_deref(), name, "{call}");
        }
    }

    #[test]
    fn barriers_are_named_by_their_variables() {
        let text = "fn k() {\n    let pipeline = Pipeline::tma(\n        (a, b),\n    );\n    x(Mbarrier::alloc(1));\n    let mut full = alloc();\n}\n";
        let sources = Sources::default().with("k.rs", text);
        let at = |line| Place {
            file: "k.rs".into(),
            line,
            column: 1,
            calls: Vec::new(),
        };
        let names = [2, 3, 5, 6].map(|line| variable(&at(line), &sources));
        let names = names.each_ref().map(|name| name.as_deref());
        assert_eq!(
            names,
            [Some("pipeline"), Some("pipeline"), None, Some("full")]
        );
    }

    #[test]
    fn parts_of_tuples_are_named_by_the_column() {
        let line = "    let (keys, values) = (blocks(k, (1, 2)), blocks(v, N));";
        let at = |text: &str| variable_at(line, 1, line.find(text).unwrap() + 1);
        assert_eq!(at("blocks(k").as_deref(), Some("keys"));
        assert_eq!(at("blocks(v").as_deref(), Some("values"));
    }

    #[test]
    fn equal_names_are_numbered() {
        let names = ["a", "b", "a"].map(String::from).to_vec();
        assert_eq!(distinct(names), ["a #1", "b", "a #2"]);
    }
}

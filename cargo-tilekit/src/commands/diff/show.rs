//! A comparison as text and as JSON.

use serde_json::{Value, json};

use super::compare::{Comparison, Figure, LineChange, Tally};

/// The narrowest column of source text.
const LEAST_TEXT: usize = 20;

pub(super) fn text(
    comparison: &Comparison,
    [old, new]: &[String; 2],
    width: Option<usize>,
) -> String {
    let mut lines = vec![format!("old  {old}"), format!("new  {new}")];
    if comparison.figures.is_empty() && comparison.lines.is_empty() {
        lines.push("no cost differs".to_string());
    }
    let widest = comparison
        .figures
        .iter()
        .map(|figure| figure.name.len())
        .max();
    let known = |figure: Option<u64>| figure.map_or("?".to_string(), |number| number.to_string());
    lines.extend(comparison.figures.iter().map(|figure| {
        let Figure { name, old, new } = figure;
        let name_width = widest.unwrap_or(0);
        let (before, now) = (known(*old), known(*new));
        format!(
            "  {name:name_width$}  {before:>7} -> {now:<7} {}",
            change(*old, *new)
        )
        .trim_end()
        .to_string()
    }));
    let mut file = "";
    for line in &comparison.lines {
        if line.file != file {
            file = &line.file;
            lines.push(String::new());
            lines.push(file.to_string());
            lines.push("   old   new      instr      alive      bytes   conflicts".to_string());
        }
        lines.push(row(line, width));
    }
    lines.join("\n") + "\n"
}

/// `+8` or `-3`.
fn change(old: Option<u64>, new: Option<u64>) -> String {
    match (old, new) {
        (Some(old), Some(new)) if new > old => format!("+{}", new - old),
        (Some(old), Some(new)) => format!("-{}", old - new),
        _ => String::new(),
    }
}

fn row(line: &LineChange, width: Option<usize>) -> String {
    let number = |line: Option<usize>| line.map_or_else(String::new, |line| line.to_string());
    let figure = |of: fn(&Tally) -> u64| match (of(&line.old), of(&line.new)) {
        (old, new) if old == new => String::new(),
        (old, new) => format!("{old}>{new}"),
    };
    let instructions = |tally: &Tally| {
        if tally.sass > 0 {
            tally.sass
        } else {
            tally.ptx
        }
    };
    let before = format!(
        "{:>6}{:>6} {:>10} {:>10} {:>10} {:>11}  ",
        number(line.old_line),
        number(line.new_line),
        figure(instructions),
        figure(|tally| tally.alive),
        figure(|tally| tally.global_bytes),
        figure(|tally| tally.conflicts),
    );
    let room = width.map_or(usize::MAX, |width| {
        width.saturating_sub(before.len()).max(LEAST_TEXT)
    });
    let text: String = line.text.trim_end().chars().take(room).collect();
    format!("{before}{text}").trim_end().to_string()
}

pub(super) fn object(comparison: &Comparison, [old, new]: &[String; 2]) -> Value {
    json!({
        "reason": "tilekit-diff", "old": old, "new": new,
        "totals": comparison.figures, "lines": comparison.lines,
    })
}

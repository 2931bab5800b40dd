//! The lines at which warps wait.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::counters::grouped;
use crate::case::{WaitLine, Waits};
use crate::report::Sources;

/// How many lines are printed, and the least share of one; records have all.
const MOST_LINES: usize = 8;
const LEAST_SHARE: f64 = 0.01;
/// Letters of a line of source.
const SOURCE: usize = 60;

/// The lines at which warps wait, each with its share, its text and what for.
pub(super) fn text(waits: &Waits, sources: &Sources) -> String {
    let dropped = match waits.dropped {
        0 => String::new(),
        dropped => format!(", {} more had no room", grouped(dropped as f64)),
    };
    let all = grouped(waits.samples as f64);
    let mut text = format!("    where warps wait, {all} samples{dropped}\n");
    let share = |line: &WaitLine| line.samples as f64 / waits.samples.max(1) as f64;
    let shown = waits.lines.iter().take(MOST_LINES);
    for line in shown.filter(|line| share(line) >= LEAST_SHARE) {
        let place = format!("{}:{}", line.file, line.line);
        let reason = line.reasons.first().map_or("", |(reason, _)| reason);
        let _ = writeln!(
            text,
            "      {:>4.0} %  {place}  ({reason})",
            share(line) * 100.0
        );
        let source = sources.text(&line.file);
        let source = source
            .as_ref()
            .and_then(|all| all.lines().nth(line.line as usize - 1));
        if let Some(source) = source {
            let cut: String = source.trim().chars().take(SOURCE).collect();
            let _ = writeln!(text, "              {cut}");
        }
    }
    text
}

/// For machines.
pub(super) fn event(waits: &Waits) -> Value {
    let line = |line: &WaitLine| {
        let reasons: Map<String, Value> = line
            .reasons
            .iter()
            .map(|(reason, samples)| (reason.clone(), (*samples).into()))
            .collect();
        json!({ "file": line.file, "line": line.line, "samples": line.samples, "reasons": reasons })
    };
    let lines: Vec<Value> = waits.lines.iter().map(line).collect();
    json!({ "samples": waits.samples, "dropped": waits.dropped, "lines": lines })
}

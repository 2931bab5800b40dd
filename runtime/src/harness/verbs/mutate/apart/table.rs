//! What the device finds of the mutants, beside what the emulator finds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use ptx::MutationKind;
use serde_json::{Value, json};

use super::ended::{Ended, Tried};
use super::sanitizer::Said;
use crate::harness::Exit;
use crate::harness::context::Context;
use crate::harness::request::MutateRequest;
use crate::harness::speak::count;
use crate::harness::verbs::mutate::table::{Judged, Verdict};
use crate::harness::verbs::run::time_text;
use crate::report::Remark;

/// A mutant with both verdicts.
type Pair<'p> = (&'p Judged<'p>, &'p Tried);

/// How many mutants ended in each way.
#[derive(Clone, Copy, Default)]
struct Row {
    mutants: usize,
    refused: usize,
    not_compiled: usize,
    wrong: usize,
    reported: usize,
    driver: usize,
    time_limit: usize,
    died: usize,
    passed: usize,
    emulator_found: usize,
    emulator_equivalent: usize,
    emulator_survived: usize,
    /// Passed by the device and found by the emulator.
    emulator_alone: usize,
    /// Failed by the device and not found by the emulator.
    device_alone: usize,
}

impl Row {
    fn add(&mut self, (judged, tried): Pair<'_>) {
        self.mutants += 1;
        let column = match &tried.ended {
            Ended::Passed => &mut self.passed,
            Ended::Wrong { .. } => &mut self.wrong,
            Ended::Reported { .. } => &mut self.reported,
            Ended::Driver { .. } => &mut self.driver,
            Ended::TimeLimit { .. } => &mut self.time_limit,
            Ended::Died { .. } => &mut self.died,
            Ended::Refused { .. } => &mut self.refused,
            Ended::NotCompiled { .. } => &mut self.not_compiled,
        };
        *column += 1;
        let column = match judged.verdict {
            Verdict::Found { .. } => &mut self.emulator_found,
            Verdict::Equivalent(_) => &mut self.emulator_equivalent,
            Verdict::Survived => &mut self.emulator_survived,
        };
        *column += 1;
        let is_found = judged.verdict.is_found();
        self.emulator_alone += usize::from(is_found && tried.ended == Ended::Passed);
        self.device_alone += usize::from(contradicts((judged, tried)));
    }

    fn fails(self) -> usize {
        self.wrong + self.reported + self.driver + self.time_limit + self.died
    }

    fn line(self, name: &str) -> String {
        format!(
            "{name:<28}{:>8}{:>9}{:>9}{:>7}{:>9}{:>7}{:>6}{:>6}{:>8} |{:>7}{:>12}{:>10} |{:>10}{:>8}\n",
            self.mutants,
            self.refused,
            self.not_compiled,
            self.wrong,
            self.reported,
            self.driver,
            self.time_limit,
            self.died,
            self.passed,
            self.emulator_found,
            self.emulator_equivalent,
            self.emulator_survived,
            self.emulator_alone,
            self.device_alone,
        )
    }

    fn value(self, kind: &str) -> Value {
        json!({
            "kind": kind, "mutants": self.mutants,
            "device": {
                "refused": self.refused, "not_compiled": self.not_compiled, "wrong_results": self.wrong, "reported": self.reported,
                "driver_errors": self.driver, "time_limit": self.time_limit, "died": self.died, "passed": self.passed,
            },
            "emulator": {
                "found": self.emulator_found, "equivalent": self.emulator_equivalent, "survived": self.emulator_survived,
            },
            "emulator_alone": self.emulator_alone, "device_alone": self.device_alone,
        })
    }
}

/// Whether the device fails what the emulator does not find.
fn contradicts((judged, tried): Pair<'_>) -> bool {
    tried.ended.fails() && !judged.verdict.is_found()
}

/// Prints mutants that the device alone finds, the table, and what tools say; the exit of the verb.
pub(super) fn show(
    context: &Context,
    (request, device): (&MutateRequest, &str),
    pairs: &[Pair<'_>],
    time: Duration,
) -> Exit {
    let mut rows: BTreeMap<MutationKind, Row> = BTreeMap::new();
    let mut all = Row::default();
    for pair in pairs {
        rows.entry(pair.0.mutant.mutation.kind)
            .or_default()
            .add(*pair);
        all.add(*pair);
    }
    let tools = tools_of(pairs);
    let speaker = &context.speaker;
    if speaker.is_json() {
        for pair in pairs {
            speaker.event(&event(*pair));
        }
        let rows: Vec<Value> = rows
            .iter()
            .map(|(kind, row)| row.value(kind.name()))
            .collect();
        let object = json!({
            "reason": "tilekit-device-mutants", "device": device, "kinds": rows, "all": all.value("all"), "tools": tools,
            "seeds": request.seeds, "repeats": request.isolation.repeats,
        });
        speaker.event(&object);
    } else {
        speaker.print(&contradictions(pairs));
        speaker.print(&table(&rows, all));
        for (tool, said) in &tools {
            let (run, reported, failed) = (said.run, said.reported, said.failed);
            let text = format!(
                "{tool}: {run} mutants run, {reported} reported, {failed} without an answer\n"
            );
            speaker.print(&text);
        }
    }
    let text = format!(
        "{} of {} fail on {device}, the emulator finds {}, in {}",
        all.fails(),
        count(all.mutants, "mutant"),
        all.emulator_found,
        time_text(time)
    );
    speaker.remark(&Remark::note(text));
    if all.device_alone == 0 {
        return Exit::Success;
    }
    let text = format!(
        "{} on {device} and survived on the emulator",
        count(all.device_alone, "mutant") + " failed"
    );
    let help =
        "a check of the emulator is missing, or a comment `// mutate: equivalent(KIND)` is wrong";
    speaker.failure(&Remark::error(text).with_help(help));
    Exit::Survivors
}

fn table(rows: &BTreeMap<MutationKind, Row>, all: Row) -> String {
    let mut text = format!(
        "{:<28}{:>8}{:>9}{:>9}{:>7}{:>9}{:>7}{:>6}{:>6}{:>8} |{:>7}{:>12}{:>10} |{:>10}{:>8}\n",
        "kind",
        "mutants",
        "refused",
        "no code",
        "wrong",
        "reported",
        "driver",
        "time",
        "died",
        "passed",
        "found",
        "equivalent",
        "survived",
        "emulator",
        "device"
    );
    text = format!(
        "{:<97} | {:<28} | found by one alone\n{text}",
        "on the device", "on the emulator"
    );
    for (kind, row) in rows {
        text += &row.line(kind.name());
    }
    text + &all.line("all")
}

/// The mutants that the device fails and the emulator does not find.
fn contradictions(pairs: &[Pair<'_>]) -> String {
    let mut text = String::new();
    for pair in pairs.iter().filter(|pair| contradicts(**pair)) {
        let (
            Judged {
                mutant, verdict, ..
            },
            tried,
        ) = pair;
        let _ = writeln!(
            text,
            "fails on the device, {} on the emulator: {} at {}\n    {}, PTX line {}: {}\n    {}",
            verdict.word(),
            mutant.mutation.kind,
            mutant.place_text(),
            mutant.subject.display(),
            mutant.ptx_line,
            mutant.ptx,
            tried.ended.text()
        );
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// What a tool said in all.
#[derive(Default, serde::Serialize)]
struct ToolRow {
    run: usize,
    reported: usize,
    failed: usize,
}

fn tools_of(pairs: &[Pair<'_>]) -> BTreeMap<String, ToolRow> {
    let mut rows: BTreeMap<String, ToolRow> = BTreeMap::new();
    for (tool, said) in pairs.iter().flat_map(|(_, tried)| &tried.tools) {
        let row = rows.entry(tool.clone()).or_default();
        row.run += 1;
        row.reported += usize::from(matches!(said, Said::Reported { .. }));
        row.failed += usize::from(matches!(said, Said::Failed { .. }));
    }
    rows
}

fn event((judged, tried): Pair<'_>) -> Value {
    let mutant = judged.mutant;
    json!({
        "reason": "tilekit-device-mutant", "kernel": mutant.subject.name, "kind": mutant.mutation.kind.name(),
        "place": mutant.place.as_ref().map(ToString::to_string), "ptx_line": mutant.ptx_line, "ptx": mutant.ptx,
        "device": tried, "emulator": { "status": judged.verdict.word(), "outcome": judged.outcome },
    })
}

//! What became of all mutants: a table by kind, and each survivor with its lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use ptx::MutationKind;
use serde_json::{Value, json};

use super::marks::{Mark, Marks};
use super::subject::Mutant;
use super::trial::Outcome;
use crate::harness::Exit;
use crate::harness::context::Context;
use crate::harness::speak::count;
use crate::harness::verbs::run::time_text;
use crate::report::Remark;

/// A mutant with what became of it.
pub(super) struct Judged<'s> {
    pub(super) mutant: &'s Mutant<'s>,
    pub(super) outcome: &'s Outcome,
    pub(super) verdict: Verdict,
}

/// What it counts as.
pub(super) enum Verdict {
    /// It was found, perhaps in spite of a mark.
    Found { mark: Option<Mark> },
    /// It survived and is marked.
    Equivalent(Mark),
    /// It survived.
    Survived,
}

impl Verdict {
    /// Whether the emulator found it.
    pub(super) fn is_found(&self) -> bool {
        matches!(self, Verdict::Found { .. })
    }

    /// It in a word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Verdict::Found { .. } => "found",
            Verdict::Equivalent(_) => "equivalent",
            Verdict::Survived => "survived",
        }
    }
}

/// Looks up the marks of all mutants.
pub(super) fn judge<'s>(
    mutants: &'s [Mutant<'s>],
    outcomes: &'s [Outcome],
    marks: &mut Marks,
) -> Vec<Judged<'s>> {
    let judged = mutants.iter().zip(outcomes).map(|(mutant, outcome)| {
        let place = mutant.place.as_ref();
        let mark = place.and_then(|place| marks.find(place, mutant.mutation.kind));
        let verdict = match (outcome, mark) {
            (Outcome::Survived, Some(mark)) => Verdict::Equivalent(mark),
            (Outcome::Survived, None) => Verdict::Survived,
            (_, mark) => Verdict::Found { mark },
        };
        Judged {
            mutant,
            outcome,
            verdict,
        }
    });
    judged.collect()
}

/// How many mutants ended in each way.
#[derive(Clone, Copy, Default)]
struct Row {
    mutants: usize,
    reported: usize,
    wrong: usize,
    refused: usize,
    equivalent: usize,
    survived: usize,
}

impl Row {
    fn add(&mut self, judged: &Judged<'_>) {
        self.mutants += 1;
        match (&judged.verdict, judged.outcome) {
            (Verdict::Equivalent(_), _) => self.equivalent += 1,
            (Verdict::Survived, _) => self.survived += 1,
            (Verdict::Found { .. }, Outcome::Reported { .. }) => self.reported += 1,
            (Verdict::Found { .. }, Outcome::Refused { .. }) => self.refused += 1,
            (Verdict::Found { .. }, _) => self.wrong += 1,
        }
    }

    /// The share that was found of those that are not equivalent, percent.
    fn percent_found(self) -> f64 {
        let found = self.reported + self.wrong + self.refused;
        let all = self.mutants - self.equivalent;
        100.0 * found as f64 / all.max(1) as f64
    }

    fn line(self, name: &str) -> String {
        format!(
            "{name:<28}{:>9}{:>10}{:>14}{:>9}{:>12}{:>10}{:>9.1}\n",
            self.mutants,
            self.reported,
            self.wrong,
            self.refused,
            self.equivalent,
            self.survived,
            self.percent_found()
        )
    }

    fn value(self, kind: &str) -> Value {
        json!({
            "kind": kind, "mutants": self.mutants, "reported": self.reported, "wrong_results": self.wrong,
            "refused": self.refused,
            "equivalent": self.equivalent, "survived": self.survived,
        })
    }
}

/// Prints survivors and the table; the exit of the verb.
pub(super) fn show(context: &Context, judged: &[Judged<'_>], time: Duration, seeds: u64) -> Exit {
    let mut rows: BTreeMap<MutationKind, Row> = BTreeMap::new();
    let mut all = Row::default();
    for judged in judged {
        rows.entry(judged.mutant.mutation.kind)
            .or_default()
            .add(judged);
        all.add(judged);
    }
    let speaker = &context.speaker;
    if speaker.is_json() {
        for judged in judged {
            speaker.event(&event(judged));
        }
        let rows: Vec<Value> = rows
            .iter()
            .map(|(kind, row)| row.value(kind.name()))
            .collect();
        let text = json!({ "reason": "tilekit-mutants", "kinds": rows, "all": all.value("all"), "seeds": seeds });
        speaker.event(&text);
    } else {
        speaker.print(&survivors(judged, speaker.is_verbose()));
        speaker.print(&table(&rows, all));
    }
    let text = format!(
        "found {:.1} % of {} at {} in {}",
        all.percent_found(),
        count(all.mutants - all.equivalent, "mutant"),
        count(seeds as usize, "seed"),
        time_text(time)
    );
    speaker.remark(&Remark::note(text));
    let strictly = judged
        .iter()
        .filter(|judged| matches!(judged.outcome, Outcome::Reported { strict: true, .. }))
        .count();
    if strictly > 0 {
        let text = format!("{strictly} of them by a strict run alone");
        speaker.remark(&Remark::note(text));
    }
    if all.survived == 0 {
        return Exit::Success;
    }
    let text = format!(
        "{} survived and are not marked equivalent",
        count(all.survived, "mutant")
    );
    let help = "add a size at which the case fails; or, if the instruction is not needed, write above the line \
                `// mutate: equivalent(KIND): why`";
    speaker.failure(&Remark::error(text).with_help(help));
    Exit::Survivors
}

fn table(rows: &BTreeMap<MutationKind, Row>, all: Row) -> String {
    let mut text = format!(
        "{:<28}{:>9}{:>10}{:>14}{:>9}{:>12}{:>10}{:>9}\n",
        "kind",
        "mutants",
        "reported",
        "wrong result",
        "refused",
        "equivalent",
        "survived",
        "% found"
    );
    for (kind, row) in rows {
        text += &row.line(kind.name());
    }
    text + &all.line("all")
}

/// Variants of one line that are shown unless all are wanted.
const SHOWN: usize = 3;

/// Survivors, those of one kind and line together.
fn survivors(judged: &[Judged<'_>], shows_all: bool) -> String {
    let mut groups: BTreeMap<(String, MutationKind), (Vec<&Mutant<'_>>, usize)> = BTreeMap::new();
    for judged in judged {
        let key = (judged.mutant.place_text(), judged.mutant.mutation.kind);
        let (survived, total) = groups.entry(key).or_default();
        *total += 1;
        if matches!(judged.verdict, Verdict::Survived) {
            survived.push(judged.mutant);
        }
    }
    let mut text = String::new();
    for ((place, kind), (survived, total)) in groups {
        if survived.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "survived: {kind} at {place} ({} of {total})",
            survived.len()
        );
        let shown = if shows_all { survived.len() } else { SHOWN };
        for mutant in survived.iter().take(shown) {
            let (name, line) = (mutant.subject.display(), mutant.ptx_line);
            let _ = writeln!(text, "    {name}, PTX line {line}: {}", mutant.ptx);
        }
        if let Some(more) = survived.len().checked_sub(shown).filter(|more| *more > 0) {
            let _ = writeln!(text, "    and {more} more");
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn event(judged: &Judged<'_>) -> Value {
    let Judged {
        mutant,
        outcome,
        verdict,
    } = judged;
    let reason = match verdict {
        Verdict::Equivalent(mark) => Some(mark.reason.as_str()),
        Verdict::Found { .. } | Verdict::Survived => None,
    };
    json!({
        "reason": "tilekit-mutant", "kernel": mutant.subject.name, "kind": mutant.mutation.kind.name(), "status": verdict.word(),
        "place": mutant.place.as_ref().map(ToString::to_string), "ptx_line": mutant.ptx_line, "ptx": mutant.ptx,
        "outcome": outcome, "equivalent_because": reason,
    })
}

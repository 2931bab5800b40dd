//! The results of the candidates of one run, for people and for machines.

use serde_json::{Value, json};

use super::halving::{fastest, score};
use super::record::{Known, Outcome, Records, sizes_of};
use super::work::Work;
use crate::harness::request::TuneTimes;
use crate::harness::speak::count;
use crate::tuned::Machine;

/// How many candidates are shown of a run.
const SHOWN: usize = 6;

/// The candidates of a run.
pub(super) struct Ranking {
    /// Those that were tried, in the order of the model.
    rows: Vec<Row>,
    /// Those that do not compile.
    uncompiled: Vec<(String, String)>,
    /// The fastest, by its place among the rows.
    fastest: Option<usize>,
}

struct Row {
    name: String,
    predicted_us: Option<f64>,
    known: Known,
}

impl Ranking {
    pub(super) fn of(work: &Work, records: &Records, machine: &Machine) -> Ranking {
        let rows: Vec<Row> = work
            .tried
            .iter()
            .map(|tried| {
                let candidate = &work.space[tried.at];
                let known = records.get(&work.key(tried.at, machine), &tried.digest);
                Row {
                    name: candidate.name.clone(),
                    predicted_us: candidate.predicted_us,
                    known: known.cloned().unwrap_or_default(),
                }
            })
            .collect();
        let uncompiled = work.uncompiled.iter();
        let uncompiled = uncompiled.map(|(at, why)| (work.space[*at].name.clone(), why.clone()));
        Ranking {
            uncompiled: uncompiled.collect(),
            fastest: fastest_of(&rows),
            rows,
        }
    }

    /// Whether a candidate can be used.
    pub(super) fn has_right(&self) -> bool {
        self.right().next().is_some()
    }

    fn right(&self) -> impl Iterator<Item = &Row> {
        let is_right = |row: &&Row| row.known.is_right && row.known.failure.is_none();
        self.rows.iter().filter(is_right)
    }

    /// Candidates that are out, with why.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&str, String)> {
        let of_rows = self.rows.iter().filter_map(|row| {
            let why = match row.known.failure.as_ref()? {
                Outcome::Wrong { message } => format!("is wrong: {message}"),
                Outcome::Failed { message } => format!("failed: {message}"),
                Outcome::Right | Outcome::Timed { .. } => return None,
            };
            Some((row.name.as_str(), why))
        });
        let uncompiled = self.uncompiled.iter();
        of_rows.chain(
            uncompiled.map(|(name, why)| (name.as_str(), format!("does not compile: {why}"))),
        )
    }

    /// Timed ones, the fastest first: by how far they came, then by their times.
    fn timed(&self) -> Vec<(&Row, TuneTimes)> {
        let timed = self
            .right()
            .filter_map(|row| Some((row, *row.known.heats.last()?)));
        let mut timed: Vec<_> = timed.collect();
        timed.sort_by(|(a, its), (b, those)| {
            let heats = b.known.heats.len().cmp(&a.known.heats.len());
            heats.then(score(*its).total_cmp(&score(*those)))
        });
        if let Some(best) = self.fastest {
            let place = timed
                .iter()
                .position(|(row, _)| std::ptr::eq(*row, &raw const self.rows[best]));
            if let Some(place) = place {
                timed[..=place].rotate_right(1);
            }
        }
        timed
    }

    pub(super) fn text(&self, work: &Work, seconds: Option<f64>) -> String {
        let legal = work
            .space
            .iter()
            .filter(|one| one.refused.is_none())
            .count();
        let counts = format!(
            "{} of {} legal, {} tried",
            legal,
            count(work.space.len(), "candidate"),
            self.rows.len()
        );
        let right = self.right().count();
        let timed = self.timed();
        let head = format!("{}: {counts}, {right} right", work.about);
        if timed.is_empty() {
            let order = self.right().take(SHOWN);
            let order = order.map(|row| format!("  {}{}\n", row.name, predicted(row)));
            return format!("{head}, none timed\n{}", order.collect::<String>());
        }
        let when = match seconds {
            Some(seconds) => format!("in {seconds:.2} s"),
            None => "before".to_string(),
        };
        let shown = &timed[..timed.len().min(SHOWN)];
        let width = shown.iter().map(|(row, _)| row.name.chars().count());
        let width = width.max().unwrap_or(0);
        let best = score(timed[0].1);
        let lines = shown.iter().map(|(row, times)| {
            format!(
                "  {:width$}  single {:>8.2} us  back to back {:>8.2} us  {:.3}x{}\n",
                row.name,
                times.single_ns as f64 / 1e3,
                times.back_to_back_ns as f64 / 1e3,
                score(*times) / best,
                predicted(row)
            )
        });
        let count = timed.len();
        format!(
            "{head}, {count} timed {when}\n{}",
            lines.collect::<String>()
        )
    }

    pub(super) fn event(&self, work: &Work, machine: &Machine, seconds: Option<f64>) -> Value {
        let us = |ns: u64| ns as f64 / 1e3;
        let timed: Vec<Value> = self
            .timed()
            .iter()
            .map(|(row, times)| {
                json!({
                    "candidate": row.name, "heats": row.known.heats.len(), "single_us": us(times.single_ns),
                    "back_to_back_us": us(times.back_to_back_ns), "predicted_us": row.predicted_us,
                })
            })
            .collect();
        let right: Vec<&str> = self.right().map(|row| row.name.as_str()).collect();
        let refused = work.space.iter().filter_map(|one| {
            let reason = one.refused.as_ref()?;
            Some(json!({"candidate": one.name, "reason": reason}))
        });
        let failed = self.failures();
        let failed = failed.map(|(name, why)| json!({"candidate": name, "why": why}));
        json!({
            "reason": "tilekit-tuned", "case": work.case(), "sizes": sizes_of(&work.sizes), "machine": machine,
            "fastest": self.fastest.map(|at| &self.rows[at].name), "timed": timed, "right": right,
            "refused": refused.collect::<Vec<Value>>(), "failed": failed.collect::<Vec<Value>>(), "seconds": seconds,
        })
    }
}

fn fastest_of(rows: &[Row]) -> Option<usize> {
    let usable: Vec<usize> = (0..rows.len())
        .filter(|&at| rows[at].known.failure.is_none())
        .collect();
    let heats: Vec<&[TuneTimes]> = usable.iter().map(|&at| &rows[at].known.heats[..]).collect();
    fastest(&heats).map(|place| usable[place])
}

/// What the model said.
fn predicted(row: &Row) -> String {
    row.predicted_us
        .map_or(String::new(), |us| format!("  model {us:.1} us"))
}

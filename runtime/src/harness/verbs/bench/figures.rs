//! What timing the launches of a run gave.

use ir::elem::DType;
use serde_json::{Value, json};

use super::chart::{Mark, Work};
use super::roofline::Roofline;
use super::{conditions, counters, table};
use crate::case::{CaseReport, Conditions, Counters, Entrant, Series, Timing};
use crate::device::DeviceFacts;
use crate::harness::catalog::{CaseItem, RunItem};

/// The figures of one run.
pub(super) struct Figures<'r> {
    timings: Vec<&'r Timing>,
    checks: Vec<String>,
    tensor_bytes: usize,
    pub(super) moved_bytes: Option<u64>,
    pub(super) flops: Option<u64>,
    tensor_cores: Option<DType>,
    roofline: Option<Roofline>,
}

/// One line of a table: the best of a family, or one that stands alone.
pub(super) struct Line<'r> {
    pub(super) name: String,
    pub(super) single: &'r Series,
    pub(super) back_to_back: &'r Series,
    pub(super) sustained: &'r Series,
}

impl<'r> Figures<'r> {
    /// None if nothing was launched.
    pub(super) fn of(
        report: &'r CaseReport,
        checks: Vec<String>,
        facts: &DeviceFacts,
    ) -> Option<Figures<'r>> {
        let timings: Vec<&Timing> = report.timings.iter().collect();
        (!timings.is_empty()).then(|| Figures {
            timings,
            checks,
            tensor_bytes: report.tensor_bytes,
            moved_bytes: report.moved_bytes,
            flops: report.flops,
            tensor_cores: report.tensor_cores,
            roofline: Roofline::of(facts, report.tensor_cores),
        })
    }

    /// Back to back, all chains of the case one after the other.
    pub(super) fn median_ms(&self) -> f64 {
        self.sum_ms(|timing| timing.ours().back_to_back.median_ms())
    }

    pub(super) fn fastest_ms(&self) -> f64 {
        self.sum_ms(|timing| timing.ours().back_to_back.fastest_ms())
    }

    pub(super) fn single_ms(&self) -> f64 {
        self.sum_ms(|timing| timing.ours().single.median_ms())
    }

    /// None where nothing went on for longer.
    pub(super) fn sustained_ms(&self) -> Option<f64> {
        let ms = self.sum_ms(|timing| timing.ours().sustained.median_ms());
        (!ms.is_nan()).then_some(ms)
    }

    fn sum_ms(&self, time: impl Fn(&Timing) -> f32) -> f64 {
        self.timings
            .iter()
            .map(|timing| f64::from(time(timing)))
            .sum()
    }

    pub(super) fn gigabytes_per_second(&self, ms: f64) -> Option<f64> {
        self.moved_bytes.map(|bytes| bytes as f64 / ms / 1e6)
    }

    pub(super) fn teraflops(&self, ms: f64) -> Option<f64> {
        self.flops.map(|flops| flops as f64 / ms / 1e9)
    }

    /// How near a time comes to what the device could do, and what limits it.
    pub(super) fn share(&self, ms: f64) -> Option<(f64, &'static str)> {
        let roofline = self.roofline?;
        roofline.share(ms, self.flops, self.moved_bytes)
    }

    /// The chain that has peers, if one has: then the table has a line for each.
    pub(super) fn contested(&self) -> Option<&'r Timing> {
        let contested = self.timings.iter().find(|timing| timing.entrants.len() > 1);
        contested.copied()
    }

    /// What the tensors were while it was timed.
    pub(super) fn operands(&self) -> String {
        let copies = self.timings[0].copies;
        let mib = self.tensor_bytes as f64 / f64::from(1 << 20);
        match copies {
            1 => format!("{mib:.1} MiB of tensors, hot"),
            _ => format!("{copies} copies of {mib:.1} MiB of tensors in turn, cold"),
        }
    }

    /// What could not be timed.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        self.timings.iter().flat_map(|timing| timing.notes.clone())
    }

    /// For people.
    pub(super) fn text(&self, prefix: &str) -> String {
        let text = match self.contested() {
            Some(timing) => table::contest(self, timing, prefix),
            None => table::line(self, prefix),
        };
        let conditions = self.conditions().and_then(conditions::text);
        let conditions = conditions.map(|conditions| format!("  {conditions}\n"));
        text + &conditions.unwrap_or_default()
    }

    /// What the GPU was like while ours ran, in the first chain.
    fn conditions(&self) -> Option<&'r Conditions> {
        self.timings[0].ours().conditions.as_ref()
    }

    /// What the hardware counted: ours of all chains first, then each peer.
    pub(super) fn counters(&self) -> Vec<&'r Counters> {
        let of = |entrants: fn(&Timing) -> &[Entrant]| {
            let timings = self.timings.iter();
            let entrants = timings.flat_map(move |timing| entrants(timing));
            entrants.flat_map(|entrant| &entrant.counters)
        };
        let ours = of(|timing| &timing.entrants[..1]);
        ours.chain(of(|timing| &timing.entrants[1..])).collect()
    }

    /// For a picture: who did it in what time.
    pub(super) fn work(&self, case: &CaseItem, run: &RunItem) -> Work {
        let mark = |name: String, series: &Series| Mark {
            name,
            ms: series.median_ms().into(),
            spread: Some(series.spread().into()),
            counted_bytes: None,
        };
        let mut marks: Vec<Mark> = if let Some(timing) = self.contested() {
            let lines = lines(timing).into_iter();
            lines
                .map(|line| mark(line.name, line.back_to_back))
                .collect()
        } else {
            let ours = &self.timings[0].ours().back_to_back;
            vec![Mark {
                ms: self.median_ms(),
                ..mark(run.kernels().join(" + "), ours)
            }]
        };
        marks[0].counted_bytes = self.counted_bytes();
        Work {
            title: title(case, run),
            flops: self.flops,
            moved_bytes: self.moved_bytes,
            tensor_cores: self.tensor_cores,
            roofline: self.roofline,
            marks,
        }
    }

    /// Bytes between L2 and DRAM of all our launches, as the hardware counted them.
    fn counted_bytes(&self) -> Option<u64> {
        let ours = self
            .timings
            .iter()
            .flat_map(|timing| &timing.ours().counters);
        let bytes =
            ours.map(|one| Some(one.value("dram_read_bytes")? + one.value("dram_written_bytes")?));
        let bytes: Vec<f64> = bytes.collect::<Option<_>>()?;
        (!bytes.is_empty()).then(|| bytes.iter().sum::<f64>() as u64)
    }

    /// What was found right, and by which norm.
    pub(super) fn checks(&self) -> &[String] {
        &self.checks
    }

    /// For machines.
    pub(super) fn event(&self, case: &CaseItem, run: &RunItem, device: &str) -> Value {
        let sizes: serde_json::Map<String, Value> = run
            .sizes
            .iter()
            .map(|(name, value)| (name.to_string(), value.into()))
            .collect();
        let chains: Vec<Value> = self.timings.iter().map(|timing| chain(timing)).collect();
        let share = self.share(self.median_ms());
        json!({
            "reason": "tilekit-bench", "case": case.entry.name, "kernels": run.kernels(), "sizes": sizes,
            "device": device, "median_ms": self.median_ms(), "fastest_ms": self.fastest_ms(),
            "single_ms": self.single_ms(), "sustained_ms": self.sustained_ms(), "tensor_bytes": self.tensor_bytes,
            "tensor_cores": self.tensor_cores.map(|dtype| dtype.to_string()),
            "gigabytes_per_second": self.gigabytes_per_second(self.median_ms()),
            "teraflops": self.teraflops(self.median_ms()), "flops": self.flops, "moved_bytes": self.moved_bytes,
            "roofline_share": share.map(|(share, _)| share),
            "roofline_limit": share.map(|(_, limit)| limit), "checks": self.checks, "chains": chains,
        })
    }
}

/// The case with its sizes.
pub(super) fn title(case: &CaseItem, run: &RunItem) -> String {
    format!("{} {}", case.entry.name, run.sizes)
        .trim_end()
        .to_string()
}

fn chain(timing: &Timing) -> Value {
    let ours = timing.ours();
    let entrants: Vec<Value> = timing
        .entrants
        .iter()
        .map(|entrant| {
            json!({
                "name": entrant.name, "family": entrant.family, "check": entrant.check,
                "single": series(&entrant.single, &ours.single),
                "back_to_back": series(&entrant.back_to_back, &ours.back_to_back),
                "sustained": (!entrant.sustained.samples_ms.is_empty())
                    .then(|| series(&entrant.sustained, &ours.sustained)),
                "graph": {"turns": entrant.turns, "overlapping": entrant.overlapping},
                "conditions": entrant.conditions.as_ref().map(conditions::event),
                "counters": entrant.counters.iter().map(counters::event).collect::<Vec<Value>>(),
            })
        })
        .collect();
    json!({ "copies": timing.copies, "entrants": entrants, "notes": timing.notes })
}

fn series(series: &Series, ours: &Series) -> Value {
    json!({
        "median_ms": series.median_ms(), "spread": series.spread(), "ratio": series.ratio_to(ours),
        "samples_ms": series.samples_ms,
    })
}

/// Ours, then each peer; of a family the best, which need not be the same in each column.
pub(super) fn lines(timing: &Timing) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (at, entrant) in timing.entrants.iter().enumerate() {
        let Some(family) = &entrant.family else {
            lines.push(Line {
                name: entrant.name.clone(),
                single: &entrant.single,
                back_to_back: &entrant.back_to_back,
                sustained: &entrant.sustained,
            });
            continue;
        };
        let is_of = |other: &&Entrant| other.family.as_ref() == Some(family);
        if timing.entrants[..at].iter().any(|other| is_of(&other)) {
            continue;
        }
        let members: Vec<&Entrant> = timing.entrants.iter().filter(is_of).collect();
        lines.push(Line {
            name: format!("{family}, best of {}", members.len()),
            single: best(members.iter().map(|member| &member.single)),
            back_to_back: best(members.iter().map(|member| &member.back_to_back)),
            // Those that did not continue have no median, which comes behind every number.
            sustained: best(members.iter().map(|member| &member.sustained)),
        });
    }
    lines
}

fn best<'r>(all: impl Iterator<Item = &'r Series>) -> &'r Series {
    let fastest = all.min_by(|a, b| a.median_ms().total_cmp(&b.median_ms()));
    fastest.expect("a family has a member")
}

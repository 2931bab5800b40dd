//! `bench`: how long the launches of a case take, and what that is worth.

use serde_json::{Value, json};

use super::run::{Runner, Table, time_text};
use crate::case::{BenchOptions, CaseReport, Timing};
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::request::DeviceChoice;
use crate::harness::select::Selection;
use crate::harness::speak::Verdict;
use crate::report::Remark;

pub(in crate::harness) fn bench(context: &mut Context, filters: &[String], samples: usize) -> Done {
    let catalog = context.catalog()?;
    let replaced = context.replaced()?;
    let selection = Selection::new(filters, &catalog);
    let all = catalog
        .cases
        .iter()
        .flat_map(|case| case.runs.iter().map(move |run| (case, run)));
    let selected = all.filter(|(case, run)| selection.run(case, run)).collect();
    let selected: Vec<(&CaseItem, &RunItem)> = context.expect_some(selected, filters, &catalog)?;
    let device = context.open_device()?;
    if !device.is_cuda() && context.device_choice() != DeviceChoice::Emulator {
        let text = "these are times of the emulator: they say nothing of a GPU";
        context.speaker.remark(&Remark::warning(text));
    }
    let limit = context.tensor_limit(&device);
    let options = BenchOptions {
        samples,
        ..BenchOptions::default()
    };
    let runner = Runner::benching(&device, Context::compiler(&replaced), limit, options);
    let table = Table::new(&selected);
    context.speaker.begin(selected.len());
    let speaker = &context.speaker;
    let mut verdict = Verdict::good();
    for (case, run) in selected {
        if let Some(why) = runner.why_not(run) {
            speaker.remark(&Remark::note(format!(
                "case `{}` at {} is left out: {why}",
                case.entry.name, run.sizes
            )));
            continue;
        }
        speaker.step(&format!("{} {}", case.entry.name, run.sizes));
        let outcome = case.entry.run(&run.sizes, runner.mode());
        match (&outcome.result, Figures::of(&outcome.report)) {
            (Ok(()), Some(figures)) => {
                let text = format!("{}{}\n", table.prefix(case, run), figures.text());
                speaker.tell(&text, || figures.event(case, run, runner.device()));
            }
            (Ok(()), None) => {
                let text = format!(
                    "case `{}` launches nothing, so there is nothing to time",
                    case.entry.name
                );
                speaker.remark(&Remark::warning(text));
            }
            (Err(error), _) => verdict.note(speaker.error(
                &format!("case `{}` at {}", case.entry.name, run.sizes),
                error,
            )),
        }
        speaker.stepped();
    }
    speaker.end();
    Ok(verdict.exit())
}

/// Times of one run, its launches one after the other.
struct Figures {
    median_ms: f64,
    fastest_ms: f64,
    samples: usize,
    launches_per_sample: usize,
    moved_bytes: Option<u64>,
    flops: Option<u64>,
}

impl Figures {
    /// None if nothing was launched.
    fn of(report: &CaseReport) -> Option<Figures> {
        let timings: Vec<&Timing> = report
            .launches
            .iter()
            .filter_map(|launch| launch.timing.as_ref())
            .collect();
        let first = timings.first()?;
        Some(Figures {
            median_ms: timings
                .iter()
                .map(|timing| f64::from(timing.median_ms()))
                .sum(),
            fastest_ms: timings
                .iter()
                .map(|timing| f64::from(timing.fastest_ms()))
                .sum(),
            samples: first.samples_ms.len(),
            launches_per_sample: first.launches_per_sample,
            moved_bytes: report.moved_bytes,
            flops: report.flops,
        })
    }

    fn gigabytes_per_second(&self) -> Option<f64> {
        self.moved_bytes
            .map(|bytes| bytes as f64 / self.median_ms / 1e6)
    }

    fn teraflops(&self) -> Option<f64> {
        self.flops.map(|flops| flops as f64 / self.median_ms / 1e9)
    }

    fn text(&self) -> String {
        let time = |ms: f64| time_text(std::time::Duration::from_secs_f64(ms / 1e3));
        let mut parts = vec![format!(
            "median {:>9}  fastest {:>9}",
            time(self.median_ms),
            time(self.fastest_ms)
        )];
        parts.extend(
            self.gigabytes_per_second()
                .map(|rate| format!("{rate:>7.0} GB/s")),
        );
        parts.extend(self.teraflops().map(|rate| format!("{rate:>7.1} TFLOP/s")));
        parts.join("  ")
    }

    fn event(&self, case: &CaseItem, run: &RunItem, device: &str) -> Value {
        let sizes: serde_json::Map<String, Value> = run
            .sizes
            .iter()
            .map(|(name, value)| (name.to_string(), value.into()))
            .collect();
        json!({
            "reason": "tilekit-bench", "case": case.entry.name, "kernels": run.kernels(), "sizes": sizes,
            "device": device, "median_ms": self.median_ms, "fastest_ms": self.fastest_ms, "samples": self.samples,
            "launches_per_sample": self.launches_per_sample, "gigabytes_per_second": self.gigabytes_per_second(),
            "teraflops": self.teraflops(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_from_the_median() {
        let figures = Figures {
            median_ms: 2.0,
            fastest_ms: 1.5,
            samples: 3,
            launches_per_sample: 1,
            moved_bytes: Some(8_000_000_000),
            flops: Some(1_000_000_000_000),
        };
        assert_eq!(
            figures.text(),
            "median   2.00 ms  fastest   1.50 ms     4000 GB/s    500.0 TFLOP/s"
        );
    }
}

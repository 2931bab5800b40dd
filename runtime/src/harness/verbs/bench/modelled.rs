//! What the launches of a run would take on an H200, for people and machines.

use std::fmt::Write;

use ir::elem::DType;
use serde_json::{Value, json};

use super::chart::{Mark, Work};
use super::figures::title;
use super::roofline::Roofline;
use super::table::time;

use crate::case::CaseReport;
use crate::emulated::Modelled;
use crate::harness::catalog::{CaseItem, RunItem};

/// The modelled launches of a run, in order, and the work that they do.
pub(super) struct ModelledFigures {
    launches: Vec<(String, Modelled)>,
    moved_bytes: Option<u64>,
    flops: Option<u64>,
    tensor_cores: Option<DType>,
}

impl ModelledFigures {
    /// None where time was measured, or nothing was launched.
    pub(super) fn of(report: &CaseReport) -> Option<ModelledFigures> {
        let launches = report.launches.iter();
        let modelled = launches.map(|launch| Some((launch.instance.display(), launch.modelled?)));
        let launches: Vec<_> = modelled.collect::<Option<_>>()?;
        (!launches.is_empty()).then_some(ModelledFigures {
            launches,
            moved_bytes: report.moved_bytes,
            flops: report.flops,
            tensor_cores: report.tensor_cores,
        })
    }

    /// All launches one after the other, milliseconds.
    fn ms(&self) -> f64 {
        let all = self.launches.iter();
        all.map(|(_, launch)| launch.microseconds / 1e3).sum()
    }

    /// Gigabytes a second, if the case says how many bytes it must move.
    fn gigabytes_per_second(&self) -> Option<f64> {
        self.moved_bytes.map(|bytes| bytes as f64 / self.ms() / 1e6)
    }

    fn teraflops(&self) -> Option<f64> {
        self.flops.map(|flops| flops as f64 / self.ms() / 1e9)
    }

    /// One line for the run, and one for each launch where there are several.
    pub(super) fn text(&self, prefix: &str) -> String {
        let mut parts = vec![format!("{prefix}modelled {:>9}", time(self.ms()))];
        let rate = self.gigabytes_per_second();
        parts.extend(rate.map(|rate| format!("{rate:>7.0} GB/s")));
        let rate = self.teraflops();
        parts.extend(rate.map(|rate| format!("{rate:>7.1} TFLOP/s")));
        if let [(_, launch)] = &self.launches[..] {
            parts.push(bound(launch));
            return parts.join("  ") + "\n";
        }
        let mut text = parts.join("  ") + "\n";
        for (name, launch) in &self.launches {
            let ms = time(launch.microseconds / 1e3);
            let _ = writeln!(text, "  {name}: {ms}, {}", bound(launch));
        }
        text
    }

    /// For a picture.
    pub(super) fn work(&self, case: &CaseItem, run: &RunItem) -> Work {
        Work {
            title: title(case, run),
            flops: self.flops,
            moved_bytes: self.moved_bytes,
            tensor_cores: self.tensor_cores,
            roofline: Roofline::modelled(self.tensor_cores),
            marks: vec![Mark {
                name: run.kernels().join(" + "),
                ms: self.ms(),
                spread: None,
                counted_bytes: None,
            }],
        }
    }

    /// For machines.
    pub(super) fn event(&self, case: &CaseItem, run: &RunItem) -> Value {
        let sizes: serde_json::Map<String, Value> = run
            .sizes
            .iter()
            .map(|(name, value)| (name.to_string(), value.into()))
            .collect();
        let launches: Vec<Value> = self.launches.iter().map(launch).collect();
        json!({
            "reason": "tilekit-bench", "case": case.entry.name, "kernels": run.kernels(), "sizes": sizes,
            "device": "emulator", "is_modelled": true, "median_ms": self.ms(), "single_ms": self.ms(),
            "gigabytes_per_second": self.gigabytes_per_second(), "teraflops": self.teraflops(), "flops": self.flops,
            "moved_bytes": self.moved_bytes, "launches": launches,
        })
    }
}

fn bound(launch: &Modelled) -> String {
    let (bound, percent) = (launch.bound.text(), launch.share * 100.0);
    format!("bound by {bound} ({percent:.0} %)")
}

pub(super) fn launch((name, launch): &(String, Modelled)) -> Value {
    json!({
        "kernel": name, "us": launch.microseconds, "bound": launch.bound.text(), "bound_share": launch.share,
        "clock_mhz": launch.clock_mhz, "tensor_use": launch.tensor_use, "l2_bytes": launch.l2_bytes,
        "dram_bytes": launch.dram_bytes, "warp_instructions_ptx": launch.warp_instructions,
        "load_conflicts": launch.bank_conflicts[0], "store_conflicts": launch.bank_conflicts[1],
    })
}

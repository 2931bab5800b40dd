//! Counting runs that have been timed.

use std::time::Duration;

use crate::case::{BenchOptions, CaseReport, Entrant};
use crate::device::Device;
use crate::emulated::{EmulatorOptions, Modelled};
use crate::error::Result;
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::Context;
use crate::harness::device::Emulation;
use crate::harness::replaced::Replaced;
use crate::harness::verbs::run::Runner;

/// Of several launches of a peer the fastest is counted: how long, and how often, each runs to see which that is.
const SLICE: Duration = Duration::from_millis(10);
const ROUNDS: usize = 3;

/// What counts launches, and what predicts the figures.
pub(super) struct Counting {
    counter: Runner,
    model: Runner,
}

impl Counting {
    /// On `device`, as runs were timed by `timing`, by the kernels that `replaced` leaves; tensors of runs that are predicted may have so many bytes.
    pub(super) fn new(
        device: &Device,
        replaced: &Replaced,
        timing: BenchOptions,
        limit_bytes: usize,
    ) -> Counting {
        let options = BenchOptions {
            samples: 1,
            rounds: ROUNDS,
            slice: SLICE,
            sustained: Duration::ZERO,
            counters: true,
            ..timing
        };
        let counter = Runner::benching(device, Context::compiler(replaced), None, options);
        let emulation = Emulation {
            is_modelling: true,
            ..Emulation::default()
        };
        let options: EmulatorOptions = emulation.options();
        let emulator = Device::emulator_with(options);
        let compiler = Context::compiler(replaced);
        let model = Runner::benching(
            &emulator,
            compiler,
            Some(limit_bytes),
            BenchOptions::default(),
        );
        Counting { counter, model }
    }

    /// Launches a run once more, and adds what is counted to its report.
    ///
    /// # Errors
    /// A refusal of CUPTI, or what a launch ended with.
    pub(super) fn count(
        &self,
        case: &CaseItem,
        run: &RunItem,
        report: &mut CaseReport,
    ) -> Result<()> {
        let mut outcome = case.entry.run(&run.sizes, self.counter.mode());
        outcome.result?;
        let counted = std::mem::take(&mut outcome.report.timings);
        for (timing, counted) in report.timings.iter_mut().zip(counted) {
            for entrant in &mut timing.entrants {
                let same = |other: &&Entrant| other.name == entrant.name;
                let counters = counted.entrants.iter().find(same);
                entrant.counters = counters.map_or_else(Vec::new, |same| same.counters.clone());
            }
            let new = counted.notes.into_iter();
            let new: Vec<String> = new.filter(|note| !timing.notes.contains(note)).collect();
            timing.notes.extend(new);
        }
        Ok(())
    }

    /// What the model says of the launches of a run, by name, or why it says nothing.
    pub(super) fn predict(
        &self,
        case: &CaseItem,
        run: &RunItem,
    ) -> std::result::Result<Vec<(String, Modelled)>, String> {
        if let Some(why) = self.model.why_not(run) {
            return Err(why);
        }
        let outcome = case.entry.run(&run.sizes, self.model.mode());
        outcome.result.map_err(|error| error.to_string())?;
        let launches = outcome.report.launches.iter();
        let modelled =
            launches.filter_map(|launch| Some((launch.instance.display(), launch.modelled?)));
        Ok(modelled.collect())
    }
}

//! Runs of the kernels as they are, before any is broken: nothing may be reported of them, and what they take bounds what
//! their mutants may take.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::subject::{Run, Subject};
use super::workers::{cores, in_parallel};
use crate::case::{Bed, CaseCache, CaseReport, Mode};
use crate::device::Device;
use crate::emulated::{Checks, EmulatorOptions};
use crate::error::{Error, Result};
use crate::harness::catalog::RunItem;
use crate::harness::context::{Context, Done};
use crate::harness::speak::Verdict;
use crate::harness::verbs::run::bed;
use crate::kernel::{Compiled, Compiler};

/// All runs that launch what is broken.
pub(super) struct Rehearsals<'c> {
    runs: Vec<Option<Rehearsal<'c>>>,
    /// Orders of warps.
    pub(super) seeds: u64,
}

/// A run that went well.
pub(super) struct Rehearsal<'c> {
    run: Run<'c>,
    /// Its kernels.
    known: HashMap<String, Compiled>,
    cache: Arc<CaseCache>,
    /// The most steps that a cluster of a mutant may take.
    max_steps: u64,
    time: Duration,
    /// Nothing is reported of it either where a wait for a product speaks for its warp alone.
    pub(super) is_strict: bool,
}

/// How a run is scheduled and checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    pub(super) strict: bool,
}

/// A mutant may wait longer than the kernel does, but not for ever.
const MOST_STEPS_RATIO: u64 = 4;
/// What a launch of few instructions may take.
const FEWEST_STEPS: u64 = 200_000;
/// One strict run is enough: what it reports beyond the others does not depend on when products complete.
pub(super) const STRICT: Schedule = Schedule {
    seed: 0,
    strict: true,
};

impl<'c> Rehearsals<'c> {
    /// Runs what launches one of `broken` as it is, in every order of warps.
    ///
    /// # Errors
    /// The exit for a run that fails; it has been shown.
    pub(super) fn of(
        context: &Context,
        (subjects, broken): (&[Subject], &[&Subject]),
        runs: &[Run<'c>],
        seeds: u64,
    ) -> Done<Rehearsals<'c>> {
        let mut known: HashMap<String, Compiled> = HashMap::new();
        for subject in subjects {
            known.insert(subject.path.clone(), subject.compiled.clone());
        }
        let is_needed = |at: &usize| broken.iter().any(|subject| subject.runs.contains(at));
        let needed: Vec<usize> = (0..runs.len()).filter(is_needed).collect();
        let mut found: Vec<Option<Rehearsal<'c>>> = runs.iter().map(|_| None).collect();
        let mut verdict = Verdict::good();
        in_parallel(
            needed.len(),
            cores(),
            |at| {
                let run = runs[needed[at]];
                context
                    .speaker
                    .step(&format!("{} as it is", run.0.about(run.1)));
                rehearse(run, &known, seeds)
            },
            |at, rehearsed| match rehearsed {
                Ok(rehearsal) => found[needed[at]] = Some(rehearsal),
                Err(failure) => {
                    let (seed, error) = *failure;
                    let (case, run) = runs[needed[at]];
                    let about = format!("{} unchanged, with seed {seed}", case.about(run));
                    verdict.note(context.speaker.error(&about, &error));
                }
            },
        );
        match verdict.exit() {
            crate::harness::Exit::Success => Ok(Rehearsals { runs: found, seeds }),
            exit => Err(exit),
        }
    }

    /// The runs that launch `subject`, the fastest first.
    pub(super) fn of_subject(&self, subject: &Subject) -> Vec<&Rehearsal<'c>> {
        let runs = subject.runs.iter().filter_map(|at| self.runs[*at].as_ref());
        let mut runs: Vec<&Rehearsal<'c>> = runs.collect();
        runs.sort_by_key(|rehearsal| rehearsal.time);
        runs
    }
}

/// Runs a case as it is; the seed of the run that failed.
fn rehearse<'c>(
    run: Run<'c>,
    known: &HashMap<String, Compiled>,
    seeds: u64,
) -> Result<Rehearsal<'c>, Box<(u64, Error)>> {
    let mut rehearsal = Rehearsal {
        run,
        known: compiled_of(run.1, known).map_err(|error| Box::new((0, error)))?,
        cache: Arc::new(CaseCache::default()),
        max_steps: EmulatorOptions::default().max_steps,
        time: Duration::ZERO,
        is_strict: false,
    };
    let mut most_instructions = 0;
    for seed in 0..seeds {
        let started = Instant::now();
        let schedule = Schedule {
            seed,
            strict: false,
        };
        let report = rehearsal
            .perform(schedule, None)
            .map_err(|error| Box::new((seed, error)))?;
        rehearsal.time = started.elapsed();
        let launches = report
            .launches
            .iter()
            .filter_map(|launch| launch.warp_instructions);
        most_instructions = most_instructions.max(launches.max().unwrap_or(0));
    }
    rehearsal.max_steps = FEWEST_STEPS + MOST_STEPS_RATIO * most_instructions;
    rehearsal.is_strict = rehearsal.perform(STRICT, None).is_ok();
    Ok(rehearsal)
}

/// Every kernel that a run launches, compiled; one that is not broken itself is compiled now.
fn compiled_of(
    run: &RunItem,
    known: &HashMap<String, Compiled>,
) -> Result<HashMap<String, Compiled>> {
    let mut kernels = HashMap::new();
    for launch in &run.described.launches {
        let path = launch.instance.path();
        let compiled = match known.get(path) {
            Some(compiled) => compiled.clone(),
            None => Compiler::default().compile(&launch.instance)?,
        };
        kernels.insert(path.to_string(), compiled);
    }
    Ok(kernels)
}

impl Rehearsal<'_> {
    /// Runs the case once more, with one kernel replaced.
    pub(super) fn perform(
        &self,
        schedule: Schedule,
        replaced: Option<(&str, &Compiled)>,
    ) -> Result<CaseReport> {
        let mut known = self.known.clone();
        known.extend(replaced.map(|(path, compiled)| (path.to_string(), compiled.clone())));
        let defaults = EmulatorOptions::default();
        let device = Device::emulator_with(EmulatorOptions {
            seed: schedule.seed,
            max_steps: self.max_steps,
            prints: false,
            is_timed: false,
            most_clusters: None,
            checks: Checks {
                strict: schedule.strict,
                ..defaults.checks
            },
        });
        let mode = Mode::Check(Bed {
            cache: Some(Arc::clone(&self.cache)),
            ..bed(&device, Compiler::default().knowing(known))
        });
        let (case, run) = self.run;
        let outcome = case.entry.run(&run.sizes, &mode);
        outcome.result.map(|()| outcome.report)
    }

    /// What it is called in messages.
    pub(super) fn about(&self) -> String {
        self.run.0.about(self.run.1)
    }
}

//! `check --prove --mutants`: breaks the barriers of what is proved, one step at a time. A mutant that is proved too must not deadlock on
//! the emulator, or the proof is worth nothing.

use std::collections::HashMap;

use diag::Code;
use ir::Func;
use prove::Verdict;
use serde_json::json;

use super::mutate::sample::spread;
use super::mutate::subject::{Run, runs_of};
use super::run::bed;
use crate::case::Mode;
use crate::device::Device;
use crate::emulated::EmulatorOptions;
use crate::error::Error;
use crate::harness::Exit;
use crate::harness::catalog::{Catalog, KernelItem, Variant};
use crate::harness::context::Context;
use crate::harness::speak::count;
use crate::kernel::{Compiled, Compiler};
use crate::report::{Remark, fault_diagnostic};

/// Schedules under which a mutant that is proved runs.
const SEEDS: u64 = 4;
/// A run of a small case takes a hundredth of it.
const MAX_STEPS: u64 = 20_000_000;

/// What became of all mutants.
pub(super) struct Doubts<'c> {
    context: &'c Context,
    runs: Vec<Run<'c>>,
    refuted: usize,
    undecided: usize,
    proved: usize,
    /// Proved, and reported by the emulator for something else than a deadlock.
    reported: usize,
    deadlocked: usize,
}

impl<'c> Doubts<'c> {
    pub(super) fn new(
        context: &'c Context,
        catalog: &'c Catalog,
        filters: &[String],
    ) -> Doubts<'c> {
        Doubts {
            context,
            runs: runs_of(context, catalog, filters),
            refuted: 0,
            undecided: 0,
            proved: 0,
            reported: 0,
            deadlocked: 0,
        }
    }

    /// Judges at most `limit` mutants of a variant that is proved.
    pub(super) fn doubt(
        &mut self,
        (kernel, variant): (&KernelItem, &Variant),
        compiled: &Compiled,
        limit: usize,
    ) -> Exit {
        let traced = match variant.instance.trace() {
            Ok(traced) => traced,
            Err(error) => {
                let error = Error::Kernel(error);
                return self.context.speaker.error(&variant.display, &error);
            }
        };
        let text = ir::text::print(&traced.func);
        let mut exit = Exit::Success;
        for mutant in sample(mutants(&text), limit) {
            let Some(func) = read(&mutant.text) else {
                continue;
            };
            let Ok(planned) = lowering::planned(func) else {
                continue;
            };
            match prove::prove(&planned) {
                Verdict::Found(_) => self.refuted += 1,
                Verdict::Undecided(_) => self.undecided += 1,
                Verdict::Proved { .. } | Verdict::Bare => {
                    self.proved += 1;
                    exit = exit.max(self.run((kernel, variant), compiled, &mutant));
                }
            }
        }
        exit
    }

    /// Runs a mutant that is proved, in the smallest run that launches it.
    fn run(
        &mut self,
        (kernel, variant): (&KernelItem, &Variant),
        compiled: &Compiled,
        mutant: &Mutant,
    ) -> Exit {
        let launched = self.runs.iter().filter_map(|run| {
            let instance = kernel.launched(variant, run.1)?;
            Some((*run, instance.path().to_string()))
        });
        let smallest = launched.min_by_key(|((_, run), _)| run.described.tensor_bytes);
        let (Some((run, path)), Some(func)) = (smallest, read(&mutant.text)) else {
            return Exit::Success;
        };
        let Ok(lowered) = lowering::compile(func, &lowering::Options::default()) else {
            return Exit::Success;
        };
        let broken = compiled.with_module(lowered.module);
        for seed in 0..SEEDS {
            let Err(error) = emulate(run, &path, &broken, seed) else {
                continue;
            };
            let code = match &error {
                Error::Fault(fault) => Some(fault_diagnostic(fault).code),
                _ => None,
            };
            if code != Some(Code::Deadlock) {
                self.reported += 1;
                self.tell(variant, mutant, "reported", &error);
                return Exit::Success;
            }
            self.deadlocked += 1;
            self.tell(variant, mutant, "deadlocked", &error);
            let text = format!(
                "{}: a mutant is proved and deadlocks: {}",
                variant.display, mutant.change
            );
            return self
                .context
                .speaker
                .failure(&Remark::error(text).with_help("this is a bug of TileKit: report it"));
        }
        Exit::Success
    }

    fn tell(&self, variant: &Variant, mutant: &Mutant, ended: &str, error: &Error) {
        let (name, change) = (&variant.display, &mutant.change);
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        let text = format!("{name}: proved with {change}, and {ended} on the emulator: {first}\n");
        self.context.speaker.tell(&text, || {
            json!({
                "reason": "tilekit-proved-mutant", "variant": name, "change": change, "ended": ended, "message": first,
            })
        });
    }

    /// All of it.
    pub(super) fn summary(&self) -> Remark {
        Remark::note(format!(
            "{} of proved kernels: {} refuted, {} not decided, {} proved, of which {} deadlocked and {} were reported for something else",
            count(self.refuted + self.undecided + self.proved, "mutant"),
            self.refuted,
            self.undecided,
            self.proved,
            self.deadlocked,
            self.reported
        ))
    }
}

fn read(text: &str) -> Option<Func> {
    ir::text::parse("mutant", text).ok()
}

fn emulate((case, run): Run<'_>, path: &str, broken: &Compiled, seed: u64) -> Result<(), Error> {
    let device = Device::emulator_with(EmulatorOptions {
        seed,
        max_steps: MAX_STEPS,
        prints: false,
        ..EmulatorOptions::default()
    });
    let known: HashMap<String, Compiled> = [(path.to_string(), broken.clone())].into();
    let mode = Mode::Check(bed(&device, Compiler::default().knowing(known)));
    case.entry.run(&run.sizes, &mode).result
}

/// A kernel with one step of its barriers changed.
struct Mutant {
    text: String,
    /// The line, and what it became.
    change: String,
}

/// Beginnings of steps of barriers, and of copies that complete on them.
const STEPS: [&str; 6] = [
    "mbarrier_",
    "tma_load",
    "bulk_load",
    "named_sync",
    "named_arrive",
    "tma_gather",
];

/// Each step deleted, and each count of arrivals changed by one, and of bytes by 16.
fn mutants(text: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let step = line.trim();
        if !STEPS.iter().any(|start| step.starts_with(start)) {
            continue;
        }
        let mut with = |new: &str, what: &str| {
            let mut mutant = lines.clone();
            mutant[at] = new;
            all.push(Mutant {
                text: mutant.join("\n") + "\n",
                change: format!("`{step}` {what}"),
            });
        };
        with("", "deleted");
        for (name, unit) in [("count=", 1), ("bytes=", 16)] {
            for new in neighbours(line, name, unit) {
                with(&new, &format!("as `{}`", new.trim()));
            }
        }
    }
    all
}

/// The line with a number that is one unit more, and one that is one unit less.
fn neighbours(line: &str, name: &str, unit: u64) -> Vec<String> {
    let Some((before, rest)) = line.split_once(name) else {
        return Vec::new();
    };
    let length = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(length);
    let Ok(number) = digits.parse::<u64>() else {
        return Vec::new();
    };
    let all = [number.checked_add(unit), number.checked_sub(unit)];
    let positive = all.into_iter().flatten().filter(|number| *number > 0);
    positive
        .map(|number| format!("{before}{name}{number}{after}"))
        .collect()
}

/// At most `limit` of them, spread over the kernel.
fn sample(mutants: Vec<Mutant>, limit: usize) -> Vec<Mutant> {
    let mut chosen: Vec<usize> = (0..mutants.len()).collect();
    spread(&mut chosen);
    chosen.truncate(limit);
    let numbered = mutants.into_iter().enumerate();
    let kept = numbered.filter(|(at, _)| chosen.contains(at));
    kept.map(|(_, mutant)| mutant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_deleted_and_their_numbers_changed() {
        let text = "kernel @k() {\n  mbarrier_init %1 {count=1}\n  %2 = add %3, %4\n  mbarrier_expect %1 {bytes=32}\n}\n";
        let changes: Vec<String> = mutants(text)
            .into_iter()
            .map(|mutant| mutant.change)
            .collect();
        assert_eq!(
            changes,
            [
                "`mbarrier_init %1 {count=1}` deleted",
                "`mbarrier_init %1 {count=1}` as `mbarrier_init %1 {count=2}`",
                "`mbarrier_expect %1 {bytes=32}` deleted",
                "`mbarrier_expect %1 {bytes=32}` as `mbarrier_expect %1 {bytes=48}`",
                "`mbarrier_expect %1 {bytes=32}` as `mbarrier_expect %1 {bytes=16}`",
            ]
        );
        let first = mutants(text).remove(0);
        assert!(!first.text.contains("count=1") && first.text.contains("bytes=32"));
        assert_eq!(sample(mutants(text), 2).len(), 2);
    }
}

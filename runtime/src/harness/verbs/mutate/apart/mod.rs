//! Mutants in processes of their own: on a GPU, which a mutant may hang, or lose for its process.
//!
//! Each process is this program again, with a request to run one mutant. What it finds stands beside the emulator's verdict of
//! the same mutants, and on demand beside that of `compute-sanitizer`.

mod child;
mod ended;
mod process;
mod sanitizer;
mod table;
mod tools;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

pub(in crate::harness) use self::child::trial;
use self::ended::{Ended, Tried};
use self::process::{Children, Limits};
use super::emulate::{self, tell_known};
use super::marks::Marks;
use super::record::{Book, Key, Records};
use super::subject::{Mutant, Subject, Work};
use super::table::{Judged, judge};
use super::workers::{cores, in_parallel};
use crate::harness::Exit;
use crate::harness::context::{Context, Done};
use crate::harness::device::{Emulation, short_name};
use crate::harness::request::{DeviceChoice, Isolation, MutateRequest};
use crate::report::Remark;

/// What a kernel as it is may take for one launch, and for all its runs.
const UNCHANGED_LIMITS: (Duration, Duration) = (Duration::from_mins(1), Duration::from_mins(5));
/// What a mutant may take for all its runs beyond what its kernel takes, to start on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(30);
/// A mutant may be slower than its kernel, and others may use the device too.
const SLOWER: u32 = 4;
/// More contexts than these on one GPU wait for each other.
const MOST_JOBS: usize = 8;

/// A device, the processes on it, and what is known already.
struct Bench<'w> {
    work: &'w Work<'w>,
    isolation: &'w Isolation,
    jobs: usize,
    device: String,
    children: Children,
    records: Records<Tried>,
}

/// Runs all mutants in processes of their own, and shows what is found beside what the emulator finds.
pub(super) fn compare(context: &mut Context, request: &MutateRequest, work: &Work<'_>) -> Done {
    let started = Instant::now();
    for tool in &request.isolation.tools {
        if !sanitizer::TOOLS.contains(&tool.as_str()) {
            let text = format!(
                "--sanitize: `{tool}` is no tool; there are {}",
                sanitizer::TOOLS.join(", ")
            );
            context.speaker.failure(&Remark::error(text));
            return Err(Exit::Usage);
        }
    }
    let mut bench = Bench::open(context, request, work)?;
    context.speaker.begin(work.mutants.len());
    let unchanged = bench.try_unchanged(context);
    let tried = unchanged.and_then(|(exit, known)| {
        let usable = bench.usable(&known);
        bench.try_mutants(context, &usable, &known)?;
        Ok((exit, known, usable))
    });
    context.speaker.end();
    let (exit, known, usable) = tried?;
    if usable.is_empty() {
        return Ok(exit);
    }
    let outcomes = emulate::run_all(context, request, work)?;
    let mut marks = Marks::new(context.sources());
    let judged = judge(work.mutants, &outcomes, &mut marks);
    bench.try_again_alone(context, &usable, &known, &judged)?;
    bench.sanitize(context, &usable)?;
    let rows: Vec<(&Judged<'_>, &Tried)> = usable
        .iter()
        .filter_map(|at| {
            Some((
                &judged[*at],
                bench.records.get(&Key::of(&work.mutants[*at]))?,
            ))
        })
        .collect();
    let shown = table::show(context, (request, &bench.device), &rows, started.elapsed());
    Ok(if exit == Exit::Success { shown } else { exit })
}

/// What is known of the kernels as they are, by name, of those that pass.
type Unchanged = HashMap<String, Tried>;

impl<'w> Bench<'w> {
    fn open(context: &Context, request: &'w MutateRequest, work: &'w Work<'w>) -> Done<Bench<'w>> {
        let device = context.open_device(Emulation::default())?;
        let choice = if device.is_cuda() {
            DeviceChoice::Cuda
        } else {
            DeviceChoice::Emulator
        };
        let isolation = &request.isolation;
        let jobs = isolation
            .jobs
            .unwrap_or_else(|| cores().min(MOST_JOBS))
            .max(1);
        let children = Children::new(context, choice, (cores() / jobs).max(1), &request.filters);
        let children = children.map_err(|error| failure(context, &error))?;
        let device = short_name(&device);
        let (repeats, limit_ms) = (isolation.repeats, isolation.time_limit_ms);
        let book = Book {
            name: "mutate-apart.jsonl",
            seeds: request.seeds,
            conditions: format!(" on {device}, {repeats} times, {limit_ms} ms"),
            is_fresh: request.fresh,
        };
        Ok(Bench {
            work,
            isolation,
            jobs,
            device,
            children,
            records: Records::open(context, &book)?,
        })
    }

    /// Runs every kernel that is broken as it is: what fails then says nothing of its mutants.
    fn try_unchanged(&mut self, context: &Context) -> Done<(Exit, Unchanged)> {
        let is_broken = |subject: &&Subject| {
            let mut mutants = self.work.mutants.iter();
            mutants.any(|mutant| std::ptr::eq(mutant.subject, *subject))
        };
        let subjects: Vec<&Subject> = self.work.subjects.iter().filter(is_broken).collect();
        let (launch, total) = UNCHANGED_LIMITS;
        let limits = Limits {
            repeats: self.isolation.repeats,
            launch,
            total,
        };
        let wanted: Vec<Wanted<'_>> = subjects
            .iter()
            .map(|subject| Wanted::new(Key::unchanged(subject), subject, None, limits))
            .filter(|wanted| self.records.get(&wanted.key).is_none())
            .collect();
        self.try_all(context, &wanted, self.jobs)?;
        let mut exit = Exit::Success;
        let mut known = Unchanged::new();
        for subject in subjects {
            let Some(tried) = self.records.get(&Key::unchanged(subject)) else {
                continue;
            };
            if tried.ended == Ended::Passed {
                known.insert(subject.name.clone(), tried.clone());
                continue;
            }
            let text = format!(
                "{} unchanged, on {}: {}",
                subject.name,
                self.device,
                tried.ended.text()
            );
            let note = "nothing is said of its mutants";
            context
                .speaker
                .failure(&Remark::error(text).with_note(note));
            exit = Exit::KernelFailed;
        }
        Ok((exit, known))
    }

    /// The mutants of kernels that pass unchanged.
    fn usable(&self, known: &Unchanged) -> Vec<usize> {
        let mutants = self.work.mutants.iter().enumerate();
        let usable = mutants.filter(|(_, mutant)| known.contains_key(&mutant.subject.name));
        usable.map(|(at, _)| at).collect()
    }

    fn try_mutants(&mut self, context: &Context, usable: &[usize], known: &Unchanged) -> Done<()> {
        let wanted: Vec<Wanted<'_>> = usable
            .iter()
            .map(|at| self.wanted(&self.work.mutants[*at], known))
            .filter(|wanted| self.records.get(&wanted.key).is_none())
            .collect();
        tell_known(context, usable.len() - wanted.len(), usable.len());
        self.try_all(context, &wanted, self.jobs)
    }

    /// Runs once more, with nothing else on the device, what another process may have done, and what the emulator does not find.
    fn try_again_alone(
        &mut self,
        context: &Context,
        usable: &[usize],
        known: &Unchanged,
        judged: &[Judged<'_>],
    ) -> Done<()> {
        let is_doubtful = |at: &&usize| {
            let tried = self.records.get(&Key::of(&self.work.mutants[**at]));
            tried.is_some_and(|tried| {
                let contradicts = tried.ended.fails() && !judged[**at].verdict.is_found();
                !tried.is_alone && (contradicts || tried.ended.may_be_of_another())
            })
        };
        let wanted: Vec<Wanted<'_>> = usable
            .iter()
            .filter(is_doubtful)
            .map(|at| self.wanted(&self.work.mutants[*at], known))
            .collect();
        self.try_all(context, &wanted, 1)
    }

    /// A mutant with the limits that its kernel gives it.
    fn wanted(&self, mutant: &'w Mutant<'w>, known: &Unchanged) -> Wanted<'w> {
        let (launch_ms, wall_ms) = known
            .get(&mutant.subject.name)
            .map_or((0.0, 0), |tried| (tried.launch_ms, tried.wall_ms));
        let factor = SLOWER * self.jobs as u32;
        let launch = Duration::from_millis(self.isolation.time_limit_ms)
            + Duration::from_secs_f64(launch_ms / 1e3) * factor;
        let limits = Limits {
            repeats: self.isolation.repeats,
            launch,
            total: launch + START_LIMIT + Duration::from_millis(wall_ms) * SLOWER,
        };
        Wanted::new(Key::of(mutant), mutant.subject, Some(mutant), limits)
    }

    /// Runs these, at most `jobs` at a time, and records each.
    fn try_all(&mut self, context: &Context, wanted: &[Wanted<'_>], jobs: usize) -> Done<()> {
        let children = &self.children;
        let records = &mut self.records;
        let mut failed = None;
        in_parallel(
            wanted.len(),
            jobs,
            |at| {
                context.speaker.step(&wanted[at].title());
                let finished = wanted[at].run(children, &[]);
                context.speaker.stepped();
                finished
            },
            |at, finished| {
                let noted = finished.and_then(|finished| {
                    let tried = Tried {
                        ended: finished.report.ended,
                        launch_ms: finished.report.launch_ms,
                        wall_ms: finished.wall.as_millis() as u64,
                        is_alone: jobs == 1,
                        tools: BTreeMap::new(),
                    };
                    records.add(wanted[at].key.clone(), &tried)
                });
                failed = failed.take().or(noted.err());
            },
        );
        failed.map_or(Ok(()), |error| Err(failure(context, &error)))
    }
}

/// One process that is to be started.
struct Wanted<'w> {
    key: Key,
    subject: &'w Subject,
    mutant: Option<&'w Mutant<'w>>,
    limits: Limits,
}

impl<'w> Wanted<'w> {
    fn new(
        key: Key,
        subject: &'w Subject,
        mutant: Option<&'w Mutant<'w>>,
        limits: Limits,
    ) -> Wanted<'w> {
        Wanted {
            key,
            subject,
            mutant,
            limits,
        }
    }

    fn title(&self) -> String {
        match self.mutant {
            Some(mutant) => mutant.title(),
            None => format!("{} as it is", self.subject.display()),
        }
    }

    fn run(&self, children: &Children, before: &[OsString]) -> io::Result<process::Finished> {
        children.run(&self.subject.name, self.mutant, self.limits, before)
    }
}

fn failure(context: &Context, error: &io::Error) -> Exit {
    context.speaker.failure(&Remark::error(error.to_string()))
}

//! `tune`: searches the space that a case declares for the fastest candidate.
//!
//! Legal candidates, in the order of the case's model, are compiled on all cores, each is checked once against the case's reference, and those that
//! are right are timed on a GPU by successive [`halving`]: in rounds of random order, single and back to back, with tensors beyond L2. That happens in
//! a process of its own ([`share`]), which a candidate may end; it is then one candidate that has failed. Each result is appended to the
//! records ([`record`]) at once, so that an interrupted search goes on where it stopped. Without a GPU candidates are checked and nothing is timed.

mod ahead;
mod halving;
mod kept;
mod record;
mod said;
mod share;
mod show;
mod work;
mod worker;

use std::path::PathBuf;
use std::sync::mpsc::channel;

use self::record::{Appending, Outcome, Record, Records};
use self::said::Said;
pub(in crate::harness) use self::share::share;
use self::show::Ranking;
use self::work::{Digests, Work};
use crate::case::Sizes;
use crate::device::Device;
use crate::harness::Exit;
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::device::Emulation;
use crate::harness::request::{DeviceChoice, TuneJob, TuneRequest, TuneShare, TuneTask, Verb};
use crate::harness::speak::{Verdict, count};
use crate::report::Remark;
use crate::tuned::Machine;

pub(in crate::harness) fn tune(context: &mut Context, request: &TuneRequest) -> Done {
    let default = || context.place.artifacts.join("tune.jsonl");
    let path = request.records.clone().unwrap_or_else(default);
    let records = Records::read(&path).map_err(|error| unusable(context, &error))?;
    if records.unread > 0 {
        let are = if records.unread == 1 {
            "is no record"
        } else {
            "are no records"
        };
        let text = format!(
            "{} of {} {are} of this release",
            count(records.unread, "line"),
            path.display()
        );
        context.speaker.remark(&Remark::warning(text));
    }
    match &request.task {
        TuneTask::Search => search(context, request, (path, records)),
        TuneTask::Show => kept::show(context, request, &records),
        TuneTask::Export(file) => kept::export(context, request, (&records, &path), file),
    }
}

fn unusable(context: &Context, error: &std::io::Error) -> Exit {
    context.speaker.failure(&Remark::error(error.to_string()));
    Exit::Usage
}

/// What candidates run on.
struct Bench {
    machine: Machine,
    /// The GPUs of that kind; none for the emulator.
    gpus: Vec<usize>,
}

fn search(
    context: &mut Context,
    request: &TuneRequest,
    (path, records): (PathBuf, Records),
) -> Done {
    let (mut work, verdict) = selected(context, request)?;
    let bench = bench(context)?;
    if let Some(shard) = request.shard {
        work.retain(|one| one.number % shard.of == shard.number - 1);
        if work.is_empty() {
            let text = format!("share {} of {} has no runs", shard.number, shard.of);
            context.speaker.remark(&Remark::note(text));
            return Ok(verdict.exit());
        }
    }
    // Before the candidates are compiled, which takes minutes.
    let appending = Appending::open(&path).map_err(|error| unusable(context, &error))?;
    let candidates: usize = work
        .iter()
        .map(|one| work::chosen(&one.space, request).len())
        .sum();
    context.speaker.begin_long(candidates);
    Digests::default().fill(&mut work, request, &|| context.speaker.stepped());
    context.speaker.end();
    let records = if request.fresh {
        Records::default()
    } else {
        records
    };
    name_stale(context, &work, (&records, &bench.machine));
    let mut ledger = Ledger {
        work: &work,
        machine: &bench.machine,
        seed: request.seed,
        records,
        appending,
        verdict,
    };
    let jobs = ledger.jobs(&bench, request.exhaustive);
    let known: Vec<&Work> = work
        .iter()
        .filter(|one| jobs.iter().all(|job| job.number != one.number))
        .collect();
    for one in known {
        ledger.conclude(context, one, None);
    }
    let steps: usize = jobs.iter().map(|job| job.candidates.len() + 1).sum();
    context.speaker.begin_long(steps);
    let ended = work_off(context, request, &bench, jobs, &mut ledger);
    context.speaker.end();
    ended?;
    let text = format!("records are in {}", path.display());
    context.speaker.remark(&Remark::note(text));
    Ok(ledger.verdict.exit())
}

/// The runs of cases with a space that are selected, and whether others of them failed: a case may have no legal candidate at one of its sizes.
fn selected(context: &Context, request: &TuneRequest) -> Done<(Vec<Work>, Verdict)> {
    let catalog = context.catalog(&request.filters)?;
    let runs = context.runs(&catalog, &request.filters)?;
    let (mut work, mut verdict) = (Vec::new(), Verdict::good());
    for (case, run) in &runs {
        if let Some(error) = &run.failure {
            verdict.note(context.speaker.error(&case.about(run), error));
            continue;
        }
        let Some(space) = &run.described.space else {
            continue;
        };
        work.push(Work {
            number: work.len(),
            entry: case.entry,
            sizes: Sizes::of(&work::values_of(&run.sizes)),
            about: case.about(run),
            space: space.candidates.clone(),
            tried: Vec::new(),
            uncompiled: Vec::new(),
        });
    }
    if !work.is_empty() {
        return Ok((work, verdict));
    }
    if verdict == Verdict::good() {
        verdict.note(without_space(context, &runs));
    }
    Err(verdict.exit())
}

fn without_space(context: &Context, runs: &[(&CaseItem, &RunItem)]) -> Exit {
    let mut names: Vec<&str> = runs.iter().map(|(case, _)| case.entry.name).collect();
    names.dedup();
    let text = match names[..] {
        [name] => {
            format!("case `{name}` declares no space, so that nothing of it can be chosen")
        }
        _ => format!(
            "none of {} declares a space",
            count(names.len(), "selected case")
        ),
    };
    let help = "a case declares one by `case.tune(Space::of(..))` or `case.tune(Space::axes(..))`";
    context
        .speaker
        .failure(&Remark::error(text).with_help(help));
    Exit::NothingSelected
}

/// The device, and all others of its kind.
fn bench(context: &Context) -> Done<Bench> {
    let device = context.open_device(Emulation::default())?;
    let machine = Machine::of(&device, 0);
    if !device.is_cuda() {
        let text = "candidates are checked on the emulator, and none is timed: its times say nothing of a GPU";
        let remark = match context.device_choice() {
            DeviceChoice::Emulator => Remark::note(text),
            _ => Remark::warning(text),
        };
        context.speaker.remark(&remark);
        return Ok(Bench {
            machine,
            gpus: Vec::new(),
        });
    }
    let mut gpus = vec![0];
    for ordinal in 1.. {
        let Ok(other) = Device::cuda(ordinal) else {
            break;
        };
        let its = Machine::of(&other, ordinal);
        if its == machine {
            gpus.push(ordinal);
        } else {
            let text = format!("GPU {ordinal} takes no part: it is {its}, and GPU 0 is {machine}");
            let help =
                "records are of one kind of GPU; CUDA_VISIBLE_DEVICES chooses those of another";
            context.speaker.remark(&Remark::note(text).with_help(help));
        }
    }
    Ok(Bench { machine, gpus })
}

/// Says which records do not hold any more.
fn name_stale(context: &Context, work: &[Work], (records, machine): (&Records, &Machine)) {
    for one in work {
        let is_stale =
            |tried: &&work::Tried| records.is_stale(&one.key(tried.at, machine), &tried.digest);
        let stale: Vec<&str> = one
            .tried
            .iter()
            .filter(is_stale)
            .map(|tried| one.space[tried.at].name.as_str())
            .collect();
        if let Some(first) = stale.first() {
            let text = format!(
                "{}: {} stale, and measured again: what is compiled for `{first}` is not what it was",
                one.about,
                match stale.len() {
                    1 => "1 record is".to_string(),
                    number => format!("{number} records are"),
                }
            );
            context.speaker.remark(&Remark::note(text));
        }
    }
}

/// Has the processes of all GPUs work off their jobs, and notes what they say.
fn work_off(
    context: &Context,
    request: &TuneRequest,
    bench: &Bench,
    jobs: Vec<TuneJob>,
    ledger: &mut Ledger<'_>,
) -> Done<()> {
    let choice = if bench.gpus.is_empty() {
        DeviceChoice::Emulator
    } else {
        DeviceChoice::Cuda
    };
    // The verb is another one.
    let filters = Vec::new();
    let template = context.request_like(choice, Verb::List { filters });
    let gpus: Vec<Option<usize>> = match &bench.gpus[..] {
        [] => vec![None],
        gpus => gpus.iter().copied().map(Some).collect(),
    };
    let mut shares: Vec<TuneShare> = gpus
        .into_iter()
        .map(|gpu| TuneShare {
            gpu,
            jobs: Vec::new(),
            seed: request.seed,
            exhaustive: request.exhaustive,
            time_limit_ms: request.time_limit_ms,
        })
        .collect();
    let workers = shares.len();
    for (at, job) in jobs.into_iter().enumerate() {
        shares[at % workers].jobs.push(job);
    }
    let (sender, results) = channel();
    let mut failure = None;
    std::thread::scope(|scope| {
        for share in shares {
            let (sender, template) = (sender.clone(), &template);
            scope.spawn(move || {
                let tell = |said| drop(sender.send(Ok(said)));
                if let Err(error) = worker::work_off(template, share, &tell) {
                    drop(sender.send(Err(error)));
                }
            });
        }
        drop(sender);
        for said in results {
            let noted = said.and_then(|said| ledger.note(context, &said));
            failure = failure.take().or(noted.err());
        }
    });
    failure.map_or(Ok(()), |error| {
        Err(context.speaker.failure(&Remark::error(error.to_string())))
    })
}

/// The results of all runs, and the file they are written to.
struct Ledger<'w> {
    work: &'w [Work],
    machine: &'w Machine,
    seed: u64,
    records: Records,
    appending: Appending,
    verdict: Verdict,
}

impl Ledger<'_> {
    /// What is left to do.
    fn jobs(&self, bench: &Bench, exhaustive: bool) -> Vec<TuneJob> {
        let all = self
            .work
            .iter()
            .map(|one| one.job(&self.records, self.machine));
        let is_left = |job: &TuneJob| {
            let candidates = &job.candidates;
            if bench.gpus.is_empty() {
                return candidates.iter().any(|candidate| !candidate.is_checked);
            }
            let heats: Vec<_> = candidates.iter().map(|one| &one.heats[..]).collect();
            halving::next(&heats, exhaustive).is_some()
        };
        all.filter(is_left).collect()
    }

    /// Writes what a process has said, and shows a run when it is done.
    fn note(&mut self, context: &Context, said: &Said) -> std::io::Result<()> {
        let work = self.work;
        let name = |job: &usize, at: &usize| {
            let one = work.iter().find(|one| one.number == *job);
            one.map(|one| (one, *at))
        };
        let (found, outcome) = match said {
            Said::At { job, at } => {
                if let Some((one, at)) = name(job, at) {
                    let text = format!("{} {}", one.about, one.space[at].name);
                    context.speaker.step(&text);
                }
                return Ok(());
            }
            Said::Done { job, seconds } => {
                context.speaker.stepped();
                if let Some(one) = work.iter().find(|one| one.number == *job) {
                    self.conclude(context, one, Some(*seconds));
                }
                return Ok(());
            }
            Said::Right { job, at } => (name(job, at), Outcome::Right),
            Said::Wrong { job, at, message } => {
                let message = message.clone();
                (name(job, at), Outcome::Wrong { message })
            }
            Said::Failed { job, at, message } => {
                let message = message.clone();
                (name(job, at), Outcome::Failed { message })
            }
            Said::Timed {
                job,
                at,
                heat,
                single_us,
                back_to_back_us,
                clock_mhz,
            } => (
                name(job, at),
                Outcome::Timed {
                    heat: *heat,
                    seed: self.seed,
                    single_us: single_us.clone(),
                    back_to_back_us: back_to_back_us.clone(),
                    clock_mhz: *clock_mhz,
                },
            ),
        };
        let Some((one, at)) = found else {
            return Ok(());
        };
        let mut tried = one.tried.iter().filter(|tried| tried.at == at);
        let Some(tried) = tried.next() else {
            return Ok(());
        };
        if !matches!(outcome, Outcome::Timed { .. }) {
            context.speaker.stepped();
        }
        let key = one.key(at, self.machine);
        let predicted = one.space[at].predicted_us;
        let record = Record::new(key, &tried.digest, predicted, outcome);
        self.records.add(&record);
        self.appending.add(&record)
    }

    /// Shows the results of a run.
    fn conclude(&mut self, context: &Context, one: &Work, seconds: Option<f64>) {
        let ranking = Ranking::of(one, &self.records, self.machine);
        for (name, why) in ranking.failures() {
            let text = format!("{}: candidate `{name}` {why}", one.about);
            context.speaker.remark(&Remark::warning(text));
        }
        context.speaker.tell(&ranking.text(one, seconds), || {
            ranking.event(one, self.machine, seconds)
        });
        if !ranking.has_right() {
            let text = format!("{}: no candidate gave right results", one.about);
            context.speaker.failure(&Remark::error(text));
            self.verdict.note(Exit::Untuned);
        } else if self.machine.multiprocessors == 0 && ranking.failures().next().is_some() {
            self.verdict.note(Exit::KernelFailed);
        }
    }
}

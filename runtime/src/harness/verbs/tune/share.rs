//! The process that checks and times candidates: the verb `tune-share`. A candidate may end it; who has started it then knows which candidate that was.

use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::nvml::Managed;

use super::ahead::Ahead;
use super::halving::{HEATS, next};
use super::said::Said;
use super::work::path_of;
use crate::case::Bed;
use crate::case::{BenchOptions, CaseCache, CaseEntry, CaseOutcome, Heats, Mode, Ready, Sizes};
use crate::cuda::Watchdog;
use crate::device::Device;
use crate::error::Error;
use crate::harness::Exit;
use crate::harness::context::{Context, Done};
use crate::harness::request::{TuneCandidate, TuneJob, TuneShare, TuneTimes};
use crate::harness::verbs::run::bed;
use crate::report::Remark;
use crate::stream::Stream;

/// What a launch on a GPU may take: candidates are near to each other, and the slowest cases take a second.
const LAUNCH_LIMIT: Duration = Duration::from_secs(10);

pub(in crate::harness) fn share(context: &Context, request: &TuneShare) -> Done {
    let device = match request.gpu {
        Some(ordinal) => {
            Device::cuda(ordinal).map_err(|error| context.speaker.error("", &error))?
        }
        None => Device::emulator(),
    };
    let stream = Stream::new(&device).map_err(|error| context.speaker.error("", &error))?;
    let ahead = Ahead::new(&request.jobs, &device);
    let share = Share {
        context,
        request,
        ahead: &ahead,
        device: &device,
        stream: &stream,
        managed: request.gpu.and_then(|gpu| Managed::of(gpu).ok()),
    };
    std::thread::scope(|scope| {
        ahead.start(scope);
        let jobs = request.jobs.iter().enumerate();
        let mut ended = jobs.map(|(place, job)| share.run(place, job));
        let lost = ended.find_map(Result::err);
        ahead.stop();
        lost.map_or(Ok(Exit::Success), Err)
    })
}

/// What all runs of this process share.
struct Share<'a> {
    context: &'a Context,
    request: &'a TuneShare,
    ahead: &'a Ahead<'a>,
    device: &'a Device,
    stream: &'a Stream,
    managed: Option<Arc<Managed>>,
}

/// A candidate in this process.
struct Entrant<'j> {
    candidate: &'j TuneCandidate,
    /// Its place in the job.
    place: usize,
    heats: Vec<TuneTimes>,
    is_checked: bool,
    is_out: bool,
    /// Its number among those that can be timed.
    number: Option<usize>,
}

/// One run, with what its candidates share.
struct Run<'j> {
    job: &'j TuneJob,
    /// Its place among those of this process.
    place: usize,
    entry: &'static CaseEntry,
    sizes: Sizes,
    cache: Arc<CaseCache>,
}

impl Share<'_> {
    /// Checks and times the candidates of one run.
    fn run(&self, place: usize, job: &TuneJob) -> Done<()> {
        let mut entries = CaseEntry::all().into_iter();
        let Some(entry) = entries.find(|entry| path_of(entry) == job.case) else {
            let remark = Remark::error(format!("there is no case `{}`", job.case));
            let help = "a request of this kind is made by `tune`, for the same program";
            self.context.speaker.failure(&remark.with_help(help));
            return Err(Exit::Usage);
        };
        let run = Run {
            job,
            place,
            entry,
            sizes: Sizes::of(&job.sizes),
            cache: Arc::default(),
        };
        let candidates = job.candidates.iter().enumerate();
        let mut entrants: Vec<Entrant<'_>> = candidates
            .map(|(place, candidate)| Entrant {
                candidate,
                place,
                heats: candidate.heats.clone(),
                is_checked: candidate.is_checked,
                is_out: false,
                number: None,
            })
            .collect();
        let seconds = if self.device.is_cuda() {
            self.time(&run, &mut entrants)?
        } else {
            for entrant in entrants.iter_mut().filter(|entrant| !entrant.is_checked) {
                self.prepare(&run, entrant)?;
            }
            0.0
        };
        self.say(&Said::Done {
            job: job.number,
            seconds,
        });
        Ok(())
    }

    /// Heat after heat; gives what they took together, seconds.
    fn time(&self, run: &Run<'_>, entrants: &mut [Entrant<'_>]) -> Done<f64> {
        let mut heats = Heats::new(self.stream, options(), LAUNCH_LIMIT);
        let mut seconds = 0.0;
        loop {
            let alive: Vec<usize> = (0..entrants.len())
                .filter(|&at| !entrants[at].is_out)
                .collect();
            let known: Vec<&[TuneTimes]> =
                alive.iter().map(|&at| &entrants[at].heats[..]).collect();
            let Some((heat, among)) = next(&known, self.request.exhaustive) else {
                return Ok(seconds);
            };
            let among: Vec<usize> = among.into_iter().map(|place| alive[place]).collect();
            for &at in &among {
                let entrant = &mut entrants[at];
                if entrant.number.is_none() {
                    let ready = self.prepare(run, entrant)?;
                    entrant.number = ready.map(|ready| heats.add(&entrant.candidate.name, ready));
                }
            }
            // Others may take the places of those that are out now.
            if among.iter().all(|&at| !entrants[at].is_out) {
                let started = Instant::now();
                self.hold(run, (&mut heats, heat), (entrants, &among))?;
                seconds += started.elapsed().as_secs_f64();
            }
        }
    }

    /// One heat.
    fn hold(
        &self,
        run: &Run<'_>,
        (heats, heat): (&mut Heats<'_>, usize),
        (entrants, among): (&mut [Entrant<'_>], &[usize]),
    ) -> Done<()> {
        let job = run.job.number;
        let rule = &HEATS[heat];
        let of = |number: usize| {
            let mut found = among
                .iter()
                .filter(|&&at| entrants[at].number == Some(number));
            found.next().map_or(0, |&at| entrants[at].candidate.at)
        };
        let numbers: Vec<usize> = among.iter().filter_map(|&at| entrants[at].number).collect();
        let mut at_work = None;
        let mut begin = |number: usize| {
            if at_work != Some(number) {
                self.say(&Said::At {
                    job,
                    at: of(number),
                });
            }
            at_work = Some(number);
        };
        let seed = self.request.seed.wrapping_mul(16) + heat as u64;
        let timed = heats.run(&numbers, (rule.rounds, seed, rule.slice), &mut begin);
        let timed = timed.map_err(|error| {
            // Work of the one in front may show its failure here; it is said of whoever is at work, and is tried alone with the next.
            self.say(&Said::Failed {
                job,
                at: at_work.map_or(0, of),
                message: first_line(&error),
            });
            Exit::KernelFailed
        })?;
        let clock_mhz = self.managed.as_ref().and_then(|gpu| gpu.clock_mhz());
        for (&at, times) in among.iter().zip(timed) {
            let entrant = &mut entrants[at];
            let of_series = |samples: &crate::case::Series| -> (Vec<f32>, u64) {
                let us = samples.samples_ms.iter().map(|ms| (ms * 1e6).round() / 1e3);
                (us.collect(), (samples.median_ms() * 1e6).round() as u64)
            };
            let (single_us, single_ns) = of_series(&times.single);
            let (back_to_back_us, back_to_back_ns) = of_series(&times.back_to_back);
            entrant.heats.truncate(heat);
            entrant.heats.push(TuneTimes {
                single_ns,
                back_to_back_ns,
            });
            self.say(&Said::Timed {
                job,
                at: entrant.candidate.at,
                heat,
                single_us,
                back_to_back_us,
                clock_mhz,
            });
        }
        Ok(())
    }

    /// Runs a candidate once and has its results compared, unless they were before; gives its launches where it is to be timed.
    fn prepare(&self, run: &Run<'_>, entrant: &mut Entrant<'_>) -> Done<Option<Ready>> {
        let (job, at) = (run.job.number, entrant.candidate.at);
        self.say(&Said::At { job, at });
        let compiler = self.ahead.compiler((run.place, entrant.place));
        let bed = Bed {
            cache: Some(Arc::clone(&run.cache)),
            launch_limit: LAUNCH_LIMIT,
            ..bed(self.device, compiler)
        };
        let mode = if self.device.is_cuda() {
            Mode::Ready {
                bed,
                options: options(),
                is_checked: entrant.is_checked,
            }
        } else {
            Mode::Check(bed)
        };
        let limit = Duration::from_millis(self.request.time_limit_ms);
        let name = &entrant.candidate.name;
        let help = if self.device.is_cuda() {
            // A launch has a limit of its own, whose message speaks of deadlocks.
            "its inputs and its reference on the CPU count; `--time-limit` gives it longer, and smaller sizes take less"
        } else {
            "`--time-limit` gives it longer on the emulator, and smaller sizes take less"
        };
        let _watchdog = Watchdog::saying(name, limit, help);
        let (CaseOutcome { report, result }, ready) =
            run.entry.run_candidate(&run.sizes, &mode, Some(at));
        let compares = entrant.is_checked || !report.agreements.is_empty();
        let result = result.and_then(|()| {
            let case = run.entry.name.to_string();
            compares
                .then_some(())
                .ok_or(Error::NothingExpected { case })
        });
        let Err(error) = result else {
            if !entrant.is_checked {
                self.say(&Said::Right { job, at });
            }
            entrant.is_checked = true;
            if self.device.is_cuda() && ready.is_none() {
                entrant.is_out = true;
                let message = "it launches nothing, so that there is nothing to time".to_string();
                self.say(&Said::Failed { job, at, message });
            }
            return Ok(ready);
        };
        entrant.is_out = true;
        let message = first_line(&error);
        self.say(&match error {
            Error::WrongResult(_) | Error::WrittenOutside { .. } => {
                Said::Wrong { job, at, message }
            }
            _ => Said::Failed { job, at, message },
        });
        match error {
            // A kernel that fails takes its context with it: nothing after it can be judged.
            Error::KernelFailed { .. } | Error::Cuda(_) if self.device.is_cuda() => {
                Err(Exit::KernelFailed)
            }
            _ => Ok(None),
        }
    }

    fn say(&self, said: &Said) {
        let object = serde_json::to_value(said).expect("numbers and texts");
        self.context.speaker.event(&object);
    }
}

/// How candidates are timed.
fn options() -> BenchOptions {
    BenchOptions {
        rest: Duration::from_millis(2),
        ..BenchOptions::default()
    }
}

fn first_line(error: &Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_string()
}

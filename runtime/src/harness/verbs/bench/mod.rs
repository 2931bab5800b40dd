//! `bench`: how long the launches of a case take, beside peers where it names some, and what that is worth.

mod baseline;
mod chart;
mod conditions;
mod counters;
mod counting;
mod figures;
mod modelled;
mod roofline;
mod table;
mod waits;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use machine::nvml::Managed;
use serde_json::{Value, json};

use super::run::{Runner, Shown, Table};
use crate::case::{BenchOptions, CaseReport};
use crate::device::Device;
use crate::emulated::Modelled;
use crate::harness::Exit;
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::device::Emulation;
use crate::harness::files;
use crate::harness::replaced::Replaced;
use crate::harness::request::BenchRequest;
use crate::harness::speak::{Speaker, Verdict};
use crate::report::Remark;

use baseline::Baselines;
use chart::Charts;
use counting::Counting;
use figures::Figures;
use modelled::ModelledFigures;

/// How many times the bytes of other runs on the emulator the tensors of a modelled one may have.
const MODELLED_TENSORS: usize = 16;

pub(in crate::harness) fn bench(context: &mut Context, request: &BenchRequest) -> Done {
    let catalog = context.catalog(&request.filters)?;
    let replaced = context.replaced()?;
    let filters = &request.filters;
    let selected = context.runs(&catalog, filters)?;
    check_files(request).map_err(|error| unwritten(&error, &context.speaker))?;
    let device = open_device(context)?;
    let counting = counting(context, request, &device, &replaced)?;
    let limit = limit_bytes(context, &device);
    let compiler = || Context::compiler(&replaced);
    let runner = Runner::benching(&device, compiler(), limit, options(request));
    let checker = Runner::new(&device, compiler(), limit);
    let mut baselines = Baselines::open(context, request, &device)?;
    let mut charts = Charts::new(on(&device));
    let table = Table::new(&selected);
    context.speaker.begin(selected.len());
    let mut verdict = Verdict::good();
    let bench = Bench {
        context,
        runner: &runner,
        checker: &checker,
        table: &table,
        request,
    };
    let mut timed = Vec::new();
    for (case, run) in selected {
        let speaker = &context.speaker;
        speaker.step(&format!("{} {}", case.entry.name, run.sizes));
        if let Some(why) = runner.why_not(run) {
            speaker.remark(&Remark::note(format!(
                "{} is left out: {why}",
                case.about(run)
            )));
        } else {
            match bench.run(case, run) {
                Ok(Some(found)) if counting.is_some() => timed.push(found),
                Ok(Some(found)) => {
                    let concluded = bench.conclude(&found, &mut charts);
                    match concluded {
                        Ok(event) => baselines.note(context, &table.prefix(case, run), &event),
                        Err(exit) => verdict.note(exit),
                    }
                }
                Ok(None) => {}
                Err(exit) => verdict.note(exit),
            }
        }
        context.speaker.stepped();
    }
    // Counting follows all timing, so that no time is taken of a GPU that was profiled just before.
    for mut found in timed {
        let (case, run) = (found.case, found.run);
        if let Some(counting) = &counting {
            verdict.note(bench.count(&mut found, counting));
        }
        match bench.conclude(&found, &mut charts) {
            Ok(event) => baselines.note(context, &table.prefix(case, run), &event),
            Err(exit) => verdict.note(exit),
        }
    }
    context.speaker.end();
    verdict.note(draw(context, request, &charts));
    verdict.note(baselines.conclude(context));
    Ok(verdict.exit())
}

/// The device, and what is to be known of times there.
fn open_device(context: &Context) -> Done<Device> {
    let emulation = Emulation {
        is_modelling: true,
        ..Emulation::default()
    };
    let device = context.open_device(emulation)?;
    if device.is_modelling() {
        let text = "times are those of a model of an H200; nothing is measured, and results are not compared";
        context.speaker.remark(&Remark::warning(text));
    }
    let lack = device.ordinal().and_then(|gpu| Managed::of(gpu).err());
    if let Some(lack) = lack {
        let remark = Remark::note(format!("clocks and power are not known: {lack}"));
        context.speaker.remark(&match lack.help() {
            Some(help) => remark.with_help(help),
            None => remark,
        });
    }
    Ok(device)
}

/// What counts, and predicts what is counted, where that is wanted.
fn counting(
    context: &Context,
    request: &BenchRequest,
    device: &Device,
    replaced: &Replaced,
) -> Done<Option<Counting>> {
    if !request.counters {
        return Ok(None);
    }
    counters::check(context, device)?;
    let limit = context.emulator_limit_bytes();
    let limit = limit.saturating_mul(MODELLED_TENSORS);
    let timing = options(request);
    Ok(Some(Counting::new(device, replaced, timing, limit)))
}

/// The most bytes that the tensors of a case may have: a few CTAs of a large one take no longer than all of a small one.
fn limit_bytes(context: &Context, device: &Device) -> Option<usize> {
    let times = if device.is_modelling() {
        MODELLED_TENSORS
    } else {
        1
    };
    let limit = context.tensor_limit(device)?;
    Some(limit.saturating_mul(times))
}

/// What cannot be written is said before the minutes of timing, not after.
fn check_files(request: &BenchRequest) -> std::io::Result<()> {
    if let Some(path) = &request.record {
        files::check_appendable(path)?;
    }
    for path in [&request.chart, &request.roofline].into_iter().flatten() {
        let is_new = !path.exists();
        files::check_appendable(path)?;
        if is_new {
            files::remove(path)?;
        }
    }
    Ok(())
}

fn options(request: &BenchRequest) -> BenchOptions {
    let options = BenchOptions {
        samples: request.samples,
        rounds: request.samples.min(BenchOptions::default().rounds),
        sustained: Duration::from_millis(request.sustained_ms),
        ..BenchOptions::default()
    };
    if request.hot { options.hot() } else { options }
}

/// On what times are taken, for a title.
fn on(device: &Device) -> String {
    if device.is_modelling() {
        return "an H200 as modelled".to_string();
    }
    device.facts().name.clone()
}

/// Draws what was requested: in the terminal, and as files.
fn draw(context: &Context, request: &BenchRequest, charts: &Charts) -> Exit {
    let mut exit = Exit::Success;
    let mut show = |path: &Path, (text, svg): (String, String)| {
        let speaker = &context.speaker;
        if let Err(error) = files::write_whole(path, svg.as_bytes()) {
            exit = unwritten(&error, speaker);
            return;
        }
        speaker.tell(
            &text,
            || json!({ "reason": "tilekit-picture", "file": path }),
        );
        speaker.remark(&Remark::note(format!("drawn in {}", path.display())));
    };
    if charts.is_empty() {
        return Exit::Success;
    }
    if let Some(path) = &request.chart {
        show(path, charts.bars());
    }
    if let Some(path) = &request.roofline {
        if let Some(drawn) = charts.roofline() {
            show(path, drawn);
        } else {
            let text = "no roofline: no run says both its operations and its bytes, on a device whose peaks are known";
            let help = "a case says them by `case.does_flops(..)` or `case.does_tensor_flops::<T>(..)`, and `case.moves_bytes(..)`";
            context
                .speaker
                .remark(&Remark::warning(text).with_help(help));
        }
    }
    exit
}

/// What all runs share.
struct Bench<'b> {
    context: &'b Context,
    runner: &'b Runner,
    checker: &'b Runner,
    table: &'b Table,
    request: &'b BenchRequest,
}

/// A run that was timed, or modelled.
struct Timed<'c> {
    case: &'c CaseItem,
    run: &'c RunItem,
    report: CaseReport,
    checks: Vec<String>,
    /// What the model says of launches that were counted.
    modelled: Vec<(String, Modelled)>,
}

impl Bench<'_> {
    /// Checks a run where peers will be compared with its results, times it, and shows its times to people.
    fn run<'c>(&self, case: &'c CaseItem, run: &'c RunItem) -> Done<Option<Timed<'c>>> {
        let speaker = &self.context.speaker;
        let about = case.about(run);
        if run.described.ranks.is_some() && self.runner.is_modelling() {
            let text = format!(
                "{about} is left out: launches on several devices are not modelled; time them on GPUs"
            );
            speaker.remark(&Remark::note(text));
            return Ok(None);
        }
        let Some(checks) = self.checks(case, run)? else {
            return Ok(None);
        };
        let outcome = case.entry.run(&run.sizes, self.runner.mode());
        if let Err(error) = &outcome.result {
            return Err(speaker.error(&about, error));
        }
        let timed = Timed {
            case,
            run,
            report: outcome.report,
            checks,
            modelled: Vec::new(),
        };
        let prefix = self.table.prefix(case, run);
        let text = if let Some(figures) = ModelledFigures::of(&timed.report) {
            figures.text(&prefix)
        } else if let Some(figures) = self.figures(&timed) {
            figures.text(&prefix)
        } else {
            let text = format!("{about} launches nothing, so there is nothing to time");
            speaker.remark(&Remark::warning(text));
            return Ok(None);
        };
        if !speaker.is_json() {
            speaker.print(&text);
        }
        Ok(Some(timed))
    }

    fn figures<'t>(&self, timed: &'t Timed<'_>) -> Option<Figures<'t>> {
        Figures::of(&timed.report, timed.checks.clone(), self.runner.facts())
    }

    /// Counts a run that was timed, shows that to people, and keeps it with the times.
    fn count(&self, timed: &mut Timed<'_>, counting: &Counting) -> Exit {
        let (case, run) = (timed.case, timed.run);
        let speaker = &self.context.speaker;
        speaker.step(&format!("counters of {} {}", case.entry.name, run.sizes));
        if let Err(error) = counting.count(case, run, &mut timed.report) {
            return speaker.error(&case.about(run), &error);
        }
        match counting.predict(case, run) {
            Ok(modelled) => timed.modelled = modelled,
            Err(why) => {
                let text = format!("{} is not modelled: {why}", case.about(run));
                speaker.remark(&Remark::note(text));
            }
        }
        let Some(figures) = self.figures(timed) else {
            return Exit::Success;
        };
        let counted = figures.counters();
        let found = counters::matched(&counted, timed.modelled.iter().collect());
        let sources = self.context.sources();
        let pairs = counted.iter().zip(found);
        let texts: String = pairs
            .map(|(counters, modelled)| counters::text(counters, modelled, &sources))
            .collect();
        if !speaker.is_json() {
            speaker.print(&texts);
        }
        Exit::Success
    }

    /// Everything that is known of a run: for machines, for pictures and for the file of records.
    fn conclude(&self, timed: &Timed<'_>, charts: &mut Charts) -> Done<Value> {
        let (case, run) = (timed.case, timed.run);
        let event = if let Some(figures) = ModelledFigures::of(&timed.report) {
            charts.push(figures.work(case, run));
            figures.event(case, run)
        } else if let Some(figures) = self.figures(timed) {
            charts.push(figures.work(case, run));
            let mut event = figures.event(case, run, self.runner.device());
            if self.request.counters {
                event["modelled"] = timed.modelled.iter().map(modelled::launch).collect();
            }
            for note in figures.notes() {
                self.context.speaker.remark(&Remark::note(note));
            }
            event
        } else {
            Value::Null
        };
        if self.context.speaker.is_json() {
            self.context.speaker.event(&event);
        }
        self.recorded(event)
    }

    /// What was compared; none where the run is left out.
    fn checks(&self, case: &CaseItem, run: &RunItem) -> Done<Option<Vec<String>>> {
        if run.described.peers.is_empty() || self.runner.is_modelling() {
            return Ok(Some(Vec::new()));
        }
        let speaker = &self.context.speaker;
        let about = case.about(run);
        match self.checker.run(case, run) {
            Shown::Passed(passed) => Ok(Some(passed.checks)),
            Shown::Failed(error) => Err(speaker.error(&about, &error)),
            Shown::Skipped(why) => {
                speaker.remark(&Remark::note(format!("{about} is left out: {why}")));
                Ok(None)
            }
        }
    }

    fn recorded(&self, event: Value) -> Done<Value> {
        if let Some(path) = &self.request.record {
            append(path, &format!("{event}\n"), &self.context.speaker)?;
        }
        Ok(event)
    }
}

fn append(path: &Path, text: &str, speaker: &Speaker) -> Done<()> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| unwritten(&files::failed(path, "written", &error), speaker))
}

fn unwritten(error: &std::io::Error, speaker: &Speaker) -> Exit {
    speaker.failure(&Remark::error(error.to_string()));
    Exit::Usage
}

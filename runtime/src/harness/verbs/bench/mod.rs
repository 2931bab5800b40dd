//! `bench`: how long the launches of a case take, beside peers where it names some, and what that is worth.

mod baseline;
mod chart;
mod conditions;
mod counters;
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
use crate::case::BenchOptions;
use crate::device::Device;
use crate::emulated::Modelled;
use crate::harness::Exit;
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::device::Emulation;
use crate::harness::files;
use crate::harness::replaced::Replaced;
use crate::harness::request::BenchRequest;
use crate::harness::select::Selection;
use crate::harness::speak::{Speaker, Verdict};
use crate::report::Remark;

use baseline::Baselines;
use chart::Charts;
use counters::Prediction;
use figures::Figures;
use modelled::ModelledFigures;

/// How many times the bytes of other runs on the emulator the tensors of a modelled one may have.
const MODELLED_TENSORS: usize = 16;

pub(in crate::harness) fn bench(context: &mut Context, request: &BenchRequest) -> Done {
    let catalog = context.catalog(&request.filters)?;
    let replaced = context.replaced()?;
    let filters = &request.filters;
    let selection = Selection::new(filters, &catalog);
    let all = catalog
        .cases
        .iter()
        .flat_map(|case| case.runs.iter().map(move |run| (case, run)));
    let selected = all.filter(|(case, run)| selection.run(case, run)).collect();
    let selected: Vec<(&CaseItem, &RunItem)> = context.expect_some(selected, filters, &catalog)?;
    check_files(request).map_err(|error| unwritten(&error, &context.speaker))?;
    let device = open_device(context)?;
    let prediction = predict(context, request, &device, &replaced)?;
    let limit = limit_bytes(context, &device);
    let compiler = || Context::compiler(&replaced);
    let runner = Runner::benching(&device, compiler(), limit, options(request));
    let checker = Runner::new(&device, compiler(), limit);
    let mut baselines = Baselines::open(context, request, &device)?;
    let mut charts = Charts::new(on(&device));
    let table = Table::new(&selected);
    context.speaker.begin(selected.len());
    let mut verdict = Verdict::good();
    for (case, run) in selected {
        let speaker = &context.speaker;
        speaker.step(&format!("{} {}", case.entry.name, run.sizes));
        if let Some(why) = runner.why_not(run) {
            speaker.remark(&Remark::note(format!(
                "{} is left out: {why}",
                case.about(run)
            )));
        } else {
            let bench = Bench {
                context,
                runner: &runner,
                checker: &checker,
                prediction: prediction.as_ref(),
                table: &table,
                request,
            };
            match bench.run((case, run), &mut charts) {
                Ok(Some(event)) => baselines.note(context, &table.prefix(case, run), &event),
                Ok(None) => {}
                Err(exit) => verdict.note(exit),
            }
        }
        context.speaker.stepped();
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
    let is_managed = |gpu| Managed::of(gpu).is_some();
    if device.ordinal().is_some_and(|gpu| !is_managed(gpu)) {
        let text = "clocks and power are not known: there is no NVML (libnvidia-ml.so.1)";
        context.speaker.remark(&Remark::note(text));
    }
    Ok(device)
}

/// What predicts the figures that will be counted, where they will be.
fn predict(
    context: &Context,
    request: &BenchRequest,
    device: &Device,
    replaced: &Replaced,
) -> Done<Option<Prediction>> {
    if !request.counters {
        return Ok(None);
    }
    counters::check(context, device)?;
    let limit = context.emulator_limit_bytes();
    let limit = limit.saturating_mul(MODELLED_TENSORS);
    Ok(Some(Prediction::new(replaced, limit)))
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
        counters: request.counters,
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
    prediction: Option<&'b Prediction>,
    table: &'b Table,
    request: &'b BenchRequest,
}

impl Bench<'_> {
    /// Checks a run where peers will be compared with its results, times it and reports. Gives its figures, if it has any.
    fn run(&self, (case, run): (&CaseItem, &RunItem), charts: &mut Charts) -> Done<Option<Value>> {
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
        if let Some(figures) = ModelledFigures::of(&outcome.report) {
            charts.push(figures.work(case, run));
            let event = figures.event(case, run);
            speaker.tell(&figures.text(&self.table.prefix(case, run)), || {
                event.clone()
            });
            return self.recorded(event);
        }
        let Some(figures) = Figures::of(&outcome.report, checks, self.runner.facts()) else {
            let text = format!("{about} launches nothing, so there is nothing to time");
            speaker.remark(&Remark::warning(text));
            return Ok(None);
        };
        charts.push(figures.work(case, run));
        let mut event = figures.event(case, run, self.runner.device());
        let mut text = figures.text(&self.table.prefix(case, run));
        if let Some(prediction) = self.prediction {
            let modelled = self.modelled(prediction, (case, run));
            let counted = figures.counters();
            let found = counters::matched(&counted, modelled.iter().collect());
            let pairs = counted.iter().zip(found);
            let sources = self.context.sources();
            text.extend(
                pairs.map(|(counters, modelled)| counters::text(counters, modelled, &sources)),
            );
            event["modelled"] = modelled.iter().map(modelled::launch).collect();
        }
        speaker.tell(&text, || event.clone());
        for note in figures.notes() {
            speaker.remark(&Remark::note(note));
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

    /// What the model says of the launches of a run; nothing, and why, where it says nothing.
    fn modelled(
        &self,
        prediction: &Prediction,
        (case, run): (&CaseItem, &RunItem),
    ) -> Vec<(String, Modelled)> {
        prediction.of(case, run).unwrap_or_else(|why| {
            let text = format!("{} is not modelled: {why}", case.about(run));
            self.context.speaker.remark(&Remark::note(text));
            Vec::new()
        })
    }

    fn recorded(&self, event: Value) -> Done<Option<Value>> {
        if let Some(path) = &self.request.record {
            append(path, &format!("{event}\n"), &self.context.speaker)?;
        }
        Ok(Some(event))
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

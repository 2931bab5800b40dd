//! `bench`: how long the launches of a case take, beside peers where it names some, and what that is worth.

mod baseline;
mod figures;
mod modelled;
mod roofline;
mod table;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::run::{Runner, Shown, Table};
use crate::case::BenchOptions;
use crate::harness::Exit;
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::device::Emulation;
use crate::harness::files;
use crate::harness::request::BenchRequest;
use crate::harness::select::Selection;
use crate::harness::speak::{Speaker, Verdict};
use crate::report::Remark;

use baseline::Baselines;
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
    if let Some(path) = &request.record {
        // What cannot be written is said before the minutes of timing, not after.
        files::check_appendable(path).map_err(|error| unwritten(&error, &context.speaker))?;
    }
    let emulation = Emulation {
        is_modelling: true,
        ..Emulation::default()
    };
    let device = context.open_device(emulation)?;
    if device.is_modelling() {
        let text = "times are those of a model of an H200; nothing is measured, and results are not compared";
        context.speaker.remark(&Remark::warning(text));
    }
    let limit = context.tensor_limit(&device);
    // A few CTAs of a large case take no longer than all of a small one.
    let limit = limit.map(|bytes| {
        let times = if device.is_modelling() {
            MODELLED_TENSORS
        } else {
            1
        };
        bytes.saturating_mul(times)
    });
    let compiler = || Context::compiler(&replaced);
    let runner = Runner::benching(&device, compiler(), limit, options(request));
    let checker = Runner::new(&device, compiler(), limit);
    let mut baselines = Baselines::open(context, request, runner.device(), runner.facts())?;
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
            let runners = (&runner, &checker);
            match bench_run(context, runners, &table, request, (case, run)) {
                Ok(Some(event)) => baselines.note(context, &table.prefix(case, run), &event),
                Ok(None) => {}
                Err(exit) => verdict.note(exit),
            }
        }
        context.speaker.stepped();
    }
    context.speaker.end();
    verdict.note(baselines.conclude(context));
    Ok(verdict.exit())
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

/// Checks a run where peers will be compared with its results, times it and reports. Gives its figures, if it has any.
fn bench_run(
    context: &Context,
    (runner, checker): (&Runner, &Runner),
    table: &Table,
    request: &BenchRequest,
    (case, run): (&CaseItem, &RunItem),
) -> Done<Option<Value>> {
    let speaker = &context.speaker;
    let about = case.about(run);
    if run.described.ranks.is_some() && runner.is_modelling() {
        let text = format!(
            "{about} is left out: launches on several devices are not modelled; time them on GPUs"
        );
        speaker.remark(&Remark::note(text));
        return Ok(None);
    }
    let mut checks = Vec::new();
    if !run.described.peers.is_empty() && !runner.is_modelling() {
        match checker.run(case, run) {
            Shown::Passed(passed) => checks = passed.checks,
            Shown::Failed(error) => return Err(speaker.error(&about, &error)),
            Shown::Skipped(why) => {
                speaker.remark(&Remark::note(format!("{about} is left out: {why}")));
                return Ok(None);
            }
        }
    }
    let outcome = case.entry.run(&run.sizes, runner.mode());
    if let Err(error) = &outcome.result {
        return Err(speaker.error(&about, error));
    }
    if let Some(figures) = ModelledFigures::of(&outcome.report) {
        let event = figures.event(case, run);
        speaker.tell(&figures.text(&table.prefix(case, run)), || event.clone());
        if let Some(path) = &request.record {
            append(path, &format!("{event}\n"), speaker)?;
        }
        return Ok(Some(event));
    }
    let Some(figures) = Figures::of(&outcome.report, checks, runner.facts()) else {
        let text = format!("{about} launches nothing, so there is nothing to time");
        speaker.remark(&Remark::warning(text));
        return Ok(None);
    };
    let event = figures.event(case, run, runner.device());
    speaker.tell(&figures.text(&table.prefix(case, run)), || event.clone());
    for note in figures.notes() {
        speaker.remark(&Remark::note(note));
    }
    if let Some(path) = &request.record {
        append(path, &format!("{event}\n"), speaker)?;
    }
    Ok(Some(event))
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

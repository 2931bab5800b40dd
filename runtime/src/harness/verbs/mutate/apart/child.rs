//! The process that runs one mutant: the verb `trial`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ended::{Ended, Report};
use crate::case::{Bed, CaseCache, CaseReport, Mode};
use crate::cuda::Watchdog;
use crate::device::Device;
use crate::harness::Exit;
use crate::harness::context::{Context, Done};
use crate::harness::device::{Emulation, open};
use crate::harness::request::{DeviceChoice, TrialRequest};
use crate::harness::verbs::mutate::subject::{self, Run, Subject, runs_of};
use crate::harness::verbs::run::bed;
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;

/// Runs a mutant, or a kernel as it is, and writes a report of it. It ends by itself when its time is up, so that it outlives no
/// one who has stopped waiting for it.
pub(in crate::harness) fn trial(context: &Context, request: &TrialRequest) -> Done {
    let limit = Duration::from_millis(request.total_limit_ms);
    let _watchdog = Watchdog::start(&request.kernel, limit);
    let catalog = context.catalog(&request.filters)?;
    let runs = runs_of(context, &catalog, &request.filters);
    let mut variants = catalog.variants();
    let found = variants.find(|(kernel, variant)| kernel.path_of(variant) == request.kernel);
    let subject = match found {
        Some((kernel, variant)) => subject::subject(context, kernel, variant, &runs)?,
        None => None,
    };
    let Some(subject) = subject else {
        return Err(wrong(context, "no run launches such a variant", request));
    };
    let tested = match &request.mutation {
        None => subject.compiled.clone(),
        Some(wanted) => {
            let found = subject.mutation(&wanted.kind, wanted.body, wanted.statement);
            let Some(mutation) = found else {
                return Err(wrong(context, "the variant has no such mutation", request));
            };
            subject.broken(&mutation)
        }
    };
    let report = perform(context, request, (&subject, &tested), &runs)?;
    write(&request.report, &report).map_err(|error| {
        let text = format!("{}: {error}", request.report.display());
        context.speaker.failure(&Remark::error(text))
    })?;
    Ok(Exit::Success)
}

fn wrong(context: &Context, what: &str, request: &TrialRequest) -> Exit {
    let remark = Remark::error(format!("{what}: `{}`", request.kernel));
    context.speaker.failure(
        &remark.with_help("a request of this kind is made by `mutate`, for the same program"),
    );
    Exit::Usage
}

/// Runs everything that launches the kernel, small runs first, until something is found.
fn perform(
    context: &Context,
    request: &TrialRequest,
    (subject, tested): (&Subject, &Compiled),
    runs: &[Run<'_>],
) -> Done<Report> {
    let mut runs: Vec<Run<'_>> = subject.runs.iter().map(|at| runs[*at]).collect();
    runs.sort_by_key(|(_, run)| run.described.tensor_bytes);
    let caches: Vec<Arc<CaseCache>> = runs.iter().map(|_| Arc::default()).collect();
    let mut longest = Duration::ZERO;
    let mut device = None;
    let mut ended = Ended::Passed;
    'all: for repetition in 0..request.repeats {
        let device = device_of(context, &mut device, repetition)?;
        for ((case, run), cache) in runs.iter().zip(&caches) {
            let known = [(subject.path.clone(), tested.clone())].into();
            let mode = Mode::Check(Bed {
                cache: Some(Arc::clone(cache)),
                launch_limit: Duration::from_millis(request.launch_limit_ms),
                ..bed(&device, Compiler::default().knowing(known))
            });
            let outcome = case.entry.run(&run.sizes, &mode);
            longest = longest.max(longest_launch(&outcome.report));
            if let Err(error) = outcome.result {
                ended = Ended::of(&error, case.about(run));
                break 'all;
            }
        }
    }
    Ok(Report {
        ended,
        launch_ms: longest.as_secs_f64() * 1e3,
    })
}

/// The GPU, opened once, or the emulator under another schedule each time.
fn device_of(context: &Context, gpu: &mut Option<Device>, repetition: u64) -> Done<Device> {
    if let Some(device) = gpu {
        return Ok(device.clone());
    }
    let choice = context.device_choice();
    let emulation = Emulation {
        seed: (choice == DeviceChoice::Emulator).then_some(repetition),
        ..Emulation::default()
    };
    let device = open(choice, emulation, &context.speaker)?;
    if device.is_cuda() {
        *gpu = Some(device.clone());
    }
    Ok(device)
}

fn longest_launch(report: &CaseReport) -> Duration {
    let times = report.launches.iter().filter_map(|launch| launch.wall);
    times.max().unwrap_or_default()
}

/// Writes the report whole or not at all: the process may be killed at any time.
fn write(path: &Path, report: &Report) -> std::io::Result<()> {
    let beside = path.with_extension("part");
    fs::write(&beside, serde_json::to_string(report)?)?;
    fs::rename(&beside, path)
}

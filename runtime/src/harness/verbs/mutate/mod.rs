//! `mutate`: breaks the synchronization of kernels, one instruction at a time, and says which mutants no case reports.
//!
//! A kernel is traced once. Its mutants run in this process on the emulator, at every size of every case that launches it,
//! in one order of warps after another, until something is reported. On a GPU each runs in a process of its own, which it may
//! hang or lose the GPU for. Each result is recorded at once, so that an interrupted run goes on where it stopped.

mod apart;
mod emulate;
mod marks;
mod record;
mod rehearse;
pub(super) mod sample;
pub(super) mod subject;
mod table;
mod trial;
pub(super) mod workers;

use std::time::Instant;

use ptx::MutationKind;

pub(in crate::harness) use self::apart::trial;
use self::marks::Marks;
use self::subject::{Mutant, Subject, Work, runs_of};
use crate::harness::Exit;
use crate::harness::context::{Context, Done};
use crate::harness::request::{DeviceChoice, MutateRequest};
use crate::report::Remark;

pub(in crate::harness) fn mutate(context: &mut Context, request: &MutateRequest) -> Done {
    let kinds = kinds_of(context, &request.kinds)?;
    let catalog = context.catalog(&request.filters)?;
    let variants = context.variants(&catalog, &request.filters)?;
    let runs = runs_of(context, &catalog, &request.filters);
    let subjects = subject::subjects(context, &variants, &runs, &kinds)?;
    let mut mutants: Vec<Mutant> = subjects.iter().flat_map(Subject::mutants).collect();
    if let Some(limit) = request.limit {
        mutants = sample::sample(mutants, limit);
    }
    if mutants.is_empty() {
        let text =
            "no mutants: no selected kernel that a case launches on the emulator synchronizes";
        context.speaker.failure(&Remark::error(text));
        return Err(Exit::NothingSelected);
    }
    let work = Work {
        subjects: &subjects,
        mutants: &mutants,
        runs: &runs,
    };
    if request.isolate || context.device_choice() != DeviceChoice::Emulator {
        return apart::compare(context, request, &work);
    }
    in_process(context, request, &work)
}

/// Runs all mutants on the emulator in this process, and shows what is found.
fn in_process(context: &mut Context, request: &MutateRequest, work: &Work<'_>) -> Done {
    let started = Instant::now();
    let outcomes = emulate::run_all(context, request, work)?;
    let mut marks = Marks::new(context.sources());
    let judged = table::judge(work.mutants, &outcomes, &mut marks);
    let exit = table::show(context, &judged, started.elapsed(), request.seeds);
    // Other variants of a kernel may need a mark, and so may mutants that are left out.
    if request.filters.is_empty() && request.limit.is_none() {
        marks::warn_of_stale(context, &judged);
    }
    if marks.complain(context) {
        return Err(Exit::Usage);
    }
    Ok(exit)
}

/// The kinds that the command line names.
fn kinds_of(context: &Context, names: &[String]) -> Done<Vec<MutationKind>> {
    if names.is_empty() {
        return Ok(MutationKind::ALL.to_vec());
    }
    let kinds: Result<Vec<MutationKind>, String> = names.iter().map(|name| name.parse()).collect();
    kinds.map_err(|error| {
        context
            .speaker
            .failure(&Remark::error(format!("--kinds: {error}")));
        Exit::Usage
    })
}

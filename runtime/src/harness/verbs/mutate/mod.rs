//! `mutate`: breaks the synchronization of kernels, one instruction at a time, and says which mutants no case reports.
//!
//! A kernel is traced once. Its mutants run in this process on the emulator, at every size of every case that launches it,
//! in one order of warps after another, until something is reported. Each result is recorded at once, so that an
//! interrupted run goes on where it stopped.

mod marks;
mod record;
mod rehearse;
mod subject;
mod table;
mod trial;

use std::time::Instant;

use ptx::MutationKind;

use self::marks::Marks;
use self::record::Records;
use self::rehearse::Rehearsals;
use self::subject::{Mutant, Run, Subject};
use self::trial::Outcome;
use crate::harness::Exit;
use crate::harness::catalog::Catalog;
use crate::harness::context::{Context, Done};
use crate::harness::request::MutateRequest;
use crate::harness::select::Selection;
use crate::report::Remark;

pub(in crate::harness) fn mutate(context: &mut Context, request: &MutateRequest) -> Done {
    let started = Instant::now();
    let kinds = kinds_of(context, &request.kinds)?;
    let catalog = context.catalog()?;
    let variants = context.variants(&catalog, &request.filters)?;
    let runs = runs_of(context, &catalog, &request.filters);
    let subjects = subject::subjects(context, &variants, &runs, &kinds)?;
    let mutants: Vec<Mutant> = subjects.iter().flat_map(Subject::mutants).collect();
    if mutants.is_empty() {
        let text =
            "no mutants: no selected kernel that a case launches on the emulator synchronizes";
        context.speaker.failure(&Remark::error(text));
        return Err(Exit::NothingSelected);
    }
    let mut records = Records::open(context, request)?;
    context.speaker.begin(mutants.len());
    let rehearsals = Rehearsals::of(context, &subjects, &runs, request.seeds)?;
    let outcomes = run_all(context, &mutants, &rehearsals, &mut records)?;
    context.speaker.end();
    let mut marks = Marks::new(context.sources());
    let judged = table::judge(&mutants, &outcomes, &mut marks);
    let exit = table::show(context, &judged, started.elapsed(), request.seeds);
    // Other variants of a kernel may need a mark.
    if request.filters.is_empty() {
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

/// The runs that fit the emulator. Where a case is named, kernels are tried in that case alone.
fn runs_of<'c>(context: &Context, catalog: &'c Catalog, filters: &[String]) -> Vec<Run<'c>> {
    let selection = Selection::new(filters, catalog);
    let limit_bytes = context.tensor_limit(&crate::Device::emulator());
    let all = catalog
        .cases
        .iter()
        .flat_map(|case| case.runs.iter().map(move |run| (case, run)));
    all.filter(|(case, run)| {
        let fits = limit_bytes.is_none_or(|limit| run.described.tensor_bytes <= limit);
        fits && run.failure.is_none() && selection.run(case, run)
    })
    .collect()
}

/// Runs the mutants that are not recorded, on all cores, and records them.
fn run_all(
    context: &Context,
    mutants: &[Mutant],
    rehearsals: &Rehearsals<'_>,
    records: &mut Records,
) -> Done<Vec<Outcome>> {
    let mut outcomes: Vec<Option<Outcome>> = mutants
        .iter()
        .map(|mutant| records.get(mutant).cloned())
        .collect();
    let missing: Vec<usize> = (0..mutants.len())
        .filter(|at| outcomes[*at].is_none())
        .collect();
    let known = mutants.len() - missing.len();
    (0..known).for_each(|_| context.speaker.stepped());
    if known > 0 {
        let text = format!(
            "{known} of {} mutants are known from an earlier run of this build",
            mutants.len()
        );
        let help = "--fresh runs them again";
        context.speaker.remark(&Remark::note(text).with_help(help));
    }
    let mut failure = None;
    rehearse::in_parallel(
        missing.len(),
        |at| {
            let mutant = &mutants[missing[at]];
            context.speaker.step(&format!(
                "{} in {}",
                mutant.mutation.kind,
                mutant.subject.display()
            ));
            let outcome = trial::run(mutant, rehearsals);
            context.speaker.stepped();
            outcome
        },
        |at, outcome| {
            let at = missing[at];
            let written = records.add(&mutants[at], &outcome);
            failure = failure.take().or(written.err());
            outcomes[at] = Some(outcome);
        },
    );
    if let Some(error) = failure {
        return Err(context.speaker.failure(&Remark::error(error.to_string())));
    }
    Ok(outcomes.into_iter().flatten().collect())
}

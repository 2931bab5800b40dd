//! All mutants on the emulator, in this process.

use super::record::{Book, Key, Records};
use super::rehearse::Rehearsals;
use super::subject::{Subject, Work};
use super::trial::{self, Outcome};
use super::workers::{cores, in_parallel};
use crate::harness::context::{Context, Done};
use crate::harness::request::MutateRequest;
use crate::report::Remark;

/// How each mutant ends: as recorded, or by running it on one of all cores and recording it.
pub(super) fn run_all(
    context: &mut Context,
    request: &MutateRequest,
    work: &Work<'_>,
) -> Done<Vec<Outcome>> {
    let book = Book {
        name: "mutate.jsonl",
        seeds: request.seeds,
        conditions: String::new(),
        is_fresh: request.fresh,
    };
    let mut records = Records::open(context, &book)?;
    context.speaker.begin(work.mutants.len());
    let outcomes = run_missing(context, work, request.seeds, &mut records);
    context.speaker.end();
    outcomes
}

fn run_missing(
    context: &Context,
    work: &Work<'_>,
    seeds: u64,
    records: &mut Records<Outcome>,
) -> Done<Vec<Outcome>> {
    let keys: Vec<Key> = work.mutants.iter().map(Key::of).collect();
    let known = |key: &Key| records.get(key).cloned();
    let mut outcomes: Vec<Option<Outcome>> = keys.iter().map(known).collect();
    let missing: Vec<usize> = (0..keys.len())
        .filter(|at| outcomes[*at].is_none())
        .collect();
    tell_known(context, keys.len() - missing.len(), keys.len());
    let is_missing = |subject: &&Subject| {
        let mut mutants = missing.iter().map(|at| work.mutants[*at].subject);
        mutants.any(|broken| std::ptr::eq(broken, *subject))
    };
    let broken: Vec<&Subject> = work.subjects.iter().filter(is_missing).collect();
    let rehearsals = Rehearsals::of(context, (work.subjects, &broken), work.runs, seeds)?;
    let mut failure = None;
    in_parallel(
        missing.len(),
        cores(),
        |at| {
            let mutant = &work.mutants[missing[at]];
            context.speaker.step(&mutant.title());
            let outcome = trial::run(mutant, &rehearsals);
            context.speaker.stepped();
            outcome
        },
        |at, outcome| {
            let at = missing[at];
            let written = records.add(keys[at].clone(), &outcome);
            failure = failure.take().or(written.err());
            outcomes[at] = Some(outcome);
        },
    );
    match failure {
        Some(error) => Err(context.speaker.failure(&Remark::error(error.to_string()))),
        None => Ok(outcomes.into_iter().flatten().collect()),
    }
}

/// Says how many results were recorded before.
pub(super) fn tell_known(context: &Context, known: usize, all: usize) {
    (0..known).for_each(|_| context.speaker.stepped());
    if known > 0 {
        let text = format!("{known} of {all} mutants are known from an earlier run of this build");
        let help = "--fresh runs them again";
        context.speaker.remark(&Remark::note(text).with_help(help));
    }
}

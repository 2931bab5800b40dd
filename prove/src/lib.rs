//! Model checking of a kernel's barriers, for any number of loop steps.
//!
//! [`prove`] reduces each partition of a kernel, as tile IR, to its barriers, the copies and reads that they order, and the control flow
//! around them, and explores all runs of the partitions together. What only a run knows, a trip count or a condition, is decided
//! when a partition asks first, and is the same for all partitions in which it is computed alike. Rings bound how far a partition gets
//! ahead of another, so that there are finitely many states, whatever the trip counts are.
#![forbid(unsafe_code)]

mod classes;
mod control;
mod extract;
mod iterations;
mod leaves;
mod loops;
mod machine;
mod oracle;
mod passed;
mod places;
mod program;
mod ranges;
mod relevant;
mod report;
mod scopes;
mod search;
mod state;
mod step;
mod value;
mod verdict;

use std::sync::atomic::{AtomicUsize, Ordering};

use ir::Func;

pub use verdict::{Undecided, Verdict};

use crate::classes::Classes;
use crate::leaves::Leaves;
use crate::machine::{Machine, Stop};
use crate::places::Places;
use crate::ranges::Ranges;
use crate::scopes::Scopes;
use crate::search::{Explored, Slow};

/// Model-checks the mbarriers and named barriers of a kernel whose CTA barriers are placed.
pub fn prove(func: &Func) -> Verdict {
    let classes = Classes::new(func);
    let places = Places::new(func);
    let (program, _) = match extract::program(func, &classes, &places) {
        Ok(program) => program,
        Err(undecided) => return Verdict::Undecided(undecided),
    };
    if !program.has_barriers() {
        return Verdict::Bare;
    }
    let scopes = Scopes::new(func, &classes);
    let ranges = Ranges::new(func);
    let schedules = search::schedules(&program, &places);
    let explore = |slow: Slow, runs_once: bool| {
        let machine = Machine {
            func,
            classes: &classes,
            places: &places,
            program: &program,
            scopes: &scopes,
            ranges: &ranges,
            warps: search::agents(&program, slow),
            late: match slow {
                Slow::Copies(barrier) => Some(barrier),
                Slow::Warp(..) => None,
            },
            runs_once,
        };
        machine.explore(slow)
    };
    let leaves = Leaves {
        func,
        classes: &classes,
        program: &program,
    };
    let verdict = judge(
        &leaves,
        in_parallel(&schedules, &|slow| explore(slow, false)),
    );
    let Verdict::Found(found) = verdict else {
        return verdict;
    };
    match judge(
        &leaves,
        in_parallel(&schedules, &|slow| explore(slow, true)),
    ) {
        Verdict::Proved { .. } => Verdict::Undecided(Undecided::unless_once(&found)),
        other => other,
    }
}

/// What all schedules say together.
fn judge(leaves: &Leaves<'_>, explored: Vec<Explored>) -> Verdict {
    let decisions = explored.iter().map(|e| e.decisions).sum();
    let mut undecided = None;
    for one in explored {
        match one.stop {
            Some(Stop::Found(found)) => {
                let Some((first, second)) = leaves.dependent(&one.asked) else {
                    return Verdict::Found(found);
                };
                undecided = Some(Undecided::conditional(leaves.func, *found, first, second));
            }
            Some(Stop::Undecided(reason)) => undecided = undecided.or(Some(reason)),
            Some(Stop::Ask(_)) | None => {}
        }
    }
    match undecided {
        Some(undecided) => Verdict::Undecided(undecided),
        None => Verdict::Proved { decisions },
    }
}

/// Explores schedules on two threads, up to the first that stops: what is said does not depend on their speed.
fn in_parallel(schedules: &[Slow], explore: &(dyn Fn(Slow) -> Explored + Sync)) -> Vec<Explored> {
    let (next, last) = (AtomicUsize::new(0), AtomicUsize::new(schedules.len()));
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= last.load(Ordering::Relaxed) {
                return done;
            }
            let explored = explore(schedules[at]);
            if explored.stop.is_some() {
                last.fetch_min(at, Ordering::Relaxed);
            }
            done.push((at, explored));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut all = work();
        all.extend(other.join().expect("exploring does not panic"));
        all
    });
    all.sort_by_key(|(at, _)| *at);
    let first = all.iter().position(|(_, e)| e.stop.is_some());
    all.truncate(first.map_or(all.len(), |at| at + 1));
    all.into_iter().map(|(_, explored)| explored).collect()
}

//! What was found, at the author's lines.

use diag::{Code, Diagnostic};
use ir::entity::Inst;

use crate::machine::{Machine, Stop};
use crate::program::{Step, What};
use crate::state::{Barrier, State, Status};

fn found(machine: &Machine<'_>, code: Code, inst: Inst, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(code, machine.func.place(inst), message)
}

fn stop(diagnostic: Diagnostic) -> Stop {
    Stop::Found(Box::new(diagnostic))
}

pub(crate) fn uninitialized(machine: &Machine<'_>, inst: Inst) -> Stop {
    let message = "an mbarrier is used here before it is initialized";
    stop(found(machine, Code::MbarrierMisuse, inst, message))
}

pub(crate) fn too_many_arrivals(
    machine: &Machine<'_>,
    inst: Inst,
    barrier: &Barrier,
    times: u32,
) -> Stop {
    let message = format!(
        "{} here, and the phase counts {} of which {}",
        plural(times, "arrival"),
        plural(barrier.count, "arrival"),
        match barrier.pending {
            0 => "none is pending".to_string(),
            1 => "1 is pending".to_string(),
            n => format!("{n} are pending"),
        }
    );
    let d = found(machine, Code::MbarrierMisuse, inst, message);
    stop(d.help("count all arrivals of one phase in the mbarrier's initialization, and order those of the next phase after its completion"))
}

pub(crate) fn refilled_while_read(
    machine: &Machine<'_>,
    state: &State,
    inst: Inst,
    reader: usize,
) -> Stop {
    let message = "a stage is refilled here while it may still be read";
    let at = step_at(machine, state, reader).inst;
    let d = found(machine, Code::Race, inst, message);
    let d = d.related(machine.func.place(at), "the reader may be here");
    stop(d.help("release the stage after the wait for the products or bulk stores that read it, and wait for the release before the stage is filled"))
}

pub(crate) fn read_early(machine: &Machine<'_>, state: &State, inst: Inst, stages: u128) -> Stop {
    let flying = state.flights.iter().any(|f| f.stages & stages != 0);
    let (message, help) = if flying {
        (
            "a stage is read here while its copy may be in flight",
            "wait for the phase of the mbarrier on which the copy completes before the stage is read",
        )
    } else {
        (
            "a stage is read here that may be refilled already, or not filled yet",
            "read a stage after the wait for its full mbarrier and before the arrival at its empty one",
        )
    };
    stop(found(machine, Code::Race, inst, message).help(help))
}

pub(crate) fn overtaken(machine: &Machine<'_>, _: &State, inst: Inst, _: usize) -> Stop {
    let message =
        "a phase may complete twice before this wait ends: the wait is for a parity that is back";
    let d = found(machine, Code::MbarrierMisuse, inst, message);
    stop(d.help("order the arrivals of the next phase after this wait: release the stage after it, and let the producer wait for the release"))
}

pub(crate) fn named_overtaken(machine: &Machine<'_>, inst: Inst) -> Stop {
    let message = "these threads may arrive at the named barrier twice in one phase";
    stop(found(machine, Code::NamedBarrier, inst, message))
}

pub(crate) fn named_too_many(
    machine: &Machine<'_>,
    inst: Inst,
    arrived: u32,
    threads: u32,
) -> Stop {
    let message = format!("{arrived} threads arrive at a named barrier that counts {threads}");
    stop(found(machine, Code::NamedBarrier, inst, message))
}

/// The step at which an agent is or waits.
fn step_at<'m>(machine: &'m Machine<'_>, state: &State, agent: usize) -> &'m Step {
    let partition = &machine.program.partitions[machine.warps[agent].partition];
    let own = &state.agents[agent];
    let back = usize::from(own.status == Status::JoinsNamed);
    &partition.steps[own.at - back]
}

/// No agent can go on.
pub(crate) fn deadlock(machine: &Machine<'_>, state: &State) -> Stop {
    let mut waiting: Vec<(Inst, String)> = Vec::new();
    for (agent, own) in state.agents.iter().enumerate() {
        if own.status == Status::Ended || own.status == Status::Unborn {
            continue;
        }
        let step = step_at(machine, state, agent);
        let text = waits_for(machine, state, agent, step);
        if !waiting.iter().any(|(inst, _)| *inst == step.inst) {
            waiting.push((step.inst, text));
        }
    }
    // A wait for an mbarrier says more than one for the end of others.
    waiting.sort_by_key(|(_, text)| text.starts_with("the workers"));
    let mut waiting = waiting.into_iter();
    let Some((first, text)) = waiting.next() else {
        return stop(Diagnostic::error(
            Code::Deadlock,
            None,
            "no partition can go on",
        ));
    };
    if state.barriers.iter().any(|b| !b.counted.is_empty()) {
        let reason = "how many bytes are expected and copied is computed in two ways, which are not compared";
        return machine.undecided(first, reason);
    }
    let message = format!("this wait is never satisfied: {text}");
    let mut d = found(machine, Code::Deadlock, first, message);
    for (inst, text) in waiting {
        d = d.related(machine.func.place(inst), format!("and here: {text}"));
    }
    stop(d)
}

fn waits_for(machine: &Machine<'_>, state: &State, agent: usize, step: &Step) -> String {
    match &step.what {
        What::Wait { barrier, .. } => {
            let at = machine.barrier(state, agent, (*barrier, step.inst));
            at.map_or_else(|_| String::new(), |at| lacks(&state.barriers[at]))
        }
        What::NamedSync { number, threads } => {
            let named = state.named.iter().find(|n| n.number == *number);
            let arrived = named.map_or(0, |n| n.arrived);
            format!("{arrived} of {threads} threads have arrived at the named barrier")
        }
        What::Join => "the workers have not ended".into(),
        _ => "other threads of the partition have not come".into(),
    }
}

/// What a phase lacks.
fn lacks(barrier: &Barrier) -> String {
    let mut parts = Vec::new();
    if barrier.pending > 0 {
        parts.push(format!(
            "{} of {}",
            barrier.pending,
            plural(barrier.count, "arrival")
        ));
    }
    if barrier.bytes > 0 {
        parts.push(format!("{} bytes of copies", barrier.bytes));
    }
    let mut text = match parts.as_slice() {
        [] => String::new(),
        parts => format!("the phase lacks {}", parts.join(" and ")),
    };
    if barrier.bytes < 0 {
        let more = -barrier.bytes;
        let joint = if text.is_empty() { "" } else { ", and " };
        text = format!("{text}{joint}copies of {more} bytes more than it expects have completed");
    }
    text
}

fn plural(count: u32, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

//! CTA barriers.

use crate::fault::{FaultKind, LaneSet, Stepped, Trouble};
use crate::lanes::{LANES, Lanes32, lanes_of};
use crate::machine::order::Kind;
use crate::machine::state::barrier::{Arrival, BarrierResult, BarrierState};
use crate::machine::state::cluster::Cta;
use crate::machine::state::costs::BARRIER_WAKE;
use crate::machine::state::scene::{Flow, Scene, Worker};
use crate::machine::state::warp::{Wait, Warp};
use crate::program::{Barrier, BarrierKind, Code, NONE, Op};

impl Worker<'_> {
    pub(crate) fn barrier(&mut self, scene: &mut Scene<'_>, barrier: &Barrier) -> Stepped<Flow> {
        check_whole_warp(scene, barrier)?;
        let id = barrier_id(scene, barrier)?;
        let expected = expected_threads(scene, barrier)?;
        let arrival = Arrival {
            warp: scene.warp.index,
            lanes: scene.mask,
            stamp: scene.stamp(Kind::STRONG_WRITE),
            waits: barrier.kind != BarrierKind::Arrive,
        };
        let comes_whole = scene.mask == scene.warp.exists;
        let threads = if comes_whole {
            32
        } else {
            scene.mask.count_ones()
        };
        let votes = (scene.warp.regs.predicates[barrier.src as usize] ^ barrier.flip) & scene.mask;
        scene.warp.converge(scene.mask);
        if self.context.launch.checks.races {
            check_phase(scene, id, arrival)?;
        }
        let state = &mut scene.cluster.ctas[scene.cta].barriers[id as usize];
        scene.warp.release_to(scene.mask, &mut state.clocks);
        state.arrive(id, arrival, (threads, expected), (votes, scene.mask))?;
        state.time = state.time.max(scene.warp.time.now);
        if state.arrived < state.expected {
            return Ok(if arrival.waits {
                Flow::Park(Wait::Barrier(id))
            } else {
                Flow::Next
            });
        }
        self.counts.barriers += 1;
        let done = std::mem::take(state);
        state.before.clone_from(&done.arrivals);
        let result = BarrierResult {
            count: done.count,
            all: done.all,
            any: done.any,
        };
        let code = self.context.code;
        if arrival.waits {
            let clocks = &done.clocks;
            scene.warp.acquire(scene.mask, |own| own.join(clocks));
            scene.warp.converge(scene.mask);
            scene.warp.time.wait_until(done.time + BARRIER_WAKE);
        }
        let cta = &mut scene.cluster.ctas[scene.cta];
        wake(cta, &done, id, result, code);
        wake_paths(scene.warp, id, result, code);
        give_result(scene.warp, barrier, scene.mask, result);
        Ok(Flow::Next)
    }
}

/// An arrival counts in the phase that it is meant for, in whatever order warps run here: the phase before has ended, and no lane
/// arrives twice.
fn check_phase(scene: &Scene<'_>, id: u32, arrival: Arrival) -> Stepped {
    let state = &scene.cluster.ctas[scene.cta].barriers[id as usize];
    let is_again = |old: &&Arrival| old.warp == arrival.warp && old.lanes & arrival.lanes != 0;
    if let Some(first) = state.arrivals.iter().find(is_again) {
        let message = format!(
            "warp {} arrives at barrier {id} a second time in the same phase, which {} threads have reached of {}",
            arrival.warp, state.arrived, state.expected
        );
        return Err(out_of_phase(
            arrival.lanes,
            message,
            (*first, "it arrived here first"),
        ));
    }
    let lane = arrival.lanes.trailing_zeros() as usize;
    let is_unknown =
        |old: &&Arrival| old.warp != arrival.warp && !scene.is_before(lane, &old.stamp);
    let Some(other) = state.before.iter().find(is_unknown) else {
        return Ok(());
    };
    let message = format!(
        "this arrives at barrier {id} after a phase has ended, and nothing orders it after warp {}, which arrived in that phase: in another \
         order it counts there",
        other.warp
    );
    Err(out_of_phase(
        arrival.lanes,
        message,
        (*other, "the other warp arrived here"),
    ))
}

fn out_of_phase(lanes: u32, message: String, (other, what): (Arrival, &str)) -> Box<Trouble> {
    Trouble::new(FaultKind::IllegalOperand, lanes, message)
        .see(other.stamp.step, what)
        .help(
            "a warp that arrives (`bar.arrive`) must know that the phase before has ended: it waits at another barrier for a warp that has \
             waited at this one",
        )
}

/// A barrier of the aligned kind is for whole warps (PTX ISA 9.7.13.1).
fn check_whole_warp(scene: &Scene<'_>, barrier: &Barrier) -> Stepped {
    let missing = scene.warp.exists & !scene.mask;
    if missing == 0 || !barrier.aligned {
        return Ok(());
    }
    let ended = missing & !scene.warp.alive;
    let elsewhere = missing & scene.warp.alive;
    let why = match (ended, elsewhere) {
        (0, lanes) => format!("lanes {} are on another path", LaneSet(lanes)),
        (lanes, 0) => format!("lanes {} have exited", LaneSet(lanes)),
        (ended, others) => format!(
            "lanes {} have exited, lanes {} are on another path",
            LaneSet(ended),
            LaneSet(others)
        ),
    };
    let message = format!(
        "only lanes {} of the warp reach this barrier: {why}",
        LaneSet(scene.mask)
    );
    Err(Trouble::new(FaultKind::BarrierDivergence, missing, message))
}

/// The value of an operand that must be the same in all lanes.
fn uniform(scene: &Scene<'_>, slot: u32, what: &str) -> Stepped<u32> {
    let cells = &scene.warp.regs.words[slot as usize].0;
    let value = cells[scene.mask.trailing_zeros() as usize];
    let differing = lanes_of(scene.mask).filter(|&lane| cells[lane] != value);
    let differing = differing.fold(0u32, |all, lane| all | 1 << lane);
    if differing == 0 {
        return Ok(value);
    }
    let message = format!(
        "lanes {} pass another {what} than {value}",
        LaneSet(differing)
    );
    Err(Trouble::new(
        FaultKind::BarrierDivergence,
        differing,
        message,
    ))
}

fn barrier_id(scene: &Scene<'_>, barrier: &Barrier) -> Stepped<u32> {
    let id = uniform(scene, barrier.id, "barrier number")?;
    let barriers = scene.cluster.ctas[scene.cta].barriers.len();
    if (id as usize) < barriers {
        return Ok(id);
    }
    let message = format!(
        "barrier {id} does not exist; a CTA has barriers 0 to {}",
        barriers - 1
    );
    Err(Trouble::new(FaultKind::IllegalOperand, scene.mask, message))
}

fn expected_threads(scene: &Scene<'_>, barrier: &Barrier) -> Stepped<u32> {
    let all = scene.cluster.ctas[scene.cta].warps.len() as u32 * 32;
    if barrier.threads == NONE {
        return Ok(all);
    }
    let count = uniform(scene, barrier.threads, "thread count")?;
    if count == 0 || !count.is_multiple_of(32) || count > all {
        let message = format!(
            "a barrier of {count} threads: the count must be a multiple of 32, at most {all}"
        );
        return Err(Trouble::new(FaultKind::IllegalOperand, scene.mask, message));
    }
    Ok(count)
}

impl BarrierState {
    fn arrive(
        &mut self,
        id: u32,
        arrival: Arrival,
        (threads, expected): (u32, u32),
        (votes, lanes): (u32, u32),
    ) -> Stepped {
        if self.arrived == 0 {
            *self = Self {
                expected,
                all: true,
                clocks: std::mem::take(&mut self.clocks),
                before: std::mem::take(&mut self.before),
                ..Self::default()
            };
        }
        if self.expected != expected {
            let message = format!(
                "barrier {id} is waited for by {expected} threads here, but {} threads arrived expecting {}",
                self.arrived, self.expected
            );
            return Err(self.miscounted(lanes, message));
        }
        self.arrived += threads;
        if self.arrived > self.expected {
            let message = format!(
                "{} threads arrive at barrier {id}, which expects {expected}",
                self.arrived
            );
            return Err(self.miscounted(lanes, message));
        }
        self.arrivals.push(arrival);
        self.count += votes.count_ones();
        self.all &= votes == lanes;
        self.any |= votes != 0;
        Ok(())
    }
}

impl BarrierState {
    /// Trouble that shows the arrivals before.
    fn miscounted(&self, lanes: u32, message: String) -> Box<Trouble> {
        let trouble = Trouble::new(FaultKind::IllegalOperand, lanes, message).help(
            "every warp at a barrier must pass the same thread count, and exactly so many threads must arrive",
        );
        let mut steps: Vec<u32> = self
            .arrivals
            .iter()
            .map(|arrival| arrival.stamp.step)
            .collect();
        steps.sort_unstable();
        steps.dedup();
        let shown = steps.into_iter();
        shown.fold(trouble, |trouble, step| {
            trouble.see(step, "other warps arrived here")
        })
    }
}

/// Wakes the other warps that wait at a barrier.
fn wake(cta: &mut Cta, done: &BarrierState, id: u32, result: BarrierResult, code: &Code) {
    for arrival in done.arrivals.iter().filter(|arrival| arrival.waits) {
        let warp = &mut cta.warps[arrival.warp as usize];
        // The warp that arrived last is not among them while it runs.
        if warp.exists != 0 {
            warp.acquire(u32::MAX, |own| own.join(&done.clocks));
            warp.time.wait_until(done.time + BARRIER_WAKE);
            wake_paths(warp, id, result, code);
        }
    }
}

fn wake_paths(warp: &mut Warp, id: u32, result: BarrierResult, code: &Code) {
    for index in 0..warp.paths.len() {
        let path = &mut warp.paths[index];
        if path.wait != Wait::Barrier(id) {
            continue;
        }
        path.wait = Wait::Ready;
        let step = &code.steps[path.pc as usize];
        path.pc += 1;
        if let Op::Barrier(barrier) = &step.op {
            let mask = path.mask & (warp.regs.predicates[step.guard as usize] ^ step.flip);
            give_result(warp, barrier, mask, result);
            if step.watch != NONE {
                for &index in &code.watches[step.watch as usize].writes {
                    warp.written[index as usize] |= mask;
                }
            }
        }
    }
}

fn give_result(warp: &mut Warp, barrier: &Barrier, mask: u32, result: BarrierResult) {
    let spread = |yes: bool| if yes { u32::MAX } else { 0 };
    match barrier.kind {
        BarrierKind::Sync | BarrierKind::Arrive => {}
        BarrierKind::Popc => warp
            .regs
            .put32(barrier.dst, mask, &Lanes32([result.count; LANES])),
        BarrierKind::And => warp
            .regs
            .put_predicate(barrier.dst, mask, spread(result.all)),
        BarrierKind::Or => warp
            .regs
            .put_predicate(barrier.dst, mask, spread(result.any)),
    }
}

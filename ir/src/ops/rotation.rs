//! Accumulators in flight that a loop carries, and the registers in which each iteration leaves them.
//!
//! An accumulator in flight cannot be moved: a copy would wait for the tensor cores. So an iteration must leave every carried accumulator in
//! the registers in which it got it. It may do so by ending the accumulator (`wgmma_wait` that gives a tensor) and beginning another one,
//! which then takes the registers over. Where the new one begins while the old one is still in flight, as in a software pipeline that scales
//! the products of one step beside those of the next, two sets of registers alternate: after a *period* of iterations every accumulator is
//! back where it was, and the loop is unrolled by the period.

use smallvec::SmallVec;

use super::{Op, flow};
use crate::entity::{Inst, Region, Value};
use crate::{Func, Type, ValueDef};

/// The longest period that is looked for.
const MAX_PERIOD: usize = 4;

/// How the accumulators of a loop change registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// After so many iterations every accumulator is in the registers of its slot again.
    pub period: usize,
    /// Slots whose accumulator ends in the loop, each with the op of the body that begins the one which is carried on.
    pub restarted: SmallVec<[(usize, Inst); 2]>,
    /// Slots whose accumulator ends in each iteration.
    pub ended: SmallVec<[usize; 2]>,
}

/// Where an accumulator that a loop yields has its registers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// From the slot of this number, of the loop's.
    Slot(usize),
    /// From an op in the body.
    Begun(Inst),
    /// From a tensor: nothing is in flight, so that it can be moved.
    Settled,
    /// From before the loop.
    Outside,
}

/// How the loop `inst` carries accumulators in flight; `None` if they cannot be back in their registers after any few iterations.
pub fn rotation(func: &Func, inst: Inst) -> Option<Rotation> {
    let slots = flow::slots(func, inst);
    let in_flight = |at: &usize| is_in_flight(func, slots[*at].result);
    let carried: SmallVec<[usize; 2]> = (0..slots.len()).filter(in_flight).collect();
    let Op::For(op) = func.op(inst) else {
        let stays = |at: &usize| {
            let mut yielded = slots[*at].yielded.iter();
            yielded.all(|(_, v)| {
                let home = home(func, inst, *v);
                home == Home::Slot(*at) || home == Home::Settled
            })
        };
        return carried.iter().all(stays).then(Rotation::none);
    };
    let yielded = |at: usize| slots[at].yielded[0].1;
    let next: SmallVec<[(usize, Home); 2]> = carried
        .iter()
        .map(|&at| (at, home(func, inst, yielded(at))))
        .collect();
    let is_kept = |(at, home): &(usize, Home)| *home == Home::Slot(*at) || *home == Home::Settled;
    if next.iter().all(is_kept) {
        return Some(Rotation::none());
    }
    let ends = |slot: usize| end_in_body(func, inst, op.body, slot);
    let begins = |begin: Inst| position(func, op.body, begin);
    let stops = flow::stops_early(func, func.op(inst));
    let longest = if stops { 1 } else { MAX_PERIOD };
    let mut rotation = (1..=longest).find_map(|period| after(period, &next, &ends, &begins))?;
    rotation.ended = carried
        .into_iter()
        .filter(|at| ends(*at).is_some())
        .collect();
    // A copy of the body could not leave the loop.
    if stops && !is_settled(func, inst, &rotation) {
        return None;
    }
    Some(rotation)
}

/// Does the loop end what it restarts before anything else happens to it, and copy it? Then nothing reads the registers once another accumulator
/// has begun there.
pub fn is_settled(func: &Func, inst: Inst, rotation: &Rotation) -> bool {
    let slots = flow::slots(func, inst);
    let insts = func.walk();
    let only_user = |value: Value| {
        let mut users = insts
            .iter()
            .filter(|i| func.op(**i).operands().contains(&value));
        users.next().filter(|_| users.next().is_none())
    };
    rotation.restarted.iter().all(|(slot, _)| {
        let Some(&end) = slots[*slot]
            .params
            .first()
            .and_then(|param| only_user(*param))
        else {
            return false;
        };
        let results = func.results(end).to_vec();
        let is_copied = |result: Value| {
            let user = only_user(result);
            user.is_some_and(|user| matches!(func.op(*user), Op::AccumulatorBegin(_)))
        };
        matches!(func.op(end), Op::WgmmaWait(wait) if wait.pending == 0)
            && results.into_iter().all(is_copied)
    })
}

impl Rotation {
    fn none() -> Rotation {
        Rotation {
            period: 1,
            restarted: SmallVec::new(),
            ended: SmallVec::new(),
        }
    }
}

/// A moment in an unrolled body: the iteration, and the index of the instruction in the body.
type Moment = (usize, usize);

/// What a slot holds after some iterations.
#[derive(Clone, Copy)]
enum Held {
    /// What it or another slot held before the first of them.
    Initial(usize),
    /// What an op began then.
    Begun(Moment, Inst),
    Settled,
}

/// The rotation, if `period` iterations bring every accumulator back: each slot holds what it held, or an accumulator that began after that ended.
fn after(
    period: usize,
    next: &[(usize, Home)],
    ends: &dyn Fn(usize) -> Option<usize>,
    begins: &dyn Fn(Inst) -> Option<usize>,
) -> Option<Rotation> {
    let index = |slot: usize| next.iter().position(|(at, _)| *at == slot);
    let mut held: SmallVec<[Held; 2]> = (0..next.len()).map(Held::Initial).collect();
    let mut ended: SmallVec<[Option<Moment>; 2]> = next.iter().map(|_| None).collect();
    for iteration in 0..period {
        for (&(slot, _), held) in next.iter().zip(&held) {
            if let (Held::Initial(first), Some(end)) = (held, ends(slot)) {
                ended[*first].get_or_insert((iteration, end));
            }
        }
        let step = |&(_, home): &(usize, Home)| match home {
            Home::Slot(slot) => Some(held[index(slot)?]),
            Home::Begun(inst) => Some(Held::Begun((iteration, begins(inst)?), inst)),
            Home::Settled => Some(Held::Settled),
            Home::Outside => None,
        };
        held = next.iter().map(step).collect::<Option<_>>()?;
    }
    let mut restarted = SmallVec::new();
    for (at, held) in held.iter().enumerate() {
        match *held {
            Held::Initial(first) if first == at => {}
            Held::Settled => {}
            Held::Begun(moment, inst) if ended[at].is_some_and(|end| end < moment) => {
                restarted.push((next[at].0, inst));
            }
            Held::Initial(_) | Held::Begun(..) => return None,
        }
    }
    Some(Rotation {
        period,
        restarted,
        ended: SmallVec::new(),
    })
}

fn is_in_flight(func: &Func, value: Value) -> bool {
    matches!(func.ty(value), Type::InFlight(_))
}

/// Where the registers of an accumulator in the loop `inst` come from.
fn home(func: &Func, inst: Inst, mut value: Value) -> Home {
    let mut is_moved = false;
    loop {
        let (maker, at) = match func.def(value) {
            ValueDef::Param(..) => match flow::slot_of_param(func, value) {
                Some((owner, at)) if owner == inst => return Home::Slot(at),
                Some((owner, at)) => (owner, at),
                None => return Home::Outside,
            },
            ValueDef::Result(maker, at) => (maker, at as usize),
        };
        if !is_within(func, inst, maker) {
            return Home::Outside;
        }
        value = match func.op(maker) {
            Op::AccumulatorBegin(_) if !is_moved => return Home::Settled,
            Op::WgmmaStart(op) if is_in_flight(func, op.accumulator) => op.accumulator,
            Op::AccumulatorBegin(_) | Op::WgmmaStart(_) => return Home::Begun(maker),
            Op::WgmmaWait(op) => op.accumulators[at],
            _ => match flow::slot(func, maker, at) {
                Some(slot) => slot.init.unwrap_or(slot.yielded[0].1),
                None => return Home::Outside,
            },
        };
        is_moved = true;
    }
}

/// Does `inner` stand in a region of `inst`?
fn is_within(func: &Func, inst: Inst, inner: Inst) -> bool {
    let owner = |at: &Inst| func.region(func.parent(*at)).owner.expand();
    std::iter::successors(Some(inner), owner).any(|at| at == inst)
}

/// The index in `body` of the instruction that is `inner` or has it in a region.
fn position(func: &Func, body: Region, inner: Inst) -> Option<usize> {
    let owner = |at: &Inst| func.region(func.parent(*at)).owner.expand();
    let top = std::iter::successors(Some(inner), owner).find(|at| func.parent(*at) == body)?;
    func.region(body).insts.iter().position(|at| *at == top)
}

/// Where in the body the accumulator that comes in by a slot ends: a wait gives it as a tensor.
fn end_in_body(func: &Func, inst: Inst, body: Region, slot: usize) -> Option<usize> {
    let mut insts = Vec::new();
    func.walk_region(body, &mut insts);
    let ends = |at: &&Inst| match func.op(**at) {
        Op::WgmmaWait(op) => {
            let mut pairs = op.accumulators.iter().zip(func.results(**at));
            pairs.any(|(from, to)| {
                !is_in_flight(func, *to) && home(func, inst, *from) == Home::Slot(slot)
            })
        }
        _ => false,
    };
    position(func, body, *insts.iter().find(ends)?)
}

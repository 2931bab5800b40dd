//! What flows through control flow, seen alike for every op that owns regions with carried values.
//!
//! A *slot* is one carried value of a loop or one result of a branch: the values that are the same variable at different
//! moments. Passes ask for slots and so need not know the ops.

use smallvec::{SmallVec, smallvec};

use super::control::{For, If};
use super::warps::WarpSpecialize;
use super::{Op, Values};
use crate::entity::{Inst, Region, Value};
use crate::{Func, ValueDef};

/// The values that are one carried variable or branch result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The initial value, from before the loop; none for a branch.
    pub init: Option<Value>,
    /// Its region parameters; none for a branch.
    pub params: SmallVec<[Value; 2]>,
    /// What each region yields, with the region.
    pub yielded: SmallVec<[(Region, Value); 2]>,
    /// The result of the op.
    pub result: Value,
}

impl Slot {
    /// All of its values: init, parameters, what is yielded, and the result.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        let yielded = self.yielded.iter().map(|(_, v)| *v);
        self.init
            .into_iter()
            .chain(self.params.iter().copied())
            .chain(yielded)
            .chain([self.result])
    }
}

/// The slots of a control-flow op, in order of its results; none for any other op.
pub fn slots(func: &Func, inst: Inst) -> SmallVec<[Slot; 2]> {
    let parts = parts(func.op(inst));
    if parts.regions.is_empty() {
        return SmallVec::new();
    }
    (0..func.results(inst).len())
        .map(|at| slot_in(func, inst, &parts, at))
        .collect()
}

/// Slot `at` of a control-flow op: the one whose result is result `at`.
pub fn slot(func: &Func, inst: Inst, at: usize) -> Option<Slot> {
    let parts = parts(func.op(inst));
    (!parts.regions.is_empty()).then(|| slot_in(func, inst, &parts, at))
}

/// The loop and the slot that a region parameter belongs to; none for a loop index or a parameter of the kernel.
pub fn slot_of_param(func: &Func, value: Value) -> Option<(Inst, usize)> {
    let ValueDef::Param(region, index) = func.def(value) else {
        return None;
    };
    let owner = func.region(region).owner.expand()?;
    let parts = parts(func.op(owner));
    let &(_, first) = parts.params.iter().find(|(r, _)| *r == region)?;
    let at = (index as usize).checked_sub(first)?;
    Some((owner, at))
}

/// The operands that an op uses whatever becomes of its slots: the bounds of a loop, but not its inits. For the end of
/// a region, those that are not handed on to a slot.
pub fn fixed_operands(func: &Func, inst: Inst) -> Values {
    let op = func.op(inst);
    let mut operands = op.operands();
    let carried = match op {
        Op::Yield(_) | Op::Condition(_) => {
            let region = func.parent(inst);
            let owner = func.region(region).owner.expand();
            let is_slot =
                owner.is_some_and(|owner| parts(func.op(owner)).regions.contains(&region));
            if is_slot {
                super::control::yielded(func, region).len()
            } else {
                0
            }
        }
        op => parts(op).inits.map_or(0, SmallVec::len),
    };
    // Carried values stand last in every op that has them.
    operands.truncate(operands.len() - carried);
    operands
}

fn slot_in(func: &Func, inst: Inst, parts: &Parts<'_>, at: usize) -> Slot {
    Slot {
        init: parts.inits.map(|inits| inits[at]),
        params: parts
            .params
            .iter()
            .map(|(region, first)| func.region(*region).params[first + at])
            .collect(),
        yielded: parts
            .regions
            .iter()
            .map(|&r| (r, super::control::yielded(func, r)[at]))
            .collect(),
        result: func.results(inst)[at],
    }
}

/// Where the carried values of an op stand.
struct Parts<'op> {
    inits: Option<&'op Values>,
    /// Regions with carried parameters, and the index of the first one.
    params: SmallVec<[(Region, usize); 2]>,
    /// Regions that yield.
    regions: SmallVec<[Region; 2]>,
}

fn parts(op: &Op) -> Parts<'_> {
    let (inits, params, regions) = match op {
        Op::For(l) => (Some(&l.inits), smallvec![(l.body, 1)], smallvec![l.body]),
        Op::While(l) => (
            Some(&l.inits),
            smallvec![(l.before, 0), (l.after, 0)],
            smallvec![l.before, l.after],
        ),
        Op::If(b) => (None, smallvec![], smallvec![b.then, b.otherwise]),
        _ => (None, smallvec![], smallvec![]),
    };
    Parts {
        inits,
        params,
        regions,
    }
}

/// The loop over indices that an op is.
pub fn counted(op: &Op) -> Option<&For> {
    match op {
        Op::For(l) => Some(l),
        _ => None,
    }
}

/// The branch that an op is.
pub fn branch(op: &Op) -> Option<&If> {
    match op {
        Op::If(b) => Some(b),
        _ => None,
    }
}

/// The warp-specialized partitions that an op runs.
pub fn partitions(op: &Op) -> Option<&WarpSpecialize> {
    match op {
        Op::WarpSpecialize(w) => Some(w),
        _ => None,
    }
}

/// The scalars that decide which regions of an op run, and how often.
pub fn deciding(func: &Func, op: &Op) -> Values {
    match op {
        Op::If(b) => smallvec![b.condition],
        Op::For(l) => {
            let bounds = [l.low, l.high, l.step];
            bounds.into_iter().chain(condition(func, l.body)).collect()
        }
        Op::While(l) => {
            let conditions = [l.before, l.after].map(|region| condition(func, region));
            conditions.into_iter().flatten().collect()
        }
        _ => Values::new(),
    }
}

/// The scalar that says at the end of a region of a loop whether the loop goes on.
pub fn condition(func: &Func, region: Region) -> Option<Value> {
    match func.terminator(region) {
        Some(Op::Condition(end)) => Some(end.condition),
        _ => None,
    }
}

/// Does the loop end early where the end of its body says so?
pub fn stops_early(func: &Func, op: &Op) -> bool {
    match op {
        Op::For(l) => condition(func, l.body).is_some(),
        Op::While(l) => condition(func, l.after).is_some(),
        _ => false,
    }
}

/// Does region number `at` of the op run at least once, whatever its operands are?
pub fn runs_in_any_case(op: &Op, at: usize) -> bool {
    matches!(op, Op::While(_)) && at == 0
}

/// Does the op run a region more than once?
pub fn is_loop(op: &Op) -> bool {
    matches!(op, Op::For(_) | Op::While(_))
}

/// Does the op run its regions at the same time, each by warps of its own?
pub fn has_partitions(op: &Op) -> bool {
    partitions(op).is_some()
}

/// Replaces `old` by `new` in slot `at`: as its init, and where a region yields it. Other
/// slots of `old` keep it.
pub fn replace_in_slot(func: &mut Func, inst: Inst, at: usize, old: Value, new: Value) {
    let replace = |values: &mut Values| {
        if let Some(value) = values.get_mut(at).filter(|v| **v == old) {
            *value = new;
        }
    };
    for region in parts(func.op(inst)).regions {
        change_yielded(func, region, replace);
    }
    change_inits(func, inst, replace);
}

/// Keeps the slots for which `keep` says so. Nothing may use the parameters and results of the others.
pub fn retain_slots(func: &mut Func, inst: Inst, mut keep: impl FnMut(usize) -> bool) {
    let kept: SmallVec<[bool; 8]> = (0..func.results(inst).len()).map(&mut keep).collect();
    let Parts {
        params, regions, ..
    } = parts(func.op(inst));
    for (region, first) in params {
        func.retain_region_params(region, |at, _| at < first || kept[at - first]);
    }
    for region in regions {
        change_yielded(func, region, |values| retain(values, &kept));
    }
    change_inits(func, inst, |inits| retain(inits, &kept));
    func.retain_results(inst, |at, _| kept[at]);
}

fn change_yielded(func: &mut Func, region: Region, change: impl FnOnce(&mut Values)) {
    let last = func.region(region).insts.last().copied();
    match last.map(|last| func.op_mut(last)) {
        Some(Op::Yield(end)) => change(&mut end.values),
        Some(Op::Condition(end)) => change(&mut end.values),
        _ => {}
    }
}

fn change_inits(func: &mut Func, inst: Inst, change: impl FnOnce(&mut Values)) {
    match func.op_mut(inst) {
        Op::For(l) => change(&mut l.inits),
        Op::While(l) => change(&mut l.inits),
        _ => {}
    }
}

fn retain(values: &mut Values, kept: &[bool]) {
    let mut at = 0;
    values.retain(|_| {
        at += 1;
        kept[at - 1]
    });
}

/// Does the instruction stand in a loop, at any depth?
pub fn is_in_loop(func: &Func, inst: Inst) -> bool {
    let mut at = inst;
    while let Some(owner) = func.region(func.parent(at)).owner.expand() {
        if is_loop(func.op(owner)) {
            return true;
        }
        at = owner;
    }
    false
}

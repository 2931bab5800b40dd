//! The layouts that memory accesses choose for themselves.

use std::collections::HashMap;

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::entity::{Inst, Value};
use ir::{Func, ValueDef};
use layout::{AccessFacts, Layout};

use super::rematerialize;
use crate::analysis::access;
use crate::analysis::axis::Axes;

/// One access with the layout that it chooses for all of its tensors.
pub(super) struct Choice {
    /// The access.
    pub inst: Inst,
    /// The layout.
    pub layout: Layout,
}

/// Which values connect accesses, so that they share a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connections {
    /// All of them.
    All,
    /// Tensors that cannot be made once for each of their users.
    ThroughWhatIsNotRematerialized,
}

/// What every access through `Coalesced` pointers chooses. Accesses that are connected by values share the width of the
/// widest one of the same shape and order.
pub(super) fn choices(func: &Func, connections: Connections) -> Vec<Choice> {
    let insts = func.walk();
    let accesses: Vec<(Inst, Value)> = insts
        .iter()
        .filter_map(|&inst| Some((inst, access::pointers(func, inst)?)))
        .collect();
    let is_coalesced = |pointers: Value| func.ty(pointers).layout() == Some(&Layout::Coalesced);
    if !accesses.iter().any(|(_, pointers)| is_coalesced(*pointers)) {
        return Vec::new();
    }
    let axes = Axes::of(func);
    let rematerializable = rematerialize::rematerializable(func, &Layout::Coalesced);
    let connects = |value: Value| {
        connections == Connections::All
            || func.ty(value).as_tensor().is_some() && !rematerializable.contains(value)
    };
    let slices = Slices::of(func, &insts, connects);
    let mut by_slice: HashMap<Inst, Vec<AccessFacts>> = HashMap::new();
    for &(inst, pointers) in &accesses {
        let facts = access::facts(func, &axes, inst, pointers);
        by_slice
            .entry(slices.slice_of(inst))
            .or_default()
            .push(facts);
    }
    let chosen = accesses
        .iter()
        .filter(|(_, pointers)| is_coalesced(*pointers));
    let choice = |&(inst, pointers): &(Inst, Value)| {
        let facts = access::facts(func, &axes, inst, pointers);
        let others = &by_slice[&slices.slice_of(inst)];
        Choice {
            inst,
            layout: facts.coalesced_blocked(others, func.warps_at(inst)).into(),
        }
    };
    chosen.map(choice).collect()
}

/// Sets of instructions that are connected by values, forward and backward: each stands for its slice.
struct Slices {
    parents: SecondaryMap<Inst, u32>,
}

impl Slices {
    fn of(func: &Func, insts: &[Inst], connects: impl Fn(Value) -> bool) -> Slices {
        let mut parents = SecondaryMap::with_capacity(func.inst_count());
        for &inst in insts {
            parents[inst] = inst.as_u32();
        }
        let mut slices = Slices { parents };
        for &inst in insts {
            let operands = func.op(inst).operands().into_iter();
            for value in operands.filter(|v| connects(*v)) {
                let maker = match func.def(value) {
                    ValueDef::Result(maker, _) => Some(maker),
                    // What the kernel is given connects nothing.
                    ValueDef::Param(region, _) => func.region(region).owner.expand(),
                };
                if let Some(maker) = maker {
                    slices.connect(maker, inst);
                }
            }
            if func.op(inst).rules().is_terminator()
                && let Some(owner) = func.region(func.parent(inst)).owner.expand()
            {
                slices.connect(owner, inst);
            }
        }
        slices
    }

    fn slice_of(&self, inst: Inst) -> Inst {
        let mut at = inst;
        while self.parents[at] != at.as_u32() {
            at = Inst::new(self.parents[at] as usize);
        }
        at
    }

    fn connect(&mut self, a: Inst, b: Inst) {
        let (a, b) = (self.slice_of(a), self.slice_of(b));
        // The earlier one stands for both, so that the name of a slice does not depend on the order of connecting.
        let (first, second) = (a.min(b), a.max(b));
        self.parents[second] = first.as_u32();
    }
}

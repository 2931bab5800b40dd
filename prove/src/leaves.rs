//! What decisions depend on.
//!
//! Two decisions that depend on one parameter may exclude each other, which the model does not see: it proves more than is needed,
//! and must not blame a kernel for a run that there cannot be.

use std::collections::BTreeSet;

use cranelift_entity::SecondaryMap;
use ir::entity::{Inst, Value};
use ir::ops::flow;
use ir::{Func, ValueDef};

use crate::classes::{Class, Classes};
use crate::program::{Program, SHARED};

/// The parameters of a kernel, and what is read from memory, on which values depend.
pub(crate) struct Leaves<'f> {
    pub(crate) func: &'f Func,
    pub(crate) classes: &'f Classes,
    pub(crate) program: &'f Program,
}

impl Leaves<'_> {
    /// Two places whose decisions may exclude each other, or one whose outcomes may all be impossible.
    pub(crate) fn dependent(&self, asked: &BTreeSet<Class>) -> Option<(Inst, Inst)> {
        let mut known: Vec<(Inst, BTreeSet<Class>)> = Vec::new();
        for &class in asked {
            let Some((inst, seeds)) = self.decided_by(class) else {
                continue;
            };
            let (leaves, is_open) = self.of(seeds);
            if is_open {
                return Some((inst, inst));
            }
            let other = known.iter().find(|(_, l)| !l.is_disjoint(&leaves));
            if let Some((other, _)) = other {
                return Some((*other, inst));
            }
            known.push((inst, leaves));
        }
        None
    }

    /// An instruction that decides a class, and the scalars that it decides by.
    fn decided_by(&self, class: Class) -> Option<(Inst, Vec<Value>)> {
        if class & SHARED != 0 {
            let mut loops = self.program.loops.iter();
            let l = loops.find(|l| l.class == class)?;
            return Some((l.inst, l.bounds.map_or(Vec::new(), |b| b.to_vec())));
        }
        self.func.walk().into_iter().find_map(|inst| {
            let op = self.func.op(inst);
            if flow::is_loop(op) && self.classes.of_loop(inst) == class {
                return Some((inst, flow::deciding(self.func, op).to_vec()));
            }
            let results = self.func.results(inst);
            let is_it = |v: &&Value| self.classes.of(**v) == class;
            results.iter().find(is_it).map(|v| (inst, vec![*v]))
        })
    }

    /// The classes of the leaves, and whether one is read from memory.
    fn of(&self, seeds: Vec<Value>) -> (BTreeSet<Class>, bool) {
        let mut seen: SecondaryMap<Value, bool> = SecondaryMap::new();
        let (mut leaves, mut is_open) = (BTreeSet::new(), false);
        let mut open = seeds;
        while let Some(value) = open.pop() {
            if std::mem::replace(&mut seen[value], true) {
                continue;
            }
            let owner = |region| self.func.region(region).owner.expand();
            let inst = match self.func.def(value) {
                ValueDef::Param(region, _) => owner(region),
                ValueDef::Result(inst, _) => Some(inst),
            };
            let Some(inst) = inst else {
                leaves.insert(self.classes.of(value));
                continue;
            };
            let op = self.func.op(inst);
            if flow::is_loop(op) || flow::branch(op).is_some() {
                let slots = flow::slots(self.func, inst);
                let slot = slots.iter().find(|s| s.values().any(|v| v == value));
                open.extend(
                    slot.into_iter()
                        .flat_map(|s| s.values().collect::<Vec<_>>()),
                );
                open.extend(flow::deciding(self.func, op));
                continue;
            }
            let operands = op.operands();
            is_open |= !op.rules().effects().is_pure();
            if operands.is_empty() && self.func.constant_int(value).is_none() {
                leaves.insert(self.classes.of(value));
            }
            open.extend(operands);
        }
        (leaves, is_open)
    }
}

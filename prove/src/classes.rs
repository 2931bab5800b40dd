//! Which scalars of different partitions are equal: classes of values with equal definitions.
//!
//! Each partition computes the bounds of its loops and the conditions of its branches for itself. Values are in one class if
//! they are computed alike from the same parameters; carried values of loops, if they begin alike, go on alike, and their
//! loops run equally often. The coarsest classes with this property are found by refinement from a single one. Values of one
//! class are equal in corresponding iterations.

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::entity::{Inst, Value};
use ir::ops::Op;
use ir::ops::control::yielded;
use ir::ops::flow;
use ir::{Func, ValueDef};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A class of equal values.
pub(crate) type Class = u32;

/// The class of each value, and of each loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    of: SecondaryMap<Value, Class>,
    loops: FxHashMap<Inst, Class>,
}

#[derive(PartialEq, Eq, Hash)]
enum Definition {
    /// Equal to nothing else: a parameter, or what was read from memory.
    Own(Value),
    /// Computed from operands alone, whose values are replaced by their classes.
    Computed(Box<Op>, u32),
    /// What control flow merges: which kind, and the classes that decide it.
    Merged(&'static str, SmallVec<[Class; 8]>),
}

impl Classes {
    pub(crate) fn new(func: &Func) -> Classes {
        let mut insts = func.walk();
        insts.retain(|inst| !func.results(*inst).is_empty() || flow::is_loop(func.op(*inst)));
        let mut classes = Classes::default();
        let mut count = 0;
        loop {
            let (next, found) = classes.refined(func, &insts);
            classes = next;
            if found == count {
                return classes;
            }
            count = found;
        }
    }

    pub(crate) fn of(&self, value: Value) -> Class {
        self.of[value]
    }

    /// Loops of one class run equally often, from the same index in the same steps.
    pub(crate) fn of_loop(&self, inst: Inst) -> Class {
        self.loops.get(&inst).copied().unwrap_or_default()
    }

    fn refined(&self, func: &Func, insts: &[Inst]) -> (Classes, usize) {
        let mut next = Classes::default();
        let mut known: FxHashMap<Definition, Class> = FxHashMap::default();
        let mut number = |definition| {
            let fresh = known.len() as Class + 1;
            *known.entry(definition).or_insert(fresh)
        };
        for param in &func.params {
            next.of[param.value] = number(Definition::Own(param.value));
        }
        for &inst in insts {
            if flow::is_loop(func.op(inst)) {
                let class = number(Definition::Merged("loop", self.deciding(func, inst)));
                next.loops.insert(inst, class);
            }
            for region in func.op(inst).regions() {
                for &param in &func.region(region).params {
                    next.of[param] = number(self.definition(func, param));
                }
            }
            for &result in func.results(inst) {
                next.of[result] = number(self.definition(func, result));
            }
        }
        let found = known.len();
        (next, found)
    }

    /// What decides how often a loop runs.
    fn deciding(&self, func: &Func, inst: Inst) -> SmallVec<[Class; 8]> {
        let op = func.op(inst);
        let counted = SmallVec::from_slice(&[u32::from(flow::counted(op).is_some())]);
        let mut all: SmallVec<[Class; 8]> = counted;
        all.extend(flow::deciding(func, op).iter().map(|v| self.of[*v]));
        all
    }

    fn definition(&self, func: &Func, value: Value) -> Definition {
        match func.def(value) {
            ValueDef::Param(region, _) => {
                let Some(owner) = func.region(region).owner.expand() else {
                    return Definition::Own(value);
                };
                self.parameter(func, value, owner)
            }
            ValueDef::Result(inst, at) => self.result(func, value, inst, at as usize),
        }
    }

    fn parameter(&self, func: &Func, value: Value, owner: Inst) -> Definition {
        let op = func.op(owner);
        if !flow::is_loop(op) {
            return Definition::Own(value);
        }
        let mut parts = self.deciding(func, owner);
        let Some((_, slot)) = flow::slot_of_param(func, value) else {
            return Definition::Merged("index", parts);
        };
        let Some(slot) = flow::slot(func, owner, slot) else {
            return Definition::Own(value);
        };
        // Of a `while`, what the test passes on is another variable than what it takes.
        let is_second = slot.params.iter().position(|p| *p == value) == Some(1);
        parts.extend(slot.init.map(|init| self.of[init]));
        parts.extend(slot.yielded.iter().map(|(_, v)| self.of[*v]));
        Definition::Merged(if is_second { "passed" } else { "carried" }, parts)
    }

    fn result(&self, func: &Func, value: Value, inst: Inst, at: usize) -> Definition {
        let op = func.op(inst);
        if flow::is_loop(op) {
            let mut parts = self.deciding(func, inst);
            if let Some(slot) = flow::slot(func, inst, at) {
                parts.extend(slot.init.map(|init| self.of[init]));
                parts.extend(slot.yielded.iter().map(|(_, v)| self.of[*v]));
            }
            return Definition::Merged("result", parts);
        }
        if let Some(branch) = flow::branch(op) {
            let arms = [branch.then, branch.otherwise];
            let mut parts: SmallVec<[Class; 8]> = SmallVec::new();
            parts.push(self.of[branch.condition]);
            parts.extend(arms.map(|arm| yielded(func, arm).get(at).map_or(0, |v| self.of[*v])));
            return Definition::Merged("branch", parts);
        }
        if !op.rules().effects().is_pure() || !op.regions().is_empty() {
            return Definition::Own(value);
        }
        let mut op = op.clone();
        op.rules_mut()
            .visit_mut(&mut |v| *v = Value::new(self.of[*v] as usize));
        Definition::Computed(Box::new(op), at as u32)
    }
}

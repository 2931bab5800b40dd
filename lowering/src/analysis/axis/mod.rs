//! Axis analysis: how the elements of a value follow one another along each dimension.
//!
//! For each dimension: *contiguity* (aligned runs that count up by one), *divisibility* (what divides the first element of
//! each run; for pointers, the address in bytes) and *constancy* (aligned runs of equal elements), all powers of two; the
//! *stride*, by which all neighbours differ; and for integers their bounds. Vector widths, coalesced layouts and index widths
//! are decided by this.
//!
//! Indices are taken not to wrap within a contiguous run: an index that does leaves the address space of its tensor. A
//! mask is no index: what is claimed of masks holds for numbers that wrap.

mod assumed;
mod loop_index;

#[cfg(test)]
mod tests;

use cranelift_entity::SecondaryMap;
use ir::Func;
use ir::entity::{Region, Value};
use ir::ops::flow;

pub use ir::facts::Range;
use ir::facts::{self, DimFacts, Facts, KnownFacts, MAX_DIVISIBILITY};

/// Facts about every value of one kernel.
#[derive(Clone, Debug)]
pub struct Axes {
    facts: KnownFacts,
}

impl Axes {
    /// Analyses a kernel.
    pub fn of(func: &Func) -> Axes {
        let facts = SecondaryMap::with_capacity(func.value_count());
        let assumed = assumed::of(func);
        let mut walk = FactPropagation {
            func,
            facts,
            assumed,
        };
        walk.params();
        walk.region(func.body);
        Axes { facts: walk.facts }
    }

    /// Aligned runs of this many elements along `dim` count up by one; for pointers, by one element.
    pub fn contiguity(&self, value: Value, dim: usize) -> u32 {
        1 << self.dim(value, dim).contiguity
    }

    /// What divides the first element of every contiguous run along `dim`; for pointers, the address in bytes.
    pub fn divisibility(&self, value: Value, dim: usize) -> u32 {
        1 << self.dim(value, dim).divisibility
    }

    /// Aligned runs of this many elements along `dim` are equal.
    pub fn constancy(&self, value: Value, dim: usize) -> u32 {
        1 << self.dim(value, dim).constancy
    }

    /// By how much every element along `dim` differs from the one before it, if all do alike; for pointers, in bytes.
    pub fn stride(&self, value: Value, dim: usize) -> Option<i64> {
        self.dim(value, dim).stride
    }

    /// What divides every element; for pointers, the address in bytes.
    pub fn divisor(&self, value: Value) -> u32 {
        1 << self.facts[value].divisibility()
    }

    /// The bounds of an integer's elements; `None` for floats and pointers.
    pub fn range(&self, value: Value) -> Option<Range> {
        self.facts[value].range
    }

    /// The integer that every element is, if that is known.
    pub fn constant(&self, value: Value) -> Option<i128> {
        self.facts[value].constant()
    }

    fn dim(&self, value: Value, dim: usize) -> DimFacts {
        // A value that the walk did not reach stands in a region that never runs.
        self.facts[value].dims.get(dim).copied().unwrap_or_default()
    }
}

struct FactPropagation<'f> {
    func: &'f Func,
    facts: KnownFacts,
    assumed: assumed::Assumed,
}

impl FactPropagation<'_> {
    fn params(&mut self) {
        for param in &self.func.params {
            let mut facts = Facts::unknown(self.func.ty(param.value));
            facts.dims[0].divisibility =
                (param.divisor.trailing_zeros() as u8).min(MAX_DIVISIBILITY);
            self.set(param.value, facts);
        }
    }

    /// Enters the facts about a value, together with what the author says of it.
    fn set(&mut self, value: Value, facts: Facts) {
        self.facts[value] = self.assumed.refine(value, facts);
    }

    fn region(&mut self, region: Region) {
        let func = self.func;
        for &inst in &func.region(region).insts {
            let op = func.op(inst);
            if flow::is_loop(op) {
                self.repeated(inst);
            } else if flow::branch(op).is_some() {
                self.branches(inst);
            } else {
                for region in op.regions() {
                    self.region_of_unknown(region);
                }
                for &result in func.results(inst) {
                    let ty = func.ty(result);
                    let facts = op.rules().result_facts(func, &self.facts, ty);
                    self.set(result, facts.within(ty));
                }
            }
        }
    }

    /// A region whose parameters are elements, not tiles: nothing is known of them.
    fn region_of_unknown(&mut self, region: Region) {
        for &param in &self.func.region(region).params {
            self.facts[param] = Facts::unknown(self.func.ty(param));
        }
        self.region(region);
    }

    fn branches(&mut self, inst: ir::entity::Inst) {
        for region in self.func.op(inst).regions() {
            self.region(region);
        }
        for slot in flow::slots(self.func, inst) {
            let mut ends = slot.yielded.iter().map(|(_, v)| &self.facts[*v]);
            let first = ends.next().cloned().unwrap_or_default();
            let joined = ends.fold(first, |all, end| all.join(end));
            self.set(slot.result, joined);
        }
    }

    /// A loop: starts from what comes in and weakens until going round changes nothing.
    fn repeated(&mut self, inst: ir::entity::Inst) {
        let func = self.func;
        let slots = flow::slots(func, inst);
        for slot in &slots {
            let init = slot.init.map(|v| self.facts[v].clone()).unwrap_or_default();
            for &param in &slot.params {
                self.facts[param] = init.clone();
            }
        }
        loop {
            if let Some(op) = flow::counted(func.op(inst)) {
                let index = func.region(op.body).params[0];
                let facts = loop_index::facts(&self.facts, op, func.ty(index));
                self.set(index, facts);
            }
            for region in func.op(inst).regions() {
                self.region(region);
            }
            let mut is_stable = true;
            for slot in &slots {
                is_stable &= self.go_round(slot);
            }
            if is_stable {
                break;
            }
        }
        for slot in &slots {
            // What leaves is what was handed on last: by the init, by the body, or by the test.
            let last = slot.params[0];
            self.facts[slot.result] = self.facts[last].clone();
        }
    }

    /// Joins what is yielded into the parameters of a slot; `true` if they knew it.
    fn go_round(&mut self, slot: &flow::Slot) -> bool {
        let mut joined = self.facts[slot.params[0]].clone();
        for (_, value) in &slot.yielded {
            joined = joined.join(&self.facts[*value]);
        }
        let ty = self.func.ty(slot.result);
        let mut is_stable = true;
        for &param in &slot.params {
            let old = &self.facts[param];
            if *old == joined {
                continue;
            }
            is_stable = false;
            let mut new = joined.clone();
            // A bound that moves once may move as long as the loop runs.
            if let (Some(old), Some(new), Some(whole)) =
                (old.range, new.range.as_mut(), facts::type_range(ty))
            {
                new.low = if new.low < old.low {
                    whole.low
                } else {
                    new.low
                };
                new.high = if new.high > old.high {
                    whole.high
                } else {
                    new.high
                };
            }
            self.facts[param] = new;
        }
        is_stable
    }
}

//! Which allocations a view of shared memory may be of.

use cranelift_entity::SecondaryMap;
use gluon_lang::entity::{Inst, Region, Value};
use gluon_lang::ir::Func;
use gluon_lang::ops::flow;
use smallvec::SmallVec;

/// Allocations, in program order.
pub type Allocations = SmallVec<[Inst; 1]>;

/// For every view, the allocations that it may be of: one, unless views flow round a loop or out of a branch.
#[derive(Clone, Debug)]
pub struct Views {
    of_value: SecondaryMap<Value, Allocations>,
    has_any: bool,
}

impl Views {
    /// Follows every view of a kernel to its allocations.
    pub fn of(func: &Func) -> Views {
        let mut views = Views {
            of_value: SecondaryMap::new(),
            has_any: false,
        };
        // A view that goes round a loop is known after two walks; one round several loops within each other needs more.
        while views.walk(func, func.body) {}
        views
    }

    /// The allocations that `value` may be a view of; none for what is no view.
    pub fn allocations(&self, value: Value) -> &[Inst] {
        &self.of_value[value]
    }

    /// Is there no shared memory of the author's at all?
    pub fn is_empty(&self) -> bool {
        !self.has_any
    }

    /// One walk in program order; `true` if it found anything new.
    fn walk(&mut self, func: &Func, region: Region) -> bool {
        let mut grew = false;
        for &inst in &func.region(region).insts {
            let op = func.op(inst);
            for slot in flow::slots(func, inst) {
                if slot.params.iter().any(|v| is_view(func, *v)) {
                    grew |= self.tie(slot.init.into_iter(), &slot.params);
                }
            }
            for inner in op.regions() {
                grew |= self.walk(func, inner);
            }
            if op.rules().allocation().is_some() {
                self.has_any = true;
                grew |= self.add(func.result(inst), &[inst]);
                continue;
            }
            let slots = flow::slots(func, inst);
            if slots.is_empty() {
                for &result in func.results(inst) {
                    if is_view(func, result) {
                        let sources = op.operands();
                        grew |= self.tie(sources.into_iter(), &[result]);
                    }
                }
            }
            for slot in slots.iter().filter(|slot| is_view(func, slot.result)) {
                let handed_on = slot.handed_on.iter().map(|(_, v)| *v).chain(slot.init);
                let into: SmallVec<[Value; 4]> =
                    slot.params.iter().copied().chain([slot.result]).collect();
                grew |= self.tie(handed_on, &into);
            }
        }
        grew
    }

    fn tie(&mut self, from: impl Iterator<Item = Value>, into: &[Value]) -> bool {
        let mut all = Allocations::new();
        for value in from {
            all.extend(self.of_value[value].iter().copied());
        }
        let mut grew = false;
        for &value in into {
            grew |= self.add(value, &all);
        }
        grew
    }

    fn add(&mut self, value: Value, allocations: &[Inst]) -> bool {
        let known = &mut self.of_value[value];
        let before = known.len();
        for allocation in allocations {
            if let Err(at) = known.binary_search(allocation) {
                known.insert(at, *allocation);
            }
        }
        known.len() > before
    }
}

fn is_view(func: &Func, value: Value) -> bool {
    func.ty(value).as_smem().is_some()
}

//! Which scalars differ between the CTAs of a cluster.

use cranelift_entity::EntitySet;
use ir::entity::{Inst, Value};
use ir::ops::flow;
use ir::{Func, Type};

/// The scalars that are computed from the CTA's own place, with nothing in between that may make them equal: memory, or a
/// division, as of a program's index by the size of the cluster.
#[derive(Default)]
pub struct Apart {
    values: EntitySet<Value>,
    /// How many there are.
    count: usize,
}

impl Apart {
    /// Looks at the whole kernel; in one without clusters nothing differs.
    pub fn of(func: &Func) -> Apart {
        let mut apart = Apart::default();
        if !func.has_cluster() {
            return apart;
        }
        let insts = func.walk();
        // Round loops until nothing is added.
        loop {
            let before = apart.count;
            for &inst in &insts {
                apart.enter(func, inst);
            }
            if apart.count == before {
                return apart;
            }
        }
    }

    /// Does the value differ for certain?
    pub fn differs(&self, value: Value) -> bool {
        self.values.contains(value)
    }

    /// Enters what an instruction gives.
    fn enter(&mut self, func: &Func, inst: Inst) {
        for slot in flow::slots(func, inst) {
            if slot.values().any(|value| self.differs(value)) {
                for &param in &slot.params {
                    self.insert(func, param);
                }
                self.insert(func, slot.result);
            }
        }
        let op = func.op(inst);
        let differs = |value| self.differs(value);
        if op.regions().is_empty() && op.rules().differs_between_ctas(func, &differs) {
            for &result in func.results(inst) {
                self.insert(func, result);
            }
        }
    }

    fn insert(&mut self, func: &Func, value: Value) {
        if matches!(func.ty(value), Type::Scalar(_)) && self.values.insert(value) {
            self.count += 1;
        }
    }
}

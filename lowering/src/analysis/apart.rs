//! Which scalars differ between the CTAs of a cluster.

use cranelift_entity::EntitySet;
use gluon_lang::entity::{Inst, Value};
use gluon_lang::ir::{Effects, Func, Type};
use gluon_lang::ops::arith::BinaryOp;
use gluon_lang::ops::create::GridAxis;
use gluon_lang::ops::{Op, flow};

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
        if is_source(func, inst) || self.is_carried_on(func, inst) {
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

    /// Is it computed from what differs?
    fn is_carried_on(&self, func: &Func, inst: Inst) -> bool {
        let op = func.op(inst);
        let may_make_equal = match op {
            Op::Binary(binary) => matches!(binary.op, BinaryOp::Div | BinaryOp::Shr),
            _ => false,
        };
        let is_pure = op.rules().effects() == Effects::PURE && op.regions().is_empty();
        is_pure && !may_make_equal && op.operands().into_iter().any(|v| self.differs(v))
    }
}

/// Is it the CTA's own place?
fn is_source(func: &Func, inst: Inst) -> bool {
    match func.op(inst) {
        Op::ClusterRank(_) => true,
        Op::ProgramId(op) => {
            let axis = match op.axis {
                GridAxis::X => 0,
                GridAxis::Y => 1,
                GridAxis::Z => 2,
            };
            func.cluster[axis] > 1
        }
        _ => false,
    }
}

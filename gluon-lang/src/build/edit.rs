//! What a region yields, what stands in it, and edits of both, as making exits structured needs them.

use cranelift_entity::SecondaryMap;
use ir::Type;
use ir::entity::{Inst, Region, Value};
use ir::ops::Op;
use ir::ops::control::{Yield, handed_on_by};
use ir::ops::create::{Const, Constant, Undefined};

use super::structure::{Blocked, Settle};

impl Settle<'_> {
    /// A value that nothing reads. An accumulator in flight has none: the exit must have one.
    pub(super) fn undefined(&mut self, region: Region, ty: &Type, values: &[Value]) -> Value {
        if ty.as_in_flight().is_some() {
            let same = values.iter().find(|v| self.func.ty(**v) == ty);
            if let Some(&same) = same {
                return same;
            }
            self.block_in_flight(ty);
        }
        self.insert(region, Undefined {}, ty.clone())
    }

    pub(super) fn block_in_flight(&mut self, ty: &Type) {
        if ty.as_in_flight().is_some() {
            self.blocked.get_or_insert(Blocked::InFlight);
        }
    }

    pub(super) fn truth(&mut self, region: Region, value: bool) -> Value {
        let value = Const::Int(i128::from(value));
        self.insert(region, Constant { value }, bool_type())
    }

    /// Inserts an op with one result in front of the end of the region.
    pub(super) fn insert(&mut self, region: Region, op: impl Into<Op>, ty: Type) -> Value {
        let types = std::iter::once(ty).collect();
        let inst = self.func.make_inst(op, types, Some(self.at));
        let insts = &self.func.region(region).insts;
        let last = insts.last();
        let ends = last.is_some_and(|last| self.func.op(*last).rules().is_terminator());
        let index = insts.len() - usize::from(ends);
        self.func.insert(region, index, inst);
        self.func.result(inst)
    }

    /// Puts a boolean in front of what a region yields.
    pub(super) fn prepend(&mut self, region: Region, value: bool) {
        let truth = self.truth(region, value);
        let values = std::iter::once(truth).chain(self.end(region)).collect();
        self.end_in(region, values);
    }

    pub(super) fn end(&self, region: Region) -> Vec<Value> {
        let last = self.func.region(region).insts.last();
        last.map_or_else(Vec::new, |last| handed_on_by(self.func.op(*last)).to_vec())
    }

    pub(super) fn end_in(&mut self, region: Region, values: Vec<Value>) {
        if let Some(&last) = self.func.region(region).insts.last() {
            let values = values.into_iter().collect();
            self.func.replace_op(last, Yield { values });
        }
    }

    pub(super) fn push_yield(&mut self, region: Region, values: Vec<Value>) {
        let values = values.into_iter().collect();
        let end = self.func.make_inst(
            Yield { values },
            std::iter::empty().collect(),
            Some(self.at),
        );
        self.func.append(region, end);
    }

    pub(super) fn replace(&mut self, old: &[Value], new: &[Value]) {
        let mut map = SecondaryMap::new();
        for (&old, &new) in old.iter().zip(new) {
            map[old] = new.into();
        }
        self.func.replace_uses(&map);
    }

    pub(super) fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.func.ty(*v).clone()).collect()
    }

    pub(super) fn falls(&self, region: Region) -> bool {
        self.exits.falls_through(region)
    }

    pub(super) fn is_exit(&self, region: Region) -> bool {
        let leave = self.exits.leave.get(&region);
        leave.is_some_and(|leave| leave.target == self.target)
    }

    pub(super) fn holds_exit(&self, inst: Inst) -> bool {
        !self.exits_in(inst).is_empty()
    }

    pub(super) fn exits_in(&self, inst: Inst) -> Vec<Region> {
        let inside = self.regions_in(inst);
        inside.into_iter().filter(|r| self.is_exit(*r)).collect()
    }

    pub(super) fn regions_in(&self, inst: Inst) -> Vec<Region> {
        let mut out = Vec::new();
        let mut pending: Vec<Region> = self.func.op(inst).regions().to_vec();
        while let Some(region) = pending.pop() {
            out.push(region);
            for &inner in &self.func.region(region).insts {
                pending.extend(self.func.op(inner).regions());
            }
        }
        out
    }

    /// The region that a value is made in.
    pub(super) fn home(&self, value: Value) -> Region {
        match self.func.def(value) {
            ir::ValueDef::Param(region, _) => region,
            ir::ValueDef::Result(inst, _) => self.func.parent(inst),
        }
    }
}

/// The type of flags.
pub(super) fn bool_type() -> Type {
    Type::Scalar(ir::elem::Elem::I1)
}

//! How many `wgmma` groups were started after that of an accumulator: a wait that leaves so many pending ends it (PTX ISA, `wgmma.wait_group`).

use crate::entity::{Inst, Region, Value};
use crate::ops::flow;
use crate::{Func, ValueDef};

/// More than can be pending: nothing is in flight.
const NONE_IN_FLIGHT: u32 = 1 << 16;

/// Groups that were surely started after the last one of `value`, until the instruction at `end` of `region`.
pub(super) fn started_after(func: &Func, value: Value, region: Region, end: usize) -> u32 {
    Groups {
        func,
        visited: Vec::new(),
    }
    .after(value, region, end)
}

struct Groups<'f> {
    func: &'f Func,
    /// Carried values that are being followed round their loops.
    visited: Vec<Value>,
}

impl Groups<'_> {
    fn after(&mut self, value: Value, region: Region, end: usize) -> u32 {
        let insts = &self.func.region(region).insts;
        let before = match self.func.def(value) {
            ValueDef::Result(inst, at) if self.func.parent(inst) == region => {
                let start = self.func.index_in_region(inst);
                let own = self.of_result(inst, at as usize, region, start);
                return own + starts(self.func, &insts[start + 1..end]);
            }
            ValueDef::Param(home, _) if home == region => self.of_param(value),
            // From outside of a branch.
            _ => self.before_branch(value, region),
        };
        before + starts(self.func, &insts[..end])
    }

    /// The same until the instruction that gives the value is done.
    fn of_result(&mut self, inst: Inst, at: usize, region: Region, start: usize) -> u32 {
        let func = self.func;
        let op = func.op(inst).rules();
        if op.started_product().is_some() {
            return 0;
        }
        if op.waits_for_products().is_some() {
            return self.after(op.in_place_operands()[at], region, start);
        }
        if op.begins_accumulator() {
            return NONE_IN_FLIGHT;
        }
        let Some(slot) = flow::slot(func, inst, at) else {
            return 0;
        };
        let init = slot.init.map(|init| self.after(init, region, start));
        let yielded = slot
            .yielded
            .iter()
            .map(|&(inner, value)| self.after(value, inner, func.region(inner).insts.len()));
        yielded.chain(init).min().unwrap_or(0)
    }

    /// The same at the beginning of an iteration: from the initial value, and from what the iteration before yields.
    fn of_param(&mut self, value: Value) -> u32 {
        let func = self.func;
        if self.visited.contains(&value) {
            return NONE_IN_FLIGHT;
        }
        let Some((owner, at)) = flow::slot_of_param(func, value) else {
            return 0;
        };
        let Some(slot) = flow::slot(func, owner, at) else {
            return 0;
        };
        self.visited.push(value);
        let outer = (func.parent(owner), func.index_in_region(owner));
        let init = slot.init.map(|init| self.after(init, outer.0, outer.1));
        let yielded = slot
            .yielded
            .iter()
            .map(|&(inner, value)| self.after(value, inner, func.region(inner).insts.len()));
        let fewest = yielded.chain(init).min().unwrap_or(0);
        self.visited.pop();
        fewest
    }

    fn before_branch(&mut self, value: Value, region: Region) -> u32 {
        let Some(owner) = self.func.region(region).owner.expand() else {
            return 0;
        };
        let outer = self.func.parent(owner);
        self.after(value, outer, self.func.index_in_region(owner))
    }
}

/// Groups that these instructions start themselves.
fn starts(func: &Func, insts: &[Inst]) -> u32 {
    let is_start = |inst: &&Inst| func.op(**inst).rules().started_product().is_some();
    insts.iter().filter(is_start).count() as u32
}

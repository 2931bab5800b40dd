//! Accumulators that tensor cores write: each has one set of registers for its whole life, so each step follows the one
//! before, and none goes back.

use cranelift_entity::{EntitySet, SecondaryMap};

use super::groups::started_after;
use crate::entity::{Inst, Region, Value};
use crate::ops::flow::Slot;
use crate::ops::rotation::{Rotation, is_settled, rotation};
use crate::ops::{Values, flow};
use crate::{Func, Stage, Type};
use diag::{Code, Diagnostic, Diagnostics};

pub(super) fn check(func: &Func, insts: &[Inst], found: &mut Diagnostics) {
    let has_any = insts.iter().any(|i| {
        let mut results = func.results(*i).iter();
        results.any(|v| is_in_flight(func, *v))
    });
    if !has_any {
        return;
    }
    let mut walk = AccumulatorCheck {
        func,
        found,
        homes: SecondaryMap::new(),
        used: SecondaryMap::new(),
        outside: EntitySet::new(),
    };
    walk.region(func.body);
    walk.check_waited(insts);
}

fn is_in_flight(func: &Func, value: Value) -> bool {
    matches!(func.ty(value), Type::InFlight(_))
}

struct AccumulatorCheck<'f> {
    func: &'f Func,
    found: &'f mut Diagnostics,
    /// The value whose registers a value has.
    homes: SecondaryMap<Value, Option<Value>>,
    /// Who took a value already.
    used: SecondaryMap<Value, Option<Inst>>,
    /// Values from outside of the loop that is walked.
    outside: EntitySet<Value>,
}

impl AccumulatorCheck<'_> {
    fn region(&mut self, region: Region) {
        let func = self.func;
        for &inst in &func.region(region).insts {
            self.inst(inst);
        }
    }

    fn inst(&mut self, inst: Inst) {
        let op = self.func.op(inst);
        let mut taken = Values::new();
        op.rules().visit(&mut |value| {
            if is_in_flight(self.func, value) {
                taken.push(value);
            }
        });
        for value in taken {
            self.take(inst, value);
        }
        if let Some(pending) = op.rules().waits_for_products() {
            self.check_wait(inst, pending, op.rules().in_place_operands());
        }
        if op.regions().is_empty() {
            self.settle(inst);
        } else if flow::is_loop(op) {
            self.repeated(inst);
        } else {
            self.arms(inst);
        }
    }

    /// The results of an op without regions stay in the registers of its in-place operands.
    fn settle(&mut self, inst: Inst) {
        let taken = self.func.op(inst).rules().in_place_operands();
        for (at, &result) in self.func.results(inst).iter().enumerate() {
            if !is_in_flight(self.func, result) {
                continue;
            }
            let home = taken.get(at).and_then(|v| self.homes[*v]);
            self.homes[result] = Some(home.unwrap_or(result));
        }
    }

    fn take(&mut self, inst: Inst, value: Value) {
        let (code, message) = if self.outside.contains(value) {
            (
                Code::WgmmaMisuse,
                "this accumulator is defined outside of the loop, and every iteration would accumulate into its registers",
            )
        } else if self.used[value].is_some() {
            (
                Code::WgmmaMisuse,
                "this accumulator was already used: an earlier operation reuses its registers",
            )
        } else {
            self.used[value] = Some(inst);
            return;
        };
        let mut d = Diagnostic::error(code, self.func.place(inst), message);
        if let Some(first) = self.used[value] {
            d = d.related(self.func.place(first), "it was used here");
        } else {
            d = d.related(self.func.value_place(value), "it was made here");
        }
        self.found
            .push(d.help("assign the result of the operation: `acc = acc.mma(..)`"));
    }

    /// Both arms begin alike, and must leave an accumulator in the same registers.
    fn arms(&mut self, inst: Inst) {
        let before = self.used.clone();
        let mut after = before.clone();
        for region in self.func.op(inst).regions() {
            self.used = before.clone();
            self.region(region);
            for value in self.func.values() {
                if let Some(by) = self.used[value] {
                    after[value] = Some(by);
                }
            }
        }
        self.used = after;
        for slot in flow::slots(self.func, inst) {
            if !is_in_flight(self.func, slot.result) {
                continue;
            }
            let homes: Vec<Option<Value>> =
                slot.yielded.iter().map(|(_, v)| self.homes[*v]).collect();
            if homes.windows(2).any(|pair| pair[0] != pair[1]) {
                self.moved(
                    inst,
                    slot.result,
                    "the arms of this `if` give accumulators in different registers",
                );
            }
            self.homes[slot.result] = homes.first().copied().flatten();
        }
    }

    /// An iteration yields every accumulator in the registers in which it got it.
    fn repeated(&mut self, inst: Inst) {
        let func = self.func;
        let slots = flow::slots(func, inst);
        for slot in slots.iter().filter(|s| is_in_flight(func, s.result)) {
            let home = slot.init.and_then(|v| self.homes[v]);
            for &value in slot.params.iter().chain([&slot.result]) {
                self.homes[value] = home;
            }
        }
        let outer = self.outside.clone();
        for value in func.values().filter(|v| is_in_flight(func, *v)) {
            if self.homes[value].is_some() && !slots.iter().any(|s| s.params.contains(&value)) {
                self.outside.insert(value);
            }
        }
        for region in func.op(inst).regions() {
            self.region(region);
        }
        self.check_rotation(inst, &slots);
        self.outside = outer;
    }

    /// Every accumulator comes back to its registers: in each iteration, or after a few by which a pass unrolls the loop.
    fn check_rotation(&mut self, inst: Inst, slots: &[Slot]) {
        let func = self.func;
        let is_emitted = func.stage >= Stage::Allocated;
        let fits = |r: Rotation| !is_emitted || r.period == 1 && is_settled(func, inst, &r);
        if rotation(func, inst).is_some_and(fits) {
            return;
        }
        for slot in slots.iter().filter(|s| is_in_flight(func, s.result)) {
            for (_, value) in &slot.yielded {
                if self.homes[*value] != self.homes[slot.result] {
                    self.moved(inst, *value, "accumulators exchange registers in this loop");
                    return;
                }
            }
        }
    }

    fn moved(&mut self, inst: Inst, value: Value, message: &str) {
        let d = Diagnostic::error(Code::WgmmaMisuse, self.func.place(inst), message)
            .related(self.func.value_place(value), "this one")
            .note("an accumulator in flight has fixed registers: copying it would serialize `wgmma`")
            .help("wait for each of them (`wait_all()`, `wait_older_than(..)`) before another one takes its variable");
        self.found.push(d);
    }

    /// What is started is waited for: shared memory that it reads must not be given to others before.
    fn check_waited(&mut self, insts: &[Inst]) {
        let func = self.func;
        let made = insts
            .iter()
            .flat_map(|&inst| func.results(inst).iter().map(move |&value| (inst, value)));
        for (inst, value) in made {
            if self.used[value].is_some() || !self.is_unfinished(value) {
                continue;
            }
            let d = Diagnostic::error(
                Code::WgmmaMisuse,
                func.place(inst),
                "no `wgmma_wait` follows this product",
            );
            self.found
                .push(d.help("wait for it with `wait_all()`, which gives the accumulator"));
        }
    }

    /// May a product into this accumulator still be in flight?
    fn is_unfinished(&self, value: Value) -> bool {
        let func = self.func;
        let Some(inst) = func.def_inst(value).filter(|_| is_in_flight(func, value)) else {
            return false;
        };
        let op = func.op(inst).rules();
        if op.started_product().is_some() {
            return true;
        }
        if let Some(pending) = op.waits_for_products() {
            return pending > 0;
        }
        let at = func.results(inst).iter().position(|v| *v == value);
        let slot = at.and_then(|at| flow::slot(func, inst, at));
        slot.is_some_and(|s| s.yielded.iter().any(|(_, v)| self.is_unfinished(*v)))
    }

    /// A tensor that a wait with groups pending gives must have been finished by then.
    fn check_wait(&mut self, inst: Inst, pending: u32, accumulators: &[Value]) {
        if pending == 0 {
            return;
        }
        let func = self.func;
        let (region, end) = (func.parent(inst), func.index_in_region(inst));
        for (&value, &result) in accumulators.iter().zip(func.results(inst)) {
            if is_in_flight(func, result) {
                continue;
            }
            let later = started_after(func, value, region, end);
            if later < pending {
                let message = format!(
                    "this accumulator is read with {pending} groups pending, and {later} groups were committed after its own: it may still be in flight"
                );
                let d = Diagnostic::error(Code::WgmmaMisuse, func.place(inst), message)
                    .related(func.value_place(value), "it was started here");
                self.found.push(d.help("wait for all with `wait_all()`"));
            }
        }
    }
}

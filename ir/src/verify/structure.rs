//! Scopes and terminators.

use cranelift_entity::EntitySet;

use crate::Func;
use crate::entity::{Inst, Region, Value};
use crate::ops::{Terminator, Values};
use diag::{Code, Diagnostic, Diagnostics};

pub(super) fn check(func: &Func, found: &mut Diagnostics) {
    let mut walk = ScopeCheck {
        func,
        found,
        visible: EntitySet::new(),
        seen: EntitySet::new(),
    };
    walk.region(func.body, Terminator::Return, false);
}

struct ScopeCheck<'f> {
    func: &'f Func,
    found: &'f mut Diagnostics,
    visible: EntitySet<Value>,
    seen: EntitySet<Region>,
}

impl ScopeCheck<'_> {
    /// `may_stop` says that it may end in a `condition` too.
    fn region(&mut self, region: Region, end: Terminator, may_stop: bool) {
        if !self.seen.insert(region) {
            let d = Diagnostic::error(
                Code::BrokenRule,
                None,
                format!("{region} stands in two places"),
            );
            self.found.push(d);
            return;
        }
        let data = self.func.region(region);
        let mut made: Vec<Value> = data.params.to_vec();
        for &value in &data.params {
            self.visible.insert(value);
        }
        for (i, &inst) in data.insts.iter().enumerate() {
            self.inst(inst, i + 1 == data.insts.len(), end, may_stop);
            for &value in self.func.results(inst) {
                self.visible.insert(value);
                made.push(value);
            }
        }
        if data.insts.is_empty() {
            let d = Diagnostic::error(
                Code::BrokenRule,
                None,
                format!("{region} is empty; it must end in `{}`", end.name()),
            );
            self.found.push(d);
        }
        for value in made {
            self.visible.remove(value);
        }
    }

    fn inst(&mut self, inst: Inst, is_last: bool, end: Terminator, may_stop: bool) {
        let op = self.func.op(inst);
        let mut hidden = Values::new();
        op.rules().visit(&mut |value| {
            if !self.visible.contains(value) {
                hidden.push(value);
            }
        });
        for value in hidden {
            let d = Diagnostic::error(
                Code::OutOfScope,
                self.func.place(inst),
                format!(
                    "`{}` uses a value that does not exist here",
                    op.rules().mnemonic()
                ),
            )
            .related(
                self.func.value_place(value),
                "it was defined here, inside a runtime loop, branch or closure",
            )
            .help("carry it out through a `let mut` variable declared before the loop or branch");
            self.found.push(d);
        }
        let ends = |found: Terminator| found == end || may_stop && found == Terminator::Condition;
        if is_last && !op.rules().terminator().is_some_and(ends) {
            let message = format!(
                "a region must end in `{}`, not `{}`",
                end.name(),
                op.rules().mnemonic()
            );
            self.found.push(broken(self.func, inst, message));
        }
        if !is_last && op.rules().is_terminator() {
            let message = format!(
                "`{}` stands before the end of its region",
                op.rules().mnemonic()
            );
            self.found.push(broken(self.func, inst, message));
        }
        for (i, region) in op.regions().into_iter().enumerate() {
            self.region(region, op.rules().end_of_region(i), op.rules().may_stop(i));
        }
    }
}

/// A broken rule at an instruction.
pub(super) fn broken(func: &Func, inst: Inst, message: String) -> Diagnostic {
    Diagnostic::error(Code::BrokenRule, func.place(inst), message)
}

//! Values that stand for others while a pass walks.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ir::Func;
use ir::entity::{Inst, Value};
use ir::ops::Values;

/// Which value stands for which. A pass that walks in program order rewrites each instruction as it meets it, so one
/// walk replaces everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Replaced {
    by: SecondaryMap<Value, PackedOption<Value>>,
}

impl Replaced {
    /// What stands for `value` now.
    pub(super) fn current(&self, value: Value) -> Value {
        let mut at = value;
        while let Some(next) = self.by[at].expand() {
            at = next;
        }
        at
    }

    /// Rewrites the operands of an instruction.
    pub(super) fn apply(&self, func: &mut Func, inst: Inst) {
        func.op_mut(inst)
            .rules_mut()
            .visit_mut(&mut |v| *v = self.current(*v));
    }

    /// From now on `new` stands for `old`, and takes its name if it has none.
    pub(super) fn replace(&mut self, func: &mut Func, old: Value, new: Value) {
        debug_assert!(self.current(new) != old, "a value cannot stand for itself");
        self.by[old] = new.into();
        if func.name(new).is_none()
            && let Some(name) = func.name(old).map(str::to_owned)
        {
            func.set_name(new, &name);
        }
    }

    /// The same for every result of an instruction.
    pub(super) fn replace_results(&mut self, func: &mut Func, inst: Inst, values: &[Value]) {
        let results: Values = func.results(inst).into();
        for (result, &value) in results.into_iter().zip(values) {
            self.replace(func, result, value);
        }
    }
}

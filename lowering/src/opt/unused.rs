//! `drop-unused`: removes dead instructions and dead carried values.

use cranelift_entity::EntitySet;
use diag::Diagnostics;
use ir::entity::{Inst, Region, Value};
use ir::ops::flow;
use ir::{Func, ValueDef};

/// Keeps what has an effect and what that needs, and removes the rest, round loops too: a carried value that only
/// feeds itself is unused.
pub fn run(func: &mut Func, _: &mut Diagnostics) {
    let mut live = Live {
        func,
        insts: EntitySet::with_capacity(func.inst_count()),
        values: EntitySet::with_capacity(func.value_count()),
        pending: Vec::new(),
    };
    live.terminator(func.body);
    live.roots(func.body);
    live.close();
    let Live { insts, values, .. } = live;
    let live = Kept { insts, values };
    sweep(func, func.body, &live);
}

struct Live<'f> {
    func: &'f Func,
    insts: EntitySet<Inst>,
    values: EntitySet<Value>,
    pending: Vec<Value>,
}

impl Live<'_> {
    /// Everything that has an effect of its own. A terminator is no root: it lives with its region.
    fn roots(&mut self, region: Region) {
        let func = self.func;
        for &inst in &func.region(region).insts {
            let rules = func.op(inst).rules();
            if !rules.is_terminator() && !rules.effects().is_droppable() {
                self.inst(inst);
            }
            for inner in func.op(inst).regions() {
                self.roots(inner);
            }
        }
    }

    fn value(&mut self, value: Value) {
        if self.values.insert(value) {
            self.pending.push(value);
        }
    }

    /// The instruction stays, and so do what it needs in any case, the ends of its regions, and what it stands in.
    fn inst(&mut self, inst: Inst) {
        if !self.insts.insert(inst) {
            return;
        }
        let func = self.func;
        for value in flow::fixed_operands(func, inst) {
            self.value(value);
        }
        for region in func.op(inst).regions() {
            self.terminator(region);
        }
        if let Some(owner) = func.region(func.parent(inst)).owner.expand() {
            self.inst(owner);
        }
    }

    fn terminator(&mut self, region: Region) {
        if let Some(&last) = self.func.region(region).insts.last() {
            self.inst(last);
        }
    }

    fn close(&mut self) {
        while let Some(value) = self.pending.pop() {
            let slot = match self.func.def(value) {
                ValueDef::Result(inst, at) => {
                    self.inst(inst);
                    Some((inst, at as usize))
                }
                ValueDef::Param(..) => flow::slot_of_param(self.func, value),
            };
            if let Some(slot) = slot.and_then(|(inst, at)| flow::slot(self.func, inst, at)) {
                slot.values().for_each(|value| self.value(value));
            }
        }
    }
}

struct Kept {
    insts: EntitySet<Inst>,
    values: EntitySet<Value>,
}

fn sweep(func: &mut Func, region: Region, live: &Kept) {
    let old = &func.region(region).insts;
    let kept: Vec<Inst> = old
        .iter()
        .copied()
        .filter(|inst| live.insts.contains(*inst))
        .collect();
    for &inst in &kept {
        let results = flow::slots(func, inst);
        if results
            .iter()
            .any(|slot| !live.values.contains(slot.result))
        {
            flow::retain_slots(func, inst, |at| live.values.contains(results[at].result));
        }
        for inner in func.op(inst).regions() {
            sweep(func, inner, live);
        }
    }
    if kept.len() != func.region(region).insts.len() {
        func.set_insts(region, kept);
    }
}

#[cfg(test)]
mod tests {
    use crate::test::check;

    #[test]
    fn drops_chains_and_unused_loads_but_no_stores() {
        check(
            "drop-unused",
            "
            #blocked = Blocked([4], [32], [4], [0])
            kernel @k(%x: ptr<f32>, %n: i32) warps(4) {
              %i = arange {start=0, end=512} : tensor<512xi32, #blocked>
              %0 = binary %i, %i {op=add} : tensor<512xi32, #blocked>
              %1 = splat %x : tensor<512xptr<f32>, #blocked>
              %at = ptr_add %1, %i : tensor<512xptr<f32>, #blocked>
              %2 = load %at : tensor<512xf32, #blocked>
              %3 = load %at {is_volatile=true} : tensor<512xf32, #blocked>
              %one = constant {value=1.0} : tensor<512xf32, #blocked>
              store %at, %one
              return
            }",
            "
            #blocked = Blocked([4], [32], [4], [0])
            kernel @k(%x: ptr<f32>, %n: i32) warps(4) {
              %i = arange {start=0, end=512} : tensor<512xi32, #blocked>
              %0 = splat %x : tensor<512xptr<f32>, #blocked>
              %at = ptr_add %0, %i : tensor<512xptr<f32>, #blocked>
              %1 = load %at {is_volatile=true} : tensor<512xf32, #blocked>
              %one = constant {value=1.0} : tensor<512xf32, #blocked>
              store %at, %one
              return
            }",
        );
    }

    #[test]
    fn drops_carried_values_that_only_feed_themselves() {
        check(
            "drop-unused",
            "
            kernel @k(%x: ptr<i32>, %n: i32) warps(4) {
              %0 = constant {value=0} : i32
              %1 = constant {value=1} : i32
              %a, %b = for %0, %n, %1, [%0, %1] (%i: i32, %p: i32, %q: i32) {
                %2 = binary %p, %i {op=add} : i32
                %3 = binary %q, %q {op=mul} : i32
                yield [%2, %3]
              } : i32, i32
              store %x, %b
              return
            }",
            "
            kernel @k(%x: ptr<i32>, %n: i32) warps(4) {
              %0 = constant {value=0} : i32
              %1 = constant {value=1} : i32
              %b = for %0, %n, %1, [%1] (%i: i32, %q: i32) {
                %2 = binary %q, %q {op=mul} : i32
                yield [%2]
              } : i32
              store %x, %b
              return
            }",
        );
    }

    #[test]
    fn keeps_what_a_condition_needs_and_drops_branches_without_effect() {
        check(
            "drop-unused",
            "
            kernel @k(%x: ptr<i32>, %n: i32) warps(4) {
              %0 = constant {value=0} : i32
              %r, %s = while [%n, %n] (%p: i32, %q: i32) {
                %1 = compare %p, %0 {op=gt} : i1
                condition %1, [%p, %q]
              } (%p.1: i32, %q.1: i32) {
                store %x, %0
                %2 = binary %p.1, %p.1 {op=sub} : i32
                yield [%2, %q.1]
              } : i32, i32
              %c = compare %n, %0 {op=lt} : i1
              %t = if %c () {
                yield [%n]
              } () {
                yield [%0]
              } : i32
              return
            }",
            "
            kernel @k(%x: ptr<i32>, %n: i32) warps(4) {
              %0 = constant {value=0} : i32
              %r = while [%n] (%p: i32) {
                %1 = compare %p, %0 {op=gt} : i1
                condition %1, [%p]
              } (%p.1: i32) {
                store %x, %0
                %2 = binary %p.1, %p.1 {op=sub} : i32
                yield [%2]
              } : i32
              return
            }",
        );
    }
}

//! `forward-carried`: a value that a loop carries round unchanged is the value from before the loop.

use diag::Diagnostics;
use ir::Func;
use ir::entity::{Inst, Region, Value};
use ir::ops::flow::{self, Slot};

use super::replace::Replaced;

/// Replaces carried values that never change, two that are always equal, and branch results that both branches agree
/// on. `drop-unused` removes what that leaves dead.
pub fn run(func: &mut Func, _: &mut Diagnostics) {
    let mut replaced = Replaced::default();
    forward_in(func, func.body, &mut replaced);
    for inst in func.walk() {
        replaced.apply(func, inst);
    }
}

/// Inner loops first: what they leave alone, the loops around them may leave alone too.
fn forward_in(func: &mut Func, region: Region, replaced: &mut Replaced) {
    for at in 0..func.region(region).insts.len() {
        let inst = func.region(region).insts[at];
        for inner in func.op(inst).regions() {
            forward_in(func, inner, replaced);
        }
        forward(func, inst, replaced);
    }
}

fn forward(func: &mut Func, inst: Inst, replaced: &mut Replaced) {
    let slots = flow::slots(func, inst);
    for (at, slot) in slots.iter().enumerate() {
        if let Some(value) = unchanged(slot, replaced) {
            for &param in &slot.params {
                replaced.replace(func, param, value);
            }
            replaced.replace(func, slot.result, value);
            continue;
        }
        // Loop-carried values alone have an init to compare.
        let twin = slots[..at]
            .iter()
            .find(|other| slot.init.is_some() && is_twin(slot, other, replaced));
        if let Some(twin) = twin {
            for (&param, &other) in slot.params.iter().zip(&twin.params) {
                replaced.replace(func, param, other);
            }
            replaced.replace(func, slot.result, twin.result);
        }
    }
}

/// The one value that a slot always is, made outside of the op.
fn unchanged(slot: &Slot, replaced: &Replaced) -> Option<Value> {
    let mut others = slot
        .init
        .into_iter()
        .chain(slot.yielded.iter().map(|(_, v)| *v))
        .map(|v| replaced.current(v))
        .filter(|v| !slot.params.contains(v));
    let value = others.next()?;
    let is_the_only_one = others.all(|other| other == value);
    // What a branch yields may be made inside of it; then both cannot agree, for neither sees the other.
    is_the_only_one.then_some(value)
}

/// Do both have the same initial and yielded values?
fn is_twin(a: &Slot, b: &Slot, replaced: &Replaced) -> bool {
    let same = |x: Value, y: Value| replaced.current(x) == replaced.current(y);
    let inits = a.init.zip(b.init).is_some_and(|(x, y)| same(x, y));
    inits
        && a.yielded
            .iter()
            .zip(&b.yielded)
            .all(|((_, x), (_, y))| same(*x, *y))
}

#[cfg(test)]
mod tests {
    use crate::test::check;

    #[test]
    fn loop_invariant_carried_values_are_forwarded() {
        check(
            "forward-carried",
            "
            kernel @k(%n: i32, %m: i32) warps(4) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              %a, %b, %d = for %zero, %n, %one, [%m, %one, %one] (%i: i32, %p: i32, %q: i32, %r: i32) {
                %s = for %zero, %p, %one, [%p] (%j: i32, %t: i32) {
                  yield [%t]
                } : i32
                %u = binary %q, %i {op=add} : i32
                yield [%s, %u, %u]
              } : i32, i32, i32
              print [%a, %b, %d] {prefix=\"p\"}
              return
            }",
            "
            kernel @k(%n: i32, %m: i32) warps(4) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              %a, %b, %d = for %zero, %n, %one, [%m, %one, %one] (%i: i32, %p: i32, %q: i32, %r: i32) {
                %s = for %zero, %m, %one, [%m] (%j: i32, %t: i32) {
                  yield [%m]
                } : i32
                %u = binary %q, %i {op=add} : i32
                yield [%m, %u, %u]
              } : i32, i32, i32
              print [%m, %b, %b] {prefix=\"p\"}
              return
            }",
        );
    }

    #[test]
    fn while_and_if() {
        check(
            "forward-carried",
            "
            kernel @k(%n: i32, %m: i32, %c: i1) warps(4) stage(resolved) {
              %a, %b = while [%n, %m] (%p: i32, %q: i32) {
                condition %c, [%p, %q]
              } (%r: i32, %s: i32) {
                %t = binary %s, %r {op=add} : i32
                yield [%r, %t]
              } : i32, i32
              %e, %f = if %c () {
                yield [%a, %n]
              } () {
                yield [%n, %m]
              } : i32, i32
              print [%b, %e, %f] {prefix=\"p\"}
              return
            }",
            "
            kernel @k(%n: i32, %m: i32, %c: i1) warps(4) stage(resolved) {
              %a, %b = while [%n, %m] (%p: i32, %q: i32) {
                condition %c, [%n, %q]
              } (%r: i32, %s: i32) {
                %t = binary %s, %n {op=add} : i32
                yield [%n, %t]
              } : i32, i32
              %e, %f = if %c () {
                yield [%n, %n]
              } () {
                yield [%n, %m]
              } : i32, i32
              print [%b, %n, %f] {prefix=\"p\"}
              return
            }",
        );
    }
}

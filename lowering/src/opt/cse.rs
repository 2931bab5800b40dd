//! `merge-equal`: computes once what is computed twice, and reads once what is read twice with no write between.

use diag::Diagnostics;
use ir::entity::{Inst, Region, Value};
use ir::ops::{Op, flow};
use ir::{Effects, Func, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::replace::Replaced;
use crate::analysis::effects::NestedEffects;

/// Merges equal instructions: the same op on the same operands with the same result types, where the first is visible.
pub fn run(func: &mut Func, _: &mut Diagnostics) {
    let effects = NestedEffects::of(func);
    let mut merge = Merge {
        func,
        effects,
        replaced: Replaced::default(),
        scopes: Vec::new(),
        epoch: 0,
    };
    merge.region(merge.func.body);
}

/// What makes two instructions equal. Reads count the writes before them, so that only reads of one state are equal.
type Key = (Op, SmallVec<[Type; 1]>, u32);

struct Merge<'f> {
    func: &'f mut Func,
    effects: NestedEffects,
    replaced: Replaced,
    scopes: Vec<FxHashMap<Key, Inst>>,
    /// Counts changes of memory.
    epoch: u32,
}

impl Merge<'_> {
    fn region(&mut self, region: Region) {
        self.scopes.push(FxHashMap::default());
        let old = self.func.region(region).insts.clone();
        let kept: Vec<Inst> = old
            .iter()
            .copied()
            .filter(|&inst| self.keeps(inst))
            .collect();
        if kept.len() != old.len() {
            self.func.set_insts(region, kept);
        }
        self.scopes.pop();
    }

    fn keeps(&mut self, inst: Inst) -> bool {
        self.replaced.apply(self.func, inst);
        let regions = self.func.op(inst).regions();
        if flow::has_partitions(self.func.op(inst)) {
            // A partition has threads of its own, and no tile of anyone else's.
            let outer = std::mem::take(&mut self.scopes);
            self.inner(inst, &regions);
            self.scopes = outer;
            return true;
        }
        if !regions.is_empty() {
            self.inner(inst, &regions);
            return true;
        }
        let effects = self.effects.of_inst(inst);
        if writes(effects) {
            self.epoch += 1;
        }
        if !effects.is_droppable() || effects.is_unique || self.func.results(inst).is_empty() {
            return true;
        }
        let key = self.key(inst, effects);
        let known = self
            .scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(&key).copied());
        let Some(first) = known else {
            if let Some(scope) = self.scopes.last_mut() {
                scope.insert(key, inst);
            }
            return true;
        };
        let values: SmallVec<[Value; 1]> = self.func.results(first).into();
        self.replaced.replace_results(self.func, inst, &values);
        false
    }

    fn key(&self, inst: Inst, effects: Effects) -> Key {
        let types = self
            .func
            .results(inst)
            .iter()
            .map(|v| self.func.ty(*v).clone())
            .collect();
        let epoch = if effects.reads.is_none() {
            0
        } else {
            self.epoch
        };
        (self.func.op(inst).clone(), types, epoch)
    }

    fn inner(&mut self, inst: Inst, regions: &[Region]) {
        let changes = writes(self.effects.of_inst(inst));
        let is_loop = flow::is_loop(self.func.op(inst));
        for &region in regions {
            // Into a loop's body comes the memory of the iteration before, into a branch that of before the branch.
            if changes && is_loop {
                self.epoch += 1;
            }
            self.region(region);
            if changes {
                self.epoch += 1;
            }
        }
    }
}

/// Must reads before be told apart from reads after?
fn writes(effects: Effects) -> bool {
    !effects.writes.is_none() || effects.is_barrier
}

#[cfg(test)]
mod tests {
    use crate::test::check;

    #[test]
    fn equal_ops_are_one() {
        check(
            "merge-equal",
            "
            kernel @k(%n: i32, %c: i1) warps(4) stage(resolved) {
              %a = binary %n, %n {op=add} : i32
              %b = binary %n, %n {op=add} : i32
              %d = binary %a, %b {op=mul} : i32
              %e = binary %b, %a {op=mul} : i32
              %w = cast %n : i64
              %v = cast %n : u64
              if %c () {
                %f = binary %a, %a {op=mul} : i32
                %g = unary %n {op=neg} : i32
                print [%f, %g] {prefix=\"in\"}
                yield []
              } () {
                yield []
              }
              %h = unary %n {op=neg} : i32
              print [%d, %e, %w, %v, %h] {prefix=\"out\"}
              return
            }",
            "
            kernel @k(%n: i32, %c: i1) warps(4) stage(resolved) {
              %a = binary %n, %n {op=add} : i32
              %d = binary %a, %a {op=mul} : i32
              %w = cast %n : i64
              %v = cast %n : u64
              if %c () {
                %g = unary %n {op=neg} : i32
                print [%d, %g] {prefix=\"in\"}
                yield []
              } () {
                yield []
              }
              %h = unary %n {op=neg} : i32
              print [%d, %d, %w, %v, %h] {prefix=\"out\"}
              return
            }",
        );
    }

    #[test]
    fn reads_are_one_until_a_write_or_a_barrier() {
        check(
            "merge-equal",
            "
            kernel @k(%x: ptr<i32>, %y: ptr<i32>, %c: i1) warps(4) stage(resolved) {
              %a = load %x : i32
              %b = load %x : i32
              store %y, %b
              %d = load %x : i32
              barrier
              %e = load %x : i32
              %f = load %x {is_volatile=true} : i32
              %g = load %x {is_volatile=true} : i32
              if %c () {
                %h = load %x : i32
                store %y, %h
                yield []
              } () {
                yield []
              }
              %i = load %x : i32
              print [%a, %b, %d, %e, %f, %g, %i] {prefix=\"p\"}
              return
            }",
            "
            kernel @k(%x: ptr<i32>, %y: ptr<i32>, %c: i1) warps(4) stage(resolved) {
              %a = load %x : i32
              store %y, %a
              %d = load %x : i32
              barrier
              %e = load %x : i32
              %f = load %x {is_volatile=true} : i32
              %g = load %x {is_volatile=true} : i32
              if %c () {
                store %y, %e
                yield []
              } () {
                yield []
              }
              %i = load %x : i32
              print [%a, %a, %d, %e, %f, %g, %i] {prefix=\"p\"}
              return
            }",
        );
    }

    #[test]
    fn reads_before_a_loop_that_writes_are_not_those_inside() {
        let text = "
            kernel @k(%x: ptr<i32>, %n: i32) warps(4) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              %a = load %x : i32
              for %zero, %n, %one, [] (%i: i32) {
                %b = load %x : i32
                %s = binary %b, %one {op=add} : i32
                store %x, %s
                yield []
              }
              print [%a] {prefix=\"p\"}
              return
            }";
        check("merge-equal", text, text);
        let reads_only = text.replace("store %x, %s", "print [%s] {prefix=\"s\"}");
        let merged = reads_only
            .replace("                %b = load %x : i32\n", "")
            .replace("binary %b", "binary %a");
        check("merge-equal", &reads_only, &merged);
    }
}

//! `hoist-invariant`: moves out of a loop what every iteration computes alike.

use cranelift_entity::EntitySet;
use diag::Diagnostics;
use ir::Func;
use ir::entity::{Inst, Region, Value};
use ir::ops::flow;

use crate::analysis::axis::Axes;
use crate::analysis::effects::NestedEffects;

/// Hoists out of every loop, inner loops first, so that what is invariant in all of them ends up before the outermost.
///
/// Pure ops move always. A read moves if the loop writes nothing that it could read and if it would have run anyway:
/// out of a loop that is known to run, or out of the test of a `while`.
pub fn run(func: &mut Func, _: &mut Diagnostics) {
    let effects = NestedEffects::of(func);
    let mut hoist = Hoist {
        func,
        effects,
        axes: None,
    };
    hoist.region(hoist.func.body);
}

struct Hoist<'f> {
    func: &'f mut Func,
    effects: NestedEffects,
    /// Asked for only where a loop has a read to move.
    axes: Option<Axes>,
}

impl Hoist<'_> {
    fn region(&mut self, region: Region) {
        let old = self.func.region(region).insts.clone();
        let mut new = Vec::with_capacity(old.len());
        for &inst in &old {
            for inner in self.func.op(inst).regions() {
                self.region(inner);
            }
            if flow::is_loop(self.func.op(inst)) {
                self.hoist_from(inst, &mut new);
            }
            new.push(inst);
        }
        if new.len() != old.len() {
            self.func.set_insts(region, new);
        }
    }

    /// Appends to `out` what can leave the loop.
    fn hoist_from(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let mut inside = EntitySet::new();
        let regions = self.func.op(inst).regions();
        for &region in &regions {
            values_in(self.func, region, &mut inside);
        }
        for (at, &region) in regions.iter().enumerate() {
            let old = self.func.region(region).insts.clone();
            let mut kept = Vec::with_capacity(old.len());
            for &candidate in &old {
                if self.may_leave(candidate, inst, at, &inside) {
                    for &value in self.func.results(candidate) {
                        inside.remove(value);
                    }
                    out.push(candidate);
                } else {
                    kept.push(candidate);
                }
            }
            if kept.len() != old.len() {
                self.func.set_insts(region, kept);
            }
        }
    }

    fn may_leave(
        &mut self,
        inst: Inst,
        from: Inst,
        region: usize,
        inside: &EntitySet<Value>,
    ) -> bool {
        let effects = self.effects.of_inst(inst);
        let op = self.func.op(inst);
        if op.rules().is_terminator()
            || !effects.is_droppable()
            || effects.is_unique
            || self.func.results(inst).is_empty()
        {
            return false;
        }
        let mut depends = false;
        for_each_outer_operand(self.func, inst, &mut |v| depends |= inside.contains(v));
        if depends {
            return false;
        }
        let around = self.effects.of_inst(from);
        if effects.reads.intersects(around.writes)
            || (around.is_barrier && !effects.reads.is_none())
        {
            return false;
        }
        !effects.is_guarded || self.runs_for_certain(from, region)
    }

    /// Does the region of the loop run at least once?
    fn runs_for_certain(&mut self, inst: Inst, region: usize) -> bool {
        let op = self.func.op(inst);
        let Some(counted) = flow::counted(op) else {
            return flow::runs_in_any_case(op, region);
        };
        let axes = self.axes.get_or_insert_with(|| Axes::of(self.func));
        let bounds = axes.range(counted.low).zip(axes.range(counted.high));
        bounds.is_some_and(|(low, high)| low.high < high.low)
    }
}

/// Everything that an instruction uses from outside of itself: operands, and what its regions use.
fn for_each_outer_operand(func: &Func, inst: Inst, visit: &mut dyn FnMut(Value)) {
    let mut own = EntitySet::new();
    for region in func.op(inst).regions() {
        values_in(func, region, &mut own);
    }
    let mut insts = vec![inst];
    for region in func.op(inst).regions() {
        func.walk_region(region, &mut insts);
    }
    for inst in insts {
        func.op(inst).rules().visit(&mut |v| {
            if !own.contains(v) {
                visit(v);
            }
        });
    }
}

fn values_in(func: &Func, region: Region, values: &mut EntitySet<Value>) {
    let data = func.region(region);
    for &param in &data.params {
        values.insert(param);
    }
    for &inst in &data.insts {
        for &value in func.results(inst) {
            values.insert(value);
        }
        for inner in func.op(inst).regions() {
            values_in(func, inner, values);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test::check;

    #[test]
    fn pure_ops_leave_all_loops_that_they_do_not_depend_on() {
        check(
            "hoist-invariant",
            "
            kernel @k(%x: ptr<i32>, %n: i32) warps(4) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              for %zero, %n, %one, [] (%i: i32) {
                for %zero, %n, %one, [] (%j: i32) {
                  %a = binary %n, %n {op=mul} : i32
                  %b = binary %a, %i {op=add} : i32
                  %d = binary %b, %j {op=add} : i32
                  store %x, %d
                  yield []
                }
                yield []
              }
              return
            }",
            "
            kernel @k(%x: ptr<i32>, %n: i32) warps(4) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              %a = binary %n, %n {op=mul} : i32
              for %zero, %n, %one, [] (%i: i32) {
                %b = binary %a, %i {op=add} : i32
                for %zero, %n, %one, [] (%j: i32) {
                  %d = binary %b, %j {op=add} : i32
                  store %x, %d
                  yield []
                }
                yield []
              }
              return
            }",
        );
    }

    #[test]
    fn a_gather_stays_in_a_loop_that_may_not_run() {
        let text = "
            #blocked = Blocked([1], [32], [1], [0])
            kernel @k(%x: ptr<i32>, %n: i32) warps(1) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              %v = arange {start=0, end=32} : tensor<32xi32, #blocked>
              %at = splat %n : tensor<32xi32, #blocked>
              for %zero, %n, %one, [] (%i: i32) {
                %r = gather %v, %at {axis=0} : tensor<32xi32, #blocked>
                print [%r] {prefix=\"r\"}
                yield []
              }
              return
            }";
        check("hoist-invariant", text, text);
    }

    #[test]
    fn reductions_leave_with_their_region() {
        check(
            "hoist-invariant",
            "
            #b = Blocked([4], [32], [4], [0])
            kernel @k(%x: ptr<f32>, %n: i32) warps(4) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              %v = constant {value=1.0} : tensor<512xf32, #b>
              for %zero, %n, %one, [] (%i: i32) {
                %m = reduce [%v] {axis=0} (%l: f32, %r: f32) {
                  %max = binary %l, %r {op=max} : f32
                  yield [%max]
                } : f32
                store %x, %m
                yield []
              }
              return
            }",
            "
            #blocked = Blocked([4], [32], [4], [0])
            kernel @k(%x: ptr<f32>, %n: i32) warps(4) stage(resolved) {
              %zero = constant {value=0} : i32
              %one = constant {value=1} : i32
              %v = constant {value=1.0} : tensor<512xf32, #blocked>
              %m = reduce [%v] {axis=0} (%l: f32, %r: f32) {
                %max = binary %l, %r {op=max} : f32
                yield [%max]
              } : f32
              for %zero, %n, %one, [] (%i: i32) {
                store %x, %m
                yield []
              }
              return
            }",
        );
    }

    const READS: &str = "
        kernel @k(%x: ptr<i32>, %n: i32) warps(4) stage(resolved) {
          %zero = constant {value=0} : i32
          %eight = constant {value=8} : i32
          %one = constant {value=1} : i32
          %s = for %zero, %eight, %one, [%zero] (%i: i32, %a: i32) {
            %v = load %x : i32
            %t = binary %a, %v {op=add} : i32
            yield [%t]
          } : i32
          print [%s] {prefix=\"s\"}
          return
        }";

    #[test]
    fn reads_leave_loops_that_run_and_do_not_write() {
        let load = "            %v = load %x : i32\n";
        let hoisted = READS.replace(load, "").replace(
            "          %s = for",
            "          %v = load %x : i32\n          %s = for",
        );
        check("hoist-invariant", READS, &hoisted);
        // A loop that may not run at all must not read.
        let maybe = READS.replace("for %zero, %eight", "for %zero, %n");
        check("hoist-invariant", &maybe, &maybe);
        let writes = READS.replace(
            "            yield",
            "            store %x, %t\n            yield",
        );
        check("hoist-invariant", &writes, &writes);
        let volatile = READS.replace("load %x", "load %x {is_volatile=true}");
        check("hoist-invariant", &volatile, &volatile);
    }

    #[test]
    fn the_test_of_a_while_runs_in_any_case() {
        let text = "
            kernel @k(%x: ptr<i32>, %y: ptr<i32>, %n: i32) warps(4) stage(resolved) {
              %s = while [%n] (%p: i32) {
                %v = load %x : i32
                %c = compare %p, %v {op=lt} : i1
                condition %c, [%p]
              } (%q: i32) {
                %w = load %y : i32
                %t = binary %q, %w {op=add} : i32
                yield [%t]
              } : i32
              print [%s] {prefix=\"s\"}
              return
            }";
        let load = "                %v = load %x : i32\n";
        let hoisted = text.replace(load, "").replace(
            "              %s = while",
            "              %v = load %x : i32\n              %s = while",
        );
        check("hoist-invariant", text, &hoisted);
    }
}

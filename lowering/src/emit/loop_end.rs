//! The end of a loop's body that may stop the loop: `break`.
//!
//! The body ends in a `condition`. Where an `if` in front of it decides, as after `if found { break; }`, each of its arms goes on or leaves
//! by a branch of its own: no predicate is kept and tested again.

use ir::Func;
use ir::elem::Elem;
use ir::entity::{Region, Value};
use ir::ops::control::{If, yielded};
use ir::ops::create::Const;
use ir::ops::{Values, flow};
use ptx::{Label, Predicate};

use super::control::Slot;
use super::{Emitted, Emitter};

/// Where the body of a loop leads.
pub(super) struct Ways<'s> {
    /// What the next iteration is given.
    pub(super) carried: &'s [Slot],
    /// Before the next test.
    pub(super) again: Label,
    /// What the loop leaves.
    pub(super) left: &'s [Slot],
    /// After the loop.
    pub(super) done: Label,
}

/// What the end of a region says.
#[derive(Clone)]
struct End {
    /// Goes on or not; always, where it says nothing.
    go_on: Option<Value>,
    values: Values,
}

impl Emitter<'_> {
    /// Emits the body of a loop and where it leads, which falls through to the label `again`.
    pub(super) fn loop_body(&mut self, body: Region, ways: &Ways<'_>) -> Emitted {
        let end = End {
            go_on: flow::condition(self.func, body),
            values: yielded(self.func, body).iter().copied().collect(),
        };
        self.ending(body, end, ways, true)
    }

    /// Emits a region at the end of the body, whose own end stands for `end`.
    fn ending(
        &mut self,
        region: Region,
        end: End,
        ways: &Ways<'_>,
        falls_through: bool,
    ) -> Emitted {
        let Some((branch, results)) = end.go_on.and_then(|go| self.deciding_branch(region, go))
        else {
            self.region(region)?;
            self.lead(&end, ways, falls_through);
            return Ok(());
        };
        self.region_but_its_branch(region)?;
        let condition = self.scalar(branch.condition);
        let condition = self.code.whole(condition, Elem::I1);
        let otherwise = self.code.label("else");
        self.code
            .branch(Some(Predicate::not(condition)), otherwise, true);
        for (arm, is_last) in [(branch.then, false), (branch.otherwise, true)] {
            if is_last {
                self.code.bind(otherwise);
            }
            let end = of_arm(self.func, &end, &results, arm);
            self.code.open();
            self.ending(arm, end, ways, is_last && falls_through)?;
            self.code.close();
        }
        Ok(())
    }

    /// The branch in front of the end of a region, if `go_on` is one of its results and nothing but the end uses them.
    fn deciding_branch(&self, region: Region, go_on: Value) -> Option<(If, Vec<Value>)> {
        let func = self.func;
        let insts = &func.region(region).insts;
        let (&end, before) = insts.split_last()?;
        let &last = before.last()?;
        let branch = flow::branch(func.op(last))?.clone();
        let results = func.results(last).to_vec();
        let ends = |value: &Value| self.uses().of_value(*value).iter().all(|user| *user == end);
        (results.contains(&go_on) && results.iter().all(ends)).then_some((branch, results))
    }

    /// Hands on what the end says, and goes where it says.
    fn lead(&mut self, end: &End, ways: &Ways<'_>, falls_through: bool) {
        let constant = end.go_on.map(|go| self.func.constant(go));
        match (end.go_on, constant) {
            (Some(_), Some(Some(Const::Int(0)))) => {
                self.yield_values(ways.left, &end.values);
                self.code.branch(None, ways.done, true);
            }
            (Some(go_on), Some(None)) => {
                let go_on = self.scalar(go_on);
                let go_on = self.code.whole(go_on, Elem::I1);
                if std::ptr::eq(ways.left, ways.carried) {
                    self.yield_values(ways.carried, &end.values);
                    self.code
                        .branch(Some(Predicate::not(go_on)), ways.done, true);
                } else {
                    // What is left may have the registers that the next iteration is given values from.
                    let stays = self.code.label("stays");
                    self.code.branch(Some(Predicate::is(go_on)), stays, true);
                    self.yield_values(ways.left, &end.values);
                    self.code.branch(None, ways.done, true);
                    self.code.bind(stays);
                    self.yield_values(ways.carried, &end.values);
                }
                self.go_on(ways, falls_through);
            }
            _ => {
                self.yield_values(ways.carried, &end.values);
                self.go_on(ways, falls_through);
            }
        }
    }

    fn go_on(&mut self, ways: &Ways<'_>, falls_through: bool) {
        if !falls_through {
            self.code.branch(None, ways.again, true);
        }
    }
}

/// What `end` is by way of one arm of the branch in front of it.
fn of_arm(func: &Func, end: &End, results: &[Value], arm: Region) -> End {
    let given = yielded(func, arm);
    let by_arm = |value: &Value| match results.iter().position(|r| r == value) {
        Some(at) => given[at],
        None => *value,
    };
    End {
        go_on: end.go_on.as_ref().map(by_arm),
        values: end.values.iter().map(by_arm).collect(),
    }
}

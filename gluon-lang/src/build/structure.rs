//! Exits made structured: `break`, `continue` and `return` under a runtime condition.
//!
//! While tracing, an arm of a branch that is left early ends where it is left. When the loop or function that it goes to ends, and all ways
//! there are known, what follows the branch moves into the arm that goes on:
//!
//! ```text
//! if %c {                         %v, %go = if %c {
//!   exit, [%a]                      yield [%a, %false]
//! } else {                        } else {
//!   yield [%b]                      %d = f(%b)
//! }                                 yield [%d, %true]
//! %d = f(%b)                      }
//! yield [%d]                      condition %go, [%v]
//! ```
//!
//! Where both arms go on and one of them may have been left deeper inside, the branch gives a flag, and what follows is guarded by it. A loop
//! between the exit and its target carries the flag, and stops.
//!
//! Matches on ops: a branch is made again with other results, by its own fields.

use ir::entity::{Inst, Loc, Region, Value};
use ir::ops::control::If;
use ir::ops::{Op, flow};
use ir::{Func, Type};

use super::exits::Exits;

impl Exits {
    /// Makes every exit to the end of `target` structured. `target` ends in a `yield`, or is dead; the exits yield as many values. If one of
    /// them stops a loop, `target` ends in a `condition` afterwards. Gives what stands in the way, if something does.
    pub(crate) fn settle(
        &mut self,
        func: &mut Func,
        target: Region,
        at: Loc,
    ) -> Result<(), Blocked> {
        let exits = self.to(func, target);
        if exits.is_empty() {
            return Ok(());
        }
        let stops = exits.iter().any(|(_, stops)| *stops);
        let mut pass = Settle {
            func,
            exits: self,
            target,
            at,
            blocked: None,
            slots: Vec::new(),
        };
        if stops {
            for (region, stops) in exits {
                pass.prepend(region, !stops);
            }
            if pass.exits.falls_through(target) {
                pass.prepend(target, true);
            }
        }
        pass.tail(target, &|_, _, values| values.to_vec());
        if stops {
            pass.stop_where_said(target);
        }
        pass.blocked.map_or(Ok(()), Err)
    }
}

/// Why an exit cannot be made structured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocked {
    /// This follows it, and may stand in no branch.
    Partitions(Inst),
    /// An accumulator in flight has no value on one of the ways.
    InFlight,
}

/// What a region yields for the values of an exit.
type Wrap<'w> = &'w dyn Fn(&mut Settle<'_>, Region, &[Value]) -> Vec<Value>;

/// The exits to the end of one region, being made structured.
pub(super) struct Settle<'f> {
    pub(super) func: &'f mut Func,
    pub(super) exits: &'f mut Exits,
    pub(super) target: Region,
    pub(super) at: Loc,
    pub(super) blocked: Option<Blocked>,
    /// The slots for the values of the exits of the innermost loop around that is left: what they hold where nothing leaves.
    pub(super) slots: Vec<Value>,
}

impl Settle<'_> {
    /// Makes the exits in `region` ways to its end, which is the end that they go to.
    pub(super) fn tail(&mut self, region: Region, wrap: Wrap<'_>) {
        if self.is_exit(region) {
            let values = self.end(region);
            let wrapped = wrap(self, region, &values);
            self.end_in(region, wrapped);
            self.exits.leave.remove(&region);
        }
        let insts = &self.func.region(region).insts;
        let Some(first) = insts.iter().position(|i| self.holds_exit(*i)) else {
            return;
        };
        let (before, inst) = (insts[..first].to_vec(), insts[first]);
        let rest = insts[first + 1..].to_vec();
        let arms = flow::branch(self.func.op(inst)).map(|b| [b.then, b.otherwise]);
        match arms {
            Some(arms) if !arms.iter().all(|arm| self.falls(*arm)) => {
                self.sink(region, (before, inst, rest), arms, wrap);
            }
            _ => self.guard(region, (before, inst, rest), wrap),
        }
    }

    /// One arm at most goes on: what follows moves into it.
    fn sink(
        &mut self,
        region: Region,
        (mut before, inst, rest): (Vec<Inst>, Inst, Vec<Inst>),
        arms: [Region; 2],
        wrap: Wrap<'_>,
    ) {
        if let Some(&arm) = arms.iter().find(|arm| self.falls(**arm)) {
            let given = self.end(arm);
            let results = self.func.results(inst).to_vec();
            self.replace(&results, &given);
            self.move_rest(region, arm, &rest);
        } else {
            self.exits.dead.remove(&region);
            self.exits.leave.remove(&region);
        }
        for arm in arms {
            self.tail(arm, wrap);
        }
        let Op::If(branch) = self.func.op(inst).clone() else {
            return;
        };
        self.join(region, &mut before, branch, self.func.loc(inst));
    }

    /// Ends `region` in a branch whose results are what the region yields.
    fn join(&mut self, region: Region, before: &mut Vec<Inst>, branch: If, loc: Option<Loc>) {
        let arms = [branch.then, branch.otherwise];
        let goes_on = arms.into_iter().find(|arm| self.falls(*arm));
        let types: Vec<Type> = goes_on.map_or_else(Vec::new, |arm| self.types(&self.end(arm)));
        let inst = self
            .func
            .make_inst(branch, types.into_iter().collect(), loc);
        before.push(inst);
        self.func.set_insts(region, std::mem::take(before));
        if goes_on.is_some() {
            let results = self.func.results(inst).to_vec();
            self.push_yield(region, results);
            self.exits.dead.remove(&region);
        } else {
            self.exits.dead.insert(region);
        }
    }

    /// Moves what follows a branch to the end of one of its arms, with where it leads.
    fn move_rest(&mut self, from: Region, arm: Region, rest: &[Inst]) {
        self.refuse_partitions(rest);
        let mut insts = self.func.region(arm).insts.clone();
        insts.pop();
        insts.extend(rest);
        let mut kept = self.func.region(from).insts.clone();
        kept.truncate(kept.len() - rest.len());
        self.func.set_insts(from, kept);
        self.func.set_insts(arm, insts);
        self.exits.move_end(from, arm);
    }

    /// Both ways through `inst` may go on, and one may leave deeper inside: a flag says which, and guards what follows.
    fn guard(
        &mut self,
        region: Region,
        (mut before, inst, rest): (Vec<Inst>, Inst, Vec<Inst>),
        wrap: Wrap<'_>,
    ) {
        let loc = self.func.loc(inst);
        let (flagged, flag, given) = self.flagged(inst, &mut before);
        before.push(flagged);
        let then = self.func.new_region();
        let is_dead = self.exits.dead.contains(&region);
        if is_dead && rest.is_empty() {
            // Nothing follows: the flag is certain. A dead end behind other code is that code's.
            self.exits.dead.remove(&region);
            self.func.set_insts(region, before);
            let wrapped = wrap(self, region, &given);
            self.push_yield(region, wrapped);
            return;
        }
        self.refuse_partitions(&rest);
        let wrapped = wrap(self, then, &given);
        self.push_yield(then, wrapped);
        let otherwise = self.func.new_region();
        self.func.set_insts(region, before.clone());
        self.func.set_insts(otherwise, rest);
        self.exits.move_end(region, otherwise);
        self.tail(otherwise, wrap);
        let branch = If {
            condition: flag,
            then,
            otherwise,
        };
        self.join(region, &mut before, branch, loc);
    }

    fn refuse_partitions(&mut self, rest: &[Inst]) {
        let parts = rest
            .iter()
            .find(|inst| flow::partitions(self.func.op(**inst)).is_some());
        if let Some(&inst) = parts {
            self.blocked.get_or_insert(Blocked::Partitions(inst));
        }
    }
}

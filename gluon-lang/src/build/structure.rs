//! Exits made structured: `break`, `continue` and `return` that the kernel decides.
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
//! Matches on ops: branches and loops are made again with other results, each by its own fields.

use cranelift_entity::SecondaryMap;
use ir::entity::{Inst, Loc, Region, Value};
use ir::ops::control::{Condition, For, If, While, Yield, handed_on_by};
use ir::ops::create::{Const, Constant, Undefined};
use ir::ops::{Op, Values, flow};
use ir::{Func, Type};
use std::collections::{HashMap, HashSet};

/// Where a region that is left early goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave {
    /// The end of this region.
    pub(crate) target: Region,
    /// It ends the loop that the target is the body of.
    pub(crate) stops: bool,
}

/// The regions that do not run to their end.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// Those that end in an exit: a `yield` of what they hand to its target.
    leave: HashMap<Region, Leave>,
    /// Those whose end nothing reaches, for every way through them leaves.
    dead: HashSet<Region>,
}

impl Exits {
    /// The region ends in an exit.
    pub(crate) fn leave(&mut self, region: Region, leave: Leave) {
        self.leave.insert(region, leave);
    }

    /// Is no region left early?
    pub(crate) fn is_empty(&self) -> bool {
        self.leave.is_empty() && self.dead.is_empty()
    }

    /// The end of `from` is now that of `to`.
    pub(crate) fn move_end(&mut self, from: Region, to: Region) {
        if let Some(leave) = self.leave.remove(&from) {
            self.leave.insert(to, leave);
        }
        if self.dead.remove(&from) {
            self.dead.insert(to);
        }
    }

    /// Nothing reaches the end of the region.
    pub(crate) fn kill(&mut self, region: Region) {
        self.dead.insert(region);
    }

    /// Does code after this region run?
    pub(crate) fn falls_through(&self, region: Region) -> bool {
        !self.leave.contains_key(&region) && !self.dead.contains(&region)
    }

    /// The regions inside that leave to the end of `target`, and whether they end its loop.
    pub(crate) fn to(&self, func: &Func, target: Region) -> Vec<(Region, bool)> {
        let mut found = Vec::new();
        if !self.leave.is_empty() {
            self.collect(func, target, target, &mut found);
        }
        found
    }

    fn collect(
        &self,
        func: &Func,
        region: Region,
        target: Region,
        found: &mut Vec<(Region, bool)>,
    ) {
        for &inst in &func.region(region).insts {
            for inner in func.op(inst).regions() {
                self.collect(func, inner, target, found);
            }
        }
        if let Some(leave) = self.leave.get(&region)
            && leave.target == target
        {
            found.push((region, leave.stops));
        }
    }

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

struct Settle<'f> {
    func: &'f mut Func,
    exits: &'f mut Exits,
    target: Region,
    at: Loc,
    blocked: Option<Blocked>,
    /// The slots for the values of the exits of the innermost loop around that is left: what they hold where nothing leaves.
    slots: Vec<Value>,
}

impl Settle<'_> {
    /// Makes the exits in `region` ways to its end, which is the end that they go to.
    fn tail(&mut self, region: Region, wrap: Wrap<'_>) {
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
        if is_dead {
            // Nothing follows: the flag is certain.
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

    /// The same instruction, which gives a flag and what the exits in it hand on besides; nothing uses the old one.
    fn flagged(&mut self, inst: Inst, before: &mut Vec<Inst>) -> (Inst, Value, Vec<Value>) {
        let exits = self.exits_in(inst);
        let first = self.end(exits[0]);
        let passed = self.passed(inst, &exits);
        let old = self.func.results(inst).to_vec();
        let types: Vec<Type> = self.types(&old);
        let extra: Vec<Type> = passed
            .iter()
            .filter_map(|way| match way {
                Passed::Slot(ty) => Some(ty.clone()),
                _ => None,
            })
            .collect();
        let new = match self.func.op(inst).clone() {
            Op::If(branch) => self.flagged_branch(inst, branch, &passed, &extra),
            Op::For(mut op) => {
                self.flag_inits(before, &mut op.inits, &extra);
                self.flagged_for(inst, op, &passed, &extra)
            }
            Op::While(mut op) => {
                self.flag_inits(before, &mut op.inits, &extra);
                self.flagged_while(inst, op, &passed, &extra)
            }
            _ => unreachable!("branches and loops alone hold ways out"),
        };
        let results = self.func.results(new).to_vec();
        self.replace(&old, &results[..types.len()]);
        let mut slots = results[types.len() + 1..].iter().copied();
        let given = passed.iter().zip(first).map(|(way, value)| match way {
            Passed::Slot(_) => slots.next().expect("each has a result"),
            Passed::Result(at) => results[*at],
            Passed::Same => value,
        });
        (new, results[types.len()], given.collect())
    }

    /// How the values of the exits in `inst` get out of it. Where it is left nobody reads its results, so that one of the same type takes the
    /// value along: best that of the same variable, which then stays in its registers.
    fn passed(&self, inst: Inst, exits: &[Region]) -> Vec<Passed> {
        let ends: Vec<Vec<Value>> = exits.iter().map(|exit| self.end(*exit)).collect();
        let inside = self.regions_in(inst);
        let is_outside = |value: Value| !inside.contains(&self.home(value));
        let mut passed: Vec<Option<Passed>> = Vec::new();
        for (at, &value) in ends[0].iter().enumerate() {
            let is_one = ends.iter().all(|end| end[at] == value) && is_outside(value);
            passed.push(is_one.then_some(Passed::Same));
        }
        let results = self.func.results(inst);
        let mut is_taken = vec![false; results.len()];
        for wants_name in [true, false] {
            for (at, &value) in ends[0].iter().enumerate() {
                let fits = |i: &usize| {
                    !is_taken[*i]
                        && self.func.ty(results[*i]) == self.func.ty(value)
                        && (!wants_name || self.is_named_alike(results[*i], value))
                };
                if passed[at].is_none()
                    && let Some(result) = (0..results.len()).find(fits)
                {
                    is_taken[result] = true;
                    passed[at] = Some(Passed::Result(result));
                }
            }
        }
        let values = passed.into_iter().zip(&ends[0]);
        values
            .map(|(way, v)| way.unwrap_or_else(|| Passed::Slot(self.func.ty(*v).clone())))
            .collect()
    }

    fn is_named_alike(&self, a: Value, b: Value) -> bool {
        let name = self.func.name(a);
        name.is_some() && name == self.func.name(b)
    }

    fn flagged_branch(
        &mut self,
        inst: Inst,
        branch: If,
        passed: &[Passed],
        extra: &[Type],
    ) -> Inst {
        let old = self.types(self.func.results(inst).to_vec().as_slice());
        for arm in [branch.then, branch.otherwise] {
            let mut values = self.end(arm);
            self.append_none(arm, extra, &mut values);
            self.end_in(arm, values);
            self.tail(arm, &|pass, region, e| {
                pass.leaving(region, &old, passed, e, &[])
            });
        }
        let types = old
            .iter()
            .chain([&bool_type()])
            .chain(extra)
            .cloned()
            .collect();
        let loc = self.func.loc(inst);
        self.func.make_inst(branch, types, loc)
    }

    fn flagged_for(&mut self, inst: Inst, op: For, passed: &[Passed], extra: &[Type]) -> Inst {
        let slots = self.add_params(op.body, extra);
        self.flag_body(inst, (op.body, slots), passed, extra);
        self.rebuilt(inst, op, extra)
    }

    fn flagged_while(&mut self, inst: Inst, op: While, passed: &[Passed], extra: &[Type]) -> Inst {
        let added = self.add_params(op.before, extra);
        if let Some(&last) = self.func.region(op.before).insts.last()
            && let Op::Condition(end) = self.func.op_mut(last)
        {
            end.values.extend(added);
        }
        let slots = self.add_params(op.after, extra);
        self.flag_body(inst, (op.after, slots), passed, extra);
        self.rebuilt(inst, op, extra)
    }

    fn rebuilt(&mut self, inst: Inst, op: impl Into<Op>, extra: &[Type]) -> Inst {
        let old = self.types(self.func.results(inst).to_vec().as_slice());
        let types = old
            .iter()
            .chain([&bool_type()])
            .chain(extra)
            .cloned()
            .collect();
        let loc = self.func.loc(inst);
        self.func.make_inst(op, types, loc)
    }

    /// The flag and the values of the exits, in front of a loop.
    fn flag_inits(&mut self, before: &mut Vec<Inst>, inits: &mut Values, extra: &[Type]) {
        let none = Constant {
            value: Const::Int(0),
        };
        let flag = (Op::from(none), bool_type());
        let values = extra.iter().map(|ty| (Undefined {}.into(), ty.clone()));
        for (op, ty) in std::iter::once(flag).chain(values) {
            self.block_in_flight(&ty);
            let types = std::iter::once(ty).collect();
            let inst = self.func.make_inst(op, types, Some(self.at));
            inits.push(self.func.result(inst));
            before.push(inst);
        }
    }

    fn add_params(&mut self, region: Region, extra: &[Type]) -> Vec<Value> {
        let types = std::iter::once(bool_type()).chain(extra.iter().cloned());
        let types: Vec<Type> = types.collect();
        types
            .into_iter()
            .map(|ty| self.func.add_region_param(region, ty))
            .collect()
    }

    /// An exit out of the body of a loop stops the loop.
    fn flag_body(
        &mut self,
        inst: Inst,
        (body, slots): (Region, Vec<Value>),
        passed: &[Passed],
        extra: &[Type],
    ) {
        let outer = std::mem::replace(&mut self.slots, slots[1..].to_vec());
        let old = self.types(self.func.results(inst).to_vec().as_slice());
        if self.falls(body) {
            let go_on = flow::condition(self.func, body);
            let values = self.end(body);
            let go_on = go_on.unwrap_or_else(|| self.truth(body, true));
            let mut all: Vec<Value> = std::iter::once(go_on).chain(values).collect();
            self.append_none(body, extra, &mut all);
            self.end_in(body, all);
        }
        self.tail(body, &|pass, region, e| {
            let stop = pass.truth(region, false);
            pass.leaving(region, &old, passed, e, &[stop])
        });
        self.stop_where_said(body);
        self.slots = outer;
    }

    /// What a region yields where it is left: nothing for the results of its op, the flag, and the values of the exit.
    fn leaving(
        &mut self,
        region: Region,
        old: &[Type],
        passed: &[Passed],
        values: &[Value],
        first: &[Value],
    ) -> Vec<Value> {
        let mut out = first.to_vec();
        for (at, ty) in old.iter().enumerate() {
            let own = passed
                .iter()
                .position(|way| matches!(way, Passed::Result(r) if *r == at));
            let value = match own {
                Some(own) => values[own],
                None => self.undefined(region, ty, values),
            };
            out.push(value);
        }
        out.push(self.truth(region, true));
        let slots = passed.iter().zip(values);
        out.extend(
            slots
                .filter(|(way, _)| matches!(way, Passed::Slot(_)))
                .map(|(_, value)| *value),
        );
        out
    }

    /// Appends that nothing was left, and nothing for the values of the exits.
    fn append_none(&mut self, region: Region, extra: &[Type], values: &mut Vec<Value>) {
        values.push(self.truth(region, false));
        let mut slots = self.slots.clone().into_iter();
        for ty in extra {
            let same = slots.find(|slot| self.func.ty(*slot) == ty);
            let value = same.unwrap_or_else(|| self.undefined(region, ty, &[]));
            values.push(value);
        }
    }

    /// A value that nothing reads. An accumulator in flight has none: the exit must have one.
    fn undefined(&mut self, region: Region, ty: &Type, values: &[Value]) -> Value {
        if ty.as_in_flight().is_some() {
            let same = values.iter().find(|v| self.func.ty(**v) == ty);
            if let Some(&same) = same {
                return same;
            }
            self.block_in_flight(ty);
        }
        self.insert(region, Undefined {}, ty.clone())
    }

    fn block_in_flight(&mut self, ty: &Type) {
        if ty.as_in_flight().is_some() {
            self.blocked.get_or_insert(Blocked::InFlight);
        }
    }

    fn truth(&mut self, region: Region, value: bool) -> Value {
        let value = Const::Int(i128::from(value));
        self.insert(region, Constant { value }, bool_type())
    }

    /// Inserts an op with one result in front of the end of the region.
    fn insert(&mut self, region: Region, op: impl Into<Op>, ty: Type) -> Value {
        let types = std::iter::once(ty).collect();
        let inst = self.func.make_inst(op, types, Some(self.at));
        let insts = &self.func.region(region).insts;
        let last = insts.last();
        let ends = last.is_some_and(|last| self.func.op(*last).rules().is_terminator());
        let index = insts.len() - usize::from(ends);
        self.func.insert(region, index, inst);
        self.func.result(inst)
    }

    /// What a region yields in front decides whether the loop goes on.
    fn stop_where_said(&mut self, body: Region) {
        if !self.falls(body) {
            return;
        }
        let values = self.end(body);
        let (&condition, values) = values.split_first().expect("whether to go on comes first");
        let Some(&last) = self.func.region(body).insts.last() else {
            return;
        };
        let values = values.iter().copied().collect();
        self.func.replace_op(last, Condition { condition, values });
    }

    /// Puts a boolean in front of what a region yields.
    fn prepend(&mut self, region: Region, value: bool) {
        let truth = self.truth(region, value);
        let values = std::iter::once(truth).chain(self.end(region)).collect();
        self.end_in(region, values);
    }

    fn end(&self, region: Region) -> Vec<Value> {
        let last = self.func.region(region).insts.last();
        last.map_or_else(Vec::new, |last| handed_on_by(self.func.op(*last)).to_vec())
    }

    fn end_in(&mut self, region: Region, values: Vec<Value>) {
        if let Some(&last) = self.func.region(region).insts.last() {
            let values = values.into_iter().collect();
            self.func.replace_op(last, Yield { values });
        }
    }

    fn push_yield(&mut self, region: Region, values: Vec<Value>) {
        let values = values.into_iter().collect();
        let end = self.func.make_inst(
            Yield { values },
            std::iter::empty().collect(),
            Some(self.at),
        );
        self.func.append(region, end);
    }

    fn replace(&mut self, old: &[Value], new: &[Value]) {
        let mut map = SecondaryMap::new();
        for (&old, &new) in old.iter().zip(new) {
            map[old] = new.into();
        }
        self.func.replace_uses(&map);
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.func.ty(*v).clone()).collect()
    }

    fn falls(&self, region: Region) -> bool {
        self.exits.falls_through(region)
    }

    fn is_exit(&self, region: Region) -> bool {
        let leave = self.exits.leave.get(&region);
        leave.is_some_and(|leave| leave.target == self.target)
    }

    fn holds_exit(&self, inst: Inst) -> bool {
        !self.exits_in(inst).is_empty()
    }

    fn exits_in(&self, inst: Inst) -> Vec<Region> {
        let inside = self.regions_in(inst);
        inside.into_iter().filter(|r| self.is_exit(*r)).collect()
    }

    fn regions_in(&self, inst: Inst) -> Vec<Region> {
        let mut out = Vec::new();
        let mut pending: Vec<Region> = self.func.op(inst).regions().to_vec();
        while let Some(region) = pending.pop() {
            out.push(region);
            for &inner in &self.func.region(region).insts {
                pending.extend(self.func.op(inner).regions());
            }
        }
        out
    }

    /// The region that a value is made in.
    fn home(&self, value: Value) -> Region {
        match self.func.def(value) {
            ir::ValueDef::Param(region, _) => region,
            ir::ValueDef::Result(inst, _) => self.func.parent(inst),
        }
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

/// How a value of an exit gets out of the op that it leaves.
#[derive(Clone, Debug)]
enum Passed {
    /// As a result of its own.
    Slot(Type),
    /// As this result of the op, which is the same accumulator.
    Result(usize),
    /// It is made outside.
    Same,
}

fn bool_type() -> Type {
    Type::Scalar(ir::elem::Elem::I1)
}

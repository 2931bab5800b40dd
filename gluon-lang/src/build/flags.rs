//! Flags of exits: where both ways through a branch or loop may go on, it gives a flag that says whether an exit was taken inside, and the
//! exit's values besides.
//!
//! Matches on ops: branches and loops are made again with other results, each by its own fields.

use ir::Type;
use ir::entity::{Inst, Region, Value};
use ir::ops::control::{Condition, For, If, While};
use ir::ops::create::{Const, Constant, Undefined};
use ir::ops::{Op, Values, flow};

use super::edit::bool_type;
use super::structure::Settle;

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

impl Settle<'_> {
    /// The same instruction, which gives a flag and what the exits in it hand on besides; nothing uses the old one.
    pub(super) fn flagged(
        &mut self,
        inst: Inst,
        before: &mut Vec<Inst>,
    ) -> (Inst, Value, Vec<Value>) {
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
            _ => unreachable!("only branches and loops hold exits"),
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
        self.rebuilt(inst, branch, extra)
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

    /// What a region yields in front decides whether the loop goes on.
    pub(super) fn stop_where_said(&mut self, body: Region) {
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
}

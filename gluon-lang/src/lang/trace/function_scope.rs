//! A function of the kernel that a `return` may leave under a runtime condition: its returns join at its end.

use super::carry::{Carrier, Carry, Reach};
use super::exits::picked;
use super::frame::refuse;
use super::snapshot::{Snapshot, spare, write_value_of, write_values};
use super::{At, Trace, end, here, with};
use crate::build::Leave;
use diag::Code;
use ir::entity::{Region, Value};
use ir::ops::control::{Yield, handed_on_by};
use ir::{OpError, Type};

/// A function that a `return` may leave under a runtime condition.
pub struct FunctionScope<T> {
    core: ScopeCore,
    given: Option<Given<T>>,
}

/// What a `return` gave, and how to see its parts.
struct Given<T> {
    value: T,
    walk: fn(&mut T) -> &mut dyn Carry,
}

impl<T> FunctionScope<T> {
    /// The function begins.
    #[track_caller]
    pub fn begin() -> FunctionScope<T> {
        FunctionScope {
            core: ScopeCore::begin(here()),
            given: None,
        }
    }

    /// Is the function left somewhere? Then a `?` cannot leave it past the rest.
    #[track_caller]
    pub fn question<Q: super::Question>(&self, value: Q) -> Q {
        if value.leaves() && self.core.target.is_some() {
            refuse("?", here());
        }
        value
    }

    /// A `return` with its value, and what the function changes behind references.
    pub(super) fn leave(&mut self, mut value: T, reach: Reach<'_>, at: At)
    where
        T: Carry,
    {
        let mut given = Snapshot::default();
        given.add(&mut value);
        self.core.leave(given, reach, at);
        if self.given.is_none() {
            self.given = Some(Given {
                value,
                walk: |value| value as &mut dyn Carry,
            });
        }
    }

    /// Ends the function, with the value of the path that reaches its end, if any; its exits join here.
    #[inline]
    pub fn end(mut self, value: Option<T>, mut reach: impl FnMut(&mut Carrier<'_>)) -> T {
        match (self.given, value) {
            (None, Some(value)) => value,
            (None, None) => end(),
            (Some(given), value) => {
                let ends = value.is_some();
                let mut value = value.unwrap_or(given.value);
                self.core.end(ends, (given.walk)(&mut value), &mut reach);
                value
            }
        }
    }
}

struct ScopeCore {
    at: At,
    depth: usize,
    region: Region,
    /// How many instructions stood before it.
    start: usize,
    /// What is in it becomes this region, once it is left.
    target: Option<Region>,
    /// What the first `return` gave.
    first: Snapshot,
    /// How many were traced.
    exits: usize,
}

/// Early returns of one call. A `loop` of the host around a `return` under a runtime condition never ends by itself; its iterations are
/// traced one after the other, and each adds one.
const MOST_EXITS: usize = 1000;

/// Reports a host loop that a `return` of the kernel does not end, and ends tracing.
fn refuse_endless(at: At) -> ! {
    let error = OpError::new(
        Code::EarlyExit,
        format!("this call has more than {MOST_EXITS} runtime exits"),
    )
    .note("a host loop is unrolled, and a runtime `return` does not end it")
    .help("write a runtime loop: `while` with a `Scalar<bool>`, or `for i in range(low, high)`");
    with(at, |trace| trace.fail(error, at));
    end();
}

impl ScopeCore {
    #[inline(never)]
    fn begin(at: At) -> ScopeCore {
        with(at, |trace| {
            let region = trace.builder.region();
            ScopeCore {
                at,
                depth: trace.builder.depth(),
                region,
                start: trace.builder.func().region(region).insts.len(),
                target: None,
                first: Snapshot::default(),
                exits: 0,
            }
        })
    }

    #[inline(never)]
    fn leave(&mut self, mut given: Snapshot, reach: Reach<'_>, at: At) {
        given.0.extend(Snapshot::of(reach).0);
        self.exits += 1;
        if self.exits > MOST_EXITS {
            refuse_endless(at);
        }
        if self.target.is_none() {
            self.target = Some(with(at, |trace| trace.builder.func_mut().new_region()));
            self.first = given;
            let values = self.first.values();
            self.push(&values, at);
            return;
        }
        if let Some((_, a, b)) = self.first.host_change(&given) {
            let message =
                format!("two exits of this function give different host values, {a} and {b}");
            with(at, |trace| trace.host_changed(message, at));
        }
        self.push(&given.values(), at);
    }

    fn push(&self, values: &[Value], at: At) {
        let Some(target) = self.target else { return };
        with(at, |trace| {
            let visible = values.iter().map(|v| trace.visible_or_poison(*v, at));
            let values: Vec<Value> = visible.collect();
            let leave = Leave {
                target,
                stops: false,
            };
            trace.leave_region(values, leave, at);
        });
    }

    /// `ends` says whether `value` is there at the end of the function.
    #[inline(never)]
    fn end(&mut self, ends: bool, value: &mut dyn Carry, reach: Reach<'_>) {
        let at = self.at;
        let Some(target) = self.target else { return };
        let mut now = Snapshot::default();
        now.add(value);
        now.0.extend(Snapshot::of(reach).0);
        if ends && let Some((_, a, b)) = self.first.host_change(&now) {
            let message =
                format!("two exits of this function give different host values, {a} and {b}");
            with(at, |trace| trace.host_changed(message, at));
        }
        let ends = ends.then(|| now.values());
        let own = {
            let mut only = Snapshot::default();
            only.add(value);
            only.values().len()
        };
        let names = self.first.names();
        let merged = with(at, |trace| {
            if trace.builder.depth() != self.depth {
                // Something left a region unseen, which is reported where the function ends.
                return self
                    .first
                    .values()
                    .iter()
                    .map(|_| trace.builder.poison())
                    .collect();
            }
            trace.merge_ways_out(target, (self.region, self.start), ends, &names, at)
        });
        let merged: Vec<Value> = merged;
        let spare = spare(at);
        let split = own.min(merged.len());
        write_value_of(value, &merged[..split], spare);
        write_values(reach, &merged[split..], spare);
    }
}

impl Trace {
    /// What is in a function becomes a region; its exits join at its end, and it goes back to where it stood.
    fn merge_ways_out(
        &mut self,
        target: Region,
        (region, start): (Region, usize),
        ends: Option<Vec<Value>>,
        names: &[&str],
        at: At,
    ) -> Vec<Value> {
        let is_alive = self.goes_on();
        let mut insts = self.builder.func().region(region).insts.clone();
        let own = insts.split_off(start);
        self.builder.func_mut().set_insts(region, insts.clone());
        self.builder.func_mut().set_insts(target, own);
        if !is_alive {
            self.exits.move_end(region, target);
        }
        let ways = self.exits.to(self.builder.func(), target);
        let first = self.exit_values(ways[0].0);
        let all: Vec<Vec<Value>> = ways
            .iter()
            .map(|(exit, _)| self.exit_values(*exit))
            .collect();
        let all: Vec<Vec<Value>> = ends
            .iter()
            .filter(|_| is_alive)
            .cloned()
            .chain(all)
            .collect();
        let kept: Vec<bool> = (0..first.len())
            .map(|i| self.needs_merge(&all, i, names, at))
            .collect();
        if let Some(values) = ends.filter(|_| is_alive) {
            self.builder.reopen(target);
            let loc = self.loc(at);
            let values = picked(&values, &kept);
            self.builder.push_unchecked(Yield { values }, &[], loc);
            self.builder.close();
        }
        for (exit, _) in ways {
            self.retain_exit(exit, &kept);
        }
        self.settle(target, at);
        let mut back = self.builder.func().region(target).insts.clone();
        let end = back.pop();
        let given = end.map_or_else(Vec::new, |end| {
            handed_on_by(self.builder.func().op(end)).to_vec()
        });
        self.builder.func_mut().set_insts(target, Vec::new());
        insts.extend(back);
        self.builder.func_mut().set_insts(region, insts);
        let mut given = given.into_iter();
        let mut out = Vec::new();
        for (i, kept) in kept.iter().enumerate() {
            let merged = if *kept { given.next() } else { None };
            out.push(merged.unwrap_or(first[i]));
        }
        out
    }

    /// Do the ways give different values, of one type?
    fn needs_merge(&mut self, all: &[Vec<Value>], i: usize, names: &[&str], at: At) -> bool {
        let first = all[0][i];
        if all.iter().any(|way| self.is_poison(way[i])) {
            return false;
        }
        if all.iter().all(|way| way[i] == first) && self.builder.in_scope(first) {
            return false;
        }
        let ty = self.ty(first).clone();
        for way in &all[1..] {
            let other = self.ty(way[i]).clone();
            if other != ty {
                let name = names.get(i).copied().unwrap_or_default();
                self.ways_differ(name, (first, &ty), (way[i], &other), at);
                return false;
            }
        }
        true
    }

    fn ways_differ(&mut self, name: &str, a: (Value, &Type), b: (Value, &Type), at: At) {
        let message = if name.is_empty() {
            format!(
                "one exit of this function gives {} and another {}",
                a.1, b.1
            )
        } else {
            format!(
                "`{name}` is {} at one exit of this function and {} at another",
                a.1, b.1
            )
        };
        let error = OpError::new(Code::LoopCarriedType, message)
            .origin(a.0, format!("here it becomes {}", a.1))
            .origin(b.0, format!("here it becomes {}", b.1))
            .help("give both one type, with `cast` or `convert_layout`");
        self.fail(error, at);
    }
}

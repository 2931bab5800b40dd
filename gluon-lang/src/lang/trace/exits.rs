//! Ways out that the kernel decides: `break`, `continue` and `return` under a runtime condition.
//!
//! What the kernel decides is traced once, so the host does not follow such an exit: it leaves the arm or body around, whose end the trace
//! remembers as left, and goes on with what runs otherwise. `build/structure.rs` makes branches and flags of it.

use std::convert::Infallible;

use super::carry::{Carrier, Carry, HostCarrier, Reach, Saved, Snapshot};
use super::frame::refuse;
use super::{At, Trace, end, here, with};
use crate::build::{Blocked, Leave};
use diag::Code;
use ir::entity::{Region, Value};
use ir::ops::control::{Yield, handed_on_by};
use ir::ops::{Op, Values};
use ir::{OpError, Type};

/// Who decides whether the code in a branch or loop runs.
pub enum Inside<K, H> {
    /// The kernel, when it runs.
    Kernel(K),
    /// The host, while it traces.
    Host(H),
}

/// What an `if` gives some of whose arms leave.
pub enum Ended<T, K> {
    /// The value of an arm that goes on.
    Value(T),
    /// No arm goes on, if there can be a `K`.
    Left(K),
}

/// Leaves what the kernel decides.
pub struct KernelExit {
    _private: (),
}

/// There is none under a trace-time condition.
pub enum NoExit {}

/// The loop that a `break` or `continue` goes to.
#[derive(Clone, Copy)]
pub struct ExitTarget<'a>(pub(super) Option<LoopTarget<'a>>);

/// One that the kernel runs.
#[derive(Clone, Copy)]
pub(super) struct LoopTarget<'a> {
    /// Its body.
    pub(super) region: Region,
    /// The variables when the body begins.
    pub(super) before: &'a Snapshot,
    /// Variables that another one of their name has hidden since, as they were then.
    pub(super) hidden: &'a [(String, Value)],
}

impl ExitTarget<'_> {
    /// A loop that the host runs.
    pub fn host() -> ExitTarget<'static> {
        ExitTarget(None)
    }
}

impl NoExit {
    /// Never called.
    pub fn pass(self) -> Infallible {
        match self {}
    }

    /// Never called.
    pub fn leave(
        self,
        _: ExitTarget<'_>,
        _: &'static str,
        _: impl FnMut(&mut HostCarrier),
    ) -> Infallible {
        match self {}
    }

    /// Never called.
    pub fn give<T>(
        self,
        _: &mut FunctionScope<T>,
        _: T,
        _: impl FnMut(&mut HostCarrier),
    ) -> Infallible {
        match self {}
    }
}

impl KernelExit {
    pub(super) fn new() -> KernelExit {
        KernelExit { _private: () }
    }

    /// Follows an exit that was taken inside.
    #[inline]
    pub fn pass(self) {}

    /// A `break` or `continue`, as `what` says, with the variables of the loop that it goes to.
    #[inline]
    #[track_caller]
    pub fn leave(
        self,
        target: ExitTarget<'_>,
        what: &'static str,
        mut reach: impl FnMut(&mut Carrier<'_>),
    ) {
        leave_loop(target, what, &mut reach, here());
    }

    /// A `return` with its value, and what the function changes behind references.
    #[inline]
    #[track_caller]
    pub fn give<T: Carry>(
        self,
        scope: &mut FunctionScope<T>,
        mut value: T,
        mut reach: impl FnMut(&mut Carrier<'_>),
    ) {
        let at = here();
        let mut given = Snapshot::default();
        given.add(&mut value);
        scope.core.leave(given, &mut reach, at);
        if scope.given.is_none() {
            scope.given = Some(Given {
                value,
                walk: |value| value as &mut dyn Carry,
            });
        }
    }
}

#[inline(never)]
fn leave_loop(target: ExitTarget<'_>, what: &'static str, reach: Reach<'_>, at: At) {
    let Some(target) = target.0 else {
        refuse(what, at);
    };
    let now = Snapshot::of(reach);
    if let Some((name, a, b)) = target.before.host_change_of_shared(&now) {
        let message = format!(
            "the host variable `{name}` is {a} before an iteration of this loop of the kernel and {b} at this `{what}`"
        );
        with(at, |trace| trace.host_changed(message, at));
    }
    with(at, |trace| {
        trace.check_watched("loop", target.before, &now, at);
        let values = target.values(trace, &now, what, at);
        let leave = Leave {
            target: target.region,
            stops: what == "break",
        };
        trace.leave_region(values, leave, at);
    });
}

impl LoopTarget<'_> {
    /// What each variable of the loop is at an exit.
    fn values(&self, trace: &mut Trace, now: &Snapshot, what: &str, at: At) -> Vec<Value> {
        let mut out = Vec::new();
        for (name, saved) in &self.before.0 {
            let Saved::Value(before) = saved else {
                continue;
            };
            let value = now.value_of(name).or_else(|| self.hidden_value(name));
            let value = value.unwrap_or_else(|| {
                let error = OpError::new(
                    Code::EarlyExit,
                    format!("`{name}` cannot be seen at this `{what}`, and the loop carries it"),
                )
                .origin(*before, "the loop starts with this")
                .note("another variable of its name hides it, or it was used up before")
                .help("give the inner variable another name, or use it up after the loop");
                trace.fail(error, at)
            });
            out.push(if trace.check_visible(value, at) {
                value
            } else {
                trace.builder.poison()
            });
        }
        out
    }

    fn hidden_value(&self, name: &str) -> Option<Value> {
        let hidden = self.hidden.iter().rev();
        let mut same = hidden.filter(|(hidden, _)| hidden == name);
        same.next().map(|(_, value)| *value)
    }
}

/// A function that a `return` may leave where the kernel decides.
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

    /// The function ends, with the value of what runs to its end, if anything does; the ways out meet here.
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

/// Early returns of one call. A `loop` of the host around a `return` that the kernel decides never ends by itself; its iterations are
/// traced one after the other, and each adds one.
const MOST_EXITS: usize = 1000;

/// Reports a host loop that a `return` of the kernel does not end, and ends tracing.
fn refuse_endless(at: At) -> ! {
    let error = OpError::new(
        Code::EarlyExit,
        format!("one call returns here or elsewhere more than {MOST_EXITS} times, each time as the kernel decides"),
    )
    .note("a loop of the host is unrolled, and a `return` that the kernel decides does not end it")
    .help("write a loop of the kernel: `while` with a condition of the kernel, or `for i in range(low, high)`");
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
                format!("two ways out of this function give different host values, {a} and {b}");
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
                format!("two ways out of this function give different host values, {a} and {b}");
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
        let spare = super::carry::spare(at);
        let split = own.min(merged.len());
        super::carry::write_value_of(value, &merged[..split], spare);
        super::carry::write_values(reach, &merged[split..], spare);
    }
}

impl Trace {
    pub(super) fn visible_or_poison(&mut self, value: Value, at: At) -> Value {
        if self.check_visible(value, at) {
            value
        } else {
            self.builder.poison()
        }
    }

    /// The region being filled is left here.
    pub(super) fn leave_region(&mut self, values: Vec<Value>, leave: Leave, at: At) {
        let loc = self.loc(at);
        let values = values.into_iter().collect();
        self.builder.push_unchecked(Yield { values }, &[], loc);
        let region = self.builder.region();
        self.exits.leave(region, leave);
    }

    /// Does code that follows in the region being filled run?
    pub(super) fn goes_on(&self) -> bool {
        self.exits.falls_through(self.builder.region())
    }

    /// What is in a function becomes a region; the ways out of it meet at its end, and it goes back to where it stood.
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
                "one way out of this function gives {} and another {}",
                a.1, b.1
            )
        } else {
            format!(
                "`{name}` is {} by one way out of this function and {} by another",
                a.1, b.1
            )
        };
        let error = OpError::new(Code::LoopCarriedType, message)
            .origin(a.0, format!("here it becomes {}", a.1))
            .origin(b.0, format!("here it becomes {}", b.1))
            .help("bring both to one type, with `cast` or `convert_layout`");
        self.fail(error, at);
    }

    /// What an exit hands to its target.
    pub(super) fn exit_values(&self, exit: Region) -> Vec<Value> {
        let func = self.builder.func();
        let last = func.region(exit).insts.last();
        last.map_or_else(Vec::new, |last| handed_on_by(func.op(*last)).to_vec())
    }

    /// Keeps some of what an exit hands to its target.
    pub(super) fn retain_exit(&mut self, exit: Region, kept: &[bool]) {
        let values = picked(&self.exit_values(exit), kept);
        let func = self.builder.func_mut();
        if let Some(&last) = func.region(exit).insts.last() {
            func.replace_op(last, Yield { values });
        }
    }

    /// Makes the exits to the end of `target` structured.
    pub(super) fn settle(&mut self, target: Region, at: At) {
        let loc = self.loc(at);
        let func = self.builder.func_mut();
        let outcome = self.exits.settle(func, target, loc);
        if let Err(blocked) = outcome {
            self.refuse_exit(blocked, at);
        }
    }

    fn refuse_exit(&mut self, blocked: Blocked, at: At) {
        match blocked {
            Blocked::Partitions(inst) => {
                let error = OpError::new(
                    Code::MisplacedPartition,
                    "`warp_specialize` follows an early `return` that the kernel decides",
                )
                .note("warps are specialized once, by all threads of the kernel")
                .help("decide in each partition: `.main(|| { if done { return; } .. })`");
                let loc = self.builder.func().loc(inst);
                let diagnostic = self.builder.func().diagnose(error, loc);
                self.builder.diagnostic(diagnostic);
            }
            Blocked::InFlight => {
                let error = OpError::new(
                    Code::EarlyExit,
                    "an accumulator is in flight by one way out and not by another",
                )
                .note(
                    "an accumulator in flight stays in its registers, which all ways must agree on",
                )
                .help(
                    "wait for it with `wait_all()` before the exit, or after the loop by every way",
                );
                self.fail(error, at);
            }
        }
    }

    /// Appends an op with regions, some of which may be left.
    pub(super) fn push_flow(&mut self, op: Op, types: &[Type], at: At) -> Vec<Value> {
        if self.exits.is_empty() {
            return self.push(op, types, at).into_iter().collect();
        }
        let loc = self.loc(at);
        self.builder
            .push_unchecked(op, types, loc)
            .into_iter()
            .collect()
    }
}

fn picked(values: &[Value], kept: &[bool]) -> Values {
    let pairs = values.iter().zip(kept);
    pairs.filter(|(_, kept)| **kept).map(|(v, _)| *v).collect()
}

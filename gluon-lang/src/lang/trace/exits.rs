//! Runtime exits: `break`, `continue` and `return` under a runtime condition.
//!
//! A runtime branch or loop is traced once, so the host does not follow such an exit: it leaves the arm or body around, whose end the trace
//! remembers as left, and goes on with what runs otherwise. `build/structure.rs` makes branches and flags of it.

use std::convert::Infallible;

use super::carry::{Carrier, Carry, HostCarrier, Reach};
use super::frame::refuse;
use super::function_scope::FunctionScope;
use super::snapshot::{Saved, Snapshot};
use super::{At, Trace, here, with};
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

/// Leaves a runtime branch or loop.
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
        value: T,
        mut reach: impl FnMut(&mut Carrier<'_>),
    ) {
        scope.leave(value, &mut reach, here());
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
            "the host variable `{name}` is {a} before an iteration of this runtime loop and {b} at this `{what}`"
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
                    format!("`{name}` is not accessible at this `{what}`, and the loop carries it"),
                )
                .origin(*before, "the loop starts with this")
                .note("another variable of its name shadows it, or it was moved before")
                .help("give the inner variable another name, or move it after the loop");
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
                    "`warp_specialize` follows an early runtime `return`",
                )
                .note("warps are specialized once, by all threads of the kernel")
                .help("return in each partition instead: `.main(|| { if done { return; } .. })`");
                let loc = self.builder.func().loc(inst);
                let diagnostic = self.builder.func().diagnose(error, loc);
                self.builder.diagnostic(diagnostic);
            }
            Blocked::InFlight => {
                let error = OpError::new(
                    Code::EarlyExit,
                    "an accumulator is in flight at one exit and not at another",
                )
                .note(
                    "an accumulator in flight has fixed registers, the same on all paths",
                )
                .help(
                    "wait for it with `wait_all()` before each exit, or after the loop on every path",
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

/// The values that are kept.
pub(super) fn picked(values: &[Value], kept: &[bool]) -> Values {
    let pairs = values.iter().zip(kept);
    pairs.filter(|(_, kept)| **kept).map(|(v, _)| *v).collect()
}

//! `if`: on a host `bool` one arm runs while tracing; on a `Scalar<bool>` both are traced into a branch of the kernel.

use std::convert::Infallible;

use super::carry::{Carrier, Carry, HostCarrier, Reach};
use super::exits::{Ended, Inside, KernelExit, NoExit};
use super::snapshot::{Snapshot, restore, spare, write_value_of, write_values};
use super::{At, Trace, here, with};
use crate::lang::Scalar;
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::entity::{Region, Value};
use ir::ops::control::{If, Yield};

/// What may stand after `if`.
#[diagnostic::on_unimplemented(
    message = "`if` wants one boolean, a host `bool` or a `Scalar<bool>`, not a `{Self}`",
    label = "this is no condition",
    note = "where a tensor decides for each element, use `select(condition, yes, no)` or a mask; a rank-0 tensor becomes a scalar by `.scalar()`"
)]
pub trait Branch {
    /// Follows the two arms.
    type State;
    /// Starts the `if`.
    #[track_caller]
    fn begin(self) -> Self::State;
}

impl Branch for bool {
    type State = HostBranch;
    #[inline]
    fn begin(self) -> HostBranch {
        HostBranch(self)
    }
}

impl Branch for &bool {
    type State = HostBranch;
    #[inline]
    fn begin(self) -> HostBranch {
        HostBranch(*self)
    }
}

impl Branch for Scalar<bool> {
    type State = KernelBranch;
    #[inline]
    #[track_caller]
    fn begin(self) -> KernelBranch {
        KernelBranch {
            condition: self.value(),
            at: here(),
            before: Snapshot::default(),
            then: None,
            is_seen: true,
        }
    }
}

/// What follows an arm that has been gone through.
pub enum Decided<T, A> {
    /// Nothing: it was the only one.
    Alone(T),
    /// The other arm, if there can be an `A`.
    Both(T, A),
}

/// An `if` on a host `bool`, decided at trace time.
pub struct HostBranch(bool);

impl HostBranch {
    /// Does the first arm run?
    #[inline]
    pub fn then(&mut self, _: impl FnMut(&mut HostCarrier)) -> bool {
        self.0
    }

    /// Does the second arm run?
    #[inline]
    pub fn otherwise<T>(&mut self, _: impl FnMut(&mut HostCarrier), _: &mut Option<T>) -> bool {
        !self.0
    }

    /// What the arm that runs uses up.
    #[inline]
    pub fn own<T>(&self, slot: &mut Option<T>) -> T {
        slot.take().expect("one of the two arms of an `if` runs")
    }

    /// The arm that ran is the only one.
    #[inline]
    pub fn decided<T>(&self, value: T) -> Decided<T, Infallible> {
        Decided::Alone(value)
    }

    /// Never called, which rustc sees from the types: no arm runs after another.
    #[inline]
    pub fn go_on(&self, again: Infallible) -> Infallible {
        again
    }

    /// The condition is known at trace time.
    #[inline]
    pub fn inside(&self) -> Inside<NoExit, ()> {
        Inside::Host(())
    }

    /// Continues where the condition is known at trace time.
    #[inline]
    pub fn host(&self, (): ()) {}

    /// The value of the arm that ran.
    #[inline]
    pub fn end_left<T>(
        self,
        _: impl FnMut(&mut HostCarrier),
        then: Option<T>,
        otherwise: Option<T>,
    ) -> Ended<T, Infallible> {
        let value = then.or(otherwise);
        Ended::Value(value.expect("an arm that the host leaves is left for good"))
    }

    /// The value of the arm that ran.
    #[inline]
    pub fn end<T>(
        self,
        _: impl FnMut(&mut HostCarrier),
        then: Option<T>,
        otherwise: Option<T>,
    ) -> T {
        then.or(otherwise)
            .expect("one of the two arms of an `if` runs")
    }
}

/// An `if` on a kernel value: both arms are traced from the same state.
pub struct KernelBranch {
    condition: Value,
    at: At,
    before: Snapshot,
    then: Option<(Region, Snapshot)>,
    /// Did the first arm change only what is carried?
    is_seen: bool,
}

impl KernelBranch {
    /// Opens the first arm.
    #[inline]
    pub fn then(&mut self, mut reach: impl FnMut(&mut Carrier<'_>)) -> bool {
        self.open_then(&mut reach);
        true
    }

    #[inline(never)]
    fn open_then(&mut self, reach: Reach<'_>) {
        self.before = Snapshot::of(reach);
        with(self.at, |trace| trace.builder.open(&[]));
    }

    /// Closes the first arm, puts everything back as it was, and opens the second.
    #[inline]
    pub fn otherwise<T: Carry>(
        &mut self,
        mut reach: impl FnMut(&mut Carrier<'_>),
        value: &mut Option<T>,
    ) -> bool {
        self.open_otherwise(&mut reach, value.as_mut().map(|v| v as &mut dyn Carry));
        true
    }

    #[inline(never)]
    fn open_otherwise(&mut self, reach: Reach<'_>, value: Option<&mut dyn Carry>) {
        let mut after = Snapshot::of(reach);
        if let Some((name, a, b)) = self.before.form_change(&after) {
            // What has another form cannot be put back for the second arm.
            let message = format!(
                "the host variable `{name}` is {a} before this runtime `if` and {b} after its first arm"
            );
            with(self.at, |trace| trace.host_changed(message, self.at));
        }
        self.is_seen = with(self.at, |trace| {
            trace.check_watched("branch", &self.before, &after, self.at)
        });
        if let Some(value) = value {
            after.add(value);
        }
        restore(reach, &self.before, spare(self.at));
        with(self.at, |trace| {
            self.then = Some((trace.builder.close(), after));
            trace.builder.open(&[]);
        });
    }

    /// What both arms use up: each gets it for itself.
    #[inline]
    #[track_caller]
    pub fn own<T: Carry>(&self, slot: &mut Option<T>) -> T {
        let forked = slot.as_ref().and_then(Carry::fork);
        forked
            .or_else(|| slot.take())
            .unwrap_or_else(|| used_up(self.at))
    }

    /// Both arms are gone through.
    #[inline]
    pub fn decided<T>(&self, value: T) -> Decided<T, ()> {
        Decided::Both(value, ())
    }

    /// Goes on to what follows the arm.
    #[inline]
    pub fn go_on(&self, (): ()) {}

    /// The condition is a runtime one.
    #[inline]
    pub fn inside(&self) -> Inside<KernelExit, Infallible> {
        Inside::Kernel(KernelExit::new())
    }

    /// Never called.
    #[inline]
    pub fn host(&self, host: Infallible) -> Infallible {
        host
    }

    /// The same as [`end`](Self::end) where arms may be left early.
    #[inline]
    pub fn end_left<T: Carry>(
        self,
        mut reach: impl FnMut(&mut Carrier<'_>),
        then: Option<T>,
        otherwise: Option<T>,
    ) -> Ended<T, ()> {
        match (then, otherwise) {
            (Some(then), Some(otherwise)) => {
                Ended::Value(self.end(reach, Some(then), Some(otherwise)))
            }
            (Some(mut then), None) => {
                self.close_left(&mut reach, Some((&mut then, true)));
                Ended::Value(then)
            }
            (None, Some(mut otherwise)) => {
                self.close_left(&mut reach, Some((&mut otherwise, false)));
                Ended::Value(otherwise)
            }
            (None, None) => {
                self.close_left(&mut reach, None);
                Ended::Left(())
            }
        }
    }

    /// Closes the second arm where one arm at most goes on: the first, if the value is said to be its own.
    #[inline(never)]
    fn close_left(mut self, reach: Reach<'_>, value: Option<(&mut dyn Carry, bool)>) {
        let at = self.at;
        let (then_region, then) = self
            .then
            .take()
            .expect("the first arm was closed before the second");
        let Some((value, is_first)) = value else {
            restore(reach, &self.before, spare(at));
            with(at, |trace| self.record_left(trace, then_region, None));
            return;
        };
        let after = if is_first {
            restore(reach, &then, spare(at));
            then
        } else {
            let mut after = Snapshot::of(reach);
            with(at, |trace| {
                trace.check_watched("branch", &self.before, &after, at)
            });
            after.add(value);
            after
        };
        let results = with(at, |trace| {
            self.record_left(trace, then_region, Some((&after, is_first)))
        });
        let own = {
            let mut only = Snapshot::default();
            only.add(value);
            only.values().len()
        };
        let spare = spare(at);
        let split = results.len() - own.min(results.len());
        write_values(reach, &results[..split], spare);
        write_value_of(value, &results[split..], spare);
    }

    /// Appends the branch; what the arm that goes on makes is its results.
    fn record_left(
        &self,
        trace: &mut Trace,
        then: Region,
        goes_on: Option<(&Snapshot, bool)>,
    ) -> Vec<Value> {
        let otherwise = trace.builder.close();
        let (mut out, mut merged) = (Vec::new(), Vec::new());
        if let Some((after, is_first)) = goes_on {
            let arm = if is_first { then } else { otherwise };
            out = after.values();
            for (i, &value) in after.values().iter().enumerate() {
                if trace.is_poison(value) || trace.builder.in_scope(value) {
                    continue;
                }
                trace.builder.reopen(arm);
                let is_visible = trace.check_visible(value, self.at);
                trace.builder.close();
                if is_visible {
                    merged.push(i);
                } else {
                    out[i] = trace.builder.poison();
                }
            }
            let values = merged.iter().map(|i| out[*i]).collect();
            self.finish_arm(trace, arm, values);
        }
        let types: Vec<Type> = merged.iter().map(|i| trace.ty(out[*i]).clone()).collect();
        let branch = If {
            condition: self.condition,
            then,
            otherwise,
        };
        let results = trace.push_flow(branch.into(), &types, self.at);
        if goes_on.is_none() {
            let region = trace.builder.region();
            trace.exits.kill(region);
        }
        for (i, result) in merged.into_iter().zip(results) {
            if let Some((after, _)) = goes_on {
                trace.name(result, after.names()[i]);
            }
            out[i] = result;
        }
        out
    }

    /// Closes the second arm. What the arms made different becomes a result of the branch.
    #[inline]
    pub fn end<T: Carry>(
        self,
        mut reach: impl FnMut(&mut Carrier<'_>),
        then: Option<T>,
        otherwise: Option<T>,
    ) -> T {
        let mut value = otherwise
            .or(then)
            .expect("both arms of the kernel's `if` were traced");
        self.close(&mut reach, &mut value);
        value
    }

    #[inline(never)]
    fn close(mut self, reach: Reach<'_>, value: &mut dyn Carry) {
        let mut after = Snapshot::of(reach);
        // What the first arm changed unseen is still there, and was reported.
        if self.is_seen {
            with(self.at, |trace| {
                trace.check_watched("branch", &self.before, &after, self.at)
            });
        }
        let variables = after.values().len();
        after.add(value);
        let (then_region, then) = self
            .then
            .take()
            .expect("the first arm was closed before the second");
        if let Some((name, a, b)) = then.host_change(&after) {
            let message = host_message(&name, &a, &b);
            restore(reach, &self.before, spare(self.at));
            with(self.at, |trace| trace.host_changed(message, self.at));
        }
        let results = with(self.at, |trace| {
            self.record(trace, then_region, &then, &after)
        });
        let spare = spare(self.at);
        let split = variables.min(results.len());
        write_values(reach, &results[..split], spare);
        write_value_of(value, &results[split..], spare);
    }

    fn record(
        &self,
        trace: &mut Trace,
        then_region: Region,
        then: &Snapshot,
        after: &Snapshot,
    ) -> Vec<Value> {
        let otherwise_region = trace.builder.close();
        let names = after.names();
        let (a, b) = (then.values(), after.values());
        let mut out = b.clone();
        let mut merged = Vec::new();
        for i in 0..a.len().min(b.len()) {
            if a[i] != b[i] {
                match self.check_arms(
                    trace,
                    names[i],
                    (then_region, a[i]),
                    (otherwise_region, b[i]),
                ) {
                    Some(ty) => merged.push((i, ty)),
                    None => out[i] = trace.builder.poison(),
                }
            }
        }
        let side = |values: &[Value]| merged.iter().map(|(i, _)| values[*i]).collect();
        self.finish_arm(trace, then_region, side(&a));
        self.finish_arm(trace, otherwise_region, side(&b));
        let branch = If {
            condition: self.condition,
            then: then_region,
            otherwise: otherwise_region,
        };
        let types: Vec<Type> = merged.iter().map(|(_, ty)| ty.clone()).collect();
        let results = trace.push_flow(branch.into(), &types, self.at);
        for ((i, _), &result) in merged.iter().zip(&results) {
            trace.name(result, names[*i]);
            out[*i] = result;
        }
        out
    }

    fn finish_arm(&self, trace: &mut Trace, region: Region, values: ir::ops::Values) {
        trace.builder.reopen(region);
        trace.push(Yield { values }, &[], self.at);
        trace.builder.close();
    }

    /// The one type of what the two arms give; `None` if they differ, which is reported unless one is poison.
    fn check_arms(
        &self,
        trace: &mut Trace,
        name: &str,
        a: (Region, Value),
        b: (Region, Value),
    ) -> Option<Type> {
        for (region, value) in [a, b] {
            trace.builder.reopen(region);
            let is_visible = trace.check_visible(value, self.at);
            trace.builder.close();
            if !is_visible {
                return None;
            }
        }
        let (a_ty, b_ty) = (trace.ty(a.1).clone(), trace.ty(b.1).clone());
        if a_ty.is_poison() || b_ty.is_poison() {
            return None;
        }
        if a_ty == b_ty {
            return Some(a_ty);
        }
        let is_the_value = name.is_empty() || name.starts_with(['[', '0', '1', '2']);
        let message = if is_the_value {
            format!("one arm of this `if` gives {a_ty} and the other {b_ty}")
        } else {
            format!("`{name}` is {a_ty} after one arm of this `if` and {b_ty} after the other")
        };
        let error = OpError::new(Code::LoopCarriedType, message)
            .origin(a.1, format!("here it becomes {a_ty}"))
            .origin(b.1, format!("here it becomes {b_ty}"))
            .help("give both one type, with `cast` or `convert_layout`");
        trace.fail(error, self.at);
        None
    }
}

/// A value that cannot be there twice is used up by both arms.
fn used_up(at: At) -> ! {
    let message = "both arms of this runtime `if` move the same value";
    let error = OpError::new(Code::HostStateChanged, message)
        .note("both arms are traced, whichever runs")
        .help("move it before or after the `if`, or in a `let mut` that both arms assign");
    with(at, |trace| trace.fail(error, at));
    super::end();
}

fn host_message(name: &str, a: &str, b: &str) -> String {
    if name.is_empty() {
        return format!("the arms of this `if` give different host values, {a} and {b}");
    }
    format!(
        "the host variable `{name}` is {a} after one arm of this runtime `if` and {b} after the other"
    )
}

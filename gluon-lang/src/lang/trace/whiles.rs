//! `while`: on a host `bool` the host loops; on a `Scalar<bool>` test and body are traced once each. `loop` is a `while` that is always true,
//! the host's or the kernel's by the type of what leaves it first.

use std::convert::Infallible;

use super::carry::{Carrier, HostCarrier, Reach};
use super::exits::{ExitTarget, Inside, KernelExit, LoopTarget, NoExit};
use super::loops::{Carried, hidden};
use super::snapshot::{Snapshot, restore, spare, write_values};
use super::{At, Trace, here, with};
use crate::lang::{Element, Scalar};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::elem::Elem;
use ir::entity::{Region, Value};
use ir::ops::control::{Condition, While, Yield};
use ir::ops::create::Const;

/// What may stand after `while`.
#[diagnostic::on_unimplemented(
    message = "`while` wants one boolean, a host `bool` or a `Scalar<bool>`, not a `{Self}`",
    label = "this is no condition",
    note = "a rank-0 tensor becomes a scalar by `.scalar()`"
)]
pub trait WhileLoop {
    /// Follows test and body.
    type State;
    /// Starts the loop.
    #[track_caller]
    fn start() -> Self::State;
}

impl WhileLoop for bool {
    type State = HostWhile;
    fn start() -> HostWhile {
        HostWhile
    }
}

impl WhileLoop for Scalar<bool> {
    type State = KernelWhile;
    #[track_caller]
    fn start() -> KernelWhile {
        KernelWhile::new(here())
    }
}

/// What may stand after the first `if` that leaves a `loop`, or after its `match`: its type says whose loop it is.
#[diagnostic::on_unimplemented(
    message = "a `loop` is left by a host or runtime boolean or number, not by a `{Self}`",
    label = "this is no condition",
    note = "a rank-0 tensor becomes a scalar by `.scalar()`"
)]
pub trait EndlessLoop {
    /// Follows the loop.
    type State;
    /// Starts the loop.
    #[track_caller]
    fn start() -> Self::State;
}

/// Whether the host goes through the body of a `loop` once more.
pub enum Again<E> {
    /// It does.
    On,
    /// It has done so, if there can be an `E`.
    Ended(E),
}

macro_rules! host_loops {
    ($($ty:ty)*) => {$(
        impl EndlessLoop for $ty {
            type State = HostWhile;
            fn start() -> HostWhile {
                HostWhile
            }
        }
    )*};
}

host_loops!(bool &bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

impl<T: Element> EndlessLoop for Scalar<T> {
    type State = KernelWhile;
    #[track_caller]
    fn start() -> KernelWhile {
        KernelWhile::new(here())
    }
}

/// A `while` or `loop` that is unrolled at trace time.
pub struct HostWhile;

impl HostWhile {
    /// Goes on to the condition.
    #[inline]
    pub fn test(&mut self, _: impl FnMut(&mut HostCarrier)) -> bool {
        true
    }

    /// Goes on to the body if the condition says so.
    #[inline]
    pub fn decide(&mut self, condition: bool, _: impl FnMut(&mut HostCarrier)) -> bool {
        condition
    }

    /// Goes on to the body of a `loop`.
    #[inline]
    pub fn again(&mut self, _: impl FnMut(&mut HostCarrier)) -> Again<Infallible> {
        Again::On
    }

    /// Never called, which rustc sees from the types: a `break` of the author's alone ends the loop.
    #[inline]
    pub fn end(&self, end: Infallible) -> Infallible {
        end
    }

    /// Never called: the host does not come past a `loop` without `break`.
    #[inline]
    pub fn never_ends(&self) {}

    /// The condition is known at trace time.
    #[inline]
    pub fn inside(&self) -> Inside<NoExit, ()> {
        Inside::Host(())
    }

    /// Continues where the condition is known at trace time.
    #[inline]
    pub fn host(&self, (): ()) {}

    /// Where its `break`s go.
    #[inline]
    pub fn target(&self) -> ExitTarget<'_> {
        ExitTarget::host()
    }

    /// Nothing needs to be kept of a variable that another hides.
    #[inline]
    pub fn hide(&mut self, _: impl FnMut(&mut HostCarrier)) {}
}

/// A `while` or `loop` that the kernel runs: the host goes through its condition and its body once.
pub struct KernelWhile {
    at: At,
    test: Option<Test>,
    body: Option<Body>,
    /// Variables that others of their names have hidden.
    hidden: Vec<(String, Value)>,
}

/// The condition being traced.
struct Test {
    before: Snapshot,
    params: Vec<Value>,
}

/// The body being traced.
struct Body {
    test: Test,
    /// What the condition yields.
    passed: Vec<Value>,
    before: Region,
    after: Region,
    params: Vec<Value>,
}

impl KernelWhile {
    fn new(at: At) -> KernelWhile {
        KernelWhile {
            at,
            test: None,
            body: None,
            hidden: Vec::new(),
        }
    }

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

    /// Where its `break`s go.
    #[inline]
    pub fn target(&self) -> ExitTarget<'_> {
        ExitTarget(self.body.as_ref().map(|body| LoopTarget {
            region: body.after,
            before: &body.test.before,
            hidden: &self.hidden,
        }))
    }

    /// Keeps variables as they are, which others of their names hide from here on.
    #[inline]
    pub fn hide(&mut self, mut reach: impl FnMut(&mut Carrier<'_>)) {
        self.hidden.extend(hidden(&mut reach));
    }

    /// Opens the condition; the second time, closes the body.
    #[inline]
    pub fn test(&mut self, mut reach: impl FnMut(&mut Carrier<'_>)) -> bool {
        self.open_or_close(&mut reach)
    }

    #[inline(never)]
    fn open_or_close(&mut self, reach: Reach<'_>) -> bool {
        if let Some(body) = self.body.take() {
            self.close(&body, reach);
            return false;
        }
        let before = Snapshot::of(reach);
        let params = with(self.at, |trace| trace.open_region(None, &before, self.at));
        write_values(reach, &params, spare(self.at));
        self.test = Some(Test { before, params });
        true
    }

    /// Closes the condition and opens the body.
    #[inline]
    pub fn decide(
        &mut self,
        condition: Scalar<bool>,
        mut reach: impl FnMut(&mut Carrier<'_>),
    ) -> bool {
        self.open_body(condition.value(), &mut reach);
        true
    }

    /// Opens the body of a `loop`, whose condition is always true; the second time, closes it.
    #[inline]
    pub fn again(&mut self, mut reach: impl FnMut(&mut Carrier<'_>)) -> Again<()> {
        if !self.open_or_close(&mut reach) {
            return Again::Ended(());
        }
        self.open_endless(&mut reach);
        Again::On
    }

    /// The body has been gone through.
    #[inline]
    pub fn end(&self, (): ()) {}

    #[inline(never)]
    fn open_endless(&mut self, reach: Reach<'_>) {
        let truth = with(self.at, |trace| {
            let ty = Type::scalar(Elem::I1);
            trace.constant(Const::Int(1), ty, self.at)
        });
        self.open_body(truth, reach);
    }

    /// After a `loop` without `break`, which is left by what lies beyond it alone.
    #[inline(never)]
    pub fn never_ends(&self) {
        with(self.at, |trace| trace.end_after_loop(self.at));
    }

    #[inline(never)]
    fn open_body(&mut self, condition: Value, reach: Reach<'_>) {
        let test = self
            .test
            .take()
            .expect("the condition is opened before it is closed");
        let passed = Snapshot::of(reach);
        self.check_host(&test.before, &passed, reach);
        let body = with(self.at, |trace| {
            // The values are filled in when it is known which are carried.
            let values = ir::ops::Values::new();
            trace.push(Condition { condition, values }, &[], self.at);
            let region = trace.builder.close();
            let params = trace.open_region(None, &test.before, self.at);
            Body {
                test,
                passed: passed.values(),
                before: region,
                after: trace.builder.region(),
                params,
            }
        });
        write_values(reach, &body.params, spare(self.at));
        self.body = Some(body);
    }

    fn check_host(&self, before: &Snapshot, after: &Snapshot, reach: Reach<'_>) {
        if let Some((name, a, b)) = before.host_change(after) {
            let message = format!(
                "the host variable `{name}` is {a} before an iteration of this runtime loop and {b} after it"
            );
            restore(reach, before, spare(self.at));
            with(self.at, |trace| trace.host_changed(message, self.at));
        }
    }

    fn close(&mut self, body: &Body, reach: Reach<'_>) {
        let goes_on = with(self.at, |trace| trace.goes_on());
        if !goes_on {
            // What is in the variables is of a way that has left.
            restore(reach, &body.test.before, spare(self.at));
        }
        let after = Snapshot::of(reach);
        self.check_host(&body.test.before, &after, reach);
        let results = with(self.at, |trace| {
            trace.check_watched("loop", &body.test.before, &after, self.at);
            let ends = goes_on.then(|| after.values());
            self.record(trace, body, ends)
        });
        write_values(reach, &results, spare(self.at));
    }

    fn record(&self, trace: &mut Trace, body: &Body, ends: Option<Vec<Value>>) -> Vec<Value> {
        let at = self.at;
        let before = &body.test.before;
        let (inits, names) = (before.values(), before.names());
        let last = ends.as_deref().unwrap_or(&body.params);
        let mut carried = Carried::find(trace, &inits, &body.params, last, &names, at);
        // The condition may change variables too; its region is over, so its values are looked at from inside it.
        trace.builder.reopen(body.before);
        let tested = Carried::find(trace, &inits, &body.test.params, &body.passed, &names, at);
        trace.builder.close();
        carried.join(&tested);
        let exits = trace.exits.to(trace.builder.func(), body.after);
        carried.join_exits(trace, &exits, (&inits, &body.params), &names, at);
        if let Some(ends) = ends {
            let values = carried.pick(&ends);
            trace.push(Yield { values }, &[], at);
        }
        let after_region = trace.builder.close();
        trace.fill_condition(body.before, carried.pick(&body.passed));
        carried.drop_unchanged(trace, &body.params, &inits);
        carried.drop_unchanged(trace, &body.test.params, &inits);
        trace.retain_params(body.before, 0, &carried.changed);
        trace.retain_params(after_region, 0, &carried.changed);
        trace.settle(after_region, at);
        let op = While {
            inits: carried.pick(&inits),
            before: body.before,
            after: after_region,
        };
        carried.finish(trace, op.into(), &inits, &names, at)
    }
}

impl Carried {
    /// Carried or lost in either region is so in both.
    fn join(&mut self, other: &Carried) {
        for i in 0..self.changed.len() {
            self.lost[i] |= other.lost[i];
            self.changed[i] = (self.changed[i] || other.changed[i]) && !self.lost[i];
        }
    }
}

impl Trace {
    /// Nothing comes after the loop that stands last in the region.
    fn end_after_loop(&mut self, at: At) {
        let region = self.builder.region();
        let last = self.builder.func().region(region).insts.last().copied();
        let is_left = last.is_some_and(|last| self.exits.are_in(self.builder.func(), last));
        if !is_left {
            let error = OpError::new(Code::EarlyExit, "this runtime `loop` never ends")
                .note("no `break` or `return` in it is under a runtime condition")
                .help("leave it by `break` or `return` under a `Scalar<bool>`");
            self.fail(error, at);
        }
        self.exits.kill(region);
    }

    /// Says which values the condition of a `while` yields.
    fn fill_condition(&mut self, region: Region, values: ir::ops::Values) {
        let func = self.builder.func_mut();
        let last = func.region(region).insts.last().copied();
        let last = last.expect("the test of a `while` ends in its condition");
        // Matches on ops: the trace fills in the fields of the op that it made.
        if let ir::ops::Op::Condition(op) = func.op_mut(last) {
            op.values = values;
        }
    }
}

//! `for`: over a host iterator the body is traced once for each item; over a `range` it becomes a runtime loop.

use super::carry::{Carrier, HostCarrier, Reach};
use super::exits::{ExitTarget, Inside, KernelExit, LoopTarget, NoExit};
use super::record::IndexMap;
use super::snapshot::{Snapshot, restore, spare, write_values};
use super::{At, Trace, with};
use crate::lang::loop_values::RangeValues;
use crate::lang::{Index, Scalar};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::elem::DType;
use ir::entity::{Region, Value};
use ir::ops::Values;
use ir::ops::arith::{Binary, BinaryOp, Precision};
use ir::ops::control::{For, Yield};

use std::convert::Infallible;
use std::marker::PhantomData;

/// A loop that is unrolled at trace time.
pub struct HostLoop<I>(pub(crate) I);

impl<I: Iterator> HostLoop<I> {
    /// The next item.
    #[inline]
    pub fn step(&mut self, _: &'static str, _: impl FnMut(&mut HostCarrier)) -> Option<I::Item> {
        self.0.next()
    }

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

/// A loop that the kernel runs: the host goes through its body once.
pub struct KernelLoop<T> {
    core: LoopCore,
    index: PhantomData<*const T>,
}

impl<T: Index> KernelLoop<T> {
    /// `ends` is the sum of the first and the last index of a loop that goes from the last to the first.
    pub(crate) fn new(range: RangeValues, ends: Option<Value>, map: IndexMap, at: At) -> Self {
        Self {
            core: LoopCore {
                range,
                ends,
                map,
                dtype: T::DTYPE,
                at,
                body: None,
                hidden: Vec::new(),
            },
            index: PhantomData,
        }
    }

    /// Opens the body, with its index; the second time, closes it.
    #[inline]
    pub fn step(
        &mut self,
        name: &'static str,
        mut reach: impl FnMut(&mut Carrier<'_>),
    ) -> Option<Scalar<T>> {
        self.core.step(name, &mut reach).map(Scalar::wrap)
    }

    /// The bounds are runtime ones.
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
        self.core.target()
    }

    /// Keeps variables as they are, which others of their names hide from here on.
    #[inline]
    pub fn hide(&mut self, mut reach: impl FnMut(&mut Carrier<'_>)) {
        self.core.hidden.extend(hidden(&mut reach));
    }
}

struct LoopCore {
    range: RangeValues,
    ends: Option<Value>,
    map: IndexMap,
    dtype: DType,
    at: At,
    body: Option<Body>,
    /// Variables that others of their names have hidden.
    hidden: Vec<(String, Value)>,
}

/// The values of variables that are about to be hidden.
pub(super) fn hidden(reach: Reach<'_>) -> Vec<(String, Value)> {
    let now = Snapshot::of(reach);
    let names = now.names().into_iter().map(str::to_owned);
    names.zip(now.values()).collect()
}

struct Body {
    region: Region,
    before: Snapshot,
    params: Vec<Value>,
}

impl LoopCore {
    #[inline(never)]
    fn step(&mut self, name: &str, reach: Reach<'_>) -> Option<Value> {
        match self.body.take() {
            None => Some(self.open(name, reach)),
            Some(body) => {
                self.close(&body, reach);
                None
            }
        }
    }

    fn open(&mut self, name: &str, reach: Reach<'_>) -> Value {
        let before = Snapshot::of(reach);
        let (region, index, params) = with(self.at, |trace| {
            let index_ty = trace.ty(self.range.low).clone();
            let mut params = trace.open_region(Some(index_ty), &before, self.at);
            let index = params.remove(0);
            let index = self.mirrored(trace, index);
            (trace.builder.region(), index, params)
        });
        let index = self.map.index(index, self.dtype, self.at);
        with(self.at, |trace| trace.name(index, name));
        write_values(reach, &params, index);
        self.body = Some(Body {
            region,
            before,
            params,
        });
        index
    }

    /// The index that the author sees.
    fn mirrored(&self, trace: &mut Trace, index: Value) -> Value {
        let Some(ends) = self.ends else { return index };
        let ty = trace.ty(index).clone();
        let op = Binary {
            op: BinaryOp::Sub,
            precision: Precision::Default,
            lhs: ends,
            rhs: index,
        };
        trace.push1(op, ty, self.at)
    }

    fn target(&self) -> ExitTarget<'_> {
        ExitTarget(self.body.as_ref().map(|body| LoopTarget {
            region: body.region,
            before: &body.before,
            hidden: &self.hidden,
        }))
    }

    fn close(&mut self, body: &Body, reach: Reach<'_>) {
        let at = self.at;
        let goes_on = with(at, |trace| trace.goes_on());
        if !goes_on {
            // What is in the variables is of a way that has left.
            restore(reach, &body.before, spare(at));
        }
        let after = Snapshot::of(reach);
        if let Some((name, a, b)) = body.before.host_change(&after) {
            let message = format!(
                "the host variable `{name}` is {a} before an iteration of this runtime loop and {b} after it"
            );
            restore(reach, &body.before, spare(at));
            with(at, |trace| trace.host_changed(message, at));
        }
        let results = with(at, |trace| {
            trace.check_watched("loop", &body.before, &after, at);
            let ends = goes_on.then(|| after.values());
            self.record(trace, body, ends)
        });
        write_values(reach, &results, spare(at));
    }

    fn record(&self, trace: &mut Trace, body: &Body, ends: Option<Vec<Value>>) -> Vec<Value> {
        let (inits, names) = (body.before.values(), body.before.names());
        let starts = ends.as_deref().unwrap_or(&body.params);
        let mut carried = Carried::find(trace, &inits, &body.params, starts, &names, self.at);
        let exits = trace.exits.to(trace.builder.func(), body.region);
        carried.join_exits(trace, &exits, (&inits, &body.params), &names, self.at);
        if let Some(ends) = ends {
            let values = carried.pick(&ends);
            trace.push(Yield { values }, &[], self.at);
        }
        carried.drop_unchanged(trace, &body.params, &inits);
        let region = trace.builder.close();
        trace.retain_params(region, 1, &carried.changed);
        trace.settle(region, self.at);
        let op = For {
            low: self.range.low,
            high: self.range.high,
            step: self.range.step,
            inits: carried.pick(&inits),
            body: region,
        };
        carried.finish(trace, op.into(), &inits, &names, self.at)
    }
}

/// Which of the mentioned values a loop really carries.
pub(super) struct Carried {
    /// For each value: does it go round the loop?
    pub(super) changed: Vec<bool>,
    /// For each value: was it lost to a mistake?
    pub(super) lost: Vec<bool>,
}

impl Carried {
    /// Compares what stood at the start of a region with what stands at its end. A mistake names `inits` too, which the
    /// loop starts with.
    pub(super) fn find(
        trace: &mut Trace,
        inits: &[Value],
        starts: &[Value],
        ends: &[Value],
        names: &[&str],
        at: At,
    ) -> Carried {
        let mut carried = Carried {
            changed: vec![false; starts.len()],
            lost: vec![false; starts.len()],
        };
        for i in 0..starts.len() {
            let Some(&end) = ends.get(i) else {
                carried.lost[i] = true;
                continue;
            };
            if end != starts[i] {
                carried.judge(trace, i, (inits[i], starts[i], end), names[i], at);
            }
        }
        carried
    }

    fn judge(
        &mut self,
        trace: &mut Trace,
        i: usize,
        (init, start, end): (Value, Value, Value),
        name: &str,
        at: At,
    ) {
        if !trace.is_poison(end) && !trace.check_visible(end, at) {
            self.lost[i] = true;
            return;
        }
        self.judge_types(trace, i, (init, start, end), name, at);
    }

    fn judge_types(
        &mut self,
        trace: &mut Trace,
        i: usize,
        (init, start, end): (Value, Value, Value),
        name: &str,
        at: At,
    ) {
        let (before, after) = (trace.ty(start).clone(), trace.ty(end).clone());
        if before.is_poison() || after.is_poison() {
            self.lost[i] = true;
        } else if before == after {
            self.changed[i] = true;
        } else {
            self.lost[i] = true;
            let error = OpError::new(
                Code::LoopCarriedType,
                format!("`{name}` is {before} when the loop starts and {after} after an iteration"),
            )
            .origin(init, format!("it starts as {before}"))
            .origin(end, format!("here it becomes {after}"))
            .help("a loop-carried value has one type: give the initial value this shape and layout, or use `cast` or `convert_layout` before assigning");
            trace.fail(error, at);
        }
    }

    /// What exits hand to the end of the body is carried too, if it differs from what the body begins with.
    pub(super) fn join_exits(
        &mut self,
        trace: &mut Trace,
        exits: &[(Region, bool)],
        (inits, starts): (&[Value], &[Value]),
        names: &[&str],
        at: At,
    ) {
        for (exit, _) in exits {
            let values = trace.exit_values(*exit);
            for i in 0..starts.len() {
                if values[i] != starts[i] && !self.lost[i] {
                    self.judge_types(trace, i, (inits[i], starts[i], values[i]), names[i], at);
                }
            }
        }
        let kept: Vec<bool> = (0..starts.len())
            .map(|i| self.changed[i] && !self.lost[i])
            .collect();
        self.changed.clone_from(&kept);
        for (exit, _) in exits {
            trace.retain_exit(*exit, &kept);
        }
    }

    /// A value that no iteration changes is the initial one.
    pub(super) fn drop_unchanged(&self, trace: &mut Trace, params: &[Value], inits: &[Value]) {
        let mut map = cranelift_entity::SecondaryMap::new();
        for i in 0..params.len() {
            if !self.changed[i] {
                map[params[i]] = inits[i].into();
            }
        }
        trace.builder.func_mut().replace_uses(&map);
    }

    /// The carried ones among `values`.
    pub(super) fn pick(&self, values: &[Value]) -> Values {
        let carried = values.iter().zip(&self.changed).filter(|(_, c)| **c);
        carried.map(|(v, _)| *v).collect()
    }

    /// Appends the loop; gives what each variable is after it.
    pub(super) fn finish(
        &self,
        trace: &mut Trace,
        op: ir::ops::Op,
        inits: &[Value],
        names: &[&str],
        at: At,
    ) -> Vec<Value> {
        let types: Vec<Type> = self
            .pick(inits)
            .iter()
            .map(|v| trace.ty(*v).clone())
            .collect();
        let results = trace.push_flow(op, &types, at);
        let mut results = results.into_iter();
        let mut out = inits.to_vec();
        for i in 0..inits.len() {
            if self.lost[i] {
                out[i] = trace.builder.poison();
            } else if self.changed[i] {
                out[i] = results
                    .next()
                    .expect("a loop has a result for each value it carries");
                trace.name(out[i], names[i]);
            }
        }
        out
    }
}

impl Trace {
    /// Opens a region that takes the values of a snapshot, after an index if there is one.
    pub(super) fn open_region(
        &mut self,
        index: Option<Type>,
        carried: &Snapshot,
        at: At,
    ) -> Vec<Value> {
        let loc = self.loc(at);
        let types: Vec<Type> = index
            .into_iter()
            .chain(carried.values().iter().map(|v| self.ty(*v).clone()))
            .collect();
        let (_, params) = self.builder.open(&types);
        let names = carried.names();
        let first = params.len() - names.len();
        for (i, &param) in params.iter().enumerate() {
            self.builder.func_mut().set_value_loc(param, loc);
            if i >= first {
                self.name(param, names[i - first]);
            }
        }
        params
    }

    /// Keeps the first `fixed` parameters of a region and those that are carried.
    pub(super) fn retain_params(&mut self, region: Region, fixed: usize, changed: &[bool]) {
        let func = self.builder.func_mut();
        func.retain_region_params(region, |i, _| i < fixed || changed[i - fixed]);
    }
}

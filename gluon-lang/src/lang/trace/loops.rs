//! `for`: over a host iterator the body is traced once for each item; over a `range` it becomes a loop of the kernel.

use super::carry::{Carrier, HostCarrier, Reach, Snapshot, restore, spare, write_values};
use super::{At, Trace, with};
use crate::lang::range::RangeValues;
use crate::lang::{Index, Scalar};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::entity::Value;
use ir::ops::Values;
use ir::ops::arith::{Binary, BinaryOp, Precision};
use ir::ops::control::{For, Yield};

use std::marker::PhantomData;

/// A loop that is unrolled at trace time.
pub struct HostLoop<I>(pub(crate) I);

impl<I: Iterator> HostLoop<I> {
    /// The next item.
    #[inline]
    pub fn step(&mut self, _: &'static str, _: impl FnMut(&mut HostCarrier)) -> Option<I::Item> {
        self.0.next()
    }
}

/// A loop that the kernel runs: the host goes through its body once.
pub struct KernelLoop<T> {
    core: LoopCore,
    index: PhantomData<*const T>,
}

impl<T: Index> KernelLoop<T> {
    /// `ends` is the sum of the first and the last index of a loop that goes from the last to the first.
    pub(crate) fn new(range: RangeValues, ends: Option<Value>, at: At) -> Self {
        Self {
            core: LoopCore {
                range,
                ends,
                at,
                body: None,
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
}

struct LoopCore {
    range: RangeValues,
    ends: Option<Value>,
    at: At,
    body: Option<Body>,
}

struct Body {
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
        let (index, params) = with(self.at, |trace| {
            let index_ty = trace.ty(self.range.low).clone();
            let mut params = trace.open_region(Some(index_ty), &before, self.at);
            let index = params.remove(0);
            let index = self.mirrored(trace, index);
            trace.name(index, name);
            (index, params)
        });
        write_values(reach, &params, index);
        self.body = Some(Body { before, params });
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

    fn close(&mut self, body: &Body, reach: Reach<'_>) {
        let after = Snapshot::of(reach);
        let at = self.at;
        if let Some((name, a, b)) = body.before.host_change(&after) {
            let message = format!(
                "the host variable `{name}` is {a} before an iteration of this loop of the kernel and {b} after it"
            );
            restore(reach, &body.before, spare(at));
            with(at, |trace| trace.host_changed(message, at));
        }
        let results = with(at, |trace| {
            trace.check_watched("loop", &body.before, &after, at);
            self.record(trace, body, &after)
        });
        write_values(reach, &results, spare(at));
    }

    fn record(&self, trace: &mut Trace, body: &Body, after: &Snapshot) -> Vec<Value> {
        let (inits, ends, names) = (body.before.values(), after.values(), body.before.names());
        let carried = Carried::find(trace, &inits, &body.params, &ends, &names, self.at);
        let values = carried.pick(&ends);
        trace.push(Yield { values }, &[], self.at);
        carried.drop_unchanged(trace, &body.params, &inits);
        let region = trace.builder.close();
        trace.retain_params(region, 1, &carried.changed);
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
        let (before, after) = (trace.ty(start).clone(), trace.ty(end).clone());
        if before.is_poison() || after.is_poison() || !trace.check_visible(end, at) {
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
            .help("a value that goes round a loop keeps its type: give the initial value this shape and layout, or use `cast` or `convert_layout` before assigning");
            trace.fail(error, at);
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
        let results = trace.push(op, &types, at);
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
    pub(super) fn retain_params(
        &mut self,
        region: ir::entity::Region,
        fixed: usize,
        changed: &[bool],
    ) {
        let func = self.builder.func_mut();
        func.retain_region_params(region, |i, _| i < fixed || changed[i - fixed]);
    }
}

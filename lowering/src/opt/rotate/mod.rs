//! `rotate-accumulators`: unrolls loops whose accumulators alternate between sets of registers.
//!
//! A loop that begins the product of one step while it still uses that of the step before carries an accumulator in flight, and each iteration
//! leaves it in other registers. It cannot be moved, so that the loop is unrolled by the period after which it is back
//! ([`rotation`](ir::ops::rotation)). What is left of the iterations runs in a loop of its own, which waits at its end.
//!
//! ```text
//! %r = for %low, %high, %step, [%p] (%i, %a) {        %n, %q = for %low, %bound, %twice, [%low, %p] (%i, %_, %a) {
//!   %b = wgmma .., %zero                                %b = wgmma .., %zero
//!   %t = wgmma_wait [%a] {pending=1}            ->      %t = wgmma_wait [%a] {pending=1}
//!   ..                                                  ..
//!   yield [%b]                                          %b2 = wgmma .., %zero2          // in the registers of %a
//! }                                                     %t2 = wgmma_wait [%b] {pending=1}
//!                                                       ..
//!                                                       yield [%next, %b2]
//!                                                     }
//!                                                     %u = wgmma_wait [%q] {pending=0}
//!                                                     %v = for %n, %high, %step, [%u] (%i, %a) { .. }
//! ```
//!
//! ptxas 13.0 wants two things of such a loop:
//!
//! - It does not count groups across the back edge: where an accumulator that was started in the iteration before is read while another is in
//!   flight, it serializes all products (C7514). So what an iteration ends is waited for before the iteration starts its first product, which
//!   then runs beside the arithmetic.
//! - It takes what is read from registers that two products write for one another (see `emit/wgmma/mod.rs`). So the loop is entered with nothing in
//!   flight in the registers that its body writes.

mod copy;
#[cfg(test)]
mod tests;

use diag::Diagnostics;
use ir::elem::{DType, Elem};
use ir::entity::{Inst, Loc, Region, Value};
use ir::ops::arith::{Binary, BinaryOp, Compare, CompareOp, Precision, Select};
use ir::ops::control::{For, Yield, yielded};
use ir::ops::create::{Const, Constant};
use ir::ops::rotation::{is_settled, rotation};
use ir::ops::wgmma::{AccumulatorBegin, WgmmaWait};
use ir::ops::{Op, Values, flow};
use ir::{Func, Type};
use rustc_hash::FxHashMap;

/// Unrolls every loop that needs it, inner loops first.
pub fn run(func: &mut Func, _: &mut Diagnostics) {
    let loops: Vec<Inst> = func.walk().into_iter().rev().collect();
    for inst in loops {
        let Some(op) = flow::counted(func.op(inst)) else {
            continue;
        };
        let (op, has_any) = (
            op.clone(),
            func.results(inst).iter().any(|v| is_in_flight(func, *v)),
        );
        let Some(rotation) = has_any.then(|| rotation(func, inst)).flatten() else {
            continue;
        };
        if rotation.period == 1 && is_settled(func, inst, &rotation) {
            continue;
        }
        let mut unroll = Unroll::new(func, inst, op, rotation.ended.to_vec());
        unroll.enter_settled(rotation.restarted.iter().map(|(slot, _)| *slot));
        let results = match rotation.period {
            1 => unroll.once(),
            period => unroll.by(period as u32),
        };
        unroll.finish(&results);
    }
}

fn is_in_flight(func: &Func, value: Value) -> bool {
    func.ty(value).as_in_flight().is_some()
}

/// A loop that is replaced.
struct Unroll<'f> {
    func: &'f mut Func,
    inst: Inst,
    op: For,
    /// The type of its index.
    index: Type,
    loc: Option<Loc>,
    /// Slots whose accumulators end in each iteration.
    ended: Vec<usize>,
    /// What comes in its place.
    out: Vec<Inst>,
}

impl<'f> Unroll<'f> {
    fn new(func: &'f mut Func, inst: Inst, op: For, ended: Vec<usize>) -> Self {
        Unroll {
            index: func.ty(op.low).clone(),
            loc: func.loc(inst),
            func,
            inst,
            op,
            ended,
            out: Vec::new(),
        }
    }

    /// Ends what is in flight before the loop in the slots that begin again inside.
    fn enter_settled(&mut self, slots: impl Iterator<Item = usize>) {
        for slot in slots {
            let init = self.op.inits[slot];
            let maker = self.func.def_inst(init);
            if maker.is_some_and(|maker| self.func.op(maker).rules().begins_accumulator()) {
                continue;
            }
            let tensor = self.wait(&[init])[0];
            self.op.inits[slot] = self.begin(tensor);
        }
    }

    /// The loop by `period` iterations at a time, and the rest.
    fn by(&mut self, period: u32) -> Vec<Value> {
        let (next, carried) = self.unrolled(period);
        self.rest(next, &carried)
    }

    /// The loop as it is, but for what it ends.
    fn once(&mut self) -> Vec<Value> {
        let For {
            low,
            high,
            step,
            body,
            ..
        } = self.op;
        let region = self.func.new_region();
        let index = self.index.clone();
        let at = self.func.add_region_param(region, index);
        let carried = self.params(region, |ty| ty);
        let outside = std::mem::take(&mut self.out);
        let ends = self.copy_body(body, at, &carried, true);
        self.close(region, ends.into_iter().collect(), outside);
        let inits = self.op.inits.clone();
        self.push(For {
            low,
            high,
            step,
            inits,
            body: region,
        })
    }

    /// The loop over whole periods: the first index that it leaves, and what it carries.
    fn unrolled(&mut self, period: u32) -> (Value, Vec<Value>) {
        let For {
            low,
            high,
            step,
            body,
            ..
        } = self.op;
        let limit = self.below(high, step);
        let behind = self.times(step, period - 1);
        let bound = if period == 2 {
            limit
        } else {
            self.below(high, behind)
        };
        let whole = self.times(step, period);
        let index = self.index.clone();
        let region = self.func.new_region();
        let first = self.func.add_region_param(region, index.clone());
        self.func.add_region_param(region, index);
        let mut carried: Vec<Value> = self.params(region, |ty| ty);
        let outside = std::mem::take(&mut self.out);
        let mut at = first;
        for copy in 0..period {
            if copy > 0 {
                at = self.binary(BinaryOp::Add, at, step);
            }
            carried = self.copy_body(body, at, &carried, true);
        }
        let is_more = self.push1(
            Compare {
                op: CompareOp::Lt,
                lhs: at,
                rhs: limit,
            },
            Type::scalar(Elem::I1),
        );
        let after = self.binary(BinaryOp::Add, at, step);
        let index = self.index.clone();
        let next = self.push1(
            Select {
                condition: is_more,
                yes: after,
                no: high,
            },
            index,
        );
        let values: Values = std::iter::once(next).chain(carried).collect();
        self.close(region, values, outside);
        let inits = std::iter::once(low)
            .chain(self.op.inits.iter().copied())
            .collect();
        let results = self.push(For {
            low,
            high: bound,
            step: whole,
            inits,
            body: region,
        });
        (results[0], results[1..].to_vec())
    }

    /// The loop over what is left, which ends every accumulator in each iteration.
    fn rest(&mut self, low: Value, carried: &[Value]) -> Vec<Value> {
        let For {
            high, step, body, ..
        } = self.op;
        let inits = self.settled(carried);
        let region = self.func.new_region();
        let index = self.index.clone();
        let at = self.func.add_region_param(region, index);
        let params = self.params(region, |ty| match ty {
            Type::InFlight(t) => Type::Tensor(t),
            other => other,
        });
        let outside = std::mem::take(&mut self.out);
        let begun = self.begun(&params);
        let ends = self.copy_body(body, at, &begun, false);
        let ends = self.settled(&ends);
        self.close(region, ends.into_iter().collect(), outside);
        let results = self.push(For {
            low,
            high,
            step,
            inits: inits.into_iter().collect(),
            body: region,
        });
        self.begun(&results)
    }

    /// Parameters of a region, one for each slot.
    fn params(&mut self, region: Region, ty: impl Fn(Type) -> Type) -> Vec<Value> {
        let old = self.func.region(self.op.body).params[1..].to_vec();
        let add = |&param: &Value| {
            let ty = ty(self.func.ty(param).clone());
            let new = self.func.add_region_param(region, ty);
            copy::name(self.func, param, new);
            new
        };
        old.iter().map(add).collect()
    }

    /// A copy of the body for this index and these carried values; gives what it yields. Where `is_in_flight`, accumulators come in that
    /// the body ends: they are waited for before anything else is done with them, and before the first product is started.
    fn copy_body(
        &mut self,
        body: Region,
        index: Value,
        carried: &[Value],
        is_in_flight: bool,
    ) -> Vec<Value> {
        let params = self.func.region(body).params.clone();
        let values = std::iter::once(&index).chain(carried).copied();
        let mut map: FxHashMap<Value, Value> = params.iter().copied().zip(values).collect();
        let insts = self.func.region(body).insts.clone();
        let (_, inner) = insts.split_last().expect("a region ends in its terminator");
        let ends: Vec<Value> = self.ended.iter().map(|slot| params[slot + 1]).collect();
        let first = inner
            .iter()
            .position(|inst| touches(self.func, *inst, &ends));
        for (at, &inst) in inner.iter().enumerate() {
            if is_in_flight && Some(at) == first {
                let ended: Vec<Value> = self.ended.iter().map(|slot| carried[*slot]).collect();
                let tensors = self.wait(&ended);
                for (slot, tensor) in self.ended.clone().into_iter().zip(tensors) {
                    map.insert(params[slot + 1], self.begin(tensor));
                }
            }
            let copied = copy::inst(self.func, inst, &mut map);
            self.out.push(copied);
        }
        let ends = yielded(self.func, body);
        ends.iter()
            .map(|v| map.get(v).copied().unwrap_or(*v))
            .collect()
    }

    /// The values with what is in flight ended: as tensors.
    fn settled(&mut self, values: &[Value]) -> Vec<Value> {
        let in_flight = values
            .iter()
            .copied()
            .filter(|v| is_in_flight(self.func, *v));
        let in_flight: Vec<Value> = in_flight.collect();
        let mut tensors = self.wait(&in_flight).into_iter();
        let settle = |value: &Value| {
            if is_in_flight(self.func, *value) {
                tensors.next()
            } else {
                Some(*value)
            }
        };
        let values: Option<Vec<Value>> = values.iter().map(settle).collect();
        values.expect("a wait gives a tensor for each accumulator")
    }

    /// The values as the loop carries them: accumulators that begin with tensors.
    fn begun(&mut self, values: &[Value]) -> Vec<Value> {
        let old = self.func.results(self.inst).to_vec();
        let begin = |(&value, old): (&Value, Value)| {
            if is_in_flight(self.func, old) {
                self.begin(value)
            } else {
                value
            }
        };
        values.iter().zip(old).map(begin).collect()
    }

    fn wait(&mut self, in_flight: &[Value]) -> Vec<Value> {
        let types = in_flight
            .iter()
            .filter_map(|v| self.func.ty(*v).as_in_flight().cloned());
        let types: Vec<Type> = types.map(Type::Tensor).collect();
        let accumulators = in_flight.iter().copied().collect();
        self.push_as(
            WgmmaWait {
                pending: 0,
                accumulators,
            },
            &types,
        )
    }

    fn begin(&mut self, tensor: Value) -> Value {
        self.push(AccumulatorBegin { init: tensor })[0]
    }

    /// `high - distance`, or the least number of the type where that is less.
    fn below(&mut self, high: Value, distance: Value) -> Value {
        let least = self.index.elem().and_then(Elem::data).map_or(0, least);
        let least = self.constant(least);
        let least = self.binary(BinaryOp::Add, least, distance);
        let high = self.binary(BinaryOp::Max, high, least);
        self.binary(BinaryOp::Sub, high, distance)
    }

    fn times(&mut self, value: Value, factor: u32) -> Value {
        if factor == 1 {
            return value;
        }
        let factor = self.constant(factor.into());
        self.binary(BinaryOp::Mul, value, factor)
    }

    fn constant(&mut self, value: i128) -> Value {
        let ty = self.index.clone();
        self.push1(
            Constant {
                value: Const::Int(value),
            },
            ty,
        )
    }

    fn binary(&mut self, op: BinaryOp, lhs: Value, rhs: Value) -> Value {
        let ty = self.index.clone();
        self.push1(
            Binary {
                op,
                precision: Precision::Default,
                lhs,
                rhs,
            },
            ty,
        )
    }

    fn push1(&mut self, op: impl Into<Op>, ty: Type) -> Value {
        self.push_as(op, &[ty])[0]
    }

    fn push(&mut self, op: impl Into<Op>) -> Vec<Value> {
        self.push_as(op, &[])
    }

    fn push_as(&mut self, op: impl Into<Op>, types: &[Type]) -> Vec<Value> {
        let op = op.into();
        let types = op.rules().result_types(self.func, types);
        let types = types.unwrap_or_else(|e| panic!("the parts of an unrolled loop fit: {e:?}"));
        let inst = self.func.make_inst(op, types, self.loc);
        self.out.push(inst);
        self.func.results(inst).to_vec()
    }

    /// Ends a region that was filled in `out`, and continues with what stood there.
    fn close(&mut self, region: Region, values: Values, outside: Vec<Inst>) {
        self.push(Yield { values });
        let insts = std::mem::replace(&mut self.out, outside);
        self.func.set_insts(region, insts);
    }

    /// Puts it all in the place of the loop.
    fn finish(self, results: &[Value]) {
        let home = self.func.parent(self.inst);
        let at = self.func.index_in_region(self.inst);
        let mut insts = self.func.region(home).insts.clone();
        let old = self.func.results(self.inst).to_vec();
        let mut map = cranelift_entity::SecondaryMap::new();
        for (old, &new) in old.into_iter().zip(results) {
            copy::name(self.func, old, new);
            map[old] = new.into();
        }
        insts.splice(at..=at, self.out);
        self.func.set_insts(home, insts);
        self.func.replace_uses(&map);
        take_out(self.func, self.op.body);
    }
}

/// Does the instruction, or one in its regions, start a product or use one of these?
fn touches(func: &Func, inst: Inst, values: &[Value]) -> bool {
    let mut insts = vec![inst];
    for region in func.op(inst).regions() {
        func.walk_region(region, &mut insts);
    }
    insts.into_iter().any(|inst| {
        let op = func.op(inst);
        op.rules().started_product().is_some() || op.operands().iter().any(|v| values.contains(v))
    })
}

/// Takes all instructions out of a region that no instruction owns any more, and of those inside.
fn take_out(func: &mut Func, region: Region) {
    for inst in func.region(region).insts.clone() {
        for inner in func.op(inst).regions() {
            take_out(func, inner);
        }
    }
    func.set_insts(region, Vec::new());
}

/// The least number of an integer type.
fn least(dtype: DType) -> i128 {
    if dtype.is_signed_int() {
        -(1 << (dtype.bits() - 1))
    } else {
        0
    }
}

//! What the author promises with `assume`.
//!
//! Matches on ops: a promise is read from the comparisons and masks that authors write it with.

use cranelift_entity::SecondaryMap;
use ir::Func;
use ir::entity::Value;
use ir::ops::Op;
use ir::ops::arith::{BinaryOp, CompareOp};

use ir::facts::{Facts, Range, divisibility_of};

/// Bounds and divisors of values, from the `assume`s of the kernel's own body, which run in any case.
#[derive(Debug, Default)]
pub(crate) struct Assumed {
    ranges: SecondaryMap<Value, Option<Range>>,
    divisors: SecondaryMap<Value, u8>,
}

impl Assumed {
    /// Adds the promise to what is known.
    pub(crate) fn refine(&self, value: Value, mut facts: Facts) -> Facts {
        if let (Some(range), Some(known)) = (self.ranges[value], facts.range.as_mut()) {
            known.low = known.low.max(range.low);
            known.high = known.high.min(range.high).max(known.low);
        }
        let divisor = self.divisors[value];
        if divisor > 0 {
            for dim in &mut facts.dims {
                dim.divisibility = dim.divisibility.max(divisor);
            }
        }
        facts
    }

    fn condition(&mut self, func: &Func, condition: Value) {
        match func.def_inst(condition).map(|inst| func.op(inst)) {
            Some(Op::Binary(b)) if b.op == BinaryOp::And => {
                self.condition(func, b.lhs);
                self.condition(func, b.rhs);
            }
            Some(Op::Compare(c)) => match (func.constant_int(c.lhs), func.constant_int(c.rhs)) {
                (None, Some(bound)) => self.comparison(func, c.lhs, c.op, bound),
                (Some(bound), None) => self.comparison(func, c.rhs, c.op.mirrored(), bound),
                _ => {}
            },
            _ => {}
        }
    }

    /// `value op bound` holds.
    fn comparison(&mut self, func: &Func, value: Value, op: CompareOp, bound: i128) {
        let far = 1 << 100;
        let range = match op {
            CompareOp::Lt => Range::new(-far, bound - 1),
            CompareOp::Le => Range::new(-far, bound),
            CompareOp::Gt => Range::new(bound + 1, far),
            CompareOp::Ge => Range::new(bound, far),
            CompareOp::Eq => {
                self.remainder(func, value, bound);
                Range::new(bound, bound)
            }
            CompareOp::Ne => return,
        };
        let known = self.ranges[value].unwrap_or(range);
        let both = Range::new(known.low.max(range.low), known.high.min(range.high));
        self.ranges[value] = Some(both);
    }

    /// `x % n == 0`, or `x & (n - 1) == 0`.
    fn remainder(&mut self, func: &Func, value: Value, bound: i128) {
        let Some(Op::Binary(b)) = func.def_inst(value).map(|inst| func.op(inst)) else {
            return;
        };
        let divisor = match (b.op, func.constant_int(b.rhs)) {
            (BinaryOp::Rem, Some(n)) if n != 0 => divisibility_of(n),
            (BinaryOp::And, Some(mask)) => divisibility_of(mask + 1),
            _ => return,
        };
        if bound == 0 {
            let known = &mut self.divisors[b.lhs];
            *known = divisor.max(*known);
        }
    }
}

/// Collects the promises.
pub(crate) fn of(func: &Func) -> Assumed {
    let mut assumed = Assumed::default();
    for &inst in &func.region(func.body).insts {
        if let Some(condition) = func.op(inst).rules().promise() {
            assumed.condition(func, condition);
        }
    }
    assumed
}

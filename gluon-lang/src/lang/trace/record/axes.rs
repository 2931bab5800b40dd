//! Reductions over several dimensions: in one pass where all elements become one, else one dimension after the other, the last
//! one first, so that the result lies as it does after reductions of one dimension each.

use super::super::super::axes::Axes;
use super::super::{At, Raw, Trace, with};
use diag::Code;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::arith::{Binary, BinaryOp, CompareOp, Precision};
use ir::ops::create::Const;
use ir::ops::shape::Reshape;
use ir::{OpError, Type};
use layout::{Dims, Layout, relate};

/// What is reduced, and along which dimensions in turn. Nothing after a mistake, which is reported.
#[inline(never)]
pub(crate) fn passes(operands: &[Value], axes: Axes, at: At) -> Option<(Vec<Value>, Vec<usize>)> {
    if let Axes::One(axis) = axes {
        return Some((operands.to_vec(), vec![axis]));
    }
    with(at, |trace| trace.passes(operands, axes, at))
}

/// The number of the greatest or least element among those of the dimensions, in row-major order; of several, the lowest.
#[inline(never)]
pub(crate) fn arg_reduce(op: CompareOp, operand: Value, axes: Axes, at: At) -> Value {
    let operand = with(at, |trace| trace.without_nan(op, operand, at));
    let Some((operands, axes)) = passes(&[operand], axes, at) else {
        return super::poison(at);
    };
    with(at, |trace| {
        let Some(index) = trace.number_among(operands[0], &axes, at) else {
            return trace.builder.poison();
        };
        let mut pair = vec![operands[0], index];
        for axis in axes {
            pair = trace.reduce_to_better(op, &pair, axis, at);
        }
        pair[1]
    })
}

impl Trace {
    fn passes(
        &mut self,
        operands: &[Value],
        axes: Axes,
        at: At,
    ) -> Option<(Vec<Value>, Vec<usize>)> {
        let Type::Tensor(t) = self.ty(operands[0]).clone() else {
            // The reduction reports the mistake.
            return Some((operands.to_vec(), vec![0]));
        };
        let mut dims = match axes {
            Axes::One(axis) => vec![axis],
            Axes::Several(dims) => dims,
            Axes::All => (0..t.rank()).collect(),
        };
        dims.sort_unstable_by(|a, b| b.cmp(a));
        if let Some([twice, ..]) = dims.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("a reduction over dimension {twice} twice");
            let error = OpError::new(Code::NoSuchAxis, message);
            self.fail(
                error
                    .typed(operands[0], &t)
                    .help("name each dimension once"),
                at,
            );
            return None;
        }
        let len = Dims::from([t.len() as u32]);
        let is_all = dims.len() == t.rank() && dims.first() == Some(&(t.rank() - 1));
        let is_line = |v: &Value| match self.ty(*v) {
            Type::Tensor(t) => relate::reshape(&t.layout, &t.shape, &len).is_ok(),
            _ => false,
        };
        if dims.len() == 1 || !is_all || !operands.iter().all(is_line) {
            return Some((operands.to_vec(), dims));
        }
        let line = |&operand: &Value| {
            let elem = self.ty(operand).elem().unwrap_or(Elem::I32);
            let ty = Type::tensor(len.clone(), elem, Layout::Auto);
            self.push1(Reshape { operand }, ty, at)
        };
        Some((operands.iter().map(line).collect(), vec![0]))
    }

    /// A tensor like `operand` whose every element is its number among those of the dimensions, in row-major order.
    fn number_among(&mut self, operand: Value, axes: &[usize], at: At) -> Option<Value> {
        let shape = Dims::from(self.ty(operand).shape());
        let mut number: Option<Value> = None;
        let mut step: i64 = 1;
        // The last dimension comes first.
        for &axis in axes {
            let mut index = self.index_along("a reduction", operand, axis, at)?;
            if step != 1 {
                let by = Raw::Const(Const::Int(step.into()));
                index = self.combined(BinaryOp::Mul, (Raw::Value(index), by), Elem::I32, at);
            }
            number = Some(match number {
                None => index,
                Some(sum) => {
                    let both = (Raw::Value(sum), Raw::Value(index));
                    self.combined(BinaryOp::Add, both, Elem::I32, at)
                }
            });
            step *= i64::from(shape[axis]);
        }
        number
    }

    /// Floats with NaN as the number that comes last: `max` and `min` give the operand that is a number.
    fn without_nan(&mut self, op: CompareOp, operand: Value, at: At) -> Value {
        let Some(Elem::Data(dtype @ (DType::F16 | DType::Bf16 | DType::F32 | DType::F64))) =
            self.ty(operand).elem()
        else {
            return operand;
        };
        let (op, last) = match op {
            CompareOp::Gt => (BinaryOp::Max, f64::NEG_INFINITY),
            _ => (BinaryOp::Min, f64::INFINITY),
        };
        let last = Raw::Const(Const::float(last));
        self.combined(op, (Raw::Value(operand), last), dtype.into(), at)
    }

    fn combined(&mut self, op: BinaryOp, (lhs, rhs): (Raw, Raw), elem: Elem, at: At) -> Value {
        self.elementwise(op.name(), &[(lhs, elem), (rhs, elem)], at, |v| {
            Binary {
                op,
                precision: Precision::Default,
                lhs: v[0],
                rhs: v[1],
            }
            .into()
        })
    }
}

//! Which integers scalars can be, as far as the author's promises and arithmetic say: enough to know of a loop that it runs.
//!
//! Matches on ops: the integer operations that bounds of loops are made of.

use cranelift_entity::SecondaryMap;
use ir::Func;
use ir::entity::Value;
use ir::ops::Op;
use ir::ops::arith::{Binary, BinaryOp, CompareOp};

/// The least and the most that a scalar can be, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    least: i128,
    most: i128,
}

impl Default for Range {
    fn default() -> Range {
        Range {
            least: i128::from(i64::MIN),
            most: i128::from(u64::MAX),
        }
    }
}

/// The range of each scalar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    of: SecondaryMap<Value, Range>,
}

impl Ranges {
    pub(crate) fn new(func: &Func) -> Ranges {
        let mut ranges = Ranges::default();
        // Promises hold for the whole kernel, also where they stand behind what they are about.
        for inst in func.walk() {
            if let Op::Assume(op) = func.op(inst) {
                ranges.promise(func, op.condition);
            }
        }
        for inst in func.walk() {
            let Some(&result) = func.results(inst).first() else {
                continue;
            };
            let (least, most) = match func.op(inst) {
                Op::Binary(op) => match ranges.binary(op) {
                    Some(range) if fits(func, result, range) => (range.least, range.most),
                    _ => continue,
                },
                Op::Hint(op) => (ranges.of[op.operand].least, ranges.of[op.operand].most),
                Op::ProgramId(_) => (0, i128::from(i32::MAX)),
                Op::NumPrograms(_) => (1, i128::from(i32::MAX)),
                _ => match func.constant_int(result) {
                    Some(number) => (number, number),
                    None => continue,
                },
            };
            ranges.narrow(result, Range { least, most });
        }
        ranges
    }

    /// Is `low` less than `high` for certain?
    pub(crate) fn is_below(&self, low: Value, high: Value) -> bool {
        self.of[low].most < self.of[high].least
    }

    /// Is it more than zero for certain?
    pub(crate) fn is_positive(&self, value: Value) -> bool {
        self.of[value].least > 0
    }

    fn narrow(&mut self, value: Value, to: Range) {
        let known = &mut self.of[value];
        known.least = known.least.max(to.least);
        known.most = known.most.min(to.most);
    }

    fn promise(&mut self, func: &Func, condition: Value) {
        let Some(inst) = func.def_inst(condition) else {
            return;
        };
        match func.op(inst) {
            Op::Binary(op) if op.op == BinaryOp::And => {
                self.promise(func, op.lhs);
                self.promise(func, op.rhs);
            }
            Op::Compare(op) => {
                let (mut value, mut number, mut compare) = (op.lhs, op.rhs, op.op);
                if func.constant_int(value).is_some() {
                    (value, number, compare) = (number, value, compare.mirrored());
                }
                let Some(number) = func.constant_int(number) else {
                    return;
                };
                let open = Range::default();
                let (least, most) = match compare {
                    CompareOp::Eq => (number, number),
                    CompareOp::Lt => (open.least, number - 1),
                    CompareOp::Le => (open.least, number),
                    CompareOp::Gt => (number + 1, open.most),
                    CompareOp::Ge => (number, open.most),
                    CompareOp::Ne => return,
                };
                self.narrow(value, Range { least, most });
            }
            _ => {}
        }
    }

    /// Without regard to the width of the type.
    fn binary(&self, op: &Binary) -> Option<Range> {
        let (x, y) = (self.of[op.lhs], self.of[op.rhs]);
        let of = |least: i128, most: i128| Some(Range { least, most });
        match op.op {
            BinaryOp::Add => of(x.least + y.least, x.most + y.most),
            BinaryOp::Sub => of(x.least - y.most, x.most - y.least),
            BinaryOp::Min => of(x.least.min(y.least), x.most.min(y.most)),
            BinaryOp::Max => of(x.least.max(y.least), x.most.max(y.most)),
            BinaryOp::Div if x.least >= 0 && y.least > 0 => of(x.least / y.most, x.most / y.least),
            BinaryOp::Mul if x.least >= 0 && y.least >= 0 => {
                let most = x.most.checked_mul(y.most)?;
                of(x.least * y.least, most)
            }
            BinaryOp::Shr if x.least >= 0 && y.least == y.most && (0..64).contains(&y.least) => {
                of(x.least >> y.least, x.most >> y.least)
            }
            _ => None,
        }
    }
}

/// Does the type hold it without wrapping?
fn fits(func: &Func, value: Value, range: Range) -> bool {
    let Some(elem) = func.ty(value).elem().filter(|e| e.is_int()) else {
        return false;
    };
    let bits = elem.bytes() * 8;
    range.least >= -(1_i128 << (bits - 1)) && range.most < 1_i128 << (bits - 1)
}

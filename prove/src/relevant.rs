//! Which scalars decide what the steps of a protocol do, and which of them must be known as numbers.
//!
//! Matches on ops: arithmetic on counters passes the need for a number on to its operands, each op in its own way.

use cranelift_entity::SecondaryMap;
use ir::entity::Value;
use ir::ops::arith::BinaryOp;
use ir::ops::control::yielded;
use ir::ops::{Op, flow};
use ir::{Func, ValueDef};

/// Largest modulus by which counters are followed.
const MOST_MODULUS: i64 = 1 << 12;

/// How much of a value must be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    #[default]
    None,
    /// Which of several values it is.
    Identity,
    /// The number.
    Number,
}

/// The values that matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relevant {
    needs: SecondaryMap<Value, Need>,
}

impl Relevant {
    /// What `seeds` are computed from.
    pub(crate) fn new(func: &Func, seeds: Vec<(Value, Need)>) -> Relevant {
        let mut relevant = Relevant::default();
        let mut open = seeds;
        relevant.spread(func, &mut open);
        // Behind a loop, what it runs up to is what its index has become.
        for inst in func.walk() {
            let counted = flow::counted(func.op(inst));
            let Some(op) = counted.filter(|op| relevant.counts(op.high)) else {
                continue;
            };
            let index = func.region(op.body).params.first();
            open.extend(index.map(|index| (*index, Need::Number)));
        }
        relevant.spread(func, &mut open);
        relevant
    }

    fn spread(&mut self, func: &Func, open: &mut Vec<(Value, Need)>) {
        while let Some((value, need)) = open.pop() {
            if self.needs[value] < need {
                self.needs[value] = need;
                operands(func, value, need, open);
            }
        }
    }

    pub(crate) fn has(&self, value: Value) -> bool {
        self.needs[value] != Need::None
    }

    pub(crate) fn has_any(&self, values: &[Value]) -> bool {
        values.iter().any(|v| self.has(*v))
    }

    pub(crate) fn counts(&self, value: Value) -> bool {
        self.needs[value] == Need::Number
    }

    /// A common multiple of what counters are divided by, and of what the quotients are.
    pub(crate) fn modulus(&self, func: &Func) -> i64 {
        let mut all = 1;
        for inst in func.walk() {
            let Op::Binary(op) = func.op(inst) else {
                continue;
            };
            let divisor = func.constant_int(op.rhs).map_or(0, |by| by as i64);
            let divisor = match op.op {
                BinaryOp::Rem | BinaryOp::Div => divisor,
                BinaryOp::And => divisor.saturating_add(1),
                BinaryOp::Shr if (0..12).contains(&divisor) => 1 << divisor,
                _ => 0,
            };
            let matters = self.counts(func.result(inst));
            if matters && divisor > 1 && divisor <= MOST_MODULUS {
                all = lcm(all, divisor).min(MOST_MODULUS);
            }
        }
        if all > 1 { 2 * all } else { 1 }
    }
}

fn lcm(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// What `value` is made of, with the need that follows for it.
fn operands(func: &Func, value: Value, need: Need, open: &mut Vec<(Value, Need)>) {
    let ValueDef::Result(inst, at) = func.def(value) else {
        slot_operands(func, value, need, open);
        return;
    };
    let op = func.op(inst);
    let is_number = |v: Value| func.constant_int(v).is_some();
    match op {
        Op::Binary(op) => {
            let by_number = is_number(op.rhs);
            let is_division = matches!(op.op, BinaryOp::Div | BinaryOp::Rem);
            let need = if is_division && !by_number {
                Need::Identity
            } else {
                need
            };
            open.extend([(op.lhs, need), (op.rhs, need)]);
        }
        Op::Compare(op) => {
            let with_number = is_number(op.lhs) || is_number(op.rhs);
            let need = if with_number {
                Need::Number
            } else {
                Need::Identity
            };
            open.extend([(op.lhs, need), (op.rhs, need)]);
        }
        Op::Select(op) => {
            open.extend([
                (op.condition, Need::Identity),
                (op.yes, need),
                (op.no, need),
            ]);
        }
        Op::Cast(op) => open.push((op.operand, need)),
        Op::Bitcast(op) => open.push((op.operand, need)),
        Op::Hint(op) => open.push((op.operand, need)),
        Op::If(op) => {
            open.push((op.condition, Need::Identity));
            for arm in [op.then, op.otherwise] {
                let values = yielded(func, arm);
                open.extend(values.get(at as usize).map(|v| (*v, need)));
            }
        }
        op if flow::is_loop(op) => {
            if let Some(slot) = flow::slot(func, inst, at as usize) {
                open.extend(slot.values().map(|v| (v, need)));
            }
        }
        op => {
            let scalars = op.operands().into_iter();
            let scalars =
                scalars.filter(|v| func.ty(*v).elem().is_some() && op.regions().is_empty());
            open.extend(scalars.map(|v| (v, Need::Identity)));
        }
    }
}

fn slot_operands(func: &Func, value: Value, need: Need, open: &mut Vec<(Value, Need)>) {
    let Some((owner, at)) = flow::slot_of_param(func, value) else {
        return;
    };
    if let Some(slot) = flow::slot(func, owner, at) {
        open.extend(slot.values().map(|v| (v, need)));
    }
}

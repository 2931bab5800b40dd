//! Steps of ranges, of either sign. A loop of the IR counts upwards, so that one that goes down counts through `!index`, the order of which is
//! reversed and which never overflows; one whose sign the kernel knows counts through either, as unsigned numbers.

use super::super::{At, Raw, with};
use super::{binary, cast, compare, select};
use crate::lang::loop_values::{Direction, RangeValues};
use diag::Code;
use ir::OpError;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::Op;
use ir::ops::arith::{BinaryOp, CompareOp};
use ir::ops::cast::Rounding;
use ir::ops::create::Const;

/// How the index of a range follows from what its loop counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IndexMap {
    /// It is the same.
    Same,
    /// It is its complement.
    Complement,
    /// It is the complement of the bits of this mask, of the signed number of an unsigned one.
    Masked(Value),
}

/// The step of a loop, and which way it goes.
#[inline(never)]
pub(crate) fn range_step(step: Raw, elem: Elem, at: At) -> (Value, Direction) {
    with(at, |trace| {
        let direction = match step {
            Raw::Const(Const::Int(0)) => {
                let error = OpError::new(Code::ConstantRange, "the step of a range is 0");
                let error =
                    error.help("write a positive step, or a negative one for a descending range");
                return (trace.fail(error, at), Direction::Up);
            }
            Raw::Const(Const::Int(step)) if step < 0 => Direction::Down,
            Raw::Const(_) => Direction::Up,
            Raw::Value(value) if trace.is_a_count(value) || !is_signed(elem) => Direction::Up,
            Raw::Value(_) => Direction::Either,
        };
        // A complement counts by the number without its sign, if the type has it.
        let least = -(1_i128 << (elem.bits() - 1));
        let (step, direction) = match step {
            Raw::Const(Const::Int(k)) if k == least && is_signed(elem) => (step, Direction::Either),
            Raw::Const(Const::Int(k)) if direction == Direction::Down && is_signed(elem) => {
                (Raw::Const(Const::Int(-k)), direction)
            }
            _ => (step, direction),
        };
        match trace.fit("range", &[(step, elem)], at) {
            Some(fitted) => (fitted[0], direction),
            None => (trace.builder.poison(), Direction::Up),
        }
    })
}

fn is_signed(elem: Elem) -> bool {
    elem.data().is_some_and(DType::is_signed_int)
}

impl super::super::Trace {
    /// Is it made of counts and places of the grid alone? No such number is negative.
    fn is_a_count(&self, value: Value) -> bool {
        let func = self.builder.func();
        let Some(inst) = func.def_inst(value) else {
            return false;
        };
        // Matches on ops: what an author writes for a step is looked through.
        match func.op(inst) {
            Op::NumPrograms(_)
            | Op::ProgramId(_)
            | Op::NumClusters(_)
            | Op::ClusterId(_)
            | Op::ClusterRank(_) => true,
            Op::Constant(c) => c.value.as_int().is_some_and(|c| c > 0),
            Op::Cast(c) => self.is_a_count(c.operand),
            Op::Binary(b) => {
                let keeps = matches!(
                    b.op,
                    BinaryOp::Add | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Min | BinaryOp::Max
                );
                keeps && self.is_a_count(b.lhs) && self.is_a_count(b.rhs)
            }
            _ => false,
        }
    }
}

impl IndexMap {
    /// The type of what is counted.
    pub(crate) fn counted(self, index: DType) -> DType {
        match self {
            IndexMap::Masked(_) => unsigned(index),
            _ => index,
        }
    }

    /// The index that the author sees.
    #[inline(never)]
    pub(crate) fn index(self, counted: Value, dtype: DType, at: At) -> Value {
        let elem = Elem::Data(dtype);
        match self {
            IndexMap::Same => counted,
            IndexMap::Complement => complement(counted, elem, at),
            IndexMap::Masked(mask) => {
                let counted_elem = Elem::Data(unsigned(dtype));
                let shifted = xor(counted, top_bit(dtype), counted_elem, at);
                let signed = cast(shifted, elem, Rounding::Default, at);
                xor(signed, Raw::Value(mask), elem, at)
            }
        }
    }
}

fn unsigned(dtype: DType) -> DType {
    if dtype.bits() == 64 {
        DType::U64
    } else {
        DType::U32
    }
}

fn top_bit(dtype: DType) -> Raw {
    Raw::Const(Const::Int(1 << (dtype.bits() - 1)))
}

fn xor(a: Value, b: Raw, elem: Elem, at: At) -> Value {
    binary(BinaryOp::Xor, Raw::Value(a), b, elem, at)
}

fn complement(value: Value, elem: Elem, at: At) -> Value {
    xor(value, Raw::Const(Const::Int(-1)), elem, at)
}

/// What the loop of a range counts, and how the index follows from it.
#[inline(never)]
pub(crate) fn loop_range(range: RangeValues, dtype: DType, at: At) -> (RangeValues, IndexMap) {
    let elem = Elem::Data(dtype);
    match range.direction {
        Direction::Up => (range, IndexMap::Same),
        Direction::Down => {
            let values = RangeValues {
                low: complement(range.low, elem, at),
                high: complement(range.high, elem, at),
                ..range
            };
            (values, IndexMap::Complement)
        }
        Direction::Either => either(range, dtype, at),
    }
}

/// All bits of the mask are the sign of the step. Numbers masked by it count upwards; as unsigned numbers their distances are exact.
fn either(range: RangeValues, dtype: DType, at: At) -> (RangeValues, IndexMap) {
    let (elem, counted) = (Elem::Data(dtype), Elem::Data(unsigned(dtype)));
    let places = Raw::Const(Const::Int(i128::from(dtype.bits()) - 1));
    let mask = binary(BinaryOp::Shr, Raw::Value(range.step), places, elem, at);
    let masked = |value: Value| xor(value, Raw::Value(mask), elem, at);
    let placed = |value: Value| {
        let value = cast(masked(value), counted, Rounding::Default, at);
        xor(value, top_bit(dtype), counted, at)
    };
    let (low, high) = (placed(range.low), placed(range.high));
    let (step, mask_raw) = (Raw::Value(masked(range.step)), Raw::Value(mask));
    let step = binary(BinaryOp::Sub, step, mask_raw, elem, at);
    let step = cast(step, counted, Rounding::Default, at);
    let (zero, one) = (Raw::Const(Const::Int(0)), Raw::Const(Const::Int(1)));
    let stands = compare(CompareOp::Eq, Raw::Value(step), zero, counted, at);
    let high = select(
        Raw::Value(stands),
        Raw::Value(low),
        Raw::Value(high),
        counted,
        at,
    );
    let step = binary(BinaryOp::Max, Raw::Value(step), one, counted, at);
    let values = RangeValues {
        low,
        high,
        step,
        direction: Direction::Up,
    };
    (values, IndexMap::Masked(mask))
}

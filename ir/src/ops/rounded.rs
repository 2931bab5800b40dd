//! Elementwise arithmetic whose rounding is said.

use smallvec::smallvec;

use super::define::{answers, attr_enum, define_op};
use super::operand_types::{element, no_such_op, same_type};
use super::{OpRules, Types, Values};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::{Func, Type};
use diag::Code;

attr_enum! {
    /// Arithmetic whose rounding is said.
    pub enum RoundedOp {
        /// `a + b`.
        Add = "add",
        /// `a - b`.
        Sub = "sub",
        /// `a * b`.
        Mul = "mul",
        /// `a / b`.
        Div = "div",
        /// `a * b + c`, rounded once.
        Fma = "fma",
        /// The square root.
        Sqrt = "sqrt",
        /// `1 / a`.
        Rcp = "rcp",
    }
}

impl RoundedOp {
    /// How many operands it takes.
    pub const fn arity(self) -> usize {
        match self {
            RoundedOp::Sqrt | RoundedOp::Rcp => 1,
            RoundedOp::Add | RoundedOp::Sub | RoundedOp::Mul | RoundedOp::Div => 2,
            RoundedOp::Fma => 3,
        }
    }
}

attr_enum! {
    /// Which of the two floats next to an exact result is taken (PTX ISA 9.7.3).
    pub enum Direction {
        /// The nearer one, of two as near the even one.
        Nearest = "rn",
        /// The one nearer to zero.
        Zero = "rz",
        /// The lower one.
        Down = "rd",
        /// The upper one.
        Up = "ru",
    }
}

define_op! {
    /// Elementwise arithmetic of f32 or f64, rounded as said and never contracted with another operation.
    pub struct Rounded = "rounded" {
        /// Which operation.
        op: RoundedOp,
        /// Which way it rounds.
        direction: Direction,
        /// As many operands as the operation takes, of one type.
        operands: Values,
    }
}

impl OpRules for Rounded {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        if self.operands.len() != self.op.arity() {
            return Err(OpError::new(
                Code::BrokenRule,
                format!(
                    "`{}` takes {} operands, not {}",
                    self.op,
                    self.op.arity(),
                    self.operands.len()
                ),
            ));
        }
        let ty = same_type(func, self.op.name(), &self.operands)?;
        match element(&ty)? {
            Elem::Data(DType::F32 | DType::F64) => Ok(smallvec![ty]),
            elem => Err(no_such_op(&format!("{}_{}", self.op, self.direction), elem)
                .help("arithmetic with a direction of rounding is of f32 and f64: cast first")),
        }
    }
    answers!(elementwise);
}

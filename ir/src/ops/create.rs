//! Values from nothing: constants, ranges, splats, and the program's place in the grid.

use std::fmt;
use std::str::FromStr;

use smallvec::smallvec;

use super::define::{answers, attr_enum, define_op};
use super::{Attr, Op, OpRules, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::facts::{self, DimFacts, Facts, KnownFacts, Range};
use crate::{Func, Type};
use diag::Code;

/// The value of a constant, which its result type interprets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Const {
    /// An integer, or a boolean as 0 and 1.
    Int(i128),
    /// A float, as the bits of a binary64, which holds every narrower float exactly.
    Float(u64),
}

impl Const {
    /// A float constant.
    pub fn float(value: f64) -> Const {
        Const::Float(value.to_bits())
    }

    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Const::Int(i) => i as f64,
            Const::Float(bits) => f64::from_bits(bits),
        }
    }

    /// The value as an integer, unless it is a float.
    pub fn as_int(self) -> Option<i128> {
        match self {
            Const::Int(i) => Some(i),
            Const::Float(_) => None,
        }
    }

    /// Does an element of type `dtype` hold it? Floats are rounded, integers must fit.
    pub fn fits(self, dtype: DType) -> bool {
        match self {
            Const::Float(_) => dtype.is_float(),
            Const::Int(i) => match dtype {
                DType::I1 => i == 0 || i == 1,
                d if d.is_signed_int() => {
                    (-(1i128 << (d.bits() - 1))..1i128 << (d.bits() - 1)).contains(&i)
                }
                d if d.is_int() => (0..1i128 << d.bits()).contains(&i),
                _ => false,
            },
        }
    }
}

impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Const::Int(i) => write!(f, "{i}"),
            Const::Float(bits) => {
                let value = f64::from_bits(*bits);
                if value.is_nan() {
                    write!(f, "nan:{bits:#x}")
                } else {
                    write!(f, "{value:?}")
                }
            }
        }
    }
}

impl FromStr for Const {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(bits) = text.strip_prefix("nan:0x") {
            return u64::from_str_radix(bits, 16)
                .map(Const::Float)
                .map_err(|e| format!("`{text}`: {e}"));
        }
        if let Ok(i) = text.parse::<i128>() {
            return Ok(Const::Int(i));
        }
        text.parse::<f64>()
            .map(Const::float)
            .map_err(|_| format!("`{text}` is not a number"))
    }
}

impl Attr for Const {}

define_op! {
    /// A number known while tracing. As a tensor, every element has it.
    pub struct Constant = "constant" {
        /// The number.
        value: Const,
    }
}

impl OpRules for Constant {
    fn result_types(&self, _: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let ty = one_declared(declared, "constant")?;
        match ty.elem() {
            Some(Elem::Data(dtype)) if self.value.fits(dtype) => Ok(smallvec![ty.clone()]),
            elem => Err(OpError::new(
                Code::ConstantRange,
                format!("the constant {} is no {}", self.value, shown(elem)),
            )),
        }
    }
    answers!(free_layouts);
    answers!(rematerializable);
    fn uniform(&self) -> Option<Uniform> {
        Some(Uniform::Constant(self.value))
    }
    fn result_facts(&self, _: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::constant_of(self.value, ty)
    }
}

define_op! {
    /// A value that nothing reads: it stands where one way through a branch or loop gives a value and the other leaves early.
    /// It may be anything.
    pub struct Undefined = "undefined" {
    }
}

impl OpRules for Undefined {
    fn result_types(&self, _: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let ty = one_declared(declared, "undefined")?;
        if ty.as_in_flight().is_some() {
            return Err(OpError::new(
                Code::BrokenRule,
                "an accumulator in flight cannot be undefined",
            ));
        }
        Ok(smallvec![ty.clone()])
    }
    answers!(free_layouts);
    answers!(rematerializable);
    fn result_facts(&self, _: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::unknown(ty)
    }
}

define_op! {
    /// The integers from `start` to `end`, one after the other; the result has rank 1 and `end - start` elements.
    pub struct Arange = "arange" {
        /// The first element.
        start: i64,
        /// One past the last element.
        end: i64,
    }
}

impl OpRules for Arange {
    fn result_types(&self, _: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let ty = one_declared(declared, "arange")?;
        let len = self.end - self.start;
        match ty {
            Type::Tensor(t)
                if t.elem.is_int() && t.shape[..] == [u32::try_from(len).unwrap_or(0)] =>
            {
                Ok(smallvec![ty.clone()])
            }
            _ => Err(OpError::new(
                Code::ShapeMismatch,
                format!(
                    "arange from {} to {} has {len} integers, not {ty}",
                    self.start, self.end
                ),
            )),
        }
    }
    answers!(free_layouts);
    fn result_facts(&self, _: &Func, _: &KnownFacts, _: &Type) -> Facts {
        let (start, end) = (i128::from(self.start), i128::from(self.end));
        let dim = DimFacts {
            contiguity: facts::log2(u32::try_from(end - start).unwrap_or(1)),
            divisibility: facts::divisibility_of(start),
            constancy: 0,
            stride: Some(1),
        };
        Facts {
            dims: std::iter::once(dim).collect(),
            range: Some(Range::new(start, end - 1)),
        }
    }
}

define_op! {
    /// A tensor whose every element is the scalar.
    pub struct Splat = "splat" {
        /// The scalar.
        value: Value,
    }
}

impl OpRules for Splat {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let ty = one_declared(declared, "splat")?;
        match (func.ty(self.value), ty) {
            (Type::Scalar(elem), Type::Tensor(t)) if *elem == t.elem => Ok(smallvec![ty.clone()]),
            (from, _) => Err(OpError::new(
                Code::ElementMismatch,
                format!("a splat of {from} cannot be {ty}"),
            )),
        }
    }
    answers!(free_layouts);
    answers!(rematerializable, moves(value));
    fn uniform(&self) -> Option<Uniform> {
        Some(Uniform::Scalar(self.value))
    }
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        let scalar = &known[self.value];
        Facts::splat(ty.shape(), scalar.divisibility(), scalar.range)
    }
}

attr_enum! {
    /// A dimension of the grid.
    pub enum GridAxis {
        /// The fastest.
        X = "x",
        /// The second.
        Y = "y",
        /// The third.
        Z = "z",
    }
}

impl GridAxis {
    /// Which dimension it is, from 0.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// CTAs that a grid can have along it.
    pub fn most_ctas(self, func: &Func) -> i128 {
        i128::from(func.target.grid[self.index()])
    }
}

/// What every element of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniform {
    /// A number known while compiling.
    Constant(Const),
    /// A scalar.
    Scalar(Value),
}

impl From<Uniform> for Op {
    /// The op that makes a tensor of it, of whichever shape and layout.
    fn from(uniform: Uniform) -> Op {
        match uniform {
            Uniform::Constant(value) => Constant { value }.into(),
            Uniform::Scalar(value) => Splat { value }.into(),
        }
    }
}

define_op! {
    /// The index of this CTA in the grid (PTX `%ctaid`), an `i32`.
    pub struct ProgramId = "program_id" {
        /// Which dimension.
        axis: GridAxis,
    }
}

impl OpRules for ProgramId {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![Type::Scalar(Elem::I32)])
    }
    fn differs_between_ctas(&self, func: &Func, _: &dyn Fn(Value) -> bool) -> bool {
        func.cluster[self.axis.index()] > 1
    }
    fn result_facts(&self, func: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::between(0, self.axis.most_ctas(func) - 1, ty)
    }
}

define_op! {
    /// The number of CTAs in the grid (PTX `%nctaid`), an `i32`.
    pub struct NumPrograms = "num_programs" {
        /// Which dimension.
        axis: GridAxis,
    }
}

impl OpRules for NumPrograms {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![Type::Scalar(Elem::I32)])
    }
    fn result_facts(&self, func: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::between(1, self.axis.most_ctas(func), ty)
    }
}

pub(super) fn one_declared<'a>(declared: &'a [Type], op: &str) -> Result<&'a Type, OpError> {
    match declared {
        [ty] => Ok(ty),
        _ => Err(OpError::new(
            Code::BrokenRule,
            format!("`{op}` has one result, whose type must be declared"),
        )),
    }
}

fn shown(elem: Option<Elem>) -> String {
    elem.map_or_else(|| "value".into(), |e| e.to_string())
}

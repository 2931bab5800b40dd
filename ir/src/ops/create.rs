//! Values from nothing: constants, ranges, splats, and the program's place in the grid.

use smallvec::smallvec;

use super::define::{answers, attr_enum, define_op};
use super::{Attr, Op, OpRules, Types};
use crate::OpError;
use crate::elem::Elem;
use crate::entity::Value;
use crate::facts::{self, DimFacts, Facts, KnownFacts, Range};
use crate::{Func, Type};
use diag::Code;

pub use crate::constant::{Const, Uniform};

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
        let len = i128::from(self.end) - i128::from(self.start);
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

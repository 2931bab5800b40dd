//! Elementwise arithmetic, on scalars and tensors alike.

use smallvec::smallvec;

use super::define::{answers, attr_enum, define_op};
use super::operand_types::{element, is_computed_float, no_such_op, same_type};
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::facts::{self, Facts, KnownFacts};
use crate::{Func, Type};
use diag::{Code, as_written};

attr_enum! {
    /// How exact a function is, where the hardware offers a choice.
    pub enum Precision {
        /// What Triton and Gluon compile to: within a few units in the last place.
        Default = "default",
        /// Correctly rounded, or as close as the function allows.
        Precise = "precise",
        /// The hardware's approximation, subnormals flushed to zero.
        Fast = "fast",
    }
    unsaid Default
}

attr_enum! {
    /// Which unary operation.
    pub enum UnaryOp {
        /// `-x`.
        Neg = "neg",
        /// `|x|`.
        Abs = "abs",
        /// Bitwise complement; for a boolean, its negation.
        Not = "not",
        /// `e^x`.
        Exp = "exp",
        /// `2^x`.
        Exp2 = "exp2",
        /// Natural logarithm.
        Log = "log",
        /// Logarithm to base 2.
        Log2 = "log2",
        /// Sine of radians.
        Sin = "sin",
        /// Cosine of radians.
        Cos = "cos",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// The error function.
        Erf = "erf",
        /// Square root.
        Sqrt = "sqrt",
        /// `1 / sqrt(x)`.
        Rsqrt = "rsqrt",
        /// The nearest integer below.
        Floor = "floor",
        /// The nearest integer above.
        Ceil = "ceil",
        /// The nearest integer, ties to even.
        Rint = "rint",
        /// The nearest integer towards zero.
        Trunc = "trunc",
        /// Tangent of radians.
        Tan = "tan",
    }
}

impl UnaryOp {
    /// Does it exist for elements of this type?
    pub fn accepts(self, elem: Elem) -> bool {
        match self {
            UnaryOp::Not => elem.is_int() || elem.is_bool(),
            UnaryOp::Neg | UnaryOp::Abs => elem.is_int() || is_computed_float(elem),
            _ => is_computed_float(elem),
        }
    }
}

define_op! {
    /// Elementwise `op operand`.
    pub struct Unary = "unary" {
        /// Which operation.
        op: UnaryOp,
        /// How exact.
        precision: Precision,
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Unary {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = func.ty(self.operand);
        let elem = element(ty)?;
        if !self.op.accepts(elem) {
            return Err(no_such_op(self.op.name(), elem));
        }
        Ok(smallvec![ty.clone()])
    }
    answers!(elementwise);
    fn name_in_source(&self) -> &'static str {
        as_written(self.op.name())
    }
    /// The negative and the complement of integers that count up count down.
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        let mut facts = facts::equal_where_operands_are(known, &[self.operand], ty);
        let is_int = ty.elem().is_some_and(Elem::is_int);
        if is_int && matches!(self.op, UnaryOp::Neg | UnaryOp::Not) {
            for (dim, old) in facts.dims.iter_mut().zip(&known[self.operand].dims) {
                dim.stride = old.stride.and_then(i64::checked_neg);
            }
        }
        facts
    }
}

attr_enum! {
    /// Which binary operation.
    pub enum BinaryOp {
        /// `lhs + rhs`; integers wrap.
        Add = "add",
        /// `lhs - rhs`; integers wrap.
        Sub = "sub",
        /// `lhs * rhs`; integers wrap.
        Mul = "mul",
        /// The upper half of the full product of integers.
        MulHigh = "mul_high",
        /// `lhs / rhs`; integers towards zero.
        Div = "div",
        /// The remainder of the division, with the sign of `lhs`.
        Rem = "rem",
        /// The smaller; of a number and NaN, the number.
        Min = "min",
        /// The larger; of a number and NaN, the number.
        Max = "max",
        /// The smaller; NaN if either is.
        MinNan = "min_nan",
        /// The larger; NaN if either is.
        MaxNan = "max_nan",
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// Shift left; a count past the width gives 0.
        Shl = "shl",
        /// Shift right: arithmetic for signed, logical for unsigned elements.
        Shr = "shr",
        /// The magnitude of `lhs` with the sign of `rhs`.
        CopySign = "copysign",
    }
}

impl BinaryOp {
    /// Does it exist for elements of this type?
    pub fn accepts(self, elem: Elem) -> bool {
        match self {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => elem.is_int() || elem.is_bool(),
            BinaryOp::Shl | BinaryOp::Shr | BinaryOp::MulHigh => elem.is_int(),
            BinaryOp::MinNan | BinaryOp::MaxNan | BinaryOp::CopySign => is_computed_float(elem),
            _ => elem.is_int() || is_computed_float(elem),
        }
    }

    /// Do the operands commute?
    pub fn commutes(self) -> bool {
        !matches!(
            self,
            BinaryOp::Sub
                | BinaryOp::Div
                | BinaryOp::Rem
                | BinaryOp::Shl
                | BinaryOp::Shr
                | BinaryOp::CopySign
        )
    }
}

define_op! {
    /// Elementwise `lhs op rhs`; both operands and the result have one type.
    pub struct Binary = "binary" {
        /// Which operation.
        op: BinaryOp,
        /// How exact a float division is.
        precision: Precision,
        /// Left operand.
        lhs: Value,
        /// Right operand.
        rhs: Value,
    }
}

impl OpRules for Binary {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = same_type(func, self.op.name(), &[self.lhs, self.rhs])?;
        let elem = element(&ty)?;
        if !self.op.accepts(elem) {
            return Err(no_such_op(self.op.name(), elem));
        }
        Ok(smallvec![ty])
    }
    answers!(elementwise);
    fn name_in_source(&self) -> &'static str {
        as_written(self.op.name())
    }
    /// Division and shifts make equal what differed in the low bits.
    fn differs_between_ctas(&self, _: &Func, differs: &dyn Fn(Value) -> bool) -> bool {
        !matches!(self.op, BinaryOp::Div | BinaryOp::Shr)
            && (differs(self.lhs) || differs(self.rhs))
    }
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        facts::binary(self.op, &known[self.lhs], &known[self.rhs], ty)
    }
}

attr_enum! {
    /// Which comparison. Every one but `ne` is false when an operand is NaN.
    pub enum CompareOp {
        /// `==`
        Eq = "eq",
        /// `!=`
        Ne = "ne",
        /// `<`
        Lt = "lt",
        /// `<=`
        Le = "le",
        /// `>`
        Gt = "gt",
        /// `>=`
        Ge = "ge",
    }
}

impl CompareOp {
    /// The comparison with its sides exchanged: `a < b` is `b > a`.
    #[must_use]
    pub fn mirrored(self) -> CompareOp {
        match self {
            CompareOp::Lt => CompareOp::Gt,
            CompareOp::Le => CompareOp::Ge,
            CompareOp::Gt => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Le,
            CompareOp::Eq | CompareOp::Ne => self,
        }
    }
}

define_op! {
    /// Elementwise comparison, giving booleans.
    pub struct Compare = "compare" {
        /// Which comparison.
        op: CompareOp,
        /// Left operand.
        lhs: Value,
        /// Right operand.
        rhs: Value,
    }
}

impl OpRules for Compare {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = same_type(func, self.op.name(), &[self.lhs, self.rhs])?;
        let elem = element(&ty)?;
        if matches!(elem, Elem::Data(d) if d.is_narrow_float()) {
            return Err(no_such_op(self.op.name(), elem));
        }
        Ok(smallvec![ty.with_elem(DType::I1)])
    }
    answers!(elementwise);
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        facts::compare(self.op, &known[self.lhs], &known[self.rhs])
    }
}

define_op! {
    /// Elementwise `if condition { yes } else { no }`; both sides are computed.
    pub struct Select = "select" {
        /// Booleans of the same shape and layout.
        condition: Value,
        /// Where true.
        yes: Value,
        /// Where false.
        no: Value,
    }
}

impl OpRules for Select {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = same_type(func, "select", &[self.yes, self.no])?;
        let wanted = ty.with_elem(DType::I1);
        let condition = func.ty(self.condition);
        if *condition != wanted {
            return Err(OpError::new(
                Code::LayoutMismatch,
                format!("`select` wants a condition of type {wanted}, this is {condition}"),
            )
            .origin(self.condition, format!("the condition, {condition}")));
        }
        Ok(smallvec![ty])
    }
    answers!(elementwise);
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        let (yes, no) = (&known[self.yes], &known[self.no]);
        let mut facts = yes.join(no);
        for (dim, condition) in facts.dims.iter_mut().zip(&known[self.condition].dims) {
            let contiguity = dim.contiguity.min(condition.constancy);
            dim.divisibility = dim.divisibility_at(contiguity);
            dim.contiguity = contiguity;
            dim.constancy = dim.constancy.min(condition.constancy);
            dim.stride = dim.stride.filter(|_| condition.stride == Some(0));
        }
        facts
    }
}

define_op! {
    /// Elementwise `a * b + c` with one rounding.
    pub struct Fma = "fma" {
        /// Factor.
        a: Value,
        /// Factor.
        b: Value,
        /// Addend.
        c: Value,
    }
}

impl OpRules for Fma {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = same_type(func, "fma", &[self.a, self.b, self.c])?;
        let elem = element(&ty)?;
        if !is_computed_float(elem) {
            return Err(no_such_op("fma", elem));
        }
        Ok(smallvec![ty])
    }
    answers!(elementwise);
}

define_op! {
    /// Elementwise `operand * factor`, of a factor that is 1 in most places: a warp whose factors are all 1 skips the multiplications.
    pub struct Rescale = "rescale" {
        /// What is multiplied.
        operand: Value,
        /// Its factor.
        factor: Value,
    }
}

impl OpRules for Rescale {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = same_type(func, "rescale", &[self.operand, self.factor])?;
        let elem = element(&ty)?;
        if !is_computed_float(elem) {
            return Err(no_such_op("rescale", elem));
        }
        Ok(smallvec![ty])
    }
    answers!(elementwise);
}

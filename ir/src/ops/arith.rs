//! Elementwise arithmetic, on scalars and tensors alike.

use smallvec::smallvec;

use super::create::one_declared;
use super::define::{answers, attr_enum, define_op};
use super::{LayoutRule, OpRules, Text, Types, Values};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::facts::{self, DimFacts, Facts, KnownFacts, MAX_DIVISIBILITY, Range};
use crate::{Effects, Func, Spaces, Type};
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
        if matches!(elem, Elem::Data(d) if d.is_fp8()) {
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

attr_enum! {
    /// How a cast rounds what does not fit exactly.
    pub enum Rounding {
        /// Floats to the nearest, ties to even; floats to integers towards zero.
        Default = "default",
        /// Towards zero.
        Zero = "rz",
    }
    unsaid Default
}

define_op! {
    /// Converts each element to the element type of the result. Floats to integers saturate, and NaN gives 0; wider
    /// integers to narrower keep the low bits; anything to a boolean asks whether it differs from zero; to an 8-bit
    /// float saturates to the largest finite number.
    pub struct Cast = "cast" {
        /// How it rounds.
        rounding: Rounding,
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Cast {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let to = element(one_declared(declared, "cast")?)?;
        let from = func.ty(self.operand);
        let ok = match (element(from)?, to) {
            (Elem::Data(_), Elem::Data(_)) | (Elem::Ptr(_), Elem::Ptr(_)) => true,
            (Elem::Ptr(_), Elem::Data(d)) | (Elem::Data(d), Elem::Ptr(_)) => {
                matches!(d, DType::I64 | DType::U64)
            }
        };
        if !ok {
            return Err(OpError::new(
                Code::ElementMismatch,
                format!("{} cannot be cast to {to}", element(from)?),
            )
            .help("an address is an i64 or u64"));
        }
        Ok(smallvec![from.with_elem(to)])
    }
    answers!(elementwise);
    fn result_facts(&self, func: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        let (operand, from) = (&known[self.operand], func.ty(self.operand));
        match (from.elem(), ty.elem()) {
            (Some(Elem::Data(a)), Some(Elem::Data(b))) if a.is_int() && b.is_int() => {
                let mut facts = operand.clone();
                if b.bits() <= a.bits() {
                    facts
                        .dims
                        .iter_mut()
                        .for_each(|dim| facts::cut_runs(dim, b));
                }
                let fits = Range::of_type(b).zip(facts.range);
                if !fits.is_some_and(|(whole, range)| whole.contains(range)) {
                    facts::forget_strides(&mut facts);
                }
                facts
            }
            // Whether a number differs from zero is the same for equal numbers, and so on: equal stays equal.
            (Some(Elem::Data(a)), Some(Elem::Data(b))) => {
                let mut facts = facts::equal_runs(operand, ty);
                if a == DType::I1 && b.is_int() {
                    facts.range = operand.range;
                }
                facts
            }
            _ => facts::same_bits(operand, from, ty),
        }
    }
}

define_op! {
    /// Takes the bits of each element as another element type of the same width.
    pub struct Bitcast = "bitcast" {
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Bitcast {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let to = element(one_declared(declared, "bitcast")?)?;
        let from = func.ty(self.operand);
        let elem = element(from)?;
        if elem.bits() != to.bits() {
            return Err(OpError::new(
                Code::ElementMismatch,
                format!(
                    "a bitcast keeps the width: {elem} has {} bits, {to} has {}",
                    elem.bits(),
                    to.bits()
                ),
            )
            .typed(self.operand, from)
            .help("`cast` changes the width, and keeps the number instead of the bits"));
        }
        Ok(smallvec![from.with_elem(to)])
    }
    answers!(elementwise);
    fn result_facts(&self, func: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        facts::same_bits(&known[self.operand], func.ty(self.operand), ty)
    }
}

define_op! {
    /// Moves each pointer by `offset` elements.
    pub struct PtrAdd = "ptr_add" {
        /// The pointers.
        ptr: Value,
        /// Elements, not bytes; a signed or unsigned integer of 32 or 64 bits.
        offset: Value,
    }
}

impl OpRules for PtrAdd {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let (ptr, offset) = (func.ty(self.ptr), func.ty(self.offset));
        if !element(ptr)?.is_ptr() {
            return Err(no_such_op("ptr_add", element(ptr)?));
        }
        match element(offset)? {
            Elem::Data(DType::I32 | DType::I64 | DType::U32 | DType::U64) => {}
            other => {
                return Err(OpError::new(
                    Code::ElementMismatch,
                    format!("a pointer moves by integers of 32 or 64 bits, not by {other}"),
                ));
            }
        }
        let wanted = ptr.with_elem(element(offset)?);
        if *offset != wanted {
            return Err(mismatch("ptr_add", self.ptr, ptr, self.offset, offset));
        }
        Ok(smallvec![ptr.clone()])
    }
    answers!(elementwise);
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        let (ptr, offset) = (&known[self.ptr], &known[self.offset]);
        let elem_bytes = ty.elem().and_then(Elem::pointee).map_or(1, DType::bytes);
        let dims = ptr.dims.iter().zip(&offset.dims).map(|(p, o)| {
            let contiguity = facts::contiguity_of_sum(*p, *o);
            let offset_bytes = o
                .divisibility_at(contiguity)
                .saturating_add(facts::log2(elem_bytes));
            // Within a run of pointers, shorter runs begin at multiples of whole elements.
            let base = if contiguity < p.contiguity {
                p.divisibility.min(contiguity + facts::log2(elem_bytes))
            } else {
                p.divisibility
            };
            DimFacts {
                contiguity,
                divisibility: base.min(offset_bytes).min(MAX_DIVISIBILITY),
                constancy: p.constancy.min(o.constancy),
                stride: stride_bytes(*p, *o, elem_bytes),
            }
        });
        Facts {
            dims: dims.collect(),
            range: None,
        }
    }
}

fn stride_bytes(ptr: DimFacts, offset: DimFacts, elem_bytes: u32) -> Option<i64> {
    let offset = offset.stride?.checked_mul(elem_bytes.into())?;
    ptr.stride?.checked_add(offset)
}

define_op! {
    /// PTX for each element: `$0`, `$1`, ... stand for the results and then the operands. All tensors have one shape and
    /// layout.
    pub struct InlinePtx = "inline_ptx" {
        /// The PTX, statements ended by `;`.
        text: Text,
        /// May it be merged, moved and dropped?
        is_pure: bool,
        /// The operands.
        operands: Values,
    }
}

impl OpRules for InlinePtx {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let shape_of = |ty: &Type| (ty.shape().to_vec(), ty.layout().cloned());
        let all = self.operands.iter().map(|v| func.ty(*v)).chain(declared);
        let mut first: Option<&Type> = None;
        for ty in all {
            let same = first.is_none_or(|f| shape_of(f) == shape_of(ty));
            if !same {
                return Err(OpError::new(
                    Code::InlinePtx,
                    format!(
                        "the operands and results of inline PTX have one shape and layout; {} and {ty} differ",
                        first.unwrap_or(ty)
                    ),
                ));
            }
            first = Some(ty);
        }
        Ok(declared.into())
    }
    /// What it asks of the other threads only its author knows.
    fn suits_one_thread(&self) -> bool {
        false
    }
    fn effects(&self) -> Effects {
        if self.is_pure {
            return Effects::PURE;
        }
        // What it does to global memory only its author knows.
        Effects {
            reads: Spaces::GLOBAL,
            writes: Spaces::GLOBAL,
            is_ordered: true,
            is_guarded: true,
            ..Effects::PURE
        }
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Same
    }
    fn is_elementwise(&self) -> bool {
        self.is_pure
    }
    /// It may read what differs between threads.
    fn result_facts(&self, _: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::unknown(ty)
    }
}

/// Floats with arithmetic: all but the 8-bit ones, which are only converted and moved.
fn is_computed_float(elem: Elem) -> bool {
    matches!(elem, Elem::Data(d) if d.is_float() && !d.is_fp8())
}

pub(super) fn element(ty: &Type) -> Result<Elem, OpError> {
    ty.elem()
        .ok_or_else(|| OpError::new(Code::ElementMismatch, format!("{ty} has no elements")))
}

fn no_such_op(op: &str, elem: Elem) -> OpError {
    OpError::new(
        Code::ElementMismatch,
        format!("there is no `{op}` for {elem}"),
    )
}

/// The one type of all operands, or what differs.
pub(super) fn same_type(func: &Func, op: &str, operands: &[Value]) -> Result<Type, OpError> {
    let first = func.ty(operands[0]);
    for other in &operands[1..] {
        if func.ty(*other) != first {
            return Err(mismatch(op, operands[0], first, *other, func.ty(*other)));
        }
    }
    Ok(first.clone())
}

/// How two types differ: elements, rank, shape or layout.
pub(super) fn mismatch(op: &str, a: Value, a_ty: &Type, b: Value, b_ty: &Type) -> OpError {
    let (code, what) = match (a_ty, b_ty) {
        (Type::Tensor(x), Type::Tensor(y)) if x.rank() != y.rank() => (Code::RankMismatch, "rank"),
        (Type::Tensor(x), Type::Tensor(y)) if x.shape != y.shape => (Code::ShapeMismatch, "shape"),
        (Type::Tensor(x), Type::Tensor(y)) if x.layout != y.layout => {
            (Code::LayoutMismatch, "layout")
        }
        _ => (Code::ElementMismatch, "type"),
    };
    OpError::new(
        code,
        format!(
            "the operands of `{}` differ in {what}: {a_ty} and {b_ty}",
            as_written(op)
        ),
    )
    .typed(a, a_ty)
    .typed(b, b_ty)
}

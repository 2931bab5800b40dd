//! Facts for the compiler, and checks and prints for the author.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::define::{answers, attr_enum, define_op};
use super::{OpRules, Text, Types, Values};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::facts::{self, Facts, KnownFacts};
use crate::{Effects, Func, Type};
use diag::Code;
use layout::Dims;

attr_enum! {
    /// Which fact a [`Hint`] states.
    pub enum HintKind {
        /// Every element (every first of a contiguous run) is a multiple of the number; for pointers, in elements.
        MultipleOf = "multiple_of",
        /// Elements follow one another in runs of at least the number.
        MaxContiguous = "max_contiguous",
        /// Elements are equal in runs of at least the number.
        MaxConstancy = "max_constancy",
    }
}

define_op! {
    /// The operand, of which the author states a fact for each dimension. What he states wrongly is undefined.
    pub struct Hint = "hint" {
        /// Which fact.
        kind: HintKind,
        /// One number for each dimension; a scalar has one.
        values: Dims,
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Hint {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = func.ty(self.operand);
        let wanted = ty.shape().len().max(1);
        if self.values.len() != wanted {
            return Err(OpError::new(
                Code::HintMismatch,
                format!(
                    "`{}` wants one number for each dimension, {wanted} in all, and was given {}",
                    self.kind,
                    self.values.len()
                ),
            )
            .typed(self.operand, ty)
            .help("write 1 for a dimension without a promise"));
        }
        if self.values.contains(&0) {
            return Err(OpError::new(
                Code::HintMismatch,
                format!("`{}` of 0 states no fact", self.kind),
            ));
        }
        let is_indexing = ty.elem().is_some_and(|e| e.is_int() || e.is_ptr());
        if !is_indexing {
            return Err(OpError::new(
                Code::HintMismatch,
                format!(
                    "`{}` applies to integers and pointers, this is {ty}",
                    self.kind
                ),
            ));
        }
        Ok(smallvec![ty.clone()])
    }
    answers!(elementwise);
    /// What the author states wins over what is not known.
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        let mut facts = known[self.operand].clone();
        let unit = ty.elem().and_then(Elem::pointee).map_or(1, DType::bytes);
        for (dim, &stated) in facts.dims.iter_mut().zip(&self.values) {
            match self.kind {
                HintKind::MultipleOf => {
                    let bytes = i128::from(stated) * i128::from(unit);
                    dim.divisibility = dim.divisibility.max(facts::divisibility_of(bytes));
                }
                HintKind::MaxContiguous => {
                    dim.contiguity = dim.contiguity.max(facts::log2(stated));
                }
                HintKind::MaxConstancy => dim.constancy = dim.constancy.max(facts::log2(stated)),
            }
        }
        facts
    }
}

define_op! {
    /// The condition holds; the compiler may use it.
    pub struct Assume = "assume" {
        /// A scalar boolean.
        condition: Value,
    }
}

impl OpRules for Assume {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        scalar_bool(func, "assume", self.condition)?;
        Ok(smallvec![])
    }
    answers!(effects(ORDERED));
    fn promise(&self) -> Option<Value> {
        Some(self.condition)
    }
}

define_op! {
    /// Ends the kernel with an error if any element of the condition is false.
    pub struct Assert = "assert" {
        /// The message.
        message: Text,
        /// Booleans, a tensor or a scalar.
        condition: Value,
    }
}

impl OpRules for Assert {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = func.ty(self.condition);
        if !ty.elem().is_some_and(Elem::is_bool) {
            return Err(OpError::new(
                Code::ElementMismatch,
                format!("`device_assert` wants booleans, this is {ty}"),
            ));
        }
        Ok(smallvec![])
    }
    answers!(effects(ORDERED));
    fn name_in_source(&self) -> &'static str {
        "device_assert"
    }
    fn calls_vprintf(&self) -> bool {
        true
    }
}

define_op! {
    /// Prints a prefix and the elements of each operand with their coordinates.
    pub struct Print = "print" {
        /// What stands before each line.
        prefix: Text,
        /// What to print.
        operands: Values,
    }
}

impl OpRules for Print {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn layout_rule(&self) -> super::LayoutRule {
        super::LayoutRule::Free
    }
    answers!(effects(ORDERED));
    fn name_in_source(&self) -> &'static str {
        "device_print"
    }
    fn calls_vprintf(&self) -> bool {
        true
    }
}

attr_enum! {
    /// What a [`Mark`] is.
    pub enum MarkKind {
        /// A moment.
        Instant = "instant",
        /// The beginning of a range.
        Begin = "begin",
        /// The end of the range of that name that began last.
        End = "end",
    }
    unsaid Instant
}

define_op! {
    /// A mark in the timeline of a traced build; nothing in any other.
    pub struct Mark = "mark" {
        /// A moment, or the beginning or the end of a range.
        kind: MarkKind,
        /// Its name.
        name: Text,
        /// What is recorded with it, an i32 of which the lowest 18 bits are kept.
        payload: PackedOption<Value>,
    }
}

impl OpRules for Mark {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let Some(payload) = self.payload.expand() else {
            return Ok(smallvec![]);
        };
        let ty = func.ty(payload);
        if *ty == Type::Scalar(Elem::I32) {
            return Ok(smallvec![]);
        }
        Err(OpError::new(
            Code::ElementMismatch,
            format!("the payload of a mark is a scalar i32, not {ty}"),
        )
        .typed(payload, ty))
    }
    answers!(effects(ORDERED), one_thread, free_layouts);
    fn name_in_source(&self) -> &'static str {
        "mark"
    }
}

const ORDERED: Effects = Effects {
    is_ordered: true,
    ..Effects::PURE
};

pub(super) fn scalar_bool(func: &Func, op: &str, value: Value) -> Result<(), OpError> {
    let ty = func.ty(value);
    match ty {
        Type::Scalar(e) if e.is_bool() => Ok(()),
        _ => Err(OpError::new(
            Code::NotUniform,
            format!("`{op}` wants one boolean for the whole CTA, this is {ty}"),
        )
        .typed(value, ty)),
    }
}

//! Elements as another type: converted, or their bits taken as they are.

use smallvec::smallvec;

use super::create::one_declared;
use super::define::{answers, attr_enum, define_op};
use super::operand_types::element;
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::facts::{self, Facts, KnownFacts, Range};
use crate::{Func, Type};
use diag::Code;

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
    /// integers to narrower keep the low bits; anything to a boolean asks whether it differs from zero; to a float of a
    /// byte or less saturates to the largest finite number, and to `e8m0`, which has no sign and no zero, it is the magnitude.
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
                    "a bitcast keeps the width, and {elem} has {} bits, {to} {}",
                    elem.bits(),
                    to.bits()
                ),
            )
            .typed(self.operand, from)
            .help("use `cast`, which converts the number to another width"));
        }
        Ok(smallvec![from.with_elem(to)])
    }
    answers!(elementwise);
    fn result_facts(&self, func: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        facts::same_bits(&known[self.operand], func.ty(self.operand), ty)
    }
}

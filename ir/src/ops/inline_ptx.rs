//! PTX that the author writes.

use super::define::define_op;
use super::{LayoutRule, OpRules, Text, Types, Values};
use crate::OpError;
use crate::facts::{Facts, KnownFacts};
use crate::{Effects, Func, Spaces, Type};
use diag::Code;

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

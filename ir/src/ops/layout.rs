//! Changing and fixing layouts.

use smallvec::smallvec;

use super::create::one_declared;
use super::define::{answers, define_op};
use super::shape::tensor;
use super::{LayoutRule, OpRules, Scratch, Types};
use crate::OpError;
use crate::entity::Value;
use crate::facts::{Facts, KnownFacts};
use crate::{Func, Type};
use diag::Code;
use layout::Layout;

define_op! {
    /// The same elements in the layout of the result: nothing, a register permutation, shuffles or a trip through shared
    /// memory, whichever the two layouts need.
    pub struct ConvertLayout = "convert_layout" {
        /// Must cost nothing or a register permutation.
        is_trivial: bool,
        /// Shared memory for data exchanged between threads.
        scratch: Scratch,
        /// The operand.
        operand: Value,
    }
}

impl OpRules for ConvertLayout {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let types = same_but_layout(func, "convert_layout", self.operand, declared)?;
        let from = tensor(func, "convert_layout", self.operand)?;
        let ctas = (from.layout.ctas(), types[0].layout().and_then(Layout::ctas));
        if let (Some(own), Some(wanted)) = ctas
            && own != wanted
        {
            let message =
                format!("`convert_layout` from a tensor in {own} CTAs to one in {wanted}");
            let error = OpError::new(Code::LayoutMismatch, message);
            return Err(error.typed(self.operand, from).help(
                "give both layouts `with_ctas(..)`; a zero basis replicates the tensor in each CTA",
            ));
        }
        Ok(types)
    }
    answers!(scratch, free_layouts);
    answers!(moves(operand));
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        known[self.operand].clone()
    }
}

define_op! {
    /// Sets the layout of a value whose layout is unresolved: that of the result. Removed when the layouts are resolved.
    pub struct SetLayout = "set_layout" {
        /// The operand, `Auto`.
        operand: Value,
    }
}

impl OpRules for SetLayout {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let types = same_but_layout(func, "set_layout", self.operand, declared)?;
        let from = tensor(func, "set_layout", self.operand)?;
        let to = types[0].layout();
        if from.layout != Layout::Auto && to != Some(&from.layout) {
            return Err(OpError::new(
                Code::LayoutMismatch,
                format!("`set_layout` decides an open layout, but this value has one: {from}"),
            )
            .typed(self.operand, from)
            .help("use `convert_layout`, which moves the data"));
        }
        if to == Some(&Layout::Auto) {
            return Err(OpError::new(
                Code::UnresolvedLayout,
                "`set_layout` to `Auto` decides nothing",
            ));
        }
        Ok(types)
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Set
    }
    answers!(moves(operand));
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        known[self.operand].clone()
    }
}

fn same_but_layout(
    func: &Func,
    op: &str,
    operand: Value,
    declared: &[Type],
) -> Result<Types, OpError> {
    let t = tensor(func, op, operand)?;
    let to = one_declared(declared, op)?;
    match to {
        Type::Tensor(d) if d.shape == t.shape && d.elem == t.elem => Ok(smallvec![to.clone()]),
        _ => Err(OpError::new(
            Code::ShapeMismatch,
            format!("`{op}` changes the layout alone, not {t} to {to}"),
        )
        .typed(operand, t)),
    }
}

//! PTX that the author writes.

use super::super::operand::Raw;
use super::super::{At, Trace, with};
use crate::lang::PtxOperand;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::Values;
use ir::ops::inline_ptx::{InlinePtx, PtxPack, PtxUse, PtxUses};

/// PTX for each element. The results have the shape and layout of the operands.
#[inline(never)]
pub(crate) fn inline_ptx(
    text: &str,
    is_pure: bool,
    operands: &[(Raw, Elem)],
    results: &[Elem],
    at: At,
) -> Vec<Value> {
    let given: Vec<PtxOperand> = operands
        .iter()
        .map(|&(raw, elem)| PtxOperand::Value(raw, elem))
        .collect();
    packed_ptx(text, is_pure, 1, &given, results, at)
}

/// PTX for each `pack` elements. The results have the shape and layout of the operands.
#[inline(never)]
pub(crate) fn packed_ptx(
    text: &str,
    is_pure: bool,
    pack: u32,
    operands: &[PtxOperand],
    results: &[Elem],
    at: At,
) -> Vec<Value> {
    with(at, |trace| {
        let Some((operands, uses, form)) = trace.fit_ptx(operands, at) else {
            return results.iter().map(|_| trace.builder.poison()).collect();
        };
        let types: Vec<_> = results
            .iter()
            .map(|elem| {
                form.as_ref()
                    .map_or(ir::Type::Scalar(*elem), |f| f.with_elem(*elem))
            })
            .collect();
        let op = InlinePtx {
            text: text.into(),
            is_pure,
            pack: PtxPack(pack),
            uses,
            operands,
        };
        trace.push(op, &types, at).to_vec()
    })
}

impl Trace {
    /// The operands of inline PTX, values fitted to each other, and the form that these have.
    fn fit_ptx(
        &mut self,
        operands: &[PtxOperand],
        at: At,
    ) -> Option<(Values, PtxUses, Option<ir::Type>)> {
        let values: Vec<(Raw, Elem)> = operands
            .iter()
            .filter_map(|operand| match *operand {
                PtxOperand::Value(raw, elem) => Some((raw, elem)),
                PtxOperand::Tile(..) => None,
            })
            .collect();
        let is_lost =
            |o: &PtxOperand| matches!(o, PtxOperand::Tile(tile, _) if self.is_poison(*tile));
        if operands.iter().any(is_lost) {
            return None;
        }
        let fitted = self.fit("inline_ptx", &values, at)?;
        let form = fitted.first().map(|v| self.ty(*v).clone());
        let mut fitted = fitted.into_iter();
        let mut next = || fitted.next().expect("each value was fitted");
        let (all, uses): (Values, Vec<PtxUse>) = operands
            .iter()
            .map(|operand| match *operand {
                PtxOperand::Value(..) => (next(), PtxUse::Value),
                PtxOperand::Tile(tile, used) => (tile, used),
            })
            .unzip();
        Some((all, PtxUses::new(&uses), form))
    }
}

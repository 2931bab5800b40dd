//! Gathers and histograms.

use super::super::operand::Raw;
use super::super::{At, with};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::Scratch;
use ir::ops::gather::{Gather, Histogram};
use layout::Layout;

/// The elements at indices along an axis.
#[inline(never)]
pub(crate) fn gather(source: Value, indices: Value, axis: usize, at: At) -> Value {
    with(at, |trace| {
        if trace.is_poison(source) || trace.is_poison(indices) {
            return trace.builder.poison();
        }
        let elem = trace.ty(source).elem().unwrap_or(Elem::I32);
        let ty = trace.ty(indices).with_elem(elem);
        let op = Gather {
            axis: u32::try_from(axis).unwrap_or(u32::MAX),
            scratch: Scratch::NONE,
            source,
            indices,
        };
        trace.push1(op, ty, at)
    })
}

/// Counts integers below a number of bins.
#[inline(never)]
pub(crate) fn histogram(
    operand: Value,
    mask: Option<Raw>,
    bins: i128,
    layout: Layout,
    at: At,
) -> Value {
    with(at, |trace| {
        let Ok(bins) = u32::try_from(bins) else {
            let message = format!("a histogram of {bins} bins");
            let error = OpError::new(Code::ShapeMismatch, message);
            return trace.fail(error.help("the number of bins is a power of two"), at);
        };
        let Some(elem) = trace.ty(operand).elem() else {
            return trace.builder.poison();
        };
        let mut operands = vec![(Raw::Value(operand), elem)];
        operands.extend(mask.map(|mask| (mask, Elem::I1)));
        let Some(fitted) = trace.fit("histogram", &operands, at) else {
            return trace.builder.poison();
        };
        let op = Histogram {
            scratch: Scratch::NONE,
            operand: fitted[0],
            mask: fitted.get(1).copied().into(),
        };
        trace.push1(op, Type::tensor([bins], Elem::I32, layout), at)
    })
}

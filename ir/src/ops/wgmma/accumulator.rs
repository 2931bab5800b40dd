//! Accumulators of `wgmma`: what may be one, and where one begins.

use smallvec::smallvec;

use crate::OpError;
use crate::entity::Value;
use crate::ops::define::{answers, define_op};
use crate::ops::{OpRules, Types};
use crate::{Effects, Func, TensorType, Type};
use diag::Code;
use layout::Layout;

define_op! {
    /// A tensor as the beginning of an accumulator: from here on its registers belong to the tensor cores.
    pub struct AccumulatorBegin = "accumulator" {
        /// What it begins with.
        init: Value,
    }
}

impl OpRules for AccumulatorBegin {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let t = accumulator(func, self.init)?;
        if func.ty(self.init).as_tensor().is_none() {
            return Err(OpError::new(
                Code::ElementMismatch,
                "an accumulator is made of a tensor, and this is an accumulator already",
            ));
        }
        Ok(smallvec![Type::InFlight(t.clone())])
    }
    fn begins_accumulator(&self) -> bool {
        true
    }
    fn effects(&self) -> Effects {
        Effects {
            is_unique: true,
            ..Effects::PURE
        }
    }
    answers!(free_layouts);
}

/// The accumulator's tensor type; its layout must be the tensor cores' own.
pub(super) fn accumulator(func: &Func, value: Value) -> Result<&TensorType, OpError> {
    let ty = func.ty(value);
    let Some(t) = ty.as_tensor().or_else(|| ty.as_in_flight()) else {
        return Err(OpError::new(
            Code::ElementMismatch,
            format!("the accumulator of `wgmma` is a tensor, not {ty}"),
        )
        .typed(value, ty));
    };
    match &t.layout {
        Layout::Wgmma(_) => Ok(t),
        other => Err(OpError::new(
            Code::LayoutMismatch,
            format!("the accumulator of `wgmma` has a layout of `Wgmma`, not {other}"),
        )
        .typed(value, t)
        .help("make it with `Accumulator::zeros(shape, Wgmma::new(..))`")),
    }
}

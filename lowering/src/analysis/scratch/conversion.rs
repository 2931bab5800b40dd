//! Conversions between layouts that go through shared memory.

use ir::TensorType;
use ir::ops::layout::ConvertLayout;
use layout::LayoutError;
use layout::convert::{ConversionPlan, Limits, Scope, plan_conversion};
use target::Target;

use super::{Asked, BarrierScope, NeedsScratch, ScratchNeed};

/// How a tensor gets from one layout to another. Once the conversion has its scratch, that is the most it may use: where
/// it is too small for the whole tensor, the plan takes several passes.
///
/// # Errors
/// Layouts that do not spread the tensor over the same threads.
pub(crate) fn plan(
    target: &Target,
    op: &ConvertLayout,
    from: &TensorType,
    to: &TensorType,
) -> Result<ConversionPlan, LayoutError> {
    let mut limits = Limits::of(target);
    if !op.scratch.is_none() {
        limits.scratch_bytes = op.scratch.bytes;
    }
    let (source, result) = (
        from.layout.linear(&from.shape)?,
        to.layout.linear(&to.shape)?,
    );
    plan_conversion(&source, &result, 8 * from.elem.bytes(), limits)
}

impl NeedsScratch for ConvertLayout {
    const HAS_SCRATCH: bool = true;

    /// Emission reports a conversion that cannot be planned.
    fn need(&self, asked: &Asked<'_>) -> ScratchNeed {
        let func = asked.func;
        let (from, to) = (func.ty(self.operand), func.ty(func.result(asked.inst)));
        let tensors = from.as_tensor().zip(to.as_tensor());
        let plan = tensors.and_then(|(from, to)| plan(func.target, self, from, to).ok());
        let Some((plan, scope)) = plan.and_then(|plan| plan.scope().map(|scope| (plan, scope)))
        else {
            return ScratchNeed::default();
        };
        ScratchNeed {
            bytes: plan.scratch_bytes(),
            scope: match scope {
                Scope::Warp => BarrierScope::Warp,
                Scope::Cta => BarrierScope::Cta,
                Scope::Cluster => BarrierScope::Cluster,
            },
            ..ScratchNeed::default()
        }
    }
}

//! Copies and stores into the shared memory of other CTAs that complete on their barriers.

use super::super::operand::Raw;
use super::super::{At, with};
use super::bulk::{Extent, extent};
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::remote::{RemoteCopy, RemoteStoreAsync};
use ir::ops::tma::TmaReduceOp;

/// What a copy into another CTA says besides its operands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemoteCore {
    pub(crate) count: Option<Raw>,
    pub(crate) condition: Option<Value>,
}

/// Elements of this CTA, the first of `places`, into another.
#[inline(never)]
pub(crate) fn remote_copy(
    core: &RemoteCore,
    op: TmaReduceOp,
    (from, view): (Value, Value),
    barrier: Value,
    cta: Raw,
    at: At,
) {
    let Extent { count, predicate } = extent(core.count, core.condition, at);
    with(at, |trace| {
        let Some(fitted) = trace.fit("in_cta", &[(cta, Elem::I32)], at) else {
            return;
        };
        let op = RemoteCopy {
            op,
            from,
            view,
            barrier,
            cta: fitted[0],
            count: count.into(),
            predicate: predicate.into(),
        };
        trace.push(op, &[], at);
    });
}

/// A tensor into another CTA.
#[inline(never)]
pub(crate) fn remote_store_async(view: Value, value: Value, barrier: Value, cta: Raw, at: At) {
    with(at, |trace| {
        let Some(fitted) = trace.fit("in_cta", &[(cta, Elem::I32)], at) else {
            return;
        };
        let op = RemoteStoreAsync {
            view,
            value,
            barrier,
            cta: fitted[0],
        };
        trace.push(op, &[], at);
    });
}

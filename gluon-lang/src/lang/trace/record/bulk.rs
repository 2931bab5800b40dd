//! Linear TMA copies.

use super::super::operand::Raw;
use super::super::{At, with};
use super::{binary, cluster_rank, compare};
use diag::Code;
use ir::OpError;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, CompareOp};
use ir::ops::bulk::{BulkLoad, BulkPrefetch, BulkStore};
use ir::ops::create::Const;
use ir::ops::global::L2Policy;
use ir::ops::tma::TmaReduceOp;

/// What a linear copy says besides its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkCore {
    /// The first element in global memory.
    pub(crate) ptr: Value,
    pub(crate) policy: L2Policy,
    pub(crate) count: Option<Raw>,
    pub(crate) condition: Option<Value>,
    pub(crate) multicast: Option<Raw>,
    pub(crate) to_copies: bool,
}

/// How many elements are copied, and whether at all.
#[derive(Clone, Copy, Default)]
pub(super) struct Extent {
    pub(super) count: Option<Value>,
    pub(super) predicate: Option<Value>,
}

impl BulkCore {
    pub(crate) fn new(ptr: Value) -> BulkCore {
        BulkCore {
            ptr,
            policy: L2Policy::Default,
            count: None,
            condition: None,
            multicast: None,
            to_copies: false,
        }
    }

    fn is_multicast(&self) -> bool {
        self.multicast.is_some() || self.to_copies
    }

    fn extent(&self, at: At) -> Extent {
        extent(self.count, self.condition, at)
    }
}

/// How many elements are copied, and whether at all: no copy is issued for 0 of them, a count that may be known at run time only.
pub(super) fn extent(count: Option<Raw>, condition: Option<Value>, at: At) -> Extent {
    let Some(raw) = count else {
        return Extent {
            count: None,
            predicate: condition,
        };
    };
    let count = with(at, |trace| trace.scalars(&[raw], at)[0]);
    if matches!(raw, Raw::Const(_)) {
        return Extent {
            count: Some(count),
            predicate: condition,
        };
    }
    let zero = Raw::Const(Const::Int(0));
    let some = compare(CompareOp::Gt, Raw::Value(count), zero, Elem::I32, at);
    let and = |condition| {
        let (asked, some) = (Raw::Value(condition), Raw::Value(some));
        binary(BinaryOp::And, asked, some, Elem::I1, at)
    };
    Extent {
        count: Some(count),
        predicate: Some(condition.map_or(some, and)),
    }
}

/// Elements into shared memory.
#[inline(never)]
pub(crate) fn bulk_load(core: &BulkCore, view: Value, barrier: Value, at: At) {
    let Extent { count, predicate } = core.extent(at);
    with(at, |trace| {
        let multicast = core.multicast.map(|raw| trace.scalars(&[raw], at)[0]);
        let op = BulkLoad {
            policy: core.policy,
            src: core.ptr,
            view,
            barrier,
            count: count.into(),
            predicate: predicate.into(),
            multicast: multicast.into(),
            to_copies: core.to_copies,
        };
        trace.push(op, &[], at);
    });
}

/// Elements out of shared memory.
#[inline(never)]
pub(crate) fn bulk_store(core: &BulkCore, op: TmaReduceOp, view: Value, at: At) {
    let Extent { count, predicate } = core.extent(at);
    with(at, |trace| {
        if trace.is_multicast(core.is_multicast(), "store", at) {
            return;
        }
        let op = BulkStore {
            op,
            policy: core.policy,
            dst: core.ptr,
            view,
            count: count.into(),
            predicate: predicate.into(),
        };
        trace.push(op, &[], at);
    });
}

/// Elements into L2.
#[inline(never)]
pub(crate) fn bulk_prefetch(core: &BulkCore, at: At) {
    let Extent { count, predicate } = core.extent(at);
    with(at, |trace| {
        if trace.is_multicast(core.is_multicast(), "prefetch", at) {
            return;
        }
        let Some(count) = count else {
            let message = "a prefetch of contiguous elements has no count";
            let help = "write `.count(n)` before `.prefetch()`";
            trace.fail(OpError::new(Code::AccessWidth, message).help(help), at);
            return;
        };
        let op = BulkPrefetch {
            policy: core.policy,
            src: core.ptr,
            count,
            predicate: predicate.into(),
        };
        trace.push(op, &[], at);
    });
}

/// The bytes that this CTA copies into a view.
#[inline(never)]
pub(crate) fn bulk_bytes(core: &BulkCore, view: Value, at: At) -> Value {
    let known = |value: u64| Raw::Const(Const::Int(value.into()));
    let held = with(at, |trace| trace.ty(view).as_smem().cloned());
    let parts = held.and_then(|s| Some((s.part().ok()?, s.part_origins().ok()?, s)));
    let Some((part, origins, s)) = parts else {
        return with(at, |trace| trace.builder.poison());
    };
    let of = |op, a, b| Raw::Value(binary(op, a, b, Elem::I32, at));
    let elements = match core.count {
        None => known(part.product()),
        Some(count) => {
            let mut left = count;
            for (bit, origin) in origins.iter().enumerate() {
                let before = s.shape.iter().zip(origin.iter());
                let before =
                    before.fold(0, |sum, (&size, &at)| sum * u64::from(size) + u64::from(at));
                if before > 0 {
                    let rank = Raw::Value(cluster_rank(at));
                    let rank = of(BinaryOp::Shr, rank, known(bit as u64));
                    let is_set = of(BinaryOp::And, rank, known(1));
                    left = of(
                        BinaryOp::Sub,
                        left,
                        of(BinaryOp::Mul, is_set, known(before)),
                    );
                }
            }
            let least = of(BinaryOp::Max, left, known(0));
            of(BinaryOp::Min, least, known(part.product()))
        }
    };
    binary(
        BinaryOp::Mul,
        elements,
        known(s.elem.bytes().into()),
        Elem::I32,
        at,
    )
}

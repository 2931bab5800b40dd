//! Copies through tensor maps.

use super::super::operand::Raw;
use super::super::{At, Trace, with};
use crate::diag::{Code, OpError};
use crate::elem::Elem;
use crate::entity::Value;
use crate::layout::{Nvmma, SharedLayout};
use crate::ops::Values;
use crate::ops::create::Const;
use crate::ops::global::L2Policy;
use crate::ops::tma::{TmaLoad, TmaPrefetch, TmaReduceOp, TmaStore, TmaStoreWait};

/// What a copy says besides its operands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TmaCore {
    pub(crate) policy: L2Policy,
    pub(crate) condition: Option<Value>,
    pub(crate) multicast: Option<Raw>,
}

/// The layout of the blocks of a map. A mistake that was reported has plain rows.
#[inline(never)]
pub(crate) fn map_layout(map: Value, at: At) -> SharedLayout {
    with(at, |trace| match trace.ty(map).as_tensor_map() {
        Some(m) => m.layout.clone(),
        None => Nvmma::new(0, 8).into(),
    })
}

/// The bytes of a block of a map.
#[inline(never)]
pub(crate) fn map_block_bytes(map: Value, at: At) -> u32 {
    with(at, |trace| {
        let m = trace.ty(map).as_tensor_map();
        m.map_or(0, crate::ir::TensorMapType::block_bytes)
    })
}

/// A block into shared memory.
#[inline(never)]
pub(crate) fn tma_load(
    core: &TmaCore,
    map: Value,
    coordinates: &[Raw],
    offsets: &[Raw],
    view: Value,
    barrier: Value,
    at: At,
) {
    with(at, |trace| {
        let multicast = core.multicast.map(|raw| trace.scalars(&[raw], at));
        let op = TmaLoad {
            policy: core.policy,
            map,
            coordinates: trace.scalars(coordinates, at),
            offsets: trace.scalars(offsets, at),
            view,
            barrier,
            predicate: core.condition.into(),
            multicast: multicast.map(|mask| mask[0]).into(),
        };
        trace.push(op, &[], at);
    });
}

/// A tile of shared memory into a block.
#[inline(never)]
pub(crate) fn tma_store(
    core: &TmaCore,
    op: TmaReduceOp,
    map: Value,
    coordinates: &[Raw],
    view: Value,
    at: At,
) {
    with(at, |trace| {
        if !trace.is_unconditional(core, "store", at) {
            return;
        }
        let op = TmaStore {
            op,
            policy: core.policy,
            map,
            coordinates: trace.scalars(coordinates, at),
            view,
        };
        trace.push(op, &[], at);
    });
}

/// A block into L2.
#[inline(never)]
pub(crate) fn tma_prefetch(core: &TmaCore, map: Value, coordinates: &[Raw], at: At) {
    with(at, |trace| {
        if !trace.is_unconditional(core, "prefetch", at) {
            return;
        }
        let op = TmaPrefetch {
            policy: core.policy,
            map,
            coordinates: trace.scalars(coordinates, at),
        };
        trace.push(op, &[], at);
    });
}

/// Waits for stores.
#[inline(never)]
pub(crate) fn tma_store_wait(pending: u32, is_read: bool, at: At) {
    with(at, |trace| {
        trace.push(TmaStoreWait { pending, is_read }, &[], at)
    });
}

impl Trace {
    /// Operands of the engine, each one i32.
    pub(super) fn scalars(&mut self, raws: &[Raw], at: At) -> Values {
        raws.iter()
            .map(|&raw| match raw {
                Raw::Const(value @ Const::Int(_)) => {
                    self.constant(value, crate::ir::Type::scalar(Elem::I32), at)
                }
                raw => match self.fit("copy", &[(raw, Elem::I32)], at) {
                    Some(fitted) => fitted[0],
                    None => self.builder.poison(),
                },
            })
            .collect()
    }

    fn is_unconditional(&mut self, core: &TmaCore, what: &str, at: At) -> bool {
        let refused = [
            (core.condition.is_some(), "when"),
            (core.multicast.is_some(), "multicast"),
        ];
        let Some((_, name)) = refused.iter().find(|(is_set, _)| *is_set) else {
            return true;
        };
        let message = format!("`{name}` is about loads, this is a {what}");
        self.fail(OpError::new(Code::AccessWidth, message), at);
        false
    }
}

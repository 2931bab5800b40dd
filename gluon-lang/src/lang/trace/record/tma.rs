//! Copies through tensor maps.

use super::super::operand::Raw;
use super::super::{At, Trace, with};
use super::{binary, cluster_rank};
use diag::Code;
use ir::OpError;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::Values;
use ir::ops::arith::BinaryOp;
use ir::ops::create::Const;
use ir::ops::global::L2Policy;
use ir::ops::tma::{TensorMapPrefetch, TmaLoad, TmaPrefetch, TmaReduceOp, TmaStore, TmaStoreWait};
use layout::{Nvmma, SharedLayout};

/// What a copy says besides its operands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TmaCore {
    pub(crate) policy: L2Policy,
    pub(crate) condition: Option<Value>,
    pub(crate) multicast: Option<Raw>,
    pub(crate) to_copies: bool,
}

impl TmaCore {
    fn is_multicast(&self) -> bool {
        self.multicast.is_some() || self.to_copies
    }
}

/// The layout of the blocks of a map; of one that was refused the one that its author wrote.
#[inline(never)]
pub(crate) fn map_layout(map: Value, at: At) -> SharedLayout {
    with(at, |trace| {
        if let Some(m) = trace.ty(map).as_tensor_map() {
            return m.layout.clone();
        }
        let refused = trace.refused_maps.iter().find(|(of, _)| *of == map);
        refused.map_or_else(|| Nvmma::new(0, 8).into(), |(_, layout)| layout.clone())
    })
}

/// The bytes of a block of a map.
#[inline(never)]
pub(crate) fn map_block_bytes(map: Value, at: At) -> u32 {
    with(at, |trace| {
        let m = trace.ty(map).as_tensor_map();
        m.map_or(0, ir::TensorMapType::block_bytes)
    })
}

/// The bits of the rank that do not change which part of a block a CTA has.
fn copied_bits(map: Value, at: At) -> (u32, usize) {
    with(at, |trace| {
        let m = trace.ty(map).as_tensor_map();
        let origins = m.map_or_else(Vec::new, ir::TensorMapType::part_origins);
        let bits = origins.iter().enumerate();
        let copies = bits.filter(|(_, origin)| origin.iter().all(|&at| at == 0));
        let mask = copies.fold(0, |all, (bit, _)| all | 1 << bit);
        (mask, origins.len())
    })
}

/// The number of CTAs that have the same part of a block.
#[inline(never)]
pub(crate) fn map_copies(map: Value, at: At) -> u32 {
    1 << copied_bits(map, at).0.count_ones()
}

/// The first of the CTAs that have the part of this one.
#[inline(never)]
pub(crate) fn map_loader(map: Value, at: At) -> Value {
    let (copies, bits) = copied_bits(map, at);
    let rank = cluster_rank(at);
    if copies == 0 {
        return rank;
    }
    let others = i128::from(((1_u32 << bits) - 1) & !copies);
    let others = Raw::Const(Const::Int(others));
    binary(BinaryOp::And, Raw::Value(rank), others, Elem::I32, at)
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
            to_copies: core.to_copies,
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
        if trace.is_multicast(core.is_multicast(), "store", at) {
            return;
        }
        let op = TmaStore {
            op,
            policy: core.policy,
            map,
            coordinates: trace.scalars(coordinates, at),
            view,
            predicate: core.condition.into(),
        };
        trace.push(op, &[], at);
    });
}

/// A block into L2.
#[inline(never)]
pub(crate) fn tma_prefetch(core: &TmaCore, map: Value, coordinates: &[Raw], at: At) {
    with(at, |trace| {
        if trace.is_multicast(core.is_multicast(), "prefetch", at) {
            return;
        }
        let op = TmaPrefetch {
            policy: core.policy,
            map,
            coordinates: trace.scalars(coordinates, at),
            predicate: core.condition.into(),
        };
        trace.push(op, &[], at);
    });
}

/// Asks for the map itself.
#[inline(never)]
pub(crate) fn prefetch_map(map: Value, at: At) {
    with(at, |trace| trace.push(TensorMapPrefetch { map }, &[], at));
}

/// Waits for stores.
#[inline(never)]
pub(crate) fn tma_store_wait(pending: u32, is_read: bool, at: At) {
    with(at, |trace| {
        trace.push(TmaStoreWait { pending, is_read }, &[], at)
    });
}

impl Trace {
    /// Operands of the TMA copy, one i32 each.
    pub(super) fn scalars(&mut self, raws: &[Raw], at: At) -> Values {
        raws.iter()
            .map(|&raw| match raw {
                Raw::Const(value @ Const::Int(_)) => {
                    self.constant(value, ir::Type::scalar(Elem::I32), at)
                }
                raw => match self.fit("copy", &[(raw, Elem::I32)], at) {
                    Some(fitted) => fitted[0],
                    None => self.builder.poison(),
                },
            })
            .collect()
    }

    /// Reports a copy to several CTAs that is no load.
    pub(super) fn is_multicast(&mut self, is_set: bool, what: &str, at: At) -> bool {
        if is_set {
            let message = format!("a multicast applies to loads, and this is a {what}");
            let error = OpError::new(Code::AccessWidth, message);
            self.fail(
                error.help("remove it: a store has one destination in global memory"),
                at,
            );
        }
        is_set
    }
}

//! What a conversion costs, so that the cheapest can be taken and the rest can be reported.

use super::{Scope, SharedPlan, ShufflePlan};
use crate::banks::WAVEFRONT_BYTES;

/// The work of one warp. [`Cost::total`] weighs it in cycles of the SM's load/store pipe, which moves 128 bytes per
/// cycle, for shuffles as for shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// `shfl.sync` instructions.
    pub shuffles: u32,
    /// `selp` instructions.
    pub selects: u32,
    /// Stores to shared memory (with `stmatrix`).
    pub stores: u32,
    /// Loads from shared memory (with `ldmatrix`).
    pub loads: u32,
    /// Wavefronts of all stores and loads: 1 per 128 bytes without bank conflicts.
    pub wavefronts: u32,
    /// Barriers of a warp.
    pub warp_barriers: u32,
    /// Barriers of a CTA or a cluster.
    pub cta_barriers: u32,
}

impl Cost {
    /// The work of one after the other.
    pub(super) fn and(self, next: Self) -> Self {
        Self {
            shuffles: self.shuffles + next.shuffles,
            selects: self.selects + next.selects,
            stores: self.stores + next.stores,
            loads: self.loads + next.loads,
            wavefronts: self.wavefronts + next.wavefronts,
            warp_barriers: self.warp_barriers + next.warp_barriers,
            cta_barriers: self.cta_barriers + next.cta_barriers,
        }
    }

    /// The estimate by which conversions are compared, in cycles.
    pub fn total(&self) -> u32 {
        // A shuffle occupies the pipe for two cycles; a select is an ALU instruction beside it. A trip through shared
        // memory pays its latency twice (30 cycles each way), a barrier of the CTA waits for the slowest warp.
        let trip = if self.stores > 0 { 40 } else { 0 };
        2 * self.shuffles
            + self.selects
            + u32::midpoint(self.stores, self.loads)
            + self.wavefronts
            + trip
            + 4 * self.warp_barriers
            + 30 * self.cta_barriers
    }
}

impl ShufflePlan {
    /// What the exchange costs one warp.
    pub fn cost(&self, elem_bits: u32) -> Cost {
        let halves = elem_bits.div_ceil(32);
        let moved = self
            .rounds
            .iter()
            .filter(|round| !self.stays(round))
            .count() as u32;
        let stages = (self.before.len() + self.after.len()) as u32;
        Cost {
            shuffles: moved * halves,
            selects: stages * self.src_words.len().max(self.rounds.len()) as u32 * halves,
            ..Cost::default()
        }
    }
}

impl SharedPlan {
    /// What the exchange costs one warp.
    pub fn cost(&self, elem_bits: u32) -> Cost {
        let count = |pick: fn(&super::Exchange) -> usize| -> u32 {
            self.exchanges
                .iter()
                .map(|exchange| pick(exchange) as u32)
                .sum()
        };
        let (stores, loads) = (
            count(|exchange| exchange.stores.len()),
            count(|exchange| exchange.loads.len()),
        );
        exchange_cost(
            self.scope,
            self.exchanges.len() as u32,
            elem_bits,
            [
                (stores, self.store_vec, self.store_conflicts),
                (loads, self.load_vec, self.load_conflicts),
            ],
        )
    }
}

/// What stores and loads cost, each given as (accesses, elements of an access, extra wavefronts of an access).
pub(super) fn exchange_cost(
    scope: Scope,
    passes: u32,
    elem_bits: u32,
    [store, load]: [(u32, u32, u32); 2],
) -> Cost {
    let wavefronts = |(accesses, elements, extra): (u32, u32, u32)| {
        let bytes = accesses * elements * elem_bits / 8 * 32;
        bytes.div_ceil(WAVEFRONT_BYTES).max(accesses) * (1 + extra)
    };
    let barriers = 2 * passes - 1;
    let is_warp = scope == Scope::Warp;
    Cost {
        stores: store.0,
        loads: load.0,
        wavefronts: wavefronts(store) + wavefronts(load),
        warp_barriers: if is_warp { barriers } else { 0 },
        cta_barriers: if is_warp { 0 } else { barriers },
        ..Cost::default()
    }
}

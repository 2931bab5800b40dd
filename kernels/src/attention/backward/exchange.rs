//! Clusters of two CTAs of the backward pass, which have neighbouring blocks of keys and exchange dS.
//!
//! A CTA by itself adds terms of all columns of dQ, of its own keys. The CTAs of a cluster visit the same blocks of queries, and each sends its dS to the other. Then each has dS of the keys of both, and adds
//! half of the columns:
//!
//! ```text
//! dQ[queries, half] += dS[queries, own keys] · K[own keys, half] + dS[queries, other keys] · K[other keys, half]
//! ```
//!
//! So a cluster adds half of the terms that its CTAs would add by themselves, which are what limits them, for 20 KB of K and 10 KB of dS more in shared memory. That leaves one stage of P and dS. Each CTA loads
//! half of the columns of Q and dO, and multicasts them.
//!
//! With a mask, the block of keys of one CTA may be seen by fewer queries than that of the other, or lie past the end of a sequence: both visit the blocks of queries that see either, and mask the rest.

use tilekit::prelude::*;

use super::part::GROUPS;
use crate::attention::mainloop::shape::swizzle;
use crate::attention::masked::lengths::from_column;

/// CTAs of a cluster that exchanges dS.
pub(super) const PAIR: usize = 2;

/// What a CTA has beside its own tiles to add terms for the keys of both CTAs.
#[derive(Clone, Copy)]
pub(super) struct Exchange<T> {
    /// Keys of the other CTA, and half of their columns: those of dQ that this CTA adds.
    pub(super) k: Smem<T>,
    /// dS of the other CTA has been received. A phase of each barrier is a step.
    full: Mbarrier,
    /// The other CTA has read this CTA's dS, so that its buffers, in both CTAs, may be filled again.
    free: Mbarrier,
    /// Both warpgroups have read P and dS of this CTA.
    read: Mbarrier,
}

/// The rank of the other CTA.
fn other() -> Scalar<i32> {
    cluster_rank() ^ 1
}

impl<T: Element> Exchange<T> {
    /// Of blocks of `keys`. The CTAs synchronize before they exchange.
    #[device]
    pub(super) fn alloc(depth: usize, keys: usize) -> Self {
        let half = depth / PAIR;
        let warps = GROUPS * 4;
        Exchange {
            k: Smem::<T>::alloc([1, keys, half], swizzle::<T>(half, 2)),
            full: Mbarrier::alloc(1).labelled("received"),
            free: Mbarrier::alloc(warps).labelled("free"),
            read: Mbarrier::alloc(warps).labelled("read"),
        }
    }

    /// Issues the loads of K of this CTA, from `rows` on, into `tile`, and of half of the columns of K of the other.
    #[device]
    pub(super) fn load_keys(
        self,
        map: TensorMap<T>,
        rows: [Scalar<i32>; 4],
        tile: Smem<T>,
        full: Mbarrier,
    ) {
        let [keys, half] = [3, 4].map(|dim: usize| map.block()[dim] as i32);
        for number in 0..PAIR as i32 {
            let to = share(tile, map, scalar(number));
            map.load(from_column(rows, scalar(number * half)), to, full);
        }
        let rank = cluster_rank();
        let [outermost, batch, head, token] = rows;
        let of_other = [outermost, batch, head, token + (1 - 2 * rank) * keys];
        let to = self.k.index(0).reshape(map.block());
        map.load(from_column(of_other, rank * half), to, full);
    }

    /// Waits until P may be stored for fill `fill`: this CTA has read that of the fill before.
    #[device]
    pub(super) fn await_read(self, fill: Scalar<i32>) {
        self.read.wait((fill + 1) & 1);
    }

    /// Waits until dS may be stored for fill `fill`: the other CTA has read that of the fill before. So does a CTA behind its last step, since it must not exit before the other has arrived in its shared memory.
    #[device]
    pub(super) fn await_free(self, fill: Scalar<i32>) {
        self.free.wait((fill + 1) & 1);
    }

    /// Sends this CTA's dS to the place that it has in the other, and expects that of the other. One warpgroup calls it, when both have stored dS.
    #[device]
    pub(super) fn send(self, ds: Smem<T>) {
        let bytes = ds.bytes() / ds.stages();
        self.full.expect(bytes as i32);
        let own = ds.index(cluster_rank());
        let elements = own.shape().iter().product::<u32>() as usize;
        let own = own.reinterpret::<T>([elements], Swizzled::plain([0]));
        own.in_cta(other()).bulk().store(own, self.full);
    }

    /// dS of the other CTA, when it has been received for fill `fill`.
    #[device]
    pub(super) fn receive(self, ds: Smem<T>, fill: Scalar<i32>) -> Smem<T> {
        self.full.wait(fill & 1);
        ds.index(other())
    }

    /// A warpgroup has read P and dS of both CTAs.
    #[device]
    pub(super) fn release(self) {
        let by_warps = |barrier: Mbarrier| barrier.arrival().by(Arrivers::Warp);
        by_warps(self.read).arrive();
        by_warps(self.free).in_cta(other()).arrive();
    }

    /// The columns of dQ that warpgroup `group` adds, of K of this CTA and of the other.
    #[device]
    pub(super) fn columns_of(self, k: Smem<T>, group: usize) -> [Smem<T>; 2] {
        let [keys, half] = [1, 2].map(|dim: usize| self.k.shape()[dim] as usize);
        let columns = half / GROUPS;
        let of_all = |tile: Smem<T>, parts: usize| {
            tile.reinterpret::<T>([parts, keys, columns], swizzle::<T>(columns, 2))
        };
        [
            of_all(k, PAIR * GROUPS).index(cluster_rank() * GROUPS as i32 + group as i32),
            of_all(self.k, GROUPS).index(group),
        ]
    }
}

/// Bytes of K that a CTA loads: all of its own, and half of the other's.
pub(super) fn loaded_key_bytes<T: Element>(map: TensorMap<T>) -> usize {
    (PAIR + 1) * map.block_bytes()
}

/// Issues the TMA load of this CTA's half of the columns of a block of Q, or of dO, into both CTAs.
#[device]
pub(super) fn load_share<T: Element>(
    map: TensorMap<T>,
    rows: [Scalar<i32>; 4],
    tile: Smem<T>,
    full: Mbarrier,
) {
    let rank = cluster_rank();
    let column = rank * map.block()[4] as i32;
    let to_all = map.copy().multicast((1 << PAIR) - 1);
    to_all.load(from_column(rows, column), share(tile, map, rank), full);
}

/// The columns of a tile that a load takes, those of number `number`.
fn share<T: Element>(tile: Smem<T>, map: TensorMap<T>, number: Scalar<i32>) -> Smem<T> {
    let [rows, columns] = [3, 4].map(|dim: usize| map.block()[dim] as usize);
    let shares = tile.reinterpret::<T>([PAIR, rows, columns], swizzle::<T>(columns, 2));
    shares.index(number).reshape(map.block())
}

/// The number that a counter had, to which each cluster adds 1: the same in all of its CTAs.
#[device]
pub(super) fn ticket_of_cluster(counter: Ptr<i32>) -> Scalar<i32> {
    let layout = Blocked::new([1], [32], [num_warps()], [0]);
    let place = Smem::<i32>::alloc([1], Swizzled::plain([0]));
    let is_first = cluster_rank() == 0;
    let drawn = counter.at(0).mask(is_first).relaxed().atomic_add(1).old();
    // The other CTA has begun.
    cluster_barrier_relaxed();
    if is_first {
        for cta in 0..PAIR {
            place.in_cta(cta).store(full([1], drawn, layout.clone()));
        }
    }
    cluster_barrier();
    place.load(layout).sum(0).scalar()
}

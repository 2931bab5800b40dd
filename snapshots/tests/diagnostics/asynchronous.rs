//! Copies, products and barriers that go on by themselves, in less plain wrong uses.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn tma_store_within_a_swizzle_atom(#[block([4, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([8, 64], a.layout());
    a.store((0, 0), tile.slice(0, 4..8));
}

#[test]
fn a_block_within_a_swizzle_atom_is_refused() {
    check(
        "tma_store_within_a_swizzle_atom",
        tma_store_within_a_swizzle_atom.trace(),
    );
}

#[kernel]
fn cp_async_read_unfenced(x: Ptr<i32>, out: Ptr<i32>) {
    let line = Blocked::new([4], [32], [4], [0]);
    let tile = Smem::<i32>::alloc([512], Swizzled::plain([0]));
    let full = Mbarrier::alloc(128);
    warp_specialize()
        .main(|| {
            full.wait(0);
            out.bulk(0).store(tile);
            tma_store_wait_read(0);
        })
        .worker(Warps(4), || {
            x.at(arange(0..512, line)).copy_to(tile);
            // The copies may come later than this fence.
            fence_async_shared();
            full.arrive_after_copies();
        })
        .run();
}

#[test]
fn tma_reads_unfenced_copies_of_another_partition() {
    check("cp_async_read_unfenced", cp_async_read_unfenced.trace());
}

#[kernel(cluster = 2)]
fn multicast_beyond_the_cluster(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    cluster_barrier();
    a.copy().multicast(0b1111).load((0, 0), tile, full);
    full.wait(0);
    full.arrival().in_cta(2).arrive();
    cluster_barrier();
}

#[test]
fn a_multicast_beyond_the_cluster_is_refused() {
    check(
        "multicast_beyond_the_cluster",
        multicast_beyond_the_cluster.trace(),
    );
}

#[kernel(cluster = 2)]
fn multicast_before_cluster_barrier(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.copy().multicast(0b11).load((0, 0), tile, full);
    full.wait(0);
    cluster_barrier();
}

#[test]
fn a_multicast_before_any_cluster_barrier() {
    check(
        "multicast_before_cluster_barrier",
        multicast_before_cluster_barrier.trace(),
    );
}

#[kernel]
fn accumulator_layout_as_operand(x: Ptr<f16>) {
    let sums = Wgmma::new([4, 1], [64, 64, 16]);
    let tile = Smem::<f16>::alloc([64, 64], Nvmma::B128.of(16));
    let powers = zeros::<f16>([64, 64], sums.clone());
    let acc = Accumulator::<f32>::zeros([64, 64], sums).mma(powers, tile);
    x.store(acc.wait_all().sum(0).sum(0).scalar().cast::<f16>());
}

#[test]
fn operand_a_in_the_accumulator_layout_is_refused() {
    check(
        "accumulator_layout_as_operand",
        accumulator_layout_as_operand.trace(),
    );
}

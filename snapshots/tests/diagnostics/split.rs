//! Blocks and tiles that the CTAs of a cluster split, copied and multiplied wrongly.

use tilekit::prelude::*;

use crate::{check, check_warned};

#[kernel(cluster = 2)]
fn layout_of_more_ctas_than_the_cluster(
    #[block([64, 64], Nvmma::B128.with_ctas([[1, 0], [0, 0]]))] a: TensorMap<f16>,
    #[block([64, 64], Nvmma::B128.with_ctas([[0, 1]]))] b: TensorMap<f16>,
) {
    a.prefetch([0, 0]);
    b.prefetch([0, 0]);
    Smem::<f16>::alloc([64], Swizzled::plain([0]).with_ctas([[1], [2]])).keep_alive();
}

#[test]
fn a_layout_is_for_more_ctas_than_a_cluster_has() {
    check(
        "layout_of_more_ctas_than_the_cluster",
        layout_of_more_ctas_than_the_cluster.trace(),
    );
}

#[kernel(cluster = 2)]
fn split_pixels(
    #[im2col(4, [64, 64], Nvmma::B128.with_ctas([[1, 0]]))] image: TensorMap<f16>,
    #[block([64, 64], Nvmma::B128.with_ctas([[0, 1]]))] wide: TensorMap<f16>,
) {
    image.prefetch([0, 0, 0, 0]);
    wide.prefetch([0, 0]);
}

#[test]
fn parts_that_tma_cannot_move() {
    check("split_pixels", split_pixels.trace());
}

#[kernel(cluster = 2)]
fn copies_between_cta_splits(
    #[block([64, 64], Nvmma::B64.with_ctas([[1, 0]]))] a: TensorMap<f16>,
    x: Ptr<f32>,
) {
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    cluster_barrier();
    let other = Smem::<f16>::alloc([64, 64], Nvmma::new(64, 16).with_ctas([[0, 1]]));
    a.load([0, 0], other, full);
    let same = Smem::<f16>::alloc([64, 64], a.layout());
    a.copy().multicast_copies().load([0, 0], same, full);
    let columns = Smem::<f32>::alloc([8, 64], Swizzled::plain([1, 0]).with_ctas([[0, 1]]));
    x.bulk(0).load(columns, full);
    let rows = Smem::<f32>::alloc([8, 64], Swizzled::plain([1, 0]).with_ctas([[1, 0]]));
    let copies = Smem::<f32>::alloc([8, 64], Swizzled::plain([1, 0]).with_ctas([[0, 0]]));
    let next = cluster_rank() ^ 1;
    rows.in_cta(next).bulk().store(copies, full);
    let own = rows
        .in_cta(next)
        .load(Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]));
    copies.in_cta(next).store(own);
    x.bulk(0)
        .multicast(0b11)
        .multicast_copies()
        .load(copies, full);
    full.wait(0);
    cluster_barrier();
}

#[test]
fn copies_between_cta_splits_are_refused() {
    check(
        "copies_between_cta_splits",
        copies_between_cta_splits.trace(),
    );
}

#[kernel(cluster = 2)]
fn wgmma_operands_split_differently() {
    let split = |bases: [u32; 2]| Nvmma::new(128, 16).with_ctas([bases]);
    let tile = |bases| Smem::<f16>::alloc([128, 128], split(bases));
    let sums = Wgmma::new([4, 1], [64, 128, 16]).with_ctas([[1, 0]]);
    let acc = Accumulator::<f32>::zeros([128, 128], sums.clone());
    let _ = acc.mma(tile([1, 0]), tile([1, 0])).wait_all();
    let acc = Accumulator::<f32>::zeros([128, 128], sums.clone());
    let _ = acc.mma(tile([0, 1]), tile([0, 0])).wait_all();
    let acc = Accumulator::<f32>::zeros([64, 128], sums);
    let left = Smem::<f16>::alloc([64, 128], split([1, 0]));
    let _ = acc.mma(left, tile([0, 0])).wait_all();
}

#[test]
fn wgmma_operands_split_differently_are_refused() {
    check(
        "wgmma_operands_split_differently",
        wgmma_operands_split_differently.trace(),
    );
}

#[kernel(cluster = 2)]
fn coordinates_that_differ_between_ctas(
    #[block([64, 64], Nvmma::B128.with_ctas([[1, 0]]))] a: TensorMap<f16>,
    out: Ptr<f16>,
) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.load([program_id(0) * 64, scalar(0)], tile, full);
    full.wait(0);
    let line = Smem::<f16>::alloc([64], Swizzled::plain([0]).with_ctas([[1]]));
    out.bulk(cluster_rank() * 64).store(line);
    tma_store_wait(0);
}

#[test]
fn coordinates_that_differ_between_ctas_are_warned_of() {
    check_warned(
        "coordinates_that_differ_between_ctas",
        coordinates_that_differ_between_ctas.trace(),
    );
}

#[kernel(cluster = 2)]
fn multicast_store_of_a_split_tile(
    #[block([64, 64], Nvmma::B128.with_ctas([[0, 0]]))] a: TensorMap<f16>,
) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.copy().multicast_copies().load([0, 0], tile, full);
    full.wait(0);
    a.copy().multicast_copies().store([0, 0], tile);
}

#[test]
fn a_multicast_store_of_a_split_tile_is_refused() {
    check(
        "multicast_store_of_a_split_tile",
        multicast_store_of_a_split_tile.trace(),
    );
}

#[kernel(cluster = 2)]
fn split_multicast_before_cluster_barrier(
    #[block([64, 64], Nvmma::B128.with_ctas([[0, 0]]))] a: TensorMap<f16>,
) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.copy().multicast_copies().load([0, 0], tile, full);
    full.wait(0);
}

#[test]
fn one_cta_multicasts_before_a_cluster_barrier() {
    check(
        "split_multicast_before_cluster_barrier",
        split_multicast_before_cluster_barrier.trace(),
    );
}

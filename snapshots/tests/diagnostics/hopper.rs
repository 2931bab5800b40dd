//! TMA, mbarriers and clusters, used wrongly.

use tilekit::prelude::*;

use crate::check;

fn rows() -> Blocked {
    Blocked::new([1, 1], [1, 32], [4, 1], [1, 0])
}

#[kernel]
fn swizzle_wider_than_a_row(#[block([64, 32], Nvmma::B128)] a: TensorMap<f16>) {
    a.prefetch((0, 0));
}

#[test]
fn a_block_narrower_than_its_swizzle_is_refused() {
    check("swizzle_wider_than_a_row", swizzle_wider_than_a_row.trace());
}

#[kernel]
fn boxes_between_swizzle_atoms(#[block([4, 128], Nvmma::B128)] a: TensorMap<f16>) {
    a.prefetch((0, 0));
}

#[test]
fn boxes_between_swizzle_atoms_are_refused() {
    check(
        "boxes_between_swizzle_atoms",
        boxes_between_swizzle_atoms.trace(),
    );
}

#[kernel]
fn tensor_map_without_block(a: TensorMap<f16>) {
    a.prefetch((0, 0));
}

#[test]
fn a_tensor_map_without_block_is_refused() {
    check("tensor_map_without_block", tensor_map_without_block.trace());
}

#[kernel]
fn tile_of_other_layout(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], Nvmma::new(64, 16));
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.load((0, 0), tile, full);
    full.wait(0);
}

#[test]
fn a_tile_has_another_layout_than_the_map() {
    check("tile_of_other_layout", tile_of_other_layout.trace());
}

#[kernel]
fn coordinates_missing(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    a.store([program_id(0) * 64], tile);
}

#[test]
fn a_block_has_more_dimensions_than_coordinates() {
    check("coordinates_missing", coordinates_missing.trace());
}

#[kernel]
fn misaligned_coordinate(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    a.store((program_id(0) * 64, 4), tile);
}

#[test]
fn a_block_begins_between_multiples_of_16_bytes() {
    check("misaligned_coordinate", misaligned_coordinate.trace());
}

#[kernel]
fn reduction_missing(#[block([64, 32], Nvmma::B128)] a: TensorMap<f32>) {
    let tile = Smem::<f32>::alloc([64, 32], a.layout());
    a.reduce(TmaReduceOp::Min, (0, 0), tile);
}

#[test]
fn tma_has_no_minimum_of_f32() {
    check("reduction_missing", reduction_missing.trace());
}

#[kernel]
fn phase_of_two(n: i32) {
    let bar = Mbarrier::alloc(1);
    for _ in range(0, n) {
        bar.arrive();
        bar.wait(2);
    }
}

#[test]
fn a_phase_is_neither_0_nor_1() {
    check("phase_of_two", phase_of_two.trace());
}

#[kernel]
fn no_arrivals() {
    Mbarrier::alloc(0).wait(0);
}

#[test]
fn a_barrier_counts_no_arrivals() {
    check("no_arrivals", no_arrivals.trace());
}

#[kernel]
fn expected_bytes_without_a_copy(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>, out: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let (full, other) = (Mbarrier::alloc(1), Mbarrier::alloc(1));
    full.expect(a.block_bytes());
    other.expect(a.block_bytes());
    a.load((0, 0), tile, full);
    full.wait(0);
    other.wait(0);
    let at = arange(0..64, Slice::new(0, rows())).expand_dims(0);
    out.at(at).store(tile.load(rows()));
}

#[test]
fn a_barrier_expects_bytes_that_no_copy_completes() {
    check(
        "expected_bytes_without_a_copy",
        expected_bytes_without_a_copy.trace(),
    );
}

#[kernel]
fn tma_load_never_waited_for(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>, out: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    a.load((0, 0), tile, full);
    let at = arange(0..64, Slice::new(0, rows())).expand_dims(0);
    out.at(at).store(tile.load(rows()));
}

#[test]
fn a_copy_is_neither_expected_nor_waited_for() {
    check(
        "tma_load_never_waited_for",
        tma_load_never_waited_for.trace(),
    );
}

#[kernel]
fn multicast_to_no_cta(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.copy().multicast(0b11).load((0, 0), tile, full);
    full.wait(0);
    cluster_barrier();
}

#[test]
fn a_kernel_without_clusters_accesses_other_ctas() {
    check("multicast_without_a_cluster", multicast_to_no_cta.trace());
}

#[kernel(cluster = [8, 4, 1])]
fn cluster_beyond_a_gpc() {
    cluster_barrier();
}

#[test]
fn a_cluster_is_larger_than_any_gpc() {
    check("cluster_beyond_a_gpc", cluster_beyond_a_gpc.trace());
}

#[kernel(cluster = 2)]
fn remote_access_without_cluster_barriers(out: Ptr<i32>) {
    let line = Blocked::new([1], [32], [4], [0]);
    let at = arange(0..128, line.clone());
    let tile = Smem::alloc_with(at, Swizzled::plain([0]));
    let seen = tile.in_cta(cluster_rank() ^ 1).load(line);
    out.at(at).store(seen);
}

#[test]
fn remote_access_without_cluster_barriers_is_refused() {
    check(
        "remote_access_without_cluster_barriers",
        remote_access_without_cluster_barriers.trace(),
    );
}

#[kernel]
fn narrow_copy(x: Ptr<f16>, out: Ptr<f16>) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let tile = Smem::<f16>::alloc([128], Swizzled::plain([0]));
    x.at(at).copy_to(tile);
    async_copy_commit();
    async_copy_wait(0);
    out.at(at)
        .store(tile.load(Blocked::new([1], [32], [4], [0])));
}

#[test]
fn a_thread_copies_less_than_4_bytes() {
    check("narrow_copy", narrow_copy.trace());
}

#[kernel]
fn wait_with_too_many_pending() {
    tma_store_wait(1_u32 << 31);
}

#[test]
fn a_wait_leaves_more_groups_than_an_immediate_holds() {
    check(
        "wait_with_too_many_pending",
        wait_with_too_many_pending.trace(),
    );
}

#[kernel]
fn partition_of_too_many_warps() {
    warp_specialize()
        .main(|| {})
        .worker(Warps(1_u32 << 31), || {})
        .worker(Warps(1_u32 << 31), || {})
        .run();
}

#[test]
fn the_warps_of_all_partitions_are_more_than_a_number_holds() {
    check(
        "partition_of_too_many_warps",
        partition_of_too_many_warps.trace(),
    );
}

#[kernel]
fn im2col_load_without_offsets(#[im2col(4, [64, 64], Nvmma::B128)] image: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc(image.block(), image.layout());
    let full = Mbarrier::alloc(1);
    full.expect(image.block_bytes());
    image.load([0, 0, 0, 0], tile, full);
    full.wait(0);
    image.prefetch([0, 0, 0, 0]);
}

#[test]
fn copies_through_an_im2col_map_that_there_are_not() {
    check(
        "im2col_load_without_offsets",
        im2col_load_without_offsets.trace(),
    );
}

#[kernel]
fn store_in_front(#[block([64, 64], Nvmma::B128)] a: TensorMap<f16>, is_there: bool) {
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    // A condition may leave it out.
    a.copy().when(is_there).store((-1, 0), tile);
    a.store((-1, program_id(0) * 64), tile);
}

#[test]
fn a_store_begins_in_front_of_its_tensor() {
    check("store_in_front", store_in_front.trace());
}

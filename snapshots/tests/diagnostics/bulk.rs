//! Linear copies, used wrongly.

use tilekit::prelude::*;

use crate::check;

fn plain() -> Swizzled {
    Swizzled::plain([0])
}

#[kernel]
fn bulk_store_of_a_swizzled_tile(out: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([8, 64], Nvmma::new(128, 16));
    out.bulk(0).store(tile);
}

#[test]
fn a_bulk_store_of_a_swizzled_tile_is_refused() {
    check(
        "bulk_store_of_a_swizzled_tile",
        bulk_store_of_a_swizzled_tile.trace(),
    );
}

#[kernel]
fn bulk_store_of_part_of_rows(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([8, 64], Swizzled::plain([1, 0]));
    out.bulk(0).store(tile.slice(1, 0..32));
}

#[test]
fn a_bulk_store_of_part_of_rows_is_refused() {
    check(
        "bulk_store_of_part_of_rows",
        bulk_store_of_part_of_rows.trace(),
    );
}

#[kernel]
fn bulk_load_of_8_bytes(x: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([4], plain());
    let full = Mbarrier::alloc(1);
    full.expect(8);
    x.bulk(0).load(tile, full);
    full.wait(0);
}

#[test]
fn a_bulk_load_of_8_bytes_is_refused() {
    check("bulk_load_of_8_bytes", bulk_load_of_8_bytes.trace());
}

#[kernel]
fn misaligned_count(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).count(6).store(tile);
}

#[test]
fn a_count_is_no_multiple_of_16_bytes() {
    check("misaligned_count", misaligned_count.trace());
}

#[kernel]
fn count_beyond_the_tile(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).count(128).store(tile);
}

#[test]
fn a_count_beyond_the_tile_is_refused() {
    check("count_beyond_the_tile", count_beyond_the_tile.trace());
}

#[kernel]
fn prefetch_without_count(x: Ptr<f32>) {
    x.bulk(0).prefetch();
}

#[test]
fn a_prefetch_without_count_is_refused() {
    check("prefetch_without_count", prefetch_without_count.trace());
}

#[kernel]
fn bulk_min_of_f32(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).reduce(TmaReduceOp::Min, tile);
}

#[test]
fn a_bulk_reduction_to_the_f32_minimum_is_refused() {
    check("bulk_min_of_f32", bulk_min_of_f32.trace());
}

#[kernel(cluster = 2)]
fn multicast_store(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).multicast(0b11).store(tile);
}

#[test]
fn a_multicast_store_is_refused() {
    check("multicast_store", multicast_store.trace());
}

#[kernel]
fn bulk_load_never_waited_for(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    let full = Mbarrier::alloc(1);
    x.bulk(0).load(tile, full);
}

#[test]
fn a_bulk_load_without_expect_and_wait_is_refused() {
    check(
        "bulk_load_never_waited_for",
        bulk_load_never_waited_for.trace(),
    );
}

#[kernel]
fn negative_bytes() {
    Mbarrier::alloc(1).expect(-16);
}

#[test]
fn a_negative_expect_is_refused() {
    check("negative_bytes", negative_bytes.trace());
}

#[kernel]
fn bulk_store_to_readonly(#[readonly] x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    x.bulk(0).store(tile);
}

#[test]
fn a_bulk_store_to_readonly_is_refused() {
    check("bulk_store_to_readonly", bulk_store_to_readonly.trace());
}

#[kernel]
fn chunk_signalled_unfenced(x: Ptr<f32>, out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([128], plain());
    let ready = Mbarrier::alloc(1);
    let line = Blocked::new([1], [32], [4], [0]);
    warp_specialize()
        .main(|| {
            tile.store(x.at(arange(0..128, line)).load());
            ready.arrive();
        })
        .worker(Warps(1), || {
            ready.wait(0);
            out.bulk(0).store(tile);
            tma_store_wait(0);
        })
        .run();
}

#[test]
fn a_bulk_store_of_unfenced_stores_is_refused() {
    check(
        "bulk_store_of_an_unfenced_chunk",
        chunk_signalled_unfenced.trace(),
    );
}

#[kernel]
fn copy_to_no_cta() {
    let (own, got) = (
        Smem::<i32>::alloc([64], plain()),
        Smem::<i32>::alloc([64], plain()),
    );
    let full = Mbarrier::alloc(1);
    full.expect(256);
    got.in_cta(1).bulk().store(own, full);
    full.wait(0);
}

#[test]
fn a_remote_copy_without_a_cluster_is_refused() {
    check("remote_copy_without_a_cluster", copy_to_no_cta.trace());
}

#[kernel(cluster = 2)]
fn copy_of_other_shape() {
    let (own, got) = (
        Smem::<i32>::alloc([128], plain()),
        Smem::<i32>::alloc([64], plain()),
    );
    let full = Mbarrier::alloc(1);
    full.expect(256);
    got.in_cta(1).bulk().store(own, full);
    full.wait(0);
}

#[test]
fn a_remote_copy_between_shapes_is_refused() {
    check("copy_of_other_shape", copy_of_other_shape.trace());
}

#[kernel(cluster = 2)]
fn remote_add_of_floats() {
    let (own, got) = (
        Smem::<f32>::alloc([64], plain()),
        Smem::<f32>::alloc([64], plain()),
    );
    let full = Mbarrier::alloc(1);
    full.expect(256);
    got.in_cta(1).bulk().reduce(TmaReduceOp::Add, own, full);
    full.wait(0);
}

#[test]
fn a_remote_add_of_floats_is_refused() {
    check("remote_add_of_floats", remote_add_of_floats.trace());
}

#[kernel(cluster = 2)]
fn narrow_remote_store() {
    let got = Smem::<f16>::alloc([128], plain());
    let told = Mbarrier::alloc(1);
    told.expect(got.bytes());
    cluster_barrier_relaxed();
    let ones = full([128], 1.0, Blocked::new([1], [32], [4], [0]));
    got.in_cta(cluster_rank() ^ 1).store_async(ones, told);
    told.wait(0);
    cluster_barrier_relaxed();
}

#[test]
fn a_remote_store_of_2_bytes_a_thread_is_refused() {
    check("narrow_remote_store", narrow_remote_store.trace());
}

#[kernel(cluster = 2)]
fn split_tile_access_before_cluster_barrier(out: Ptr<f32>) {
    let line = Blocked::new([1], [32], [4], [0]);
    let at = arange(0..128, line.clone());
    let got = Smem::<f32>::alloc([128], plain());
    let told = Mbarrier::alloc(1);
    told.expect(got.bytes());
    let other = cluster_rank() ^ 1;
    got.in_cta(other)
        .store_async(full([128], 1.0, line.clone()), told);
    told.wait(0);
    out.at(at).store(got.load(line));
}

#[test]
fn a_store_to_a_cta_that_may_have_exited() {
    check(
        "split_tile_access_before_cluster_barrier",
        split_tile_access_before_cluster_barrier.trace(),
    );
}

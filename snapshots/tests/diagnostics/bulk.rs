//! Linear copies, used wrongly.

use tilekit::prelude::*;

use crate::check;

fn plain() -> Swizzled {
    Swizzled::plain([0])
}

#[kernel]
fn swizzled_run(out: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([8, 64], Nvmma::new(128, 16));
    out.bulk(0).store(tile);
}

#[test]
fn elements_that_a_swizzle_moved_are_no_run() {
    check("swizzled_run", swizzled_run.trace());
}

#[kernel]
fn part_of_rows(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([8, 64], Swizzled::plain([1, 0]));
    out.bulk(0).store(tile.slice(1, 0..32));
}

#[test]
fn parts_of_rows_are_no_run() {
    check("part_of_rows", part_of_rows.trace());
}

#[kernel]
fn run_of_8_bytes(x: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([4], plain());
    let full = Mbarrier::alloc(1);
    full.expect(8);
    x.bulk(0).load(tile, full);
    full.wait(0);
}

#[test]
fn a_run_is_shorter_than_a_unit() {
    check("run_of_8_bytes", run_of_8_bytes.trace());
}

#[kernel]
fn count_off_the_unit(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).count(6).store(tile);
}

#[test]
fn a_count_is_no_multiple_of_16_bytes() {
    check("count_off_the_unit", count_off_the_unit.trace());
}

#[kernel]
fn count_beyond_the_tile(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).count(128).store(tile);
}

#[test]
fn a_count_is_more_than_there_are() {
    check("count_beyond_the_tile", count_beyond_the_tile.trace());
}

#[kernel]
fn prefetch_of_how_many(x: Ptr<f32>) {
    x.bulk(0).prefetch();
}

#[test]
fn a_prefetch_says_no_count() {
    check("prefetch_of_how_many", prefetch_of_how_many.trace());
}

#[kernel]
fn smallest_float(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).reduce(TmaReduceOp::Min, tile);
}

#[test]
fn runs_have_no_minimum_of_f32() {
    check("smallest_float", smallest_float.trace());
}

#[kernel(cluster = 2)]
fn store_to_many(out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    out.bulk(0).multicast(0b11).store(tile);
}

#[test]
fn a_store_goes_to_one_place() {
    check("store_to_many", store_to_many.trace());
}

#[kernel]
fn run_unawaited(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    let full = Mbarrier::alloc(1);
    x.bulk(0).load(tile, full);
}

#[test]
fn a_run_is_neither_expected_nor_waited_for() {
    check("run_unawaited", run_unawaited.trace());
}

#[kernel]
fn negative_bytes() {
    Mbarrier::alloc(1).expect(-16);
}

#[test]
fn a_barrier_expects_fewer_bytes_than_none() {
    check("negative_bytes", negative_bytes.trace());
}

#[kernel]
fn run_over_what_is_read_only(#[readonly] x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64], plain());
    x.bulk(0).store(tile);
}

#[test]
fn a_run_is_stored_where_all_is_only_read() {
    check(
        "run_over_what_is_read_only",
        run_over_what_is_read_only.trace(),
    );
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
fn another_partition_stores_what_was_not_fenced() {
    check(
        "chunk_handed_over_unfenced",
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
fn a_copy_goes_to_a_cta_that_is_not_there() {
    check("copy_to_nobody", copy_to_no_cta.trace());
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
fn a_copy_does_not_fit_the_place_in_the_other_cta() {
    check("copy_of_other_shape", copy_of_other_shape.trace());
}

#[kernel(cluster = 2)]
fn floats_added_remotely() {
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
fn a_copy_adds_no_floats_in_another_cta() {
    check("floats_added_remotely", floats_added_remotely.trace());
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
fn a_store_that_completes_has_less_than_4_bytes() {
    check("narrow_remote_store", narrow_remote_store.trace());
}

#[kernel(cluster = 2)]
fn other_cta_not_there(out: Ptr<f32>) {
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
    check("other_cta_not_there", other_cta_not_there.trace());
}

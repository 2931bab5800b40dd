//! Tiles that warps which are no power of two cannot share.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 12)]
fn rows_that_12_warps_cannot_divide(x: Ptr<f32>) {
    let rows = Blocked::new([1, 4], [2, 16], [12, 1], [1, 0]);
    let row = arange(0..256, Slice::new(1, rows.clone())).expand_dims(1);
    let column = arange(0..64, Slice::new(0, rows)).expand_dims(0);
    x.at(row * 64 + column).store(1.0);
}

#[kernel(warps = 12)]
fn accumulator_that_three_warpgroups_cannot_divide(x: Ptr<f32>) {
    let sums = Wgmma::new([12, 1], [64, 64, 16]);
    let acc = Accumulator::<f32>::zeros([256, 64], sums);
    x.at(0).store(acc.wait_all().sum(0).sum(0));
}

#[kernel(warps = 6)]
fn vector_that_6_warps_cannot_share(x: Ptr<f32>) {
    x.at(arange(0..1024, Coalesced)).store(1.0);
}

#[kernel(warps = 4)]
fn partition_of_12_warps_cannot_share(x: Ptr<f32>) {
    warp_specialize()
        .main(|| {})
        .worker(Warps(12), || x.at(arange(0..1024, Coalesced)).store(1.0))
        .run();
}

#[kernel(warps = 9)]
fn warps_of_two_odd_factors(x: Ptr<f32>) {
    let layout = Blocked::new([1, 1], [1, 32], [3, 3], [1, 0]);
    let row = arange(0..3, Slice::new(1, layout.clone())).expand_dims(1);
    let column = arange(0..96, Slice::new(0, layout)).expand_dims(0);
    x.at(row * 96 + column).store(1.0);
}

#[kernel(warps = 12)]
fn sort_along_what_sets_divide(x: Ptr<i32>) {
    let at = arange(0..384, Blocked::new([1], [32], [12], [0]));
    x.at(at).store(x.at(at).load().sort(0));
}

#[test]
fn tiles_that_sets_of_warps_cannot_share() {
    check(
        "rows_that_12_warps_cannot_divide",
        rows_that_12_warps_cannot_divide.trace(),
    );
    check(
        "accumulator_that_three_warpgroups_cannot_divide",
        accumulator_that_three_warpgroups_cannot_divide.trace(),
    );
    check(
        "vector_that_6_warps_cannot_share",
        vector_that_6_warps_cannot_share.trace(),
    );
    check(
        "partition_of_12_warps_cannot_share",
        partition_of_12_warps_cannot_share.trace(),
    );
    check("warps_of_two_odd_factors", warps_of_two_odd_factors.trace());
    check(
        "sort_along_what_sets_divide",
        sort_along_what_sets_divide.trace(),
    );
}

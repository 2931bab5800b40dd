//! Clusters and tensor maps in the head of a kernel.

use gluon_lang::lang::prelude::*;

use crate::support::{ir, mistakes};

#[kernel(warps = 8, cluster = [CTAS, 1, 1])]
fn head<const BM: usize, const BK: usize, const CTAS: usize>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<bf16>,
    _n: i32,
    #[block([BM, 16], Nvmma::new(32, 16))] b: TensorMap<f16>,
    #[im2col(4, [BM, 64], Nvmma::B64)] image: TensorMap<f16>,
) {
}

#[test]
fn maps_and_clusters_stand_in_the_head() {
    insta::assert_snapshot!(ir(head::<64, 128, 2>));
}

#[kernel]
fn wide_swizzle(#[block([64, 32], Nvmma::B128)] a: TensorMap<f16>) {}

#[kernel]
fn no_block(_a: TensorMap<f16>) {}

#[kernel(cluster = [8, 4])]
fn large_cluster() {}

#[test]
fn heads_that_no_launch_can_have() {
    insta::assert_snapshot!(
        [
            mistakes(wide_swizzle),
            mistakes(no_block),
            mistakes(large_cluster)
        ]
        .join("\n")
    );
}

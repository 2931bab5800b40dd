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

/// What a value of the host says of a kernel.
#[derive(Clone, Copy)]
struct Tile {
    ctas: [usize; 2],
    groups: u32,
}

impl Tile {
    fn cluster(self) -> [usize; 2] {
        self.ctas
    }

    fn warps(self) -> u32 {
        4 * self.groups
    }
}

impl std::fmt::Display for Tile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y] = self.ctas;
        write!(f, "{x}x{y}x{}", self.groups)
    }
}

#[kernel(warps = tile.warps(), cluster = tile.cluster(), max_registers = 64 * tile.groups, min_ctas_per_sm = COUNT / tile.groups)]
fn of_a_value<const COUNT: u32>(#[fixed] tile: Tile, out: Ptr<i32>) {
    if tile.ctas != [1, 1] {
        cluster_barrier();
    }
    out.at(0).store(cluster_rank());
}

#[test]
fn a_fixed_value_says_the_head() {
    let of = |ctas: [usize; 2], groups: u32| ir(fixed(of_a_value::<4>, Tile { ctas, groups }));
    insta::assert_snapshot!([of([2, 1], 1), of([2, 4], 2), of([1, 1], 1)].join("\n"));
}

#[kernel(cluster = ctas)]
fn of_ctas(#[fixed] ctas: i64) {}

#[kernel(warps = warps)]
fn of_warps(#[fixed] warps: i32) {}

#[test]
fn heads_that_a_value_makes_wrong() {
    let clusters = [0, -2, 17, 1 << 40].map(|ctas| mistakes(fixed(of_ctas, ctas)));
    let warps = [0, -1, 33].map(|warps| mistakes(fixed(of_warps, warps)));
    insta::assert_snapshot!([&clusters[..], &warps[..]].concat().join("\n"));
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

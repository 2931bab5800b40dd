//! Each rule of a layout, broken once: a line of a kernel for each, and the messages that its author reads.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn rules_of_shapes() {
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1], [32], [4], [0]));
    let _ = full::<f32>([96], 1.0, Blocked::new([1], [32], [4], [0]));
}

#[test]
fn rules_of_shapes_are_reported() {
    check("rules_of_shapes", rules_of_shapes.trace());
}

#[kernel]
fn rules_of_blocked() {
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1, 1], [32], [4, 1], [1, 0]));
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1, 3], [1, 32], [4, 1], [1, 0]));
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1, 0], [1, 32], [4, 1], [1, 0]));
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1, 1], [1, 16], [4, 1], [1, 0]));
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1, 1], [1, 32], [4, 1], [1, 1]));
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1, 1], [1, 32], [4, 1], [2, 0]));
    let _ = full::<f32>([64, 64], 1.0, Blocked::new([1, 1], [1, 32], [2, 1], [1, 0]));
    let _ = full::<f32>(
        [64, 64],
        1.0,
        Blocked::new([1, 1], [1, 32], [64, 1], [1, 0]),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        Blocked::new([512, 512], [1, 32], [4, 1], [1, 0]),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]).with_ctas([
            [1, 0],
            [2, 0],
            [4, 0],
            [8, 0],
            [16, 0],
        ]),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]).with_ctas([[1, 0], [1, 0]]),
    );
}

#[test]
fn rules_of_blocked_are_reported() {
    check("rules_of_blocked", rules_of_blocked.trace());
}

#[kernel]
fn rules_of_slices() {
    let _ = full::<f32>([64], 1.0, Slice::new(0, Blocked::new([1], [32], [4], [0])));
    let _ = full::<f32>(
        [64],
        1.0,
        Slice::new(2, Blocked::new([1, 1], [1, 32], [4, 1], [1, 0])),
    );
    let _ = full::<f32>(
        [64],
        1.0,
        Slice::new(0, Blocked::new([1, 1], [1, 8], [4, 1], [1, 0])),
    );
}

#[test]
fn rules_of_slices_are_reported() {
    check("rules_of_slices", rules_of_slices.trace());
}

#[kernel]
fn rules_of_linear() {
    let _ = full::<f32>(
        [64],
        1.0,
        DistributedLinear::new([[1]], [[2], [4]], [[8], [16]], []),
    );
    let _ = full::<f32>(
        [64],
        1.0,
        DistributedLinear::new([[1]], [[0]; 5], [[0]; 6], []),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        DistributedLinear::new(
            vec![vec![1, 0]],
            vec![vec![0, 1], vec![2], vec![0], vec![0], vec![0]],
            vec![vec![0, 0]; 2],
            vec![],
        ),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        DistributedLinear::new([[1, 1]], [[0, 0]; 5], [[0, 0]; 2], []),
    );
    let _ = full::<f32>(
        [64],
        1.0,
        DistributedLinear::new([[3]], [[0]; 5], [[0]; 2], []),
    );
    let _ = full::<f32>(
        [64],
        1.0,
        DistributedLinear::new([[1], [1]], [[0]; 5], [[0]; 2], []),
    );
    let _ = full::<f32>(
        [64],
        1.0,
        DistributedLinear::new([[1], [4]], [[0]; 5], [[0]; 2], []),
    );
}

#[test]
fn rules_of_linear_are_reported() {
    check("rules_of_linear", rules_of_linear.trace());
}

#[kernel]
fn rules_of_matrix_products() {
    let _ = full::<f32>([64, 64], 1.0, Mma::new([4, 1], [16, 16]));
    let _ = full::<f32>([64, 64], 1.0, Mma::new([4, 1], [1, 16, 8]));
    let _ = full::<f32>([64, 64], 1.0, Mma::new([3, 5], [16, 8]));
    let _ = full::<f32>([64, 64], 1.0, Wgmma::new([4], [64, 64, 16]));
    let _ = full::<f32>([64, 64], 1.0, Wgmma::new([2, 2], [64, 64, 16]));
    let _ = full::<f32>([64, 64], 1.0, Wgmma::new([4, 1], [64, 64]));
    let _ = full::<f32>([64, 64], 1.0, Wgmma::new([4, 1], [128, 64, 16]));
    let _ = full::<f32>([64, 64], 1.0, Wgmma::new([4, 1], [64, 100, 16]));
    let _ = full::<f32>([64, 64], 1.0, Wgmma::new([4, 1], [64, 64, 64]));
    let _ = full::<f32>(
        [64, 64],
        1.0,
        DotOperand::new(2, Mma::new([4, 1], [16, 8]), 2),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        DotOperand::new(1, Wgmma::new([4, 1], [64, 64, 16]), 2),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        DotOperand::new(0, Mma::new([4, 1], [16, 8]), 3),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        DotOperand::new(0, Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]), 2),
    );
    let _ = full::<f32>(
        [64],
        1.0,
        DotOperand::new(0, Blocked::new([1], [32], [4], [0]), 0),
    );
    let _ = full::<f32>(
        [64],
        1.0,
        DotOperand::new(
            0,
            Slice::new(0, Blocked::new([1, 1], [1, 32], [4, 1], [1, 0])),
            0,
        ),
    );
    let _ = full::<f32>(
        [64, 64],
        1.0,
        DotOperand::new(0, Mma::new([4, 1], [8, 8]), 2),
    );
}

#[test]
fn rules_of_matrix_products_are_reported() {
    check("rules_of_matrix_products", rules_of_matrix_products.trace());
}

#[kernel]
fn rules_of_swizzled() {
    let _ = Smem::<f32>::alloc([64, 64], Swizzled::new(3, 1, 8, [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Swizzled::new(4, 0, 8, [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Swizzled::new(4, 1, 6, [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Swizzled::new(4, 1, 8, [0, 0]));
    let _ = Smem::<f32>::alloc([64], Swizzled::new(4, 1, 8, [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Swizzled::new(4, 1, 8, [1, 0]).with_ctas([[3, 0]]));
}

#[test]
fn rules_of_swizzled_are_reported() {
    check("rules_of_swizzled", rules_of_swizzled.trace());
}

#[kernel]
fn rules_of_nvmma() {
    let _ = Smem::<f32>::alloc([64, 64], Nvmma::new(256, 32));
    let _ = Smem::<f32>::alloc([64, 64], Nvmma::new(128, 4));
    let _ = Smem::<f32>::alloc([64], Nvmma::new(128, 32).with_rank(1));
    let _ = Smem::<f32>::alloc([64, 16], Nvmma::new(128, 32));
    let _ = Smem::<f32>::alloc([64, 64], Nvmma::new(128, 32).with_ctas([[1, 1]]));
}

#[test]
fn rules_of_nvmma_are_reported() {
    check("rules_of_nvmma", rules_of_nvmma.trace());
}

#[kernel]
fn rules_of_padded() {
    let _ = Smem::<f32>::alloc([64, 64], Padded::new(Vec::<[u32; 2]>::new(), [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Padded::new([[48, 4]], [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Padded::new([[64, 4], [64, 8]], [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Padded::new([[1 << 17, 4]], [1, 0]));
    let _ = Smem::<f32>::alloc([64, 64], Padded::new([[64, 4]], [1, 2]));
    let _ = Smem::<f32>::alloc([4], Padded::with_bases([[64, 4]], [[1], [0], [2]]));
}

#[test]
fn rules_of_padded_are_reported() {
    check("rules_of_padded", rules_of_padded.trace());
}

#[kernel]
fn rules_of_shared_linear() {
    let _ = Smem::<f32>::alloc([64, 64], SharedLinear::new(vec![vec![0, 1], vec![2]]));
    let _ = Smem::<f32>::alloc([4], SharedLinear::new([[1], [2], [4]]));
    let _ = Smem::<f32>::alloc([4], SharedLinear::new([[1], [3], [2]]));
    let _ = Smem::<f32>::alloc([8], SharedLinear::new([[1], [4]]));
}

#[test]
fn rules_of_shared_linear_are_reported() {
    check("rules_of_shared_linear", rules_of_shared_linear.trace());
}

fn split() -> Blocked {
    Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]).with_ctas([[1, 0]])
}

#[kernel(cluster = [2, 1, 1])]
fn rules_of_clusters() {
    let _ = full::<f32>([64, 64], 1.0, split().with_ctas([[1, 0], [2, 0]]));
    let tile = full::<f32>([64, 64], 1.0, split());
    let _ = tile.convert_layout(Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]));
}

#[test]
fn rules_of_clusters_are_reported() {
    check("rules_of_clusters", rules_of_clusters.trace());
}

#[kernel(cluster = [2, 1, 1])]
fn tile_of_a_cluster_in_shared_memory() {
    let tile = full::<f32>([64, 64], 1.0, split());
    Smem::<f32>::alloc([64, 64], Swizzled::plain([1, 0])).store(tile);
}

#[test]
fn a_tile_of_shared_memory_belongs_to_a_cta() {
    check(
        "tile_of_a_cluster_in_shared_memory",
        tile_of_a_cluster_in_shared_memory.trace(),
    );
}

#[kernel(cluster = [2, 1, 1])]
fn partition_with_a_cluster_wide_op(x: Ptr<f32>) {
    warp_specialize()
        .main(|| {
            let line = Blocked::new([1], [32], [4], [0]);
            let at = arange(0..256, line.clone().with_ctas([[1]]));
            let all = x.at(at).load().convert_layout(line.with_ctas([[0]]));
            x.at(arange(0..256, all.layout())).store(all);
        })
        .worker(Warps(4).registers(40), || cluster_barrier())
        .run();
}

#[test]
fn a_partition_has_only_some_threads_of_the_cluster() {
    check(
        "partition_that_waits_for_the_cluster",
        partition_with_a_cluster_wide_op.trace(),
    );
}

#[kernel(cluster = [2, 1, 1])]
fn cta_divergent_exchange(x: Ptr<f32>, n: i32) {
    let line = Blocked::new([1], [32], [4], [0]).split_over_ctas([2]);
    let at = program_id(0) * n + arange(0..256, line);
    let tile = x.at(at).load();
    if cluster_rank() == 0 {
        x.store(tile.sum(0).scalar());
    }
}

#[test]
fn an_exchange_to_which_one_cta_comes() {
    check("cta_dependent_condition", cta_divergent_exchange.trace());
}

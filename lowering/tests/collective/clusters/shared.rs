//! Tiles of shared memory that CTAs split.

use ir::elem::DType;

use crate::kernel::{Kernel, from_bytes, noise, run_with_seed, to_bytes};

/// A tile that CTAs split along rows, in part copies: a slice of its columns is read at indices, and added to there.
fn check_split_tile(bases: &str, ctas: u32) {
    let layout = format!("Blocked([1, 4], [4, 8], [2, 2], [1, 0], cta={bases})");
    let mut kernel = Kernel::in_cluster(4, ctas);
    let whole = kernel.form("w", &layout, &[16, 64]);
    let part = kernel.form("p", &layout, &[16, 8]);
    let shared = format!("Swizzled(2, 1, 4, [1, 0], cta={bases})");
    let tile = kernel.plain(&shared, &[16, 64]).of("i32");
    let tile = tile.replacen("tensor", "smem", 1);
    let slice = tile
        .replacen("16x64", "16x32", 1)
        .replace('>', ", alloc=[16, 64]>");
    kernel.load("x", DType::I32, &whole);
    kernel.load("at", DType::I32, &part);
    let ints = part.of("i32");
    for line in [
        format!("%s = smem_alloc init=%x_v : {tile}"),
        format!("%half = smem_slice %s {{starts=[0, 32], lengths=[16, 32]}} : {slice}"),
        format!("%found = smem_gather %half, %at_v {{axis=1}} : {ints}"),
        "smem_atomic_scatter %half, %found, %at_v {op=add, axis=1}".into(),
        format!("%after = smem_load %s : {}", whole.of("i32")),
    ] {
        kernel.line(&line);
    }
    kernel.store("told", DType::I32, &part, "found");
    kernel.store("out", DType::I32, &whole, "after");
    let x: Vec<u64> = noise(1024, 3).iter().map(|v| v % 1000).collect();
    let at: Vec<u64> = noise(128, 4).iter().map(|v| v >> 9 & 31).collect();
    let mut after = x.clone();
    let place = |n: usize| n / 8 * 64 + 32 + at[n] as usize;
    let wanted: Vec<u64> = (0..128).map(|n| x[place(n)]).collect();
    for (n, value) in wanted.iter().enumerate() {
        after[place(n)] += value;
    }
    let blank = |count: usize| vec![0; 4 * count];
    let buffers = [
        to_bytes(&x, DType::I32),
        to_bytes(&at, DType::I32),
        blank(128),
        blank(1024),
    ];
    let found = run_with_seed(&kernel.text(), ctas, 2, &buffers);
    assert_eq!(from_bytes(&found[2], DType::I32), wanted, "{bases}");
    assert_eq!(from_bytes(&found[3], DType::I32), after, "{bases}");
    kernel.assemble();
}

#[test]
fn shared_tiles_that_are_split() {
    check_split_tile("[[1, 0]]", 2);
    check_split_tile("[[2, 0], [1, 0]]", 4);
    check_split_tile("[[0, 0], [1, 0]]", 4);
    check_split_tile("[[0, 0]]", 2);
}

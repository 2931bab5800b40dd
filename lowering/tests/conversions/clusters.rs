//! Conversions between layouts that spread a tensor over the CTAs of a cluster.

use crate::assembly::assemble;
use crate::kernel::{Tensor, compiled, run};

const TILE: Tensor<'static> = tile("i32", 32);

const fn tile(dtype: &'static str, bits: u32) -> Tensor<'static> {
    Tensor {
        shape: &[64, 64],
        dtype,
        bits,
        warps: 4,
    }
}

/// All pairs of these layouts, in clusters of so many CTAs; the number of those in which a CTA reads what another wrote.
fn check(tile: &Tensor<'_>, ctas: u32, layouts: &[&str]) -> usize {
    let head = format!("warps(4) cluster({ctas}, 1, 1)");
    let mut far = 0;
    for from in 0..layouts.len() {
        for to in 0..layouts.len() {
            let kernel = tile
                .kernel(layouts, &[from], &[to])
                .replace("warps(4)", &head);
            let ptx = compiled(&kernel).module.to_text();
            assemble(&ptx);
            far += usize::from(ptx.contains("ld.shared::cluster"));
            if let Err(error) = run(&kernel, &tile.data()) {
                panic!("from {} to {}: {error}\n{ptx}", layouts[from], layouts[to]);
            }
        }
    }
    far
}

#[test]
fn pairs_of_ctas_exchange() {
    let far = check(
        &TILE,
        2,
        &[
            "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[1, 0]])",
            "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[0, 1]])",
            "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[0, 0]])",
            "Blocked([4, 1], [4, 8], [1, 4], [0, 1], cta=[[1, 0]])",
            "Wgmma([4, 1], [64, 32, 16], cta=[[0, 1]])",
        ],
    );
    // From rows to columns, back, and from either to copies; copies hold everything that is wanted of them.
    assert_eq!(far, 12);
}

#[test]
fn four_ctas_exchange() {
    let far = check(
        &TILE,
        4,
        &[
            "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[1, 0], [2, 0]])",
            "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[1, 0], [0, 1]])",
            "Blocked([2, 2], [8, 4], [2, 2], [0, 1], cta=[[0, 1], [0, 0]])",
        ],
    );
    assert_eq!(far, 6);
}

#[test]
fn elements_of_all_sizes_go_to_other_ctas() {
    for (dtype, bits) in [("i8", 8), ("i16", 16), ("i64", 64)] {
        let far = check(
            &tile(dtype, bits),
            8,
            &[
                "Blocked([1, 8], [4, 8], [2, 2], [1, 0], cta=[[0, 1], [1, 0], [0, 2]])",
                "Blocked([8, 1], [8, 4], [1, 4], [0, 1], cta=[[0, 0], [0, 1], [1, 0]])",
            ],
        );
        assert_eq!(far, 2, "{dtype}");
    }
}

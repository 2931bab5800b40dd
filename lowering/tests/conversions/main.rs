//! Conversions between layouts, executed by the emulator lane by lane.
//!
//! Each kernel loads one tensor in every layout of a family, converts each of them to every layout, and compares with
//! what that layout's own load gave, in every register of every thread, copies included. The loads know nothing of
//! conversions: they compute each element's address from its coordinates.

#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a test says what failed by where it failed, and kernels are made as text"
)]

#[path = "../semantics/assembly.rs"]
mod assembly;
mod clusters;
mod family;
#[path = "../gpu/mod.rs"]
mod gpu;
mod kernel;
#[path = "../../../layout/tests/layouts/samples.rs"]
mod samples;
mod table;

use std::fmt::Write;

use family::{
    CUBE, CUBE_SHAPES, ELEMS, MATRIX, MATRIX_SHAPES, OF_12_WARPS, ROW, ROW_SHAPES,
    SHAPES_OF_12_WARPS,
};
use kernel::{Tensor, run};

/// All pairs of `layouts` on one shape, for one element type; the number of pairs.
fn check_pairs(layouts: &[&str], shape: &[u32], dtype: &str, bits: u32) -> usize {
    check_pairs_of(4, layouts, shape, dtype, bits)
}

/// The same in a kernel of so many warps.
fn check_pairs_of(warps: u32, layouts: &[&str], shape: &[u32], dtype: &str, bits: u32) -> usize {
    let tensor = Tensor {
        shape,
        dtype,
        bits,
        warps,
    };
    let all: Vec<usize> = (0..layouts.len()).collect();
    let Err(error) = run(&tensor.kernel(layouts, &all, &all), &tensor.data()) else {
        return layouts.len() * layouts.len();
    };
    let mut wrong = String::new();
    for from in 0..layouts.len() {
        for to in 0..layouts.len() {
            let kernel = tensor.kernel(layouts, &[from], &[to]);
            if let Err(error) = run(&kernel, &tensor.data()) {
                let pair = (layouts[from], layouts[to]);
                writeln!(wrong, "from {} to {}: {error}", pair.0, pair.1).unwrap();
            }
        }
    }
    panic!("{dtype} of shape {shape:?}: {error}\n{wrong}");
}

/// Every element width on one shape, integers and floats in turn.
fn check_widths(layouts: &[&str], shape: &[u32], turn: usize) -> usize {
    let widths = ELEMS.iter().enumerate();
    widths
        .map(|(at, (bits, dtypes))| check_pairs(layouts, shape, dtypes[(at + turn) % 2], *bits))
        .sum()
}

macro_rules! matrices {
    ($($name:ident: $at:literal;)*) => { $(
        #[test]
        fn $name() {
            let pairs = check_widths(MATRIX, &MATRIX_SHAPES[$at], $at);
            assert_eq!(pairs, 4 * 41 * 41);
        }
    )* };
}

// One test for each shape, so that they run beside each other.
matrices! {
    every_pair_converts_on_64x64: 0;
    every_pair_converts_on_16x16: 1;
    every_pair_converts_on_16x64: 2;
    every_pair_converts_on_128x16: 3;
    every_pair_converts_on_2x64: 4;
    every_pair_converts_on_64x2: 5;
}

#[test]
fn every_pair_of_rows_converts() {
    let shapes = ROW_SHAPES.iter().enumerate();
    let pairs: usize = shapes
        .map(|(turn, shape)| check_widths(ROW, shape, turn))
        .sum();
    assert_eq!(pairs, 4 * 4 * 17 * 17);
}

#[test]
fn every_pair_of_cubes_converts() {
    let shapes = CUBE_SHAPES.iter().enumerate();
    let pairs: usize = shapes
        .map(|(turn, shape)| check_widths(CUBE, shape, turn))
        .sum();
    assert_eq!(pairs, 2 * 4 * 6 * 6);
}

#[test]
fn every_pair_converts_in_12_warps() {
    for (turn, shape) in SHAPES_OF_12_WARPS.iter().enumerate() {
        let (bits, dtypes) = ELEMS[turn];
        check_pairs_of(12, OF_12_WARPS, shape, dtypes[turn % 2], bits);
    }
}

const PAIR: [&str; 2] = [
    "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
    "Blocked([1, 2], [8, 4], [4, 1], [1, 0])",
];
const SQUARE: Tensor<'static> = Tensor {
    shape: &[64, 64],
    dtype: "i32",
    bits: 32,
    warps: 4,
};

/// A conversion of `PAIR` with `changes` made to its kernel.
#[track_caller]
fn check_changed(layouts: &[&str], changes: &[(&str, &str)], wanted: &str) {
    let mut text = SQUARE.kernel(layouts, &[0], &[1]);
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is in\n{text}");
        text = text.replace(from, to);
    }
    let ptx = kernel::compiled(&text).module.to_text();
    assert!(ptx.contains(wanted), "{wanted} is in\n{ptx}");
    run(&text, &SQUARE.data()).unwrap();
}

#[test]
fn warps_exchange_again_and_again_by_themselves() {
    // There and back in every iteration; what the iterations change is 0 together.
    let around = "%low = constant {value=0} : i32
  %high = constant {value=4} : i32
  %step = constant {value=1} : i32
  %t0_1 = for %low, %high, %step, [%v1] (%i: i32, %was: tensor<64x64xi32, #l1>) {
    %there = convert_layout %was : tensor<64x64xi32, #l0>
    %j = splat %i : tensor<64x64xi32, #l0>
    %other = binary %there, %j {op=xor} : tensor<64x64xi32, #l0>
    %back = convert_layout %other : tensor<64x64xi32, #l1>
    yield [%back]
  } : tensor<64x64xi32, #l1>";
    let once = "%t0_1 = convert_layout %v0 : tensor<64x64xi32, #l1>";
    check_changed(&PAIR, &[(once, around)], "bar.warp.sync");
}

#[test]
fn a_conversion_in_rounds_gives_the_same() {
    let far = [PAIR[0], "Blocked([2, 4], [4, 8], [1, 4], [0, 1])"];
    // 3072 bytes of shared memory are left.
    let most = "warps(4) {
  %m = smem_alloc : smem<14x64x64xf32, #swizzled>";
    let changes = [
        (
            "kernel @k",
            "#swizzled = Swizzled(1, 1, 1, [1, 0])\nkernel @k",
        ),
        ("warps(4) {", most),
        ("  return", "  smem_keep %m\n  return"),
    ];
    check_changed(&far, &changes, "bar.sync 0;\n\tst.shared");
}

#[test]
fn warps_without_tiles_neither_store_nor_read_too_early() {
    let part = "  warp_specialize {warps=[4, 1], registers=[0, 0]} () {
    yield []
  } () {
    yield []
  }
  return";
    let far = [PAIR[0], "Blocked([4, 1], [4, 8], [1, 4], [0, 1])"];
    for layouts in [PAIR, far] {
        check_changed(&layouts, &[("  return", part)], "st.shared");
    }
}

#[test]
fn ptxas_takes_every_form() {
    let count = MATRIX.len();
    for (at, (bits, dtypes)) in ELEMS.iter().enumerate() {
        for from in 0..count {
            let tensor = Tensor {
                shape: &[64, 64],
                dtype: dtypes[from % 2],
                bits: *bits,
                warps: 4,
            };
            let to = (from * 7 + at * 11 + 3) % count;
            let compiled = kernel::compiled(&tensor.kernel(MATRIX, &[from], &[to]));
            assembly::assemble(&compiled.module.to_text());
        }
    }
}

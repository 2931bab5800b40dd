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

mod family;
mod kernel;

use std::fmt::Write;

use family::{CUBE, CUBE_SHAPES, ELEMS, MATRIX, MATRIX_SHAPES, ROW, ROW_SHAPES};
use kernel::{Tensor, run};

/// All pairs of `layouts` on one shape, for one element type; the number of pairs.
fn check_pairs(layouts: &[&str], shape: &[u32], dtype: &str, bits: u32) -> usize {
    let tensor = Tensor { shape, dtype, bits };
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

//! Addresses that are computed from integers that wrapped around.

use emulator::FaultKind::IntegerOverflow;
use tilekit::prelude::*;

use crate::{Said, line};

/// The fourth row of a tensor whose rows have 2³⁰ words begins at word 2³², of which 32 bits leave the first word.
#[kernel(warps = 4, instances(<true>, <false>))]
fn row_of_long_rows<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let one = x.load();
    let (row, stride) = (one * 4, one * (1 << 30));
    let start = if WRONG {
        row * stride // rows: multiplies
    } else {
        (row.cast::<u32>() * stride.cast::<u32>()).cast::<i32>()
    };
    out.at(start + arange(0..128, line())).store(1);
}

#[test]
fn an_index_that_wraps_is_reported_unless_it_has_no_sign() {
    let said = Said {
        kinds: &[IntegerOverflow],
        source: include_str!("wraps.rs"),
        marks: &["rows: multiplies"],
    };
    said.of(1, row_of_long_rows::<true>, row_of_long_rows::<false>);
}

/// The middle of two places, by a sum that leaves 32 bits and by one that comes back.
#[kernel(warps = 4, instances(<true>, <false>))]
fn middle<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let one = x.load();
    let (low, high) = (one * i32::MAX - 8, one * i32::MAX);
    let middle = if WRONG {
        (low + high) / (one + 1) // middle: adds
    } else {
        low + (high - low) / 2
    };
    let at = if WRONG { middle + 4 } else { middle - low };
    out.at(at + arange(0..128, line())).store(1);
}

#[test]
fn a_sum_that_wraps_is_reported_and_one_that_comes_back_is_not() {
    let said = Said {
        kinds: &[IntegerOverflow],
        source: include_str!("wraps.rs"),
        marks: &["middle: adds"],
    };
    said.of(1, middle::<true>, middle::<false>);
}

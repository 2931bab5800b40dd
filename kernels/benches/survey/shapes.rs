//! Random shapes, the same ones in each run of a seed.

use std::fmt;

/// How extents of a shape are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Multiples of 64, but for few rows.
    Whole,
    /// N and K are multiples of 8, so that rows begin at multiples of 16 bytes.
    Aligned,
    /// Any numbers: rows begin anywhere.
    Ragged,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Whole => "whole",
            Kind::Aligned => "aligned",
            Kind::Ragged => "ragged",
        })
    }
}

/// M, N and K of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) size: [usize; 3],
    pub(crate) kind: Kind,
}

/// The extents between which M, N and K are drawn log-uniformly, and that of few rows.
const LEAST: f64 = 16.0;
const MOST: f64 = 16384.0;
const FEW: f64 = 256.0;

impl Shape {
    /// That of a size which is named.
    pub(crate) fn of(size: [usize; 3]) -> Shape {
        let all = |by: usize| size[1..].iter().all(|extent| extent % by == 0);
        let kind = match (all(64), all(8)) {
            (true, _) => Kind::Whole,
            (_, true) => Kind::Aligned,
            _ => Kind::Ragged,
        };
        Shape { size, kind }
    }
}

/// The first `count` shapes: kinds take turns, and of each three of one kind one has few rows.
pub(crate) fn shapes(count: usize, seed: usize) -> Vec<Shape> {
    let mut state = 0x5eed_u64 ^ (seed as u64) << 32;
    let mut uniform = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut extent = |most: f64| (LEAST * (most / LEAST).powf(uniform())).round() as usize;
    let kinds = [Kind::Whole, Kind::Aligned, Kind::Ragged];
    let mut shape = |number: usize| {
        let kind = kinds[number % 3];
        let has_few_rows = (number / 3).is_multiple_of(3);
        let [m, n, k] = [if has_few_rows { FEW } else { MOST }, MOST, MOST].map(&mut extent);
        let to = |by: usize| move |extent: usize| extent.next_multiple_of(by);
        let size = match kind {
            Kind::Whole if has_few_rows => [to(8)(m), to(64)(n), to(64)(k)],
            Kind::Whole => [m, n, k].map(to(64)),
            Kind::Aligned => [m, to(8)(n), to(8)(k)],
            Kind::Ragged => [m, n, k],
        };
        Shape { size, kind }
    };
    (0..count).map(&mut shape).collect()
}

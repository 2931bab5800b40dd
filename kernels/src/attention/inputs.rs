//! Queries and keys of cases, by what their scores are like.

use tilekit::prelude::*;

use super::mainloop::problem::ROWS;
use super::reference::Attention;

/// Q and K of a case, by their scores.
#[derive(Clone, Copy)]
pub(super) enum Inputs {
    /// Those of normal Q and K.
    Normal,
    /// Up to 1e4 above and below zero.
    Overlong,
    /// All below zero, those of every other row by hundreds.
    Low,
    /// All below zero, and the larger the earlier the key, but every fourth lowest: blocks go from the last key to the first. The largest of the
    /// first block is 0 to -180 as a power of 2, by warpgroup: with each element type some may keep their maxima, and some may not.
    /// 8-bit floats have one product for each score: beside a large one the 14 bits of a sum lose the small ones.
    Rising,
}

/// A number between -1 and 1 for an element.
fn noise(at: usize, seed: usize) -> f64 {
    ((at * 7919 + seed * 104_729) % 2003) as f64 / 1001.0 - 1.0
}

/// A number between -1 and 1 for an element, without a period.
fn mixed(at: usize, seed: usize) -> f64 {
    let bits = (at + (seed << 32)) as u64;
    let bits = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits >> 40) as f64 / f64::from(1 << 23) - 1.0
}

impl Inputs {
    /// Q and K of these shapes, whose last dimensions are tokens and depth; scores are products times `scale`. The largest number of e4m3 is 448.
    pub(super) fn of<T: DeviceElement, const RANK: usize>(
        self,
        case: &mut Case,
        [of_q, of_k]: [[usize; RANK]; 2],
        scale: f64,
    ) -> [Input<T>; 2] {
        let [queries, tokens] = [of_q, of_k].map(|of| of[RANK - 2]);
        let depth = of_q[RANK - 1];
        let unit = 4.0 / (scale * LOG2_E * tokens as f64);
        let most = if T::DTYPE.bits() == 8 { 0.0 } else { 0.25 };
        match self {
            Inputs::Normal => [("q", of_q), ("k", of_k)].map(|(name, of)| case.normal(name, of)),
            Inputs::Overlong => [("q", of_q), ("k", of_k)].map(|(name, of)| {
                case.input(name, of, by_first(depth, 0.0, |row| 300.0 * noise(row, 3)))
            }),
            Inputs::Low => [
                case.input("q", of_q, by_first(depth, 0.0, |row| [1.0, 300.0][row % 2])),
                case.input("k", of_k, by_first(depth, 0.0, |row| noise(row, 5) - 20.0)),
            ],
            Inputs::Rising => [
                case.input(
                    "q",
                    of_q,
                    by_first(depth, most, move |row| {
                        [0.0, 0.8, 3.0, 14.0, 40.0][row % queries / ROWS % 5]
                    }),
                ),
                case.input(
                    "k",
                    of_k,
                    by_first(depth, most, move |row| {
                        let token = if row % 4 == 1 { tokens } else { row % tokens };
                        -unit * (token + tokens / 8) as f64
                    }),
                ),
            ],
        }
    }
}

/// A tensor of concatenated sequences, of queries (`side` 0) or keys (1) with so many heads and columns: noise of standard deviation `spread`, and NaN and infinity in sequences that have no keys, or
/// no queries. No result has a part of these, and they follow others.
pub(super) fn of_sequences<T: DeviceElement>(
    case: &mut Case,
    name: &str,
    attention: &Attention,
    (side, heads, columns): (usize, usize, usize),
    spread: f64,
) -> Input<T> {
    let row = if attention.setup.tokens_first {
        heads * columns
    } else {
        columns
    };
    let is_alone: Vec<bool> = (0..attention.sizes.batch)
        .flat_map(|sequence| {
            let lengths = attention.lengths(sequence);
            vec![lengths.contains(&0); lengths[side]]
        })
        .collect();
    let seed = name.len() + columns + side;
    let element = move |at: usize| {
        let x = if is_alone[at / row % is_alone.len()] {
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][at % 3]
        } else {
            spread * 3f64.sqrt() * mixed(at, seed)
        };
        T::nearest(Number::Float(x)).expect("a float holds it")
    };
    case.input(name, attention.shape(side, heads, columns), element)
}

/// Rows of `depth` elements: `first` of the row, and noise up to `most`.
fn by_first<T: DeviceElement>(
    depth: usize,
    most: f64,
    first: impl Fn(usize) -> f64,
) -> impl Fn(usize) -> T {
    move |at| {
        let x = match at % depth {
            0 => first(at / depth),
            _ => most * noise(at, 1),
        };
        T::nearest(Number::Float(x)).expect("a float holds it")
    }
}

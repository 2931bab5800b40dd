//! Queries and keys of cases, by what their scores are like.

use tilekit::prelude::*;

use super::mainloop::problem::ROWS;

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

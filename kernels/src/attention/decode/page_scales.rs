//! Keys and values of 8 bits: their factors in memory, and the conversion to the type of the queries in shared memory.

use std::ops::Range;

use tilekit::prelude::*;

/// Rows that are converted at a time, which share a tensor of factors.
const AT_ONCE: usize = 64;

/// The factors of keys or of values, by page, head and token of the page; those that share a factor have a stride of 0.
#[derive(Clone, Copy)]
pub(in crate::attention) struct PageScales {
    pub(in crate::attention) scales: Ptr<f32>,
    pub(in crate::attention) strides: [Scalar<i64>; 3],
    /// Pages of the cache.
    pub(in crate::attention) pages: Scalar<i32>,
    pub(in crate::attention) columns: usize,
}

impl PageScales {
    /// The factor of all tokens of a head.
    #[device]
    pub(super) fn of_head(self, page: Scalar<i32>, head: Scalar<i32>) -> Scalar<f32> {
        let [of_page, of_head, _] = self.strides;
        let at = page.cast::<i64>() * of_page + head.cast::<i64>() * of_head;
        self.scales.at(at).load()
    }

    /// The factors of `piece` tokens of a page and head from a token on, of which `left` are of the sequence: a tensor for each step of [`convert`].
    /// None is read where the token is negative, before the first block.
    #[device]
    pub(super) fn of_piece(
        self,
        [page, head, token]: [Scalar<i32>; 3],
        left: Scalar<i32>,
        piece: usize,
    ) -> Vec<Tensor<f32>> {
        let at_once = piece.min(AT_ONCE);
        let [of_page, of_head, of_token] = self.strides;
        let first = page.cast::<i64>() * of_page + head.cast::<i64>() * of_head;
        let is_page = (page >= 0) & (page < self.pages) & (token >= 0);
        let step = |row: usize| {
            let row = row as i32 + arange(0..at_once, Slice::new(1, layout(self.columns, at_once)));
            let at = (token + row).cast::<i64>() * of_token + first;
            let factor = self.scales.at(at).mask(is_page & (row < left));
            factor.other(0.0).load()
        };
        (0..piece).step_by(at_once).map(step).collect()
    }
}

/// Threads of a partition over `rows` rows, of which each thread has 8 elements of each 128 bytes after conversion: lanes of a row store 16 bytes beside
/// each other, and lanes that read 8 bytes of several rows meet no bank twice.
fn layout(columns: usize, rows: usize) -> DistributedLinear {
    let mut registers = vec![[0, 1], [0, 2], [0, 4]];
    registers.extend((6..columns.ilog2()).map(|bit| [0, 1 << bit]));
    registers.extend((4..rows.ilog2()).map(|bit| [1 << bit, 0]));
    let [lanes, warps] = if columns > 64 {
        [[[4, 0], [1, 0]], [[2, 0], [8, 0]]]
    } else {
        [[[1, 0], [2, 0]], [[4, 0], [8, 0]]]
    };
    let lanes = [[0, 8], [0, 16], [0, 32], lanes[0], lanes[1]];
    DistributedLinear::new(registers, lanes, warps, [])
}

/// Stores the elements of `from`, times the factors of their rows and rounded once, to `to`.
#[device]
pub(super) fn convert<C: Element, T: Float>(factors: &[Tensor<f32>], from: Smem<C>, to: Smem<T>) {
    let [rows, columns] = [0, 1].map(|dim| from.shape()[dim] as usize);
    let at_once = rows / factors.len();
    for (step, factor) in factors.iter().enumerate() {
        let part = step * at_once..(step + 1) * at_once;
        let elements = from.slice(0, part.clone()).load(layout(columns, at_once));
        let scaled = elements.cast::<f32>() * factor.expand_dims(1);
        to.slice(0, part).store(scaled.cast::<T>());
    }
}

/// Stores the elements of `from`, which are numbers of f16, to `to`.
#[device]
pub(super) fn widen<C: Element, T: Float>(from: Smem<C>, to: Smem<T>) {
    static_assert!(
        T::DTYPE == f16::DTYPE,
        "floats of 8 bits are converted to f16"
    );
    let pairs = if C::DTYPE == E4m3::DTYPE {
        "e4m3x2"
    } else {
        "e5m2x2"
    };
    let text = format!(
        "{{ .reg .b16 a, b; mov.b32 {{a, b}}, $2; cvt.rn.f16x2.{pairs} $0, a; cvt.rn.f16x2.{pairs} $1, b; }}"
    );
    let [rows, columns] = [0, 1].map(|dim| from.shape()[dim] as usize);
    let at_once = rows.min(AT_ONCE);
    for first in (0..rows).step_by(at_once) {
        let part = from.slice(0, first..first + at_once);
        let elements = part.load(layout(columns, at_once));
        let numbers: Tensor<T> = inline_ptx_packed(4, &text, elements);
        to.slice(0, first..first + at_once).store(numbers);
    }
}

/// Stores queries as f16 in their place, times the power of two by which the largest of a tile is below 2^8: all that f16 cannot hold then is below 2^-30 of it. Returns the factor
/// of what is computed from them.
#[device]
pub(super) fn narrow_range<T: Float, U: Float>(from: Smem<T>, to: Smem<U>) -> Scalar<f32> {
    /// Rows that are read at a time.
    const ROWS: usize = 16;
    /// The bits of the exponent of an f32, one unit of it, and those of 2^-63, 2^63 and 1.
    const EXPONENT: i32 = 0x7f80_0000;
    const UNIT: i32 = 1 << 23;
    const LEAST: i32 = 64 * UNIT;
    const MOST: i32 = 190 * UNIT;
    const ONE: i32 = 127 * UNIT;
    let [rows, columns] = [0, 1].map(|dim| from.shape()[dim] as usize);
    let lanes = (columns / 8).min(32);
    let layout = Blocked::new([1, 8], [32 / lanes, lanes], [4, 1], [1, 0]);
    let parts: Vec<_> = (0..rows).step_by(ROWS).map(|row| row..row + ROWS).collect();
    let read = |part: &Range<usize>| {
        let numbers = from.slice(0, part.clone()).load(layout.clone());
        numbers.cast::<f32>()
    };
    let mut most = read(&parts[0]).abs();
    for part in &parts[1..] {
        most = maximum(most, read(part).abs());
    }
    let largest = most.max(1).max(0).scalar();
    let exponent = largest.bitcast::<i32>() & EXPONENT;
    let exponent = minimum(maximum(exponent, LEAST), MOST) - 7 * UNIT;
    let factor = (2 * ONE - exponent).bitcast::<f32>();
    for part in &parts {
        let numbers = read(part) * factor;
        to.slice(0, part.clone()).store(numbers.cast::<U>());
    }
    fence_async_shared();
    exponent.bitcast::<f32>()
}

//! Weights as kernels read them, packed on the device.

use tilekit::prelude::*;

use super::decode::Unquantised;
use super::format::{LOADED, STEP, STRIP, WeightValues};

/// Packs the codes `[n, k]`, one in a byte, or two, of which that of even k is the lower half: byte `[i, j]` is at `weights + i * row_step + j * column_step`. A CTA packs a block. Codes
/// outside stand for 0: times the scale of a whole row, which is that of codes behind its last column too, others may be infinite. Where groups have zeros, the first of row `i` is at
/// `zeros + i * zeros_row_step`.
#[kernel(warps = 4)]
pub fn pack_codes(
    #[fixed] values: WeightValues,
    #[readonly]
    #[align(1)]
    weights: Ptr<u8>,
    row_step: i64,
    column_step: i64,
    #[readonly]
    #[align(1)]
    zeros: Ptr<u8>,
    zeros_row_step: i64,
    words: Ptr<u32>,
    n: i32,
    k: i32,
) {
    let [step, strip] = [program_id(0), program_id(1)];
    let block = values.block_words();
    let at = arange(0..block, Blocked::new([LOADED], [32], [4], [0]));
    let (chunk, thread, word) = (
        at / (LOADED * 2 * STRIP),
        at / LOADED % (2 * STRIP),
        at % LOADED,
    );
    let row = thread / 32 * 16 + thread % 32 / 4 + strip * STRIP;
    let part = word / values.part_words() * 16 + word % values.part_words() * 8;
    let along = chunk * values.chunk() + part + thread % 4 * 2 + step * STEP;
    let code = |row: Tensor<i32>, along: Tensor<i32>| {
        let column = along * values.bits() / 8;
        let byte = row.cast::<i64>() * row_step + column.cast::<i64>() * column_step;
        let inside = (row < n) & (along < k);
        let code = weights.at(byte).mask(inside);
        let code = if values.has_zeros() {
            let zero = zeros.at(row.cast::<i64>() * zeros_row_step);
            let zero = zero.mask(row < n).other(0).load() & 15;
            code.other(zero | zero << 4).load()
        } else {
            // Two of 4 bits; of 8 bits it is 0.
            code.other(values.nothing(0) * 0x11).load()
        };
        code.cast::<u32>()
    };
    let mut packed = zeros_like(at).cast::<u32>();
    for place in 0..32 / values.bits() / 2 {
        let (row, along) = (row + place % 2 * 8, along + place / 2 * 8);
        let [first, second] = if values.bits() == 4 {
            let both = code(row, along);
            [both & 15, both >> 4]
        } else {
            [code(row, along), code(row, along + 1)]
        };
        packed = packed | first << (values.bits() * place) | second << (values.bits() * place + 16);
    }
    let first = (strip * num_programs(0) + step) * block;
    words.at(first + at).store(packed);
}

/// Packs the scales `[n, groups]`, and their zeros if there are some, from 0 to 15: those of row `i` and group `j` are at `i * row_step + j * column_step`. A CTA packs those of a strip and a
/// group; what is outside is 0.
#[kernel(warps = 2)]
pub fn pack_scales<T: Unquantised>(
    #[fixed] has_zeros: bool,
    #[readonly]
    #[align(size_of::<T>())]
    scales: Ptr<T>,
    row_step: i64,
    column_step: i64,
    #[readonly]
    #[align(1)]
    zeros: Ptr<u8>,
    zeros_row_step: i64,
    zeros_column_step: i64,
    packed: Ptr<T>,
    n: i32,
    groups: i32,
) {
    let [group, strip] = [program_id(0), program_id(1)];
    let at = arange(0..STRIP, Blocked::new([1], [32], [2], [0]));
    let row = at / 16 * 16 + at % 2 * 8 + at % 16 / 2 + strip * STRIP;
    let inside = (row < n) & (group < groups);
    let place = |row_step: Scalar<i64>, column_step: Scalar<i64>| {
        row.cast::<i64>() * row_step + group.cast::<i64>() * column_step
    };
    let kinds = 1 + usize::from(has_zeros);
    let to = packed + (strip * num_programs(0) + group) * (kinds * STRIP);
    let scale = scales.at(place(row_step, column_step));
    to.at(at).store(scale.mask(inside).other(T::ZERO).load());
    if has_zeros {
        let zero = zeros.at(place(zeros_row_step, zeros_column_step));
        let zero = zero.mask(inside).other(0).load().cast::<f32>();
        to.at(at + STRIP).store((zero + T::BASE).cast::<T>());
    }
}

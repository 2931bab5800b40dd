//! From packed words to operand A of the tensor cores, in registers.

use tilekit::prelude::*;

use super::format::{LOADED, STRIP, WeightValues};
use crate::products::factor::Operand;

/// An element type that weights are decoded to, that of the activations: bf16 or f16.
pub trait Unquantised: Operand<Sum = f32> + Float {
    /// What decoding adds to a weight: the number whose last bits are worth 1, 128 of bf16 and 1024 of f16.
    const BASE: f32;

    /// The base with the weight that stands for 0 where there are no zeros, 8.
    #[doc(hidden)]
    const OFFSET: Self;

    /// The nearest number. `from_f64` of `half` drops 32 bits of it before it rounds, and takes what is just above a tie for one.
    #[doc(hidden)]
    fn of(number: f64) -> Self {
        Self::nearest(Number::Float(number)).expect("each number has a nearest float")
    }

    /// What decoded floats lack, a power of two.
    #[doc(hidden)]
    const E2M1_FACTOR: Self;
    #[doc(hidden)]
    const E4M3_FACTOR: Self;

    /// From a word, the operand after the results, to its weights, two a register: whole numbers plus the base, or floats that a factor is missing of.
    #[doc(hidden)]
    fn decoding(values: WeightValues) -> &'static str;
}

/// Four bits of each half of a word, moved to its lowest ones, become the last bits of a number: `(w >> 4 j) & 0x000f000f | base`.
macro_rules! decoding {
    ($base:literal) => {
        concat!(
            "{ .reg .b32 t; lop3.b32 $0, $4, 0x000f000f, ",
            $base,
            ", 0xea; shr.u32 t, $4, 4; lop3.b32 $1, t, 0x000f000f, ",
            $base,
            ", 0xea; shr.u32 t, $4, 8; lop3.b32 $2, t, 0x000f000f, ",
            $base,
            ", 0xea; shr.u32 t, $4, 12; lop3.b32 $3, t, 0x000f000f, ",
            $base,
            ", 0xea; }"
        )
    };
}

/// Of each half of a word, the sign of a float becomes that of a number, and its other bits the last ones of the exponent and the first ones of the mantissa: the bias of the exponent is another.
macro_rules! floats {
    ($mask:literal: $($to:literal = $sign:literal | $others:literal),*) => {
        concat!(
            "{ .reg .b32 s, t; ",
            $($sign, "; and.b32 s, s, 0x80008000; ", $others, "; lop3.b32 ", $to, ", t, ", $mask, ", s, 0xea; ",)*
            "}"
        )
    };
}

impl Unquantised for bf16 {
    const BASE: f32 = 128.0;
    const OFFSET: bf16 = bf16::from_bits(0x4308);
    const E2M1_FACTOR: bf16 = bf16::from_bits((126 + 127) << 7);
    const E4M3_FACTOR: bf16 = bf16::from_bits((120 + 127) << 7);

    fn decoding(values: WeightValues) -> &'static str {
        match values {
            WeightValues::Int4 | WeightValues::Int4Zeros => decoding!("0x43004300"),
            WeightValues::E2m1 => floats!("0x01c001c0":
                "$0" = "shl.b32 s, $4, 12" | "shl.b32 t, $4, 6",
                "$1" = "shl.b32 s, $4, 8" | "shl.b32 t, $4, 2",
                "$2" = "shl.b32 s, $4, 4" | "shr.u32 t, $4, 2",
                "$3" = "mov.b32 s, $4" | "shr.u32 t, $4, 6"),
            WeightValues::E4m3 => floats!("0x07f007f0":
                "$0" = "shl.b32 s, $2, 8" | "shl.b32 t, $2, 4",
                "$1" = "mov.b32 s, $2" | "shr.u32 t, $2, 4"),
        }
    }
}

impl Unquantised for f16 {
    const BASE: f32 = 1024.0;
    const OFFSET: f16 = f16::from_bits(0x6408);
    const E2M1_FACTOR: f16 = f16::from_bits((14 + 15) << 10);
    const E4M3_FACTOR: f16 = f16::from_bits((8 + 15) << 10);

    fn decoding(values: WeightValues) -> &'static str {
        match values {
            WeightValues::Int4 | WeightValues::Int4Zeros => decoding!("0x64006400"),
            WeightValues::E2m1 => floats!("0x0e000e00":
                "$0" = "shl.b32 s, $4, 12" | "shl.b32 t, $4, 9",
                "$1" = "shl.b32 s, $4, 8" | "shl.b32 t, $4, 5",
                "$2" = "shl.b32 s, $4, 4" | "shl.b32 t, $4, 1",
                "$3" = "mov.b32 s, $4" | "shr.u32 t, $4, 3"),
            WeightValues::E4m3 => floats!("0x3f803f80":
                "$0" = "shl.b32 s, $2, 8" | "shl.b32 t, $2, 7",
                "$1" = "mov.b32 s, $2" | "shr.u32 t, $2, 1"),
        }
    }
}

/// The layout of sums of instructions of `columns`.
pub(super) fn sums(columns: usize) -> Wgmma {
    Wgmma::new([4, 1], [STRIP, columns, 16])
}

/// The layout of their operand A.
pub(super) fn operand(columns: usize) -> DotOperand {
    DotOperand::new(0, sums(columns), 2)
}

/// The scales of rows, and what is subtracted before.
#[derive(Clone, Copy)]
pub(super) struct Scales<T> {
    pub(super) scales: Tensor<T>,
    pub(super) offsets: Option<Tensor<T>>,
}

impl<T: Unquantised> Scales<T> {
    /// Of a tile `[kinds, 64]` as they are packed.
    #[track_caller]
    pub(super) fn load(tile: Smem<T>, has_zeros: bool, columns: usize) -> Self {
        let rows = DistributedLinear::new(
            [[0, 1]],
            [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]],
            [[8, 0], [16, 0]],
            [],
        );
        let kind = |kind: usize| {
            let pairs = tile.index(kind).reshape([STRIP / 2, 2]).load(rows.clone());
            let of_rows = pairs.reshape([4, 8, 2]).permute([0, 2, 1]).reshape([STRIP]);
            of_rows.convert_layout_trivial(Slice::new(1, operand(columns)))
        };
        Scales {
            scales: kind(0),
            offsets: has_zeros.then(|| kind(1)),
        }
    }

    /// Those of whole rows, whose strip begins at `first`.
    #[track_caller]
    pub(super) fn of_rows(
        packed: Ptr<T>,
        first: Scalar<i32>,
        has_zeros: bool,
        columns: usize,
    ) -> Self {
        let row = arange(0..STRIP, Slice::new(1, operand(columns)));
        let at = row / 16 * 16 + row % 8 * 2 + row / 8 % 2 + first;
        Scales {
            scales: packed.at(at).load(),
            offsets: has_zeros.then(|| packed.at(at + STRIP).load()),
        }
    }
}

/// The words of a chunk of a strip, `[128, 4]`.
#[track_caller]
pub(super) fn words_of(chunk: Smem<u32>, values: WeightValues) -> Tensor<u32> {
    let each = 32 / values.bits();
    let threads = Blocked::new([1, LOADED, each], [32, 1, 1], [4, 1, 1], [2, 1, 0]);
    chunk.load(Slice::new(2, threads))
}

/// What words `[128, parts · values.part_words()]` decode to, `[64, 16 · parts]`: whole numbers plus the base, or floats that a factor is missing of.
#[track_caller]
pub(super) fn numbers<T: Unquantised>(
    words: Tensor<u32>,
    values: WeightValues,
    columns: usize,
) -> Tensor<T> {
    let count = words.shape()[1] as usize;
    let (each, parts) = (32 / values.bits(), count / values.part_words());
    let spread = words.expand_dims(2).broadcast_to([2 * STRIP, count, each]);
    let numbers: Tensor<T> = inline_ptx_packed(each as u32, T::decoding(values), spread);
    // Warp, row of a lane, pair of a lane; part, half along K, half along rows, element of a pair.
    let numbers = numbers.reshape([4, 8, 4, parts, 2, 2, 2]);
    let numbers = numbers.permute([0, 5, 1, 3, 4, 2, 6]);
    let numbers = numbers.reshape([STRIP, 16 * parts]);
    numbers.convert_layout_trivial(operand(columns))
}

/// What their codes stand for. Differences are exact, and products with a power of two.
#[track_caller]
pub(super) fn meant<T: Unquantised>(
    numbers: Tensor<T>,
    values: WeightValues,
    offsets: Option<Tensor<T>>,
) -> Tensor<T> {
    match (values, offsets) {
        (WeightValues::E2m1, _) => numbers * scalar(T::E2M1_FACTOR),
        (WeightValues::E4m3, _) => numbers * scalar(T::E4M3_FACTOR),
        (_, Some(offsets)) => numbers - offsets.expand_dims(1),
        (_, None) => numbers - scalar(T::OFFSET),
    }
}

/// Weights of words.
#[track_caller]
pub(super) fn decode<T: Unquantised>(
    words: Tensor<u32>,
    values: WeightValues,
    scales: Scales<T>,
    columns: usize,
) -> Tensor<T> {
    let meant = meant(numbers(words, values, columns), values, scales.offsets);
    meant * scales.scales.expand_dims(1)
}

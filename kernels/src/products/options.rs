//! What a call does beside multiplying.

use tilekit::{Buffer, TensorView};

use super::epilogue::{Activation, Axis, Scales, Standard};
use super::factor::Stored;
use super::given::Given;

/// How exactly f32 is multiplied on tensor cores, which have no f32. Sums are f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Operands are rounded to tf32, 11 bits: the error of a product is up to 2^-11 of it for each of them.
    #[default]
    Tf32,
    /// Operands of 22 bits, by three products of tf32 (3xtf32): the error of a result is below 1e-6 of the sum of magnitudes of its products, near that of f32, at a third of the rate. Where A or B has an infinity, the row or column comes out as NaN or infinite, and
    /// numbers from 3.402e38 on count as infinities. Numbers below 1e-35 have fewer bits.
    Tf32x3,
}

/// `C = activation(alpha · scales of A · scales of B · A·B + bias + beta · source)`. The default is the product alone.
///
/// All of it but the product is computed in f32, also where A and B are i8 and C and what is added to it i32: whole numbers are exact to 2²⁴, and a C of i32 that is larger is
/// rounded even by `beta` of 1. A C of i32 loses its fraction, as by `as i32`, and is the nearest i32 of what is beyond all of them. The product alone is exact in i32.
#[derive(Clone, Copy)]
pub struct Options<'a, O: Stored> {
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of the source. The source is not read where it is 0.
    pub beta: f32,
    /// A matrix of the shape of C, whose memory is C's own or apart from it; C itself, as it was before, if there is none.
    pub source: Option<&'a TensorView<'a, O::Addend>>,
    /// Factors of A: one, or one for each row.
    pub a_scales: Option<&'a Buffer<f32>>,
    /// Factors of B: one, or one for each column.
    pub b_scales: Option<&'a Buffer<f32>>,
    /// A number that is added to each row or column.
    pub bias: Option<(&'a Buffer<O::Addend>, Axis)>,
    /// What happens in the end.
    pub activation: Activation,
    /// How exactly f32 is multiplied. Other types have no choice, and neither have products of groups.
    pub precision: Precision,
    /// Whether A and B are written by no launch that may be unfinished when this one begins: weights, say. They are then loaded while launches in front end, by the kernels that can; without, nothing is read before
    /// those have ended. Where a launch in front writes such a matrix after all, its numbers of before may be read.
    pub are_settled: [bool; 2],
}

impl<O: Stored> Default for Options<'_, O> {
    fn default() -> Self {
        Options {
            alpha: 1.0,
            beta: 0.0,
            source: None,
            a_scales: None,
            b_scales: None,
            bias: None,
            activation: Activation::None,
            precision: Precision::Tf32,
            are_settled: [false; 2],
        }
    }
}

impl<O: Stored> Options<'_, O> {
    /// Whether the product is stored as it is.
    pub(super) fn are_plain(&self) -> bool {
        let has_none = self.a_scales.is_none() && self.b_scales.is_none() && self.bias.is_none();
        let is_scaled = self.alpha.to_bits() != 1.0_f32.to_bits();
        has_none && !is_scaled && !self.has_source() && self.activation == Activation::None
    }

    pub(super) fn has_source(&self) -> bool {
        self.beta != 0.0
    }

    /// What an author's epilogue of a result of this shape may read.
    pub(super) fn given(&self, shape: [usize; 2]) -> Given {
        let counts = [self.a_scales, self.b_scales].map(|scales| scales.map(Buffer::len));
        let axis = self.bias.map(|(_, axis)| axis);
        Given {
            halves: false,
            source: self.has_source(),
            bias: [Axis::Rows, Axis::Columns].map(|of| axis == Some(of)),
            scale: counts.map(|count| count == Some(1)),
            scales: [0, 1].map(|side| counts[side] == Some(shape[side])),
        }
    }

    /// What a kernel is compiled for.
    pub(super) fn epilogue(&self) -> Standard {
        let of = |scales: Option<&Buffer<f32>>| match scales.map(Buffer::len) {
            None => Scales::None,
            Some(1) => Scales::One,
            Some(_) => Scales::Each,
        };
        Standard {
            scales: [of(self.a_scales), of(self.b_scales)],
            bias: self.bias.map(|(_, axis)| axis),
            has_source: self.has_source(),
            activation: self.activation,
        }
    }
}

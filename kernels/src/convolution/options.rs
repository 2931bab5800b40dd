//! What a call of a convolution says beside its tensors.

use tilekit::prelude::*;
use tilekit::{Buffer, TensorView};

use crate::products::epilogue::{Activation, Axis, Scales, Standard};

/// How filters move over images, and what happens to sums: `activation(scales · sums + bias + beta · source)`. Lists have a number for each spatial dimension, or
/// one for all.
#[derive(Clone, Copy)]
pub struct Options<'a, T> {
    /// Input pixels from one output pixel to the next.
    pub stride: &'a [usize],
    /// Pixels of zeros on each side of an image.
    pub padding: &'a [usize],
    /// Input pixels from one tap of a filter to the next.
    pub dilation: &'a [usize],
    /// Groups of channels, each with its own filters.
    pub groups: usize,
    /// A factor of each filter.
    pub scales: Option<&'a Buffer<f32>>,
    /// A number for each filter.
    pub bias: Option<&'a Buffer<T>>,
    /// The factor of the source, which is not read where it is 0.
    pub beta: f32,
    /// A tensor of the result's shape that is added, whose memory is the result's own or apart from it; the result itself, as it was before, if there is none.
    pub source: Option<&'a TensorView<'a, T>>,
    /// What happens in the end.
    pub activation: Activation,
}

impl<T> Default for Options<'_, T> {
    fn default() -> Self {
        Options {
            stride: &[1],
            padding: &[0],
            dilation: &[1],
            groups: 1,
            scales: None,
            bias: None,
            beta: 0.0,
            source: None,
            activation: Activation::None,
        }
    }
}

impl<T: DeviceElement> Options<'_, T> {
    /// What a kernel is compiled for; none where sums are stored as they are.
    pub(super) fn epilogue(&self) -> Option<Standard> {
        let epilogue = Standard {
            scales: [
                Scales::None,
                self.scales.map_or(Scales::None, |_| Scales::Each),
            ],
            bias: self.bias.map(|_| Axis::Columns),
            has_source: self.beta != 0.0,
            activation: self.activation,
        };
        (epilogue != Standard::default()).then_some(epilogue)
    }
}

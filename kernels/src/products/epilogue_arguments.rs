//! What a launch passes for the numbers of a call that an epilogue may use.

use tilekit::prelude::*;
use tilekit::{Argument, Buffer, Packing};

use super::check::View;
use super::epilogue::Data;
use super::matrix::Matrix;

/// The source in rows, the bias, the scales of A and B, and `alpha` and `beta`. What a call does not have is any buffer, which nothing reads.
pub(super) struct EpilogueArguments<'a, O> {
    pub(super) source: (View<'a, O>, Matrix),
    pub(super) bias: &'a Buffer<O>,
    pub(super) scales: [&'a Buffer<f32>; 2],
    pub(super) alpha_beta: [f32; 2],
}

impl<O: DeviceElement, const ANYWHERE: bool> Argument<Data<O, ANYWHERE>>
    for &EpilogueArguments<'_, O>
{
    fn pack(&self, packing: &mut Packing<'_>) -> tilekit::Result<()> {
        let ([alpha, beta], (source, place)) = (self.alpha_beta, &self.source);
        let fields = (
            alpha,
            beta,
            source,
            place.strides[0] as i32,
            place.step_of_batch() as i64,
            self.bias,
            self.scales,
        );
        Argument::<Data<O, ANYWHERE>>::pack(&fields, packing)
    }
}

//! What a launch passes for the numbers of a call that an epilogue may use.

use tilekit::{Argument, Buffer, Packing};

use super::check::View;
use super::epilogue::Data;
use super::factor::Stored;
use super::matrix::Matrix;
use super::output_handles::{GivenOutputs, NoOutputs, OutputHandles};

/// The source in rows, the bias, the scales of A and B, and `alpha` and `beta`. What a call does not have is any buffer, which nothing reads.
pub(super) struct EpilogueArguments<'a, O: Stored> {
    pub(super) source: (View<'a, O::Addend>, Matrix),
    pub(super) bias: &'a Buffer<O::Addend>,
    pub(super) scales: [&'a Buffer<f32>; 2],
    pub(super) alpha_beta: [f32; 2],
    /// What the epilogue stores beside the result, packed as its type of handles.
    pub(super) outputs: &'a dyn PackOutputs,
}

/// What a call stores beside the result, and where.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    pub(super) given: GivenOutputs,
    pub(super) outputs: &'a dyn PackOutputs,
}

impl Beside<'_> {
    pub(super) const NOTHING: Beside<'static> = Beside {
        given: GivenOutputs::NONE,
        outputs: &NoOutputs,
    };
}

/// Packs the arguments of what an epilogue stores beside the result.
pub(super) trait PackOutputs {
    fn pack(&self, packing: &mut Packing<'_>) -> tilekit::Result<()>;
}

/// Of an epilogue that stores the result alone.
impl PackOutputs for NoOutputs {
    fn pack(&self, _: &mut Packing<'_>) -> tilekit::Result<()> {
        Ok(())
    }
}

/// What a case passes.
impl Argument<NoOutputs> for NoOutputs {
    fn pack(&self, _: &mut Packing<'_>) -> tilekit::Result<()> {
        Ok(())
    }
}

impl<O: Stored, X: OutputHandles, const ANYWHERE: bool> Argument<Data<O, X, ANYWHERE>>
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
            NoOutputs,
        );
        Argument::<Data<O, NoOutputs, ANYWHERE>>::pack(&fields, packing)?;
        self.outputs.pack(packing)
    }
}

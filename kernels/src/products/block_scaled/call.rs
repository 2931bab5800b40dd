//! Products with scales for blocks as a program calls them, and what those of groups share with them.

use std::any::TypeId;

use tilekit::prelude::*;

use super::check::{Call, Kind, Scaled};
use super::dense::block_scaled;
use super::few_tiles::{FewScaledTile, block_scaled_few_tiles};
use super::plan::{ScaledPlan, best};
use super::which::ScaledWhich;
use crate::handles::handles;
use crate::products::call::Products;
use crate::products::check::View;
use crate::products::error::Result;
use crate::products::factor::{Operand, ResultOf, unit};
use crate::products::kept_kernels::Which;
use crate::products::operands::InRows;
use crate::products::workspace::Role;

/// The parameters of `block_scaled`.
type DenseHandles<T, O> = handles! {
    a b: TensorMap<T>,
    a_scales: TensorMap<f32>,
    c: TensorMap<O>,
    b_scales: Ptr<f32>,
    b_scales_of_columns b_scales_of_steps m n k: Scalar<i32>,
};

/// The parameters of `block_scaled_few_tiles`.
type FewHandles<T, O> = handles! {
    a b: TensorMap<T>,
    a_scales: TensorMap<f32>,
    out: Ptr<O>,
    pitch: Scalar<i32>,
    b_scales: Ptr<f32>,
    b_scales_of_columns b_scales_of_steps m n k: Scalar<i32>,
};

/// The matrices of a call as kernels take them.
pub(super) struct Places<T, O> {
    pub(super) factors: [InRows<T>; 2],
    /// Scales of rows of A, which follow each other.
    pub(super) a_scales: InRows<f32>,
    pub(super) result: InRows<O>,
}

impl Products {
    /// `C[M, N] = A[M, K] · B[K, N]` of 8-bit floats with scales for blocks: of A one for each 128 elements of a row, of B one for each block of 128 by 128. Products of
    /// 128 elements along K are summed by the tensor cores, scaled, and added in f32; C is rounded once. A scale that is NaN makes what it stands for NaN.
    ///
    /// Rows of A and columns of B lie along K, at multiples of 16 bytes, and scales of A along M; what lies otherwise is copied first. So is C where its rows do not begin and end at
    /// multiples of 16 bytes.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::products::{Products, Scaled};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let products = Products::new(&device);
    ///
    /// let (m, n, k) = (40, 24, 256);
    /// let x = Buffer::from_slice(&device, &vec![bf16::from_f32(3.0); m * k])?;
    /// let weights = Buffer::from_slice(&device, &vec![bf16::from_f32(0.5); n * k])?;
    /// let (x, x_scales) = products.quantise_rows(&stream, &x.view([m, k]))?;
    /// let (weights, weights_scales) = products.quantise_blocks(&stream, &weights.view([n, k]))?;
    ///
    /// let c = Buffer::<bf16>::zeros(&device, m * n)?;
    /// let a = Scaled {
    ///     values: &x.view([m, k]),
    ///     scales: &x_scales.view([m, 2]).with_strides([1, m]),
    /// };
    /// // The weights are rows of outputs; B is their transpose.
    /// let b = Scaled {
    ///     values: &weights.view([k, n]).with_strides([1, k]),
    ///     scales: &weights_scales.view([2, 1]).with_strides([1, 2]),
    /// };
    /// products.block_scaled(&stream, a, b, &c.view([m, n]))?;
    /// stream.synchronize()?;
    /// assert!(c.to_vec()?.iter().all(|&x| x == bf16::from_f32(384.0)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](super::super::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn block_scaled<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        a: Scaled<'_, T>,
        b: Scaled<'_, T>,
        c: &View<'_, O>,
    ) -> Result<()> {
        let call = Call::check(Kind::Dense, [a, b], c)?;
        let [m, n, k] = call.size;
        if m == 0 || n == 0 {
            return Ok(());
        }
        if k == 0 {
            return self.copy(stream, None, (c.source(), call.result));
        }
        let _turn = stream.turn();
        let places = self.places(stream, &call, [a, b], (c, false))?;
        match best(call.size) {
            ScaledPlan::Many(tile, programs) => {
                self.launch_many(stream, &call, [a, b], (c, &places), (tile, programs))?;
            }
            ScaledPlan::Few(tile, grid) => {
                self.launch_few(stream, &call, [a, b], (c, &places), (tile, grid))?;
            }
        }
        self.copy_back(stream, &places.result, (c.source(), call.result))
    }

    /// Launches `block_scaled`.
    fn launch_many<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        call: &Call,
        [a, b]: [Scaled<'_, T>; 2],
        (c, places): (&View<'_, O>, &Places<T, O>),
        (tile, programs): (super::ScaledTile, usize),
    ) -> Result<()> {
        let which = Which::Scaled(ScaledWhich::Dense(tile));
        let key = (TypeId::of::<(T, O)>(), which);
        let kernel = self.kernel::<DenseHandles<T, O>>(key, || {
            fixed(block_scaled::<T, O>, tile).compile(self.compiler())
        })?;
        let ([of_steps, of_columns], [m, n, k]) = (along(call), call.size);
        kernel.launch(
            stream,
            self.programs_of(programs, tile.ctas()),
            (
                places.factors[0].view(a.values.source()),
                places.factors[1].view(b.values.source()),
                places.a_scales.view(a.scales.source()),
                places.result.view(c.source()),
                b.scales,
                of_columns,
                of_steps,
                m as i32,
                n as i32,
                k as i32,
            ),
        )?;
        Ok(())
    }

    /// Launches `block_scaled_few_tiles`.
    fn launch_few<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        call: &Call,
        [a, b]: [Scaled<'_, T>; 2],
        (c, places): (&View<'_, O>, &Places<T, O>),
        (tile, grid): (FewScaledTile, [usize; 2]),
    ) -> Result<()> {
        let which = Which::Scaled(ScaledWhich::Few(tile));
        let key = (TypeId::of::<(T, O)>(), which);
        let kernel = self.kernel::<FewHandles<T, O>>(key, || {
            fixed(block_scaled_few_tiles::<T, O>, tile).compile(self.compiler())
        })?;
        let ([of_steps, of_columns], [m, n, k]) = (along(call), call.size);
        kernel.launch(
            stream,
            grid,
            (
                places.factors[0].view(a.values.source()),
                places.factors[1].view(b.values.source()),
                places.a_scales.view(a.scales.source()),
                &places.result.view(c.source()),
                places.result.place.strides[0] as i32,
                b.scales,
                of_columns,
                of_steps,
                m as i32,
                n as i32,
                k as i32,
            ),
        )?;
        Ok(())
    }

    /// Matrices where they are, or copies; of C if it is read too.
    pub(super) fn places<T: Operand, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        call: &Call,
        [a, b]: [Scaled<'_, T>; 2],
        (c, is_read): (&View<'_, O>, bool),
    ) -> Result<Places<T, O>> {
        let of = |side: usize| (call.factors[side], call.taken[side]);
        let of_a = call.scales[0].transposed();
        let of_c = (Role::Result, c.source());
        // TMA stores write rows in units of 16 bytes, and what lies beside C is not written.
        let result = if call.size[1].is_multiple_of(unit::<O>()) {
            self.placed(stream, of_c, call.result, is_read)?
        } else {
            self.apart(stream, of_c, call.result, is_read)?
        };
        Ok(Places {
            factors: [
                self.factor(stream, (Role::X, a.values.source()), of(0))?,
                self.factor(stream, (Role::Y, b.values.source()), of(1))?,
            ],
            a_scales: self.placed(stream, (Role::Scales, a.scales.source()), of_a, true)?,
            result,
        })
    }

    /// The emulator has some threads, not 132.
    pub(in crate::products) fn programs(&self, on_gpu: usize) -> usize {
        self.programs_of(on_gpu, 1)
    }

    /// The same in clusters of so many.
    pub(super) fn programs_of(&self, on_gpu: usize, ctas: usize) -> usize {
        if self.device().is_cuda() {
            on_gpu
        } else {
            on_gpu.min(3 * ctas)
        }
    }
}

/// Elements from one scale of B to the next along K, and along columns.
pub(super) fn along(call: &Call) -> [i32; 2] {
    let [of_columns, of_steps] = call.scales[1].strides;
    [of_steps as i32, of_columns as i32]
}

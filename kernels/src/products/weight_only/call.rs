//! Products with packed weights as a program calls them.

use std::any::TypeId;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::check::{WeightCall, one_matrix};
use super::decode::Unquantised;
use super::few::weight_only_few;
use super::format::STRIP;
use super::launch::{FewHandles, ManyHandles, WeightLaunch, WeightWhich};
use super::many::weight_only_many;
use super::pack::{pack_codes, pack_scales};
use super::packed::{PackedWeights, check_shape, check_zeros};
use super::plan::{WeightCallPlan, WeightPlan, WeightTile};
use super::{WeightFormat, WeightValues};
use crate::handles::handles;
use crate::products::call::Products;
use crate::products::check::View;
use crate::products::check_matrices::check_along_y;
use crate::products::epilogue::{Epilogue, Plain};
use crate::products::epilogue_arguments::EpilogueArguments;
use crate::products::error::{Result, expect};
use crate::products::factor::ResultOf;
use crate::products::kept_kernels::Which;
use crate::products::matrix::Matrix;
use crate::products::operands::added;
use crate::products::options::Options;
use crate::products::output_handles::NoOutputs;
use crate::products::workspace::{Role, workspace};

/// The parameters of `pack_codes`.
type PackHandles = handles! {
    weights: Ptr<u8>,
    row_step column_step: Scalar<i64>,
    zeros: Ptr<u8>,
    zeros_row_step: Scalar<i64>,
    words: Ptr<u32>,
    n k: Scalar<i32>,
};

/// The parameters of `pack_scales`.
type ScalesHandles<T> = handles! {
    scales: Ptr<T>,
    row_step column_step: Scalar<i64>,
    zeros: Ptr<u8>,
    zeros_row_step zeros_column_step: Scalar<i64>,
    packed: Ptr<T>,
    n groups: Scalar<i32>,
};

/// Weights on the device, before they are packed. Views have any strides.
#[derive(Clone, Copy)]
pub struct DeviceWeights<'a, T> {
    /// Codes: of 4 bits `[N, K / 2]`, two in a byte, that of even k in the lower half; of 8 bits `[N, K]`.
    pub weights: &'a View<'a, u8>,
    /// `[N, K / group]`, or `[N, 1]` for whole rows.
    pub scales: &'a View<'a, T>,
    /// Zeros from 0 to 15, of the shape of the scales. Without them they are 8.
    pub zeros: Option<&'a View<'a, u8>>,
}

impl Products {
    /// Packs weights for [`weight_only`](Products::weight_only), by launches in the order of the stream. Zeros beyond 15 are not refused: they lie on the device.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn pack_weights<T: Unquantised>(
        &self,
        stream: &Stream,
        from: DeviceWeights<'_, T>,
        format: WeightFormat,
    ) -> Result<PackedWeights<T>> {
        let weights = one_matrix("weights", from.weights)?;
        let shape @ [n, k] = [
            weights.shape[0],
            weights.shape[1] * 8 / format.values.bits(),
        ];
        check_shape("weights", shape, format)?;
        check_along_y("weights", (n, "rows"), STRIP)?;
        check_zeros("zeros", from.zeros.is_some(), format)?;
        let groups = format.group.count(k);
        let of_groups = |name: &'static str, matrix: Matrix| {
            expect(
                matrix.shape == [n, groups],
                name,
                || format!("shape {:?}", matrix.shape),
                format!(
                    "{:?}: one for each group of each row of weights",
                    [n, groups]
                ),
            )
        };
        let scales = one_matrix("scales", from.scales)?;
        of_groups("scales", scales)?;
        let zeros = from.zeros.map(|zeros| one_matrix("zeros", zeros));
        let zeros = zeros.transpose()?;
        zeros.map_or(Ok(()), |zeros| of_groups("zeros", zeros))?;
        let words = Buffer::<u32>::new(self.device(), format.words(shape))?;
        let packed = Buffer::<T>::new(self.device(), format.scales(shape))?;
        if n > 0 && k > 0 {
            // What stands for zeros where there are none is not read.
            let nothing = workspace::<u8>(stream, Role::Nothing, 1)?;
            let of_zeros = from.zeros.map(View::source).zip(zeros);
            let of_zeros = of_zeros.unwrap_or((&nothing, Matrix::EMPTY));
            let codes = (from.weights.source(), weights);
            self.pack_words(stream, codes, of_zeros, &words, (shape, format.values))?;
            let of_scales = (from.scales.source(), scales);
            self.pack_numbers(stream, of_scales, of_zeros, &packed, (shape, format))?;
        }
        PackedWeights::new(words, packed, shape, format)
    }

    fn pack_words(
        &self,
        stream: &Stream,
        (weights, matrix): (&Buffer<u8>, Matrix),
        (zeros, of_zeros): (&Buffer<u8>, Matrix),
        words: &Buffer<u32>,
        ([n, k], values): ([usize; 2], WeightValues),
    ) -> Result<()> {
        let which = Which::Weights(WeightWhich::Pack(values));
        let kernel = self.kernel::<PackHandles>((TypeId::of::<u8>(), which), || {
            fixed(pack_codes, values).compile(self.compiler())
        })?;
        let [row, column] = matrix.strides.map(|stride| stride as i64);
        let [view, zeros] = [(weights, matrix), (zeros, of_zeros)].map(|(bytes, of)| {
            let view = bytes.view([bytes.len() - of.offset]);
            view.with_offset(of.offset)
        });
        let zeros_row = of_zeros.strides[0] as i64;
        let [n_, k_] = [n, k].map(|extent| extent as i32);
        kernel.launch(
            stream,
            WeightFormat::blocks([n, k]),
            (&view, row, column, &zeros, zeros_row, words, n_, k_),
        )?;
        Ok(())
    }

    fn pack_numbers<T: Unquantised>(
        &self,
        stream: &Stream,
        (scales, matrix): (&Buffer<T>, Matrix),
        (zeros, of_zeros): (&Buffer<u8>, Matrix),
        packed: &Buffer<T>,
        ([n, k], format): ([usize; 2], WeightFormat),
    ) -> Result<()> {
        let has_zeros = format.values.has_zeros();
        let which = Which::Weights(WeightWhich::PackScales(has_zeros));
        let kernel = self.kernel::<ScalesHandles<T>>((TypeId::of::<T>(), which), || {
            fixed(pack_scales::<T>, has_zeros).compile(self.compiler())
        })?;
        let [row, column] = matrix.strides.map(|stride| stride as i64);
        let [zeros_row, zeros_column] = of_zeros.strides.map(|stride| stride as i64);
        let from = scales.view([scales.len() - matrix.offset]);
        let zeros = zeros.view([zeros.len() - of_zeros.offset]);
        let zeros = zeros.with_offset(of_zeros.offset);
        kernel.launch(
            stream,
            [format.groups(k), WeightFormat::blocks([n, k])[1]],
            (
                &from.with_offset(matrix.offset),
                row,
                column,
                &zeros,
                zeros_row,
                zeros_column,
                packed,
                n as i32,
                format.group.count(k) as i32,
            ),
        )?;
        Ok(())
    }

    /// `Y[M, N] = X[M, K] · W[N, K]ᵀ`, W packed, with what the options say: the scales of A there are those of rows of X, those of B stand for rows of W, beside those that W has. Sums are
    /// f32. Where a product of few rows has less of them than pairs of weights, sums of a group are multiplied by its scale; otherwise a weight is rounded once, to the type of X, after its difference from the zero was
    /// multiplied by the scale.
    ///
    /// Rows of X lie along K and begin at multiples of 16 bytes, rows of Y too; what lies otherwise is copied. Zeros where K is 0.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn weight_only<T: Unquantised, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
        weights: &PackedWeights<T>,
        y: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<()> {
        if options.are_plain() {
            return self.run_weights(stream, (x, weights), y, options, Plain);
        }
        self.run_weights(stream, (x, weights), y, options, options.epilogue())
    }

    /// How [`weight_only`](Products::weight_only) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit.
    pub fn plan_weight_only<T: Unquantised, O: ResultOf<T, Addend = O>>(
        &self,
        x: &View<'_, T>,
        weights: &PackedWeights<T>,
        y: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<WeightCallPlan> {
        Ok(WeightCall::check(x, weights, y, options)?.described())
    }

    fn run_weights<
        T: Unquantised,
        O: ResultOf<T, Addend = O>,
        E: Epilogue<O, Outputs = NoOutputs>,
    >(
        &self,
        stream: &Stream,
        (x, weights): (&View<'_, T>, &PackedWeights<T>),
        y: &View<'_, O>,
        options: &Options<'_, O>,
        epilogue: E,
    ) -> Result<()> {
        let call = WeightCall::check(x, weights, y, options)?;
        let [m, n, k] = call.size;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let Some(plan) = call.plan else {
            // Nothing along K is a product of zeros.
            let none = weights.scales().view([k, n]);
            return self.call(stream, x, &none, y, options);
        };
        let _turn = stream.turn();
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        let scales = [options.a_scales, options.b_scales].map(|scales| scales.unwrap_or(&nothing));
        let factor = self.factor(stream, (Role::X, x.source()), (call.x, call.taken))?;
        let (result, source) = self.stored(
            stream,
            (y.source(), options),
            (call.result, call.source),
            call.result_ends_early(),
        )?;
        let launch = WeightLaunch {
            size: call.size,
            weights,
            x: factor.view(x.source()),
            result: (result.view(y.source()), result.place),
            data: EpilogueArguments {
                source: added((&source, options), (&result, y.source()), y.source()),
                bias: options.bias.map_or(y.source(), |(bias, _)| bias),
                scales,
                alpha_beta: [options.alpha, options.beta],
                outputs: &NoOutputs,
            },
        };
        self.launch_weights(stream, &plan, &launch, epilogue)?;
        self.copy_back(stream, &result, (y.source(), call.result))
    }

    fn launch_weights<
        T: Unquantised,
        O: ResultOf<T, Addend = O>,
        E: Epilogue<O, Outputs = NoOutputs>,
    >(
        &self,
        stream: &Stream,
        plan: &WeightPlan,
        launch: &WeightLaunch<'_, T, O>,
        epilogue: E,
    ) -> Result<()> {
        let types = TypeId::of::<(T, O, E)>();
        let form = launch.form(plan.tile, ());
        let key = Which::Weights(WeightWhich::Product(form, epilogue.name()));
        match plan.tile {
            WeightTile::Few(tile) => {
                let form = launch.form(tile, epilogue);
                let compile = || fixed(weight_only_few::<T, O, E>, form).compile(self.compiler());
                // It waits for the launch before before it reads what that may write.
                let load = || compile()?.load(self.device())?.programmatic();
                let kernel = self.loaded::<FewHandles<T, O>>((types, key), load)?;
                kernel.launch(stream, plan.grid, launch.of_few())?;
            }
            WeightTile::Many(tile) => {
                let form = launch.form(tile, epilogue);
                let compile = || fixed(weight_only_many::<T, O, E>, form).compile(self.compiler());
                let kernel = self.kernel::<ManyHandles<T, O>>((types, key), compile)?;
                kernel.launch(stream, self.programs(plan.grid[0]), launch.of_many())?;
            }
        }
        Ok(())
    }
}

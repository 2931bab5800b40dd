//! Sparse products as a program calls them.

use std::any::TypeId;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::check::SparseCall;
use super::compress::{CompressForm, NONE_REFUSED, sparse_compress};
use super::compressed::{check_shape, expect_sparse};
use super::few::sparse_few;
use super::layout::{STRIP, blocks, kept, kept_pitch, numbers};
use super::plan::{SparseCallPlan, SparsePlan};
use super::product::sparse_product;
use super::tiles::SparseTile;
use super::{Pruning, SparseMatrix, SparseOperand};
use crate::handles::handles;
use crate::products::call::Products;
use crate::products::check::View;
use crate::products::check_matrices::check_along_y;
use crate::products::epilogue::{Data, Epilogue, Plain};
use crate::products::epilogue_arguments::EpilogueArguments;
use crate::products::error::Result;
use crate::products::factor::{ResultOf, Stored};
use crate::products::matrix::Matrix;
use crate::products::operands::added;
use crate::products::options::Options;
use crate::products::output_handles::NoOutputs;
use crate::products::weight_only::one_matrix;
use crate::products::workspace::{Role, workspace};

/// The parameters of `sparse_compress`.
type CompressHandles<T> = handles! {
    dense: Ptr<T>,
    row_step column_step: Scalar<i64>,
    kept: Ptr<T>,
    pitch: Scalar<i32>,
    places: Ptr<u16>,
    refused: Ptr<i64>,
    m k: Scalar<i32>,
};

/// The parameters of `sparse_product`.
type ProductHandles<T, O> = handles! {
    kept: TensorMap<T>,
    places: Ptr<u16>,
    b: TensorMap<T>,
    c: TensorMap<O>,
    m n k: Scalar<i32>,
    data: Data<O>,
};

/// The parameters of `sparse_few`.
type FewHandles<T, O> = handles! {
    kept: TensorMap<T>,
    places: Ptr<u16>,
    b: TensorMap<T>,
    out: Ptr<O>,
    stride m n k: Scalar<i32>,
    data: Data<O>,
};

/// What a kernel reads and writes, all of it in rows.
struct SparseLaunch<'a, T, O: Stored> {
    a: &'a SparseMatrix<T>,
    b: View<'a, T>,
    result: (View<'a, O>, Matrix),
    /// Scales are of rows and of columns of what is stored.
    data: EpilogueArguments<'a, O>,
}

impl Products {
    /// Compresses a matrix `[M, K]` of any strides for [`sparse`](Products::sparse), by a launch in the order of the stream. [`Pruning::Refuse`] waits for it, for the matrix is found to be sparse on the device;
    /// neither that nor the allocation of the result may happen while a graph is captured.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit, of [`Pruning::Refuse`] the first row and columns that are not sparse; otherwise what the device has against it.
    pub fn compress<T: SparseOperand>(
        &self,
        stream: &Stream,
        dense: &View<'_, T>,
        pruning: Pruning,
    ) -> Result<SparseMatrix<T>> {
        let matrix = one_matrix("dense", dense)?;
        let shape @ [m, k] = matrix.shape;
        check_shape("dense", shape)?;
        check_along_y("dense", (m, "rows"), STRIP)?;
        let pitch = kept_pitch::<T>(k);
        let kept = Buffer::<T>::new(self.device(), m * pitch)?;
        let places = Buffer::<u16>::new(self.device(), numbers::<T>(shape))?;
        let grid = [blocks::<T>(k), m.div_ceil(STRIP)];
        if m == 0 || k == 0 {
            return SparseMatrix::new(kept, places, shape);
        }
        let refused = match pruning {
            Pruning::Refuse => grid.iter().product(),
            Pruning::LargestTwo => 1,
        };
        let refused = Buffer::<i64>::new(self.device(), refused)?;
        let form = CompressForm {
            pruning,
            axis: [1, 0].into_iter().find(|&axis| matrix.strides[axis] == 1),
        };
        let name = format!("sparse_compress-{form}");
        let kernel = self.named::<CompressHandles<T>>((TypeId::of::<T>(), name), || {
            fixed(sparse_compress::<T>, form).compile(self.compiler())
        })?;
        let source = dense.source();
        let from = source.view([source.len() - matrix.offset]);
        let [row, column] = matrix.strides.map(|stride| stride as i64);
        kernel.launch(
            stream,
            grid,
            (
                &from.with_offset(matrix.offset),
                row,
                column,
                &kept,
                pitch as i32,
                &places,
                &refused,
                m as i32,
                k as i32,
            ),
        )?;
        if pruning == Pruning::Refuse {
            stream.synchronize()?;
            let refused = refused.to_vec()?;
            let first = refused.into_iter().min().unwrap_or(NONE_REFUSED);
            let place = [first >> 32, first & 0xffff_ffff].map(|number| number as usize);
            expect_sparse("dense", first == NONE_REFUSED, place, k)?;
        }
        SparseMatrix::new(kept, places, shape)
    }

    /// `C[M, N] = A[M, K] · B[K, N]` of a 2:4 sparse A, with what the options say. Sums are f32, of i8 i32, and results are rounded once. B and C have any strides: where the columns of C are contiguous, its transpose is stored, so that
    /// a product `Y = X · Wᵀ` with sparse weights W is called with the transposes of X and Y as views. What no tensor map takes is copied. Zeros where K is 0.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::products::sparse::Pruning;
    /// use tilekit_kernels::products::{Options, Products};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let products = Products::new(&device);
    ///
    /// let (m, n, k) = (8, 16, 64);
    /// let ones = Buffer::from_slice(&device, &vec![bf16::ONE; m * k])?;
    /// let a = products.compress(&stream, &ones.view([m, k]), Pruning::LargestTwo)?;
    /// let b = Buffer::from_slice(&device, &vec![bf16::ONE; k * n])?;
    /// let c = Buffer::<bf16>::zeros(&device, m * n)?;
    /// products.sparse(&stream, &a, &b.view([k, n]), &c.view([m, n]), &Options::default())?;
    /// stream.synchronize()?;
    /// // Half of the 64 ones of a row are kept.
    /// assert!(c.to_vec()?.iter().all(|&c| c == bf16::from_f32(32.0)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn sparse<T: SparseOperand, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        a: &SparseMatrix<T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<()> {
        if options.are_plain() {
            return self.run_sparse(stream, (a, b), c, options, Plain);
        }
        self.run_sparse(stream, (a, b), c, options, options.epilogue())
    }

    /// How [`sparse`](Products::sparse) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit.
    pub fn plan_sparse<T: SparseOperand, O: ResultOf<T, Addend = O>>(
        &self,
        a: &SparseMatrix<T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<SparseCallPlan> {
        Ok(SparseCall::check(a, b, c, options)?.described())
    }

    fn run_sparse<
        T: SparseOperand,
        O: ResultOf<T, Addend = O>,
        E: Epilogue<O, Outputs = NoOutputs>,
    >(
        &self,
        stream: &Stream,
        (a, b): (&SparseMatrix<T>, &View<'_, T>),
        c: &View<'_, O>,
        options: &Options<'_, O>,
        epilogue: E,
    ) -> Result<()> {
        let call = SparseCall::check(a, b, c, options)?;
        let [m, n, _] = call.size;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let Some(plan) = call.plan else {
            // Nothing along K is a product of zeros.
            let none = b.source().view([m, 0]);
            return self.call(stream, &none, b, c, options);
        };
        let _turn = stream.turn();
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        let scales = [options.a_scales, options.b_scales].map(|scales| scales.unwrap_or(&nothing));
        let turned = epilogue.transposed().filter(|_| call.is_turned);
        let (scales, epilogue) = match turned {
            Some(turned) => ([scales[1], scales[0]], turned),
            None => (scales, epilogue),
        };
        let factor = self.factor(stream, (Role::Y, b.source()), (call.b, call.taken))?;
        let (result, source) = self.stored(
            stream,
            (c.source(), options),
            (call.result, call.source),
            call.result_ends_early(),
        )?;
        let launch = SparseLaunch {
            a,
            b: factor.view(b.source()),
            result: (result.view(c.source()), result.place),
            data: EpilogueArguments {
                source: added((&source, options), (&result, c.source()), c.source()),
                bias: options.bias.map_or(c.source(), |(bias, _)| bias),
                scales,
                alpha_beta: [options.alpha, options.beta],
                outputs: &NoOutputs,
            },
        };
        self.launch_sparse(stream, (&call, plan), &launch, epilogue)?;
        self.copy_back(stream, &result, (c.source(), call.result))
    }

    fn launch_sparse<
        T: SparseOperand,
        O: ResultOf<T, Addend = O>,
        E: Epilogue<O, Outputs = NoOutputs>,
    >(
        &self,
        stream: &Stream,
        (call, plan): (&SparseCall, SparsePlan),
        launch: &SparseLaunch<'_, T, O>,
        epilogue: E,
    ) -> Result<()> {
        let [m, n, k] = call.size.map(|extent| extent as i32);
        let kept = launch.a.kept().view([call.size[0], kept(call.size[2])]);
        let kept = kept.with_strides([kept_pitch::<T>(call.size[2]), 1]);
        let (places, b, result) = (launch.a.places(), &launch.b, &launch.result.0);
        let types = TypeId::of::<(T, O, E)>();
        match plan.tile {
            SparseTile::Few(tile) => {
                let form = call.form(tile, epilogue);
                let name = format!("sparse_few-{form}");
                let compile = || fixed(sparse_few::<T, O, E>, form).compile(self.compiler());
                // It waits for the launch in front before it reads what that may write.
                let kernel = self.named_programmatic::<FewHandles<T, O>>((types, name), compile)?;
                let stride = launch.result.1.strides[0] as i32;
                let arguments = (&kept, places, b, result, stride, m, n, k, &launch.data);
                kernel.launch(stream, plan.grid, arguments)?;
            }
            SparseTile::Many(tile) => {
                let form = call.form(tile, epilogue);
                let name = format!("sparse_product-{form}");
                let compile = || fixed(sparse_product::<T, O, E>, form).compile(self.compiler());
                let kernel = self.named::<ProductHandles<T, O>>((types, name), compile)?;
                let arguments = (&kept, places, b, result, m, n, k, &launch.data);
                kernel.launch(stream, self.programs(plan.grid[0]), arguments)?;
            }
        }
        Ok(())
    }
}

//! Products with scales for blocks as a program calls them.

use std::any::TypeId;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::along_k::{AlongForm, row_scaled};
use super::check::{Call, Kind, Scaled, check_numbers};
use super::dense::block_scaled;
use super::grouped::{GroupedForm, block_scaled_grouped};
use super::plan::{ALONG_K, best};
use crate::handles::handles;
use crate::products::call::{Products, Which};
use crate::products::check::View;
use crate::products::error::{Result, expect};
use crate::products::factor::{Operand, ResultOf, unit};
use crate::products::operands::{InRows, Role};
use crate::products::plan::MULTIPROCESSORS;

/// What a kernel of products with scales for blocks is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::products) enum ScaledWhich {
    Dense(super::ScaledTile),
    Grouped(GroupedForm),
    AlongK(AlongForm),
    /// Rows of a block that is quantised.
    Quantise(usize),
}

/// Which rows of A and C each group has.
#[derive(Clone, Copy)]
pub enum GroupRows<'a> {
    /// From `offsets[g]` to `offsets[g + 1]`; they ascend.
    Offsets(&'a Buffer<i32>),
    /// The first `counts[g]` of the M / groups that each group has room for.
    Counts(&'a Buffer<i32>),
}

/// How [`Products::row_scaled`] treats K and the result.
#[derive(Clone, Copy, Default)]
pub struct AlongK<'a> {
    /// Where groups of K begin, and where the last ends: multiples of 128 that ascend. Each group has a matrix of C. All of K is one group if there are none.
    pub offsets: Option<&'a Buffer<i32>>,
    /// Products are added to what C was, by additions in memory whose order is that of the tiles: one for each element.
    pub adds: bool,
}

/// The parameters of `block_scaled`.
type DenseHandles<T, O> = handles! {
    a b: TensorMap<T>,
    a_scales: TensorMap<f32>,
    c: TensorMap<O>,
    b_scales: Ptr<f32>,
    b_scales_of_columns b_scales_of_steps m n k: Scalar<i32>,
};

/// The parameters of `block_scaled_grouped`.
type GroupedHandles<T, O> = handles! {
    a b: TensorMap<T>,
    a_scales: TensorMap<f32>,
    c: TensorMap<O>,
    out: Ptr<O>,
    pitch: Scalar<i32>,
    rows: Ptr<i32>,
    groups: Scalar<i32>,
    b_scales: Ptr<f32>,
    b_scales_of_group b_scales_of_columns b_scales_of_steps m n k: Scalar<i32>,
};

/// The parameters of `row_scaled`.
type AlongHandles<T, O> = handles! {
    a b: TensorMap<T>,
    a_scales b_scales: TensorMap<f32>,
    c: TensorMap<O>,
    offsets: Ptr<i32>,
    groups m n k: Scalar<i32>,
};

/// The matrices of a call as kernels take them.
struct Places<T, O> {
    factors: [InRows<T>; 2],
    /// Scales of rows of A, which follow each other.
    a_scales: InRows<f32>,
    result: InRows<O>,
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
    pub fn block_scaled<T: Operand<Sum = f32>, O: ResultOf<T>>(
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
        let places = self.places(stream, &call, [a, b], (c, false))?;
        let (tile, programs) = best(call.size, 1);
        let key = (
            TypeId::of::<(T, O)>(),
            Which::Scaled(ScaledWhich::Dense(tile)),
        );
        let kernel = self.kernel::<DenseHandles<T, O>>(key, || {
            fixed(block_scaled::<T, O>, tile).compile(self.compiler())
        })?;
        let [of_steps, of_columns] = along(&call);
        kernel.launch(
            stream,
            self.programs(programs),
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
        self.copy_back(stream, &places.result, (c.source(), call.result))
    }

    /// `C[r, :] = A[r, :] · B[g]` for the rows `r` of each group `g`, as [`block_scaled`](Products::block_scaled) multiplies: A is `[M, K]`, B `[groups, K, N]` with
    /// scales `[groups, K / 128, N / 128]`, C `[M, N]`. Rows of no group keep what they are.
    ///
    /// Offsets and counts are on the device and are not checked: a row of two groups has the result of either, and rows outside of C are neither read nor written; a count beyond the room of a group counts as all of it.
    ///
    /// # Errors
    /// As for [`block_scaled`](Products::block_scaled).
    pub fn block_scaled_grouped<T: Operand<Sum = f32>, O: ResultOf<T>>(
        &self,
        stream: &Stream,
        a: Scaled<'_, T>,
        b: Scaled<'_, T>,
        c: &View<'_, O>,
        rows: GroupRows<'_>,
    ) -> Result<()> {
        let call = Call::check(Kind::Groups, [a, b], c)?;
        let ([m, n, k], groups) = (call.size, call.groups);
        let (numbers, is_counted) = match rows {
            GroupRows::Offsets(offsets) => {
                let meaning =
                    format!("where each of {groups} groups begins, and where the last ends");
                check_numbers("rows.offsets", offsets.len(), groups + 1, &meaning)?;
                (offsets, false)
            }
            GroupRows::Counts(counts) => {
                check_numbers("rows.counts", counts.len(), groups, "one for each group")?;
                expect(
                    groups == 0 || m.is_multiple_of(groups),
                    "a.values",
                    || format!("{m} rows"),
                    format!("a multiple of {groups}: equal room for each group"),
                )?;
                (counts, true)
            }
        };
        if m == 0 || n == 0 || groups == 0 {
            return Ok(());
        }
        let columns = || format!("{k} columns");
        expect(
            k > 0,
            "a.values",
            columns,
            "at least 1: groups are found by the kernel",
        )?;
        let places = self.places(stream, &call, [a, b], (c, true))?;
        let (tile, _) = best([m.div_ceil(groups), n, k], groups);
        let form = GroupedForm { tile, is_counted };
        let key = (
            TypeId::of::<(T, O)>(),
            Which::Scaled(ScaledWhich::Grouped(form)),
        );
        let kernel = self.kernel::<GroupedHandles<T, O>>(key, || {
            fixed(block_scaled_grouped::<T, O>, form).compile(self.compiler())
        })?;
        let [of_steps, of_columns] = along(&call);
        let [of_tile, wide] = tile.shape();
        // Each group may end with a tile of one row.
        let tiles = (m.div_ceil(of_tile) + groups) * n.div_ceil(wide);
        let out = places.result.view(c.source());
        kernel.launch(
            stream,
            self.programs(tiles.min(MULTIPROCESSORS)),
            (
                places.factors[0].view(a.values.source()),
                places.factors[1].view_of_all(b.values.source()),
                places.a_scales.view(a.scales.source()),
                &out,
                &out,
                places.result.place.strides[0] as i32,
                numbers,
                groups as i32,
                b.scales,
                call.scales[1].step_of_batch() as i32,
                of_columns,
                of_steps,
                m as i32,
                n as i32,
                k as i32,
            ),
        )?;
        self.copy_back(stream, &places.result, (c.source(), call.result))
    }

    /// `C = A[M, K] · B[K, N]` of 8-bit floats with a scale for each 128 elements along K of each row of A and of each column of B, as gradients of weights want it: K is
    /// tokens. C is `[M, N]`, or `[groups, M, N]` for groups of K, of which those without elements have zeros.
    ///
    /// # Errors
    /// As for [`block_scaled`](Products::block_scaled).
    pub fn row_scaled<T: Operand<Sum = f32>, O: ResultOf<T>>(
        &self,
        stream: &Stream,
        a: Scaled<'_, T>,
        b: Scaled<'_, T>,
        c: &View<'_, O>,
        options: AlongK<'_>,
    ) -> Result<()> {
        let call = Call::check(Kind::AlongK, [a, b], c)?;
        let ([m, n, k], groups) = (call.size, call.groups);
        if let Some(offsets) = options.offsets {
            let meaning = format!("where each of {groups} groups begins, and where the last ends");
            check_numbers("options.offsets", offsets.len(), groups + 1, &meaning)?;
        } else {
            let found = || format!("{groups} matrices");
            expect(groups == 1, "c", found, "one: there are no options.offsets")?;
        }
        if m == 0 || n == 0 {
            return Ok(());
        }
        if k == 0 {
            return if options.adds {
                Ok(())
            } else {
                self.copy(stream, None, (c.source(), call.result))
            };
        }
        let places = self.places(stream, &call, [a, b], (c, options.adds))?;
        let of_b = (Role::OtherScales, b.scales.source());
        let b_scales = self.placed(stream, of_b, call.scales[1].transposed(), true)?;
        let form = AlongForm {
            tile: ALONG_K,
            is_grouped: options.offsets.is_some(),
            adds: options.adds,
        };
        let key = (
            TypeId::of::<(T, O)>(),
            Which::Scaled(ScaledWhich::AlongK(form)),
        );
        let kernel = self.kernel::<AlongHandles<T, O>>(key, || {
            fixed(row_scaled::<T, O>, form).compile(self.compiler())
        })?;
        let [rows, columns] = ALONG_K.shape();
        let tiles = groups * m.div_ceil(rows) * n.div_ceil(columns);
        let nothing = self.workspace::<i32>(stream, Role::Nothing, 1)?;
        kernel.launch(
            stream,
            self.programs(tiles.div_ceil(tiles.div_ceil(MULTIPROCESSORS))),
            (
                places.factors[0].view(a.values.source()),
                places.factors[1].view(b.values.source()),
                places.a_scales.view(a.scales.source()),
                b_scales.view(b.scales.source()),
                places.result.view_of_all(c.source()),
                options.offsets.unwrap_or(&nothing),
                groups as i32,
                m as i32,
                n as i32,
                k as i32,
            ),
        )?;
        self.copy_back(stream, &places.result, (c.source(), call.result))
    }

    /// Matrices where they are, or copies; of C if it is read too.
    fn places<T: Operand, O: ResultOf<T>>(
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
    pub(super) fn programs(&self, on_gpu: usize) -> usize {
        if self.device().is_cuda() {
            on_gpu
        } else {
            on_gpu.min(3)
        }
    }
}

/// Elements from one scale of B to the next along K, and along columns.
fn along(call: &Call) -> [i32; 2] {
    let [of_columns, of_steps] = call.scales[1].strides;
    [of_steps as i32, of_columns as i32]
}

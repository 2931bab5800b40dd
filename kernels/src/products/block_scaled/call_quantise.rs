//! Matrices quantised as a program calls it.

use std::any::TypeId;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::quantise::{ROWS, quantise_blocks, quantise_rows};
use super::which::ScaledWhich;
use crate::handles::handles;
use crate::products::call::Products;
use crate::products::check::View;
use crate::products::check_matrices::check_along_y;
use crate::products::error::{Result, expect};
use crate::products::factor::{BLOCK, Operand, unit};
use crate::products::kept_kernels::Which;
use crate::products::matrix::Matrix;
use crate::products::workspace::Role;

/// The parameters of both kernels.
type Handles<T> = handles! {
    x: Ptr<T>,
    pitch: Scalar<i64>,
    values: Ptr<E4m3>,
    values_pitch: Scalar<i32>,
    scales: Ptr<f32>,
    scales_pitch m k: Scalar<i32>,
};

impl Products {
    /// A matrix `[M, K]` as e4m3 with a scale for each 128 elements of a row, the largest magnitude there over 448: values `[M, K]`, each row of which begins at the next multiple
    /// of 16 elements, and scales, which begin with those of the first 128 columns: `[K / 128, M]`, rounded up, rows of the next multiple of 4. For A of
    /// [`block_scaled`](Products::block_scaled).
    ///
    /// # Errors
    /// As for [`block_scaled`](Products::block_scaled).
    pub fn quantise_rows<T: Operand<Sum = f32> + Float>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
    ) -> Result<(Buffer<E4m3>, Buffer<f32>)> {
        self.quantise(stream, x, 1)
    }

    /// The same with a scale for each block of 128 by 128: scales are `[M / 128, K / 128]`, rounded up. For weights, whose transpose is B of
    /// [`block_scaled`](Products::block_scaled).
    ///
    /// # Errors
    /// As for [`block_scaled`](Products::block_scaled).
    pub fn quantise_blocks<T: Operand<Sum = f32> + Float>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
    ) -> Result<(Buffer<E4m3>, Buffer<f32>)> {
        self.quantise(stream, x, BLOCK)
    }

    fn quantise<T: Operand<Sum = f32> + Float>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
        rows: usize,
    ) -> Result<(Buffer<E4m3>, Buffer<f32>)> {
        let matrix = Matrix::of("x", x)?;
        let found = matrix.batches[0];
        expect(found == 1, "x", || format!("{found} matrices"), "one")?;
        let [m, k] = matrix.shape;
        check_along_y("x", (k, "columns"), BLOCK)?;
        let pitch = k.next_multiple_of(unit::<E4m3>());
        let (blocks, steps) = (m.div_ceil(rows), k.div_ceil(BLOCK));
        let (count, scales_pitch) = if rows == 1 {
            let pitch = blocks.next_multiple_of(4);
            (steps.saturating_mul(pitch), pitch)
        } else {
            (blocks.saturating_mul(steps), steps)
        };
        let values = Buffer::<E4m3>::new(self.device(), m.saturating_mul(pitch))?;
        let scales = Buffer::<f32>::new(self.device(), count)?;
        if matrix.is_empty() {
            return Ok((values, scales));
        }
        let _turn = stream.turn();
        let place = self.placed(stream, (Role::X, x.source()), matrix, true)?;
        let key = (
            TypeId::of::<T>(),
            Which::Scaled(ScaledWhich::Quantise(rows)),
        );
        let kernel = self.kernel::<Handles<T>>(key, || {
            if rows == 1 {
                quantise_rows::<T>.compile(self.compiler())
            } else {
                quantise_blocks::<T>.compile(self.compiler())
            }
        })?;
        let grid = [m.div_ceil(if rows == 1 { ROWS } else { BLOCK }), steps];
        kernel.launch(
            stream,
            grid,
            (
                &place.view(x.source()),
                place.place.strides[0] as i64,
                &values,
                pitch as i32,
                &scales,
                scales_pitch as i32,
                m as i32,
                k as i32,
            ),
        )?;
        Ok((values, scales))
    }
}

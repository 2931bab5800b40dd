//! Products of groups of rows with scales for blocks, as a program calls them.

use std::any::TypeId;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::call::along;
use super::check::{Call, Kind, Scaled, check_numbers, check_offsets};
use super::grouped::{GroupedForm, block_scaled_grouped};
use super::plan::best_of_groups;
use super::which::ScaledWhich;
use crate::handles::handles;
use crate::products::call::Products;
use crate::products::check::View;
use crate::products::error::{Result, expect};
use crate::products::factor::{Operand, ResultOf};
use crate::products::kept_kernels::Which;

/// Which rows of A and C each group has.
#[derive(Clone, Copy)]
pub enum GroupRows<'a> {
    /// From `offsets[g]` to `offsets[g + 1]`; they ascend.
    Offsets(&'a Buffer<i32>),
    /// The first `counts[g]` of the M / groups that each group has room for.
    Counts(&'a Buffer<i32>),
}

impl<'a> GroupRows<'a> {
    /// The numbers, and whether they are counts.
    fn check(self, call: &Call) -> Result<(&'a Buffer<i32>, bool)> {
        let groups = call.groups;
        match self {
            GroupRows::Offsets(offsets) => {
                check_offsets("rows.offsets", offsets, groups)?;
                Ok((offsets, false))
            }
            GroupRows::Counts(counts) => {
                check_numbers("rows.counts", counts.len(), groups, "one for each group")?;
                let m = call.size[0];
                expect(
                    groups == 0 || m.is_multiple_of(groups),
                    "a.values",
                    || format!("{m} rows"),
                    format!("a multiple of {groups}: equal room for each group"),
                )?;
                Ok((counts, true))
            }
        }
    }
}

/// The parameters of `block_scaled_grouped`.
type Handles<T, O> = handles! {
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

impl Products {
    /// `C[r, :] = A[r, :] · B[g]` for the rows `r` of each group `g`, as [`block_scaled`](Products::block_scaled) multiplies: A is `[M, K]`, B `[groups, K, N]` with
    /// scales `[groups, K / 128, N / 128]`, C `[M, N]`. Rows of no group keep what they are.
    ///
    /// Offsets and counts are on the device and are not checked: a row of two groups has the result of either, and rows outside of C are neither read nor written; a count beyond the room of a group counts as all of it.
    ///
    /// # Errors
    /// As for [`block_scaled`](Products::block_scaled).
    pub fn block_scaled_grouped<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        a: Scaled<'_, T>,
        b: Scaled<'_, T>,
        c: &View<'_, O>,
        rows: GroupRows<'_>,
    ) -> Result<()> {
        let call = Call::check(Kind::Groups, [a, b], c)?;
        let (numbers, is_counted) = rows.check(&call)?;
        let ([m, n, k], groups) = (call.size, call.groups);
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
        let _turn = stream.turn();
        let places = self.places(stream, &call, [a, b], (c, true))?;
        let (tile, programs) = best_of_groups([m, n, k], groups, size_of::<O>());
        let form = GroupedForm { tile, is_counted };
        let key = (
            TypeId::of::<(T, O)>(),
            Which::Scaled(ScaledWhich::Grouped(form)),
        );
        let kernel = self.kernel::<Handles<T, O>>(key, || {
            fixed(block_scaled_grouped::<T, O>, form).compile(self.compiler())
        })?;
        let [of_steps, of_columns] = along(&call);
        let out = places.result.view(c.source());
        kernel.launch(
            stream,
            self.programs_of(programs, tile.ctas()),
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
}

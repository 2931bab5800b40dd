//! Products with scales for rows of both factors, as a program calls them.

use std::any::TypeId;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::along_k::{AlongForm, row_scaled};
use super::check::{Call, Kind, Scaled, check_offsets};
use super::plan::ALONG_K;
use super::which::ScaledWhich;
use crate::handles::handles;
use crate::products::call::Products;
use crate::products::check::View;
use crate::products::error::{Result, expect};
use crate::products::factor::{Operand, ResultOf};
use crate::products::kept_kernels::Which;
use crate::products::plan::MULTIPROCESSORS;
use crate::products::workspace::{Role, workspace};

/// How [`Products::row_scaled`] treats K and the result.
#[derive(Clone, Copy, Default)]
pub struct AlongK<'a> {
    /// Where groups of K begin, and where the last ends: multiples of 128 that ascend. Each group has a matrix of C. All of K is one group if there are none.
    pub offsets: Option<&'a Buffer<i32>>,
    /// Products are added to what C was, by additions in memory whose order is that of the tiles: one for each element.
    pub adds: bool,
}

impl AlongK<'_> {
    fn check(self, groups: usize) -> Result<()> {
        if let Some(offsets) = self.offsets {
            return check_offsets("options.offsets", offsets, groups);
        }
        let found = || format!("{groups} matrices");
        expect(groups == 1, "c", found, "one: there are no options.offsets")
    }
}

/// The parameters of `row_scaled`.
type Handles<T, O> = handles! {
    a b: TensorMap<T>,
    a_scales b_scales: TensorMap<f32>,
    c: TensorMap<O>,
    offsets: Ptr<i32>,
    groups m n k: Scalar<i32>,
};

impl Products {
    /// `C = A[M, K] · B[K, N]` of 8-bit floats with a scale for each 128 elements along K of each row of A and of each column of B, as gradients of weights want it: K is
    /// tokens. C is `[M, N]`, or `[groups, M, N]` for groups of K, of which those without elements have zeros.
    ///
    /// # Errors
    /// As for [`block_scaled`](Products::block_scaled).
    pub fn row_scaled<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        a: Scaled<'_, T>,
        b: Scaled<'_, T>,
        c: &View<'_, O>,
        options: AlongK<'_>,
    ) -> Result<()> {
        let call = Call::check(Kind::AlongK, [a, b], c)?;
        options.check(call.groups)?;
        let (groups, [m, n, k]) = (call.groups, call.size);
        if m == 0 || n == 0 || groups == 0 {
            return Ok(());
        }
        if k == 0 {
            return if options.adds {
                Ok(())
            } else {
                self.copy(stream, None, (c.source(), call.result))
            };
        }
        let _turn = stream.turn();
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
        let kernel = self.kernel::<Handles<T, O>>(key, || {
            fixed(row_scaled::<T, O>, form).compile(self.compiler())
        })?;
        let [rows, columns] = ALONG_K.shape();
        let tiles = groups * m.div_ceil(rows) * n.div_ceil(columns);
        let nothing = workspace::<i32>(stream, Role::Nothing, 1)?;
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
}

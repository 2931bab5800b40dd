//! Checks of sparse products.

use super::form::SparseForm;
use super::plan::{SparseCallPlan, SparsePlan};
use super::tiles::SparseTile;
use super::{SparseMatrix, SparseOperand};
use crate::products::check::{Taken, View, copies_of};
use crate::products::check_matrices::{
    check_numbers, check_precision, check_result, check_source, check_turned,
};
use crate::products::error::{Result, expect};
use crate::products::factor::{ResultOf, UNIT_BYTES};
use crate::products::matrix::Matrix;
use crate::products::options::Options;
use crate::products::overlap::{check_apart, check_numbers_apart, check_source_apart};
use crate::products::weight_only::one_matrix;

/// A call that has been checked.
pub(super) struct SparseCall {
    /// M, N, K.
    pub(super) size: [usize; 3],
    /// B, as rows of N.
    pub(super) b: Matrix,
    pub(super) taken: Taken,
    /// C as it is stored, or its transpose.
    pub(super) result: Matrix,
    /// What is added, if it is not the result itself, as the result.
    pub(super) source: Option<Matrix>,
    pub(super) is_turned: bool,
    /// None where there is nothing to multiply.
    pub(super) plan: Option<SparsePlan>,
    element_bytes: usize,
}

impl SparseCall {
    pub(super) fn check<T: SparseOperand, O: ResultOf<T, Addend = O>>(
        a: &SparseMatrix<T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<SparseCall> {
        let of_b = b;
        let (b, result) = (one_matrix("b", b)?.transposed(), one_matrix("c", c)?);
        let ([m, k], [n, depth]) = (a.shape(), b.shape);
        let rows = || format!("{depth} rows");
        expect(depth == k, "b", rows, format!("{k}, the columns of a"))?;
        expect(
            result.shape == [m, n],
            "c",
            || format!("shape {:?}", result.shape),
            format!("{:?}: the rows of a, the columns of b", [m, n]),
        )?;
        let element_bytes = size_of::<O>();
        check_result("c", result, element_bytes)?;
        check_apart(("a", &a.kept().view([a.kept().len()])), ("c", c))?;
        check_apart(("b", of_b), ("c", c))?;
        let source = options.source.filter(|_| options.has_source());
        let source = source.map(|view| {
            let source = check_source(one_matrix("options.source", view)?, result)?;
            check_source_apart(view, c).map(|()| source)
        });
        let source = source.transpose()?;
        check_numbers(options, [m, n])?;
        check_numbers_apart(options, ("c", c))?;
        check_precision::<T, O>(options, None)?;
        let in_rows = |matrix: Matrix| matrix.in_rows(element_bytes).is_some();
        let is_turned = !in_rows(result) && in_rows(result.transposed());
        let turned = |matrix: Matrix| {
            if is_turned {
                matrix.transposed()
            } else {
                matrix
            }
        };
        let (result, source) = (turned(result), source.map(turned));
        if is_turned {
            check_turned(("c", result), source, element_bytes)?;
        }
        let taken = Taken::of(b, size_of::<T>());
        let is_product = m > 0 && n > 0 && k > 0;
        let along_n = taken.side().is_mn_major;
        Ok(SparseCall {
            size: [m, n, k],
            b,
            taken,
            result,
            source,
            is_turned,
            plan: is_product.then(|| SparsePlan::best::<T>([m, n, k], element_bytes, along_n)),
            element_bytes,
        })
    }

    /// What a kernel of this tile is compiled for.
    pub(super) fn form<I, E>(&self, tile: I, epilogue: E) -> SparseForm<I, E> {
        SparseForm {
            tile,
            b: self.taken.side(),
            turned: self.is_turned,
            epilogue,
        }
    }

    /// TMA stores write rows in units of 16 bytes, and what lies beside C is not written.
    pub(super) fn result_ends_early(&self) -> bool {
        let unit = UNIT_BYTES / self.element_bytes;
        let by_tma = matches!(self.plan, Some(plan) if matches!(plan.tile, SparseTile::Many(_)));
        by_tma && !self.result.shape[1].is_multiple_of(unit)
    }

    pub(super) fn described(&self) -> SparseCallPlan {
        let results = [
            ("c", Some(self.result), self.result_ends_early()),
            ("options.source", self.source, false),
        ];
        let copies = self
            .plan
            .map(|_| copies_of(("b", self.b, self.taken), results, self.element_bytes));
        SparseCallPlan {
            product: self.plan,
            is_turned: self.is_turned,
            copies: copies.unwrap_or_default(),
        }
    }
}

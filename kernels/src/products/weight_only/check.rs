//! Checks of products with packed weights.

use tilekit::prelude::DeviceElement;

use super::decode::Unquantised;
use super::packed::PackedWeights;
use super::plan::{WeightCallPlan, WeightPlan, WeightTile};
use crate::products::check::{Taken, View, copies_of};
use crate::products::check_matrices::{check_numbers, check_precision, check_result, check_source};
use crate::products::error::{Result, expect};
use crate::products::factor::{ResultOf, UNIT_BYTES};
use crate::products::matrix::Matrix;
use crate::products::options::Options;
use crate::products::overlap::{check_apart, check_numbers_apart, check_source_apart};

/// A call that has been checked.
pub(super) struct WeightCall {
    /// M, N, K.
    pub(super) size: [usize; 3],
    pub(super) x: Matrix,
    pub(super) taken: Taken,
    pub(super) result: Matrix,
    /// What is added, if it is not the result itself.
    pub(super) source: Option<Matrix>,
    /// None where there is nothing to multiply.
    pub(super) plan: Option<WeightPlan>,
    element_bytes: usize,
}

impl WeightCall {
    pub(super) fn check<T: Unquantised, O: ResultOf<T, Addend = O>>(
        x: &View<'_, T>,
        weights: &PackedWeights<T>,
        y: &View<'_, O>,
        options: &Options<'_, O>,
    ) -> Result<WeightCall> {
        let (of_x, of_y) = (x, y);
        let (x, result) = (one_matrix("x", x)?, one_matrix("y", y)?);
        let ([m, depth], [n, k]) = (x.shape, weights.shape());
        let columns = || format!("{depth} columns");
        expect(
            depth == k,
            "x",
            columns,
            format!("{k}, those of the weights"),
        )?;
        expect(
            result.shape == [m, n],
            "y",
            || format!("shape {:?}", result.shape),
            format!("{:?}: the rows of x, the rows of weights", [m, n]),
        )?;
        check_result("y", result, size_of::<O>())?;
        check_apart(("x", of_x), ("y", of_y))?;
        let scales = weights.scales();
        check_apart(("weights", &scales.view([scales.len()])), ("y", of_y))?;
        let source = options.source.filter(|_| options.has_source());
        let source = source.map(|view| {
            let source = check_source(one_matrix("options.source", view)?, result)?;
            check_source_apart(view, of_y).map(|()| source)
        });
        let source = source.transpose()?;
        check_numbers(options, [m, n])?;
        check_numbers_apart(options, ("y", of_y))?;
        check_precision::<T, O>(options, None)?;
        let plan = (m > 0 && n > 0 && k > 0)
            .then(|| WeightPlan::best([m, n, k], weights.format(), size_of::<O>()));
        Ok(WeightCall {
            size: [m, n, k],
            x,
            // The kernel reads rows along K.
            taken: Taken::along_k(x, size_of::<T>()),
            result,
            source,
            plan,
            element_bytes: size_of::<O>(),
        })
    }

    /// TMA stores write rows in units of 16 bytes, and what lies beside Y is not written.
    pub(super) fn result_ends_early(&self) -> bool {
        let is_stored_by_tma = |plan: WeightPlan| matches!(plan.tile, WeightTile::Many(_));
        let unit = UNIT_BYTES / self.element_bytes;
        self.plan.is_some_and(is_stored_by_tma) && !self.size[1].is_multiple_of(unit)
    }

    pub(super) fn described(&self) -> WeightCallPlan {
        let results = [
            ("y", Some(self.result), self.result_ends_early()),
            ("options.source", self.source, false),
        ];
        let copies = self
            .plan
            .map(|_| copies_of(("x", self.x, self.taken), results, self.element_bytes));
        WeightCallPlan {
            product: self.plan,
            copies: copies.unwrap_or_default(),
        }
    }
}

/// A matrix that is no batch.
pub(in crate::products) fn one_matrix<T: DeviceElement>(
    name: &'static str,
    view: &View<'_, T>,
) -> Result<Matrix> {
    let matrix = Matrix::of(name, view)?;
    let found = matrix.batches[0];
    expect(found == 1, name, || format!("{found} matrices"), "one")?;
    Ok(matrix)
}

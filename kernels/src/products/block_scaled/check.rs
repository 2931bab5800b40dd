//! Checks of calls with scales for blocks.

use tilekit::Buffer;

use crate::products::check::{Taken, View};
use crate::products::check_matrices::check_result;
use crate::products::error::{Result, expect};
use crate::products::factor::{BLOCK, Operand, ResultOf};
use crate::products::matrix::Matrix;
use crate::products::overlap::check_apart;

/// A matrix of 8-bit floats and the scales of its blocks: the number that is meant is the product of both.
///
/// Scales have as many rows and columns as there are blocks of the values, the last of which may end early: `[M, K / 128]` for an A of `[M, K]`, and
/// `[K / 128, N / 128]`, or `[K / 128, N]`, for a B of `[K, N]`, all rounded up.
#[derive(Clone, Copy)]
pub struct Scaled<'a, T> {
    /// The values.
    pub values: &'a View<'a, T>,
    /// Their scales.
    pub scales: &'a View<'a, f32>,
}

/// A call that has been checked, with B as rows.
pub(super) struct Call {
    /// M, N, K.
    pub(super) size: [usize; 3],
    /// Matrices of B, or of the result.
    pub(super) groups: usize,
    pub(super) factors: [Matrix; 2],
    pub(super) taken: [Taken; 2],
    /// Rows are those of the factors, columns steps along K.
    pub(super) scales: [Matrix; 2],
    pub(super) result: Matrix,
}

/// How many columns of B share a scale, and of what there is one matrix for each group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// One product, blocks of 128 columns.
    Dense,
    /// Groups of rows, of which each has a B.
    Groups,
    /// Single columns; groups of K, of which each has a C.
    AlongK,
}

impl Call {
    pub(super) fn check<T: Operand, O: ResultOf<T, Addend = O>>(
        kind: Kind,
        [a, b]: [Scaled<'_, T>; 2],
        c: &View<'_, O>,
    ) -> Result<Call> {
        expect(
            size_of::<T>() == 1,
            "a.values",
            || format!("elements of {} bytes", size_of::<T>()),
            "8-bit floats",
        )?;
        let [x, y] = [
            Matrix::of("a.values", a.values)?,
            Matrix::of("b.values", b.values)?.transposed(),
        ];
        let result = Matrix::of("c", c)?;
        let ([m, k], [n, depth]) = (x.shape, y.shape);
        let rows = || format!("{depth} rows");
        expect(
            depth == k,
            "b.values",
            rows,
            format!("{k}, the columns of a"),
        )?;
        let wanted = [m, n];
        let shape = || format!("shape {:?}", result.shape);
        let columns = format!("{wanted:?}: the rows of a, the columns of b");
        expect(result.shape == wanted, "c", shape, columns)?;
        let of_b = if kind == Kind::Groups {
            y.batches[0]
        } else {
            1
        };
        let of_c = if kind == Kind::AlongK {
            result.batches[0]
        } else {
            1
        };
        for (name, matrix, wanted) in [
            ("a.values", x, 1),
            ("b.values", y, of_b),
            ("c", result, of_c),
        ] {
            let found = matrix.batches[0];
            expect(
                found == wanted,
                name,
                || format!("{found} matrices"),
                format!("{wanted}"),
            )?;
        }
        check_result("c", result, size_of::<O>())?;
        check_apart(("a.values", a.values), ("c", c))?;
        check_apart(("b.values", b.values), ("c", c))?;
        let width = if kind == Kind::AlongK { 1 } else { BLOCK };
        let scales = [
            scales_of("a.scales", Matrix::of("a.scales", a.scales)?, x, 1)?,
            scales_of(
                "b.scales",
                Matrix::of("b.scales", b.scales)?.transposed(),
                y,
                width,
            )?,
        ];
        check_apart(("a.scales", a.scales), ("c", c))?;
        check_apart(("b.scales", b.scales), ("c", c))?;
        Ok(Call {
            size: [m, n, k],
            // Of one of the two there is one.
            groups: of_b * of_c,
            factors: [x, y],
            taken: [x, y].map(|matrix| Taken::of(matrix, size_of::<T>())),
            scales,
            result,
        })
    }
}

/// Scales of a factor, of which blocks of `rows` by 128 have one each.
fn scales_of(name: &'static str, scales: Matrix, of: Matrix, rows: usize) -> Result<Matrix> {
    let wanted = [of.shape[0].div_ceil(rows), of.shape[1].div_ceil(BLOCK)];
    let turned = |[rows, steps]: [usize; 2]| {
        if name == "a.scales" {
            [rows, steps]
        } else {
            [steps, rows]
        }
    };
    expect(
        scales.shape == wanted,
        name,
        || format!("shape {:?}", turned(scales.shape)),
        format!(
            "{:?}: one for each block of {:?} values",
            turned(wanted),
            turned([rows, BLOCK])
        ),
    )?;
    let (found, wanted) = (scales.batches[0], of.batches[0]);
    expect(
        found == wanted,
        name,
        || format!("those of {found} matrices"),
        format!("{wanted}, as there are values"),
    )?;
    let reach = scales.end().saturating_sub(scales.offset as u128);
    expect(
        i32::try_from(reach).is_ok(),
        name,
        || format!("{reach} numbers with their gaps"),
        format!("at most {}: indices have 32 bits", i32::MAX),
    )?;
    Ok(scales)
}

/// Where groups begin, and where the last ends.
pub(super) fn check_offsets(
    name: &'static str,
    offsets: &Buffer<i32>,
    groups: usize,
) -> Result<()> {
    let meaning = format!("where each of {groups} groups begins, and where the last ends");
    check_numbers(name, offsets.len(), groups + 1, &meaning)
}

/// So many numbers for each of so many groups.
pub(super) fn check_numbers(
    name: &'static str,
    found: usize,
    wanted: usize,
    meaning: &str,
) -> Result<()> {
    let numbers = || format!("{found} numbers");
    expect(
        found == wanted,
        name,
        numbers,
        format!("{wanted}: {meaning}"),
    )
}

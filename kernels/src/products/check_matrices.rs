//! What matrices of a call are refused for, whatever the product is.

use tilekit::prelude::*;

use super::epilogue::Axis;
use super::error::{Result, expect};
use super::factor::Stored;
use super::matrix::Matrix;
use super::options::{Options, Precision};
use super::plan::MOST_ALONG_Y;

/// Only products of f32 by calls that have a kernel for it are multiplied in parts.
pub(crate) fn check_precision<T: Element, O: Stored>(
    options: &Options<'_, O>,
    offers: impl Into<Option<&'static str>>,
) -> Result<()> {
    let what = offers.into();
    let is_f32 = T::DTYPE == f32::DTYPE;
    let is_able = options.precision == Precision::Tf32 || (is_f32 && what.is_none());
    let found = || match what.filter(|_| is_f32) {
        Some(what) => format!("{:?} for {what}", options.precision),
        None => format!("{:?} for operands of {}", options.precision, T::DTYPE),
    };
    let expected = "Tf32, the default: three products are for one matrix or a batch of f32";
    expect(is_able, "options.precision", found, expected)
}

pub(super) fn check_shapes([x, y]: [Matrix; 2], result: Matrix) -> Result<()> {
    let ([m, k], [n, depth]) = (x.shape, y.shape);
    let rows = || format!("{depth} rows");
    expect(depth == k, "b", rows, format!("{k}, the columns of a"))?;
    expect(
        result.shape == [m, n],
        "c",
        || format!("shape {:?}", result.shape),
        format!("{:?}: the rows of a, the columns of b", [m, n]),
    )?;
    let batches = result.batches[0];
    for (name, matrix) in [("a", x), ("b", y)] {
        let found = matrix.batches[0];
        expect(
            found == batches || found == 1,
            name,
            || format!("{found} matrices"),
            format!("{batches}, as many as c has, or one for all"),
        )?;
    }
    expect(
        batches <= MOST_ALONG_Y,
        "c",
        || format!("{batches} matrices"),
        format!("at most {MOST_ALONG_Y}"),
    )
}

pub(crate) fn check_result(name: &'static str, result: Matrix, element_bytes: usize) -> Result<()> {
    expect(
        result.is_apart(),
        name,
        || format!("{result}"),
        "rows or columns that do not overlap",
    )?;
    check_room(name, result, element_bytes)
}

/// Rows or columns that a kernel takes so many at a time along y of its grid, which has fewer CTAs than along x.
pub(crate) fn check_along_y(
    name: &'static str,
    (count, lines): (usize, &str),
    at_a_time: usize,
) -> Result<()> {
    let most = MOST_ALONG_Y * at_a_time;
    expect(
        count <= most,
        name,
        || format!("{count} {lines}"),
        format!("at most {most}: give parts of it"),
    )
}

/// Indices have 32 bits.
pub(crate) fn check_room(name: &'static str, matrix: Matrix, element_bytes: usize) -> Result<()> {
    let padded = Matrix::padded(matrix, element_bytes).room()[0];
    let [rows, columns] = matrix.shape;
    // The pitch of a single row is anything.
    let to_last = (rows.max(1) - 1).saturating_mul(matrix.strides[0]);
    let room = to_last.saturating_add(columns).max(padded);
    expect(
        i32::try_from(room).is_ok(),
        name,
        || format!("{room} elements with their gaps"),
        format!("at most {}: indices have 32 bits", i32::MAX),
    )
}

/// The same of the transposes of a result and of its source, where those are what kernels store and read by rows.
pub(super) fn check_turned(
    (name, result): (&'static str, Matrix),
    source: Option<Matrix>,
    element_bytes: usize,
) -> Result<()> {
    check_room(name, result, element_bytes)?;
    source.map_or(Ok(()), |source| {
        check_room("options.source", source, element_bytes)
    })
}

/// A result that is added to itself is of the type and the shape of what is added.
pub(super) fn check_own_source<O: Stored>(options: &Options<'_, O>, halves: bool) -> Result<()> {
    let is_half = halves && options.source.is_none();
    expect(
        !(is_half && options.has_source()),
        "options.source",
        || format!("none beside `beta` of {}", options.beta),
        "a matrix of as many columns as b: c has half of them",
    )?;
    let is_other = options.source.is_none() && O::DTYPE != O::Addend::DTYPE;
    expect(
        !(is_other && options.has_source()),
        "options.source",
        || {
            format!(
                "none for results of {} beside `beta` of {}",
                O::DTYPE,
                options.beta
            )
        },
        format!(
            "a matrix of {}: results of {} are not added",
            O::Addend::DTYPE,
            O::DTYPE
        ),
    )
}

pub(super) fn check_source(source: Matrix, result: Matrix) -> Result<Matrix> {
    let name = "options.source";
    let (found, wanted) = (source.shape, result.shape);
    expect(
        found == wanted,
        name,
        || format!("shape {found:?}"),
        format!("{wanted:?}, as c"),
    )?;
    let (found, wanted) = (source.batches[0], result.batches[0]);
    expect(
        found == wanted || found == 1,
        name,
        || format!("{found} matrices"),
        format!("{wanted}, as many as c has, or one for all"),
    )?;
    check_room(name, source, 1)?;
    let batch = if found == 1 { 0 } else { source.batches[1] };
    Ok(Matrix {
        batches: [source.batches[0], batch],
        ..source
    })
}

/// Scales and bias have as many numbers as there are rows or columns.
pub(super) fn check_numbers<O: Stored>(options: &Options<'_, O>, shape: [usize; 2]) -> Result<()> {
    let of_axis = |axis: Axis| match axis {
        Axis::Rows => (shape[0], "rows"),
        Axis::Columns => (shape[1], "columns"),
    };
    let scales = [
        ("options.a_scales", options.a_scales, Axis::Rows),
        ("options.b_scales", options.b_scales, Axis::Columns),
    ];
    for (name, scales, axis) in scales {
        let (count, lines) = of_axis(axis);
        let found = scales.map_or(1, Buffer::len);
        expect(
            found == 1 || found == count,
            name,
            || format!("{found} numbers"),
            format!("1, or {count}: one for each of the {lines} of c"),
        )?;
    }
    let Some((bias, axis)) = options.bias else {
        return Ok(());
    };
    let (count, lines) = of_axis(axis);
    expect(
        bias.len() == count,
        "options.bias",
        || format!("{} numbers", bias.len()),
        format!("{count}: one for each of the {lines} of c"),
    )
}

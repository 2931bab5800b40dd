//! Matrices copied from any strides to any others: for rows whose pitch no tensor map takes, and for columns that are to be rows.

use tilekit::prelude::*;

use super::factor::Stored;

/// The tile of a program.
pub(super) const TILE: usize = 64;

/// A tile whose elements follow each other in memory along `axis`, those of neighbours in lanes: rows begin at no multiple of more than an element, so that elements are loaded and stored one by one.
fn along(axis: usize) -> Blocked {
    if axis == 0 {
        Blocked::new([1, 1], [32, 1], [1, 4], [0, 1])
    } else {
        Blocked::new([1, 1], [1, 32], [4, 1], [1, 0])
    }
}

/// `target[i, j] = source[i, j]` for `i < rows` and `j < columns`, each at its own offset and strides in elements, and 0 where `is_there` is 0; of each matrix of a
/// batch, of which the grid has one along z. Elements of the
/// source are loaded along dimension `FROM`, and stored along dimension `TO`: each has neighbours in memory there. One CTA of a multiprocessor is all that is asked for: without that ptxas keeps to 80
/// registers, spills, and is up to a quarter slower.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16, 1, 1>, <bf16, 0, 1>))]
#[allow(clippy::too_many_arguments, reason = "two places of five numbers each")]
pub fn repack<T: Stored, const FROM: usize, const TO: usize>(
    source: Ptr<T>,
    source_offset: i64,
    source_row: i64,
    source_column: i64,
    source_batch: i64,
    target: Ptr<T>,
    target_offset: i64,
    target_row: i64,
    target_column: i64,
    target_batch: i64,
    rows: i32,
    columns: i32,
    is_there: i32,
) {
    launch_dependents();
    let (source, target) = (source.cast::<T::Bits>(), target.cast::<T::Bits>());
    let place = |axis: usize| {
        let layout = along(axis);
        let row = program_id(0) * TILE + arange(0..TILE, Slice::new(1, layout.clone()));
        let column = program_id(1) * TILE + arange(0..TILE, Slice::new(0, layout));
        (row.expand_dims(1), column.expand_dims(0))
    };
    let batch = program_id(2).cast::<i64>();
    let source_offset = source_offset + batch * source_batch;
    let target_offset = target_offset + batch * target_batch;
    launch_wait();
    let (row, column) = place(FROM);
    let at = row.cast::<i64>() * source_row + column.cast::<i64>() * source_column + source_offset;
    let inside = (row < rows) & (column < columns) & (is_there != 0);
    let elements = source.at(at).mask(inside).other(0).load();
    let (row, column) = place(TO);
    let at = row.cast::<i64>() * target_row + column.cast::<i64>() * target_column + target_offset;
    let inside = (row < rows) & (column < columns);
    let elements = elements.convert_layout(along(TO));
    target.at(at).mask(inside).store(elements);
}

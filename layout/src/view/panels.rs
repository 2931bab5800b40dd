//! The panels of a tensor, and names of rows and columns.

use super::picture::{Cell, Panel};
use crate::linear::cut::granule;

/// The panels of a tensor: its last two dimensions as rows and columns, a panel for each index of the others; a vector
/// is folded into rows.
pub(super) fn tensor_panels(shape: &[u32], cell: impl Fn(&[u32]) -> Cell) -> Vec<Panel> {
    let (outer, height, width) = match *shape {
        [size] => {
            let widest = size.min(32);
            let width = if size.is_multiple_of(widest) {
                widest
            } else {
                granule(size)
            };
            return vec![folded_vector(size / width, width, cell)];
        }
        [ref outer @ .., height, width] => (outer, height, width),
        [] => unreachable!("a scalar is refused before"),
    };
    let panels: u32 = outer.iter().product();
    (0..panels)
        .map(|panel| {
            let index = unflatten(panel, outer);
            let at = |row, column| cell(&[&*index, &[row, column]].concat());
            Panel {
                title: if outer.is_empty() {
                    String::new()
                } else {
                    format!("[{}, :, :]", names(index.clone()).join(", "))
                },
                rows: names(0..height),
                columns: names(0..width),
                cells: (0..height)
                    .map(|row| (0..width).map(|column| at(row, column)).collect())
                    .collect(),
            }
        })
        .collect()
}

fn folded_vector(rows: u32, width: u32, cell: impl Fn(&[u32]) -> Cell) -> Panel {
    Panel {
        title: String::new(),
        rows: names((0..rows).map(|row| row * width)),
        columns: names(0..width),
        cells: (0..rows)
            .map(|row| {
                (0..width)
                    .map(|column| cell(&[row * width + column]))
                    .collect()
            })
            .collect(),
    }
}

pub(super) fn names(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| number.to_string())
        .collect()
}

/// The index of row-major number `number` in a grid.
fn unflatten(number: u32, sizes: &[u32]) -> Vec<u32> {
    let mut rest = number;
    let mut index: Vec<u32> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let at = rest % size;
            rest /= size;
            at
        })
        .collect();
    index.reverse();
    index
}

//! Pictures of layouts.
//!
//! A [`Picture`] is plain data: a grid of cells, each with its text, its colour as numbers and what it belongs to. A
//! terminal may colour the cells as it likes; [`svg`] draws them.

mod colour;
mod memory;
mod owners;
mod svg;

use super::linear::cut::granule;
use super::{AnyLayout, Dims, LayoutError};

pub use colour::Colour;
pub use svg::svg;

/// What to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The tensor: the owner of each element, or its offset.
    Tensor,
    /// The machine: which element each register of each thread holds, or each place of shared memory.
    Hardware,
    /// The tensor, coloured by the bank of shared memory in which each element lies.
    Banks,
}

/// A grid of cells with names beside rows and above columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The layout.
    pub title: String,
    /// What the text and the colours of the cells say.
    pub legend: String,
    /// The panels, one below the other: slices of a tensor of three or more dimensions, warps of the machine.
    pub panels: Vec<Panel>,
}

/// One grid of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// What this panel shows, empty when there is only one.
    pub title: String,
    /// The names of the rows.
    pub rows: Vec<String>,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What the cell's whole group is called, such as the thread.
    pub group_name: String,
    /// What the cell itself is called, such as the register.
    pub name: String,
    /// The fine group: no line is drawn between neighbours of one group.
    pub group: u32,
    /// The coarse group: a broad line is drawn between neighbours of different ones.
    pub region: u32,
    /// The colour; `None` for a place that holds nothing.
    pub colour: Option<Colour>,
}

/// The cells of a row, cut where another group begins: what is drawn as one box.
pub fn runs(cells: &[Cell]) -> impl Iterator<Item = &[Cell]> {
    cells.chunk_by(|a, b| (a.group, a.region, a.colour) == (b.group, b.region, b.colour))
}

/// The name of a whole run's group: of its first cell, and of its last where they differ.
pub fn run_name(run: &[Cell]) -> String {
    let (first, last) = (&run[0].group_name, &run[run.len() - 1].group_name);
    if first == last {
        first.clone()
    } else {
        format!("{first} … {last}")
    }
}

/// More cells than anybody reads.
const MOST_CELLS: u64 = 1 << 14;

/// Draws a layout on a tensor of `shape` with elements of `elem_bits`.
///
/// # Errors
/// When the layout does not fit the shape, the picture would be too large to read, or the view does not exist for the
/// layout (a layout in registers has no banks).
pub fn picture(
    layout: &AnyLayout,
    shape: &[u32],
    view: View,
    elem_bits: u32,
) -> Result<Picture, LayoutError> {
    let elements = Dims::from(shape).product();
    if elements > MOST_CELLS {
        return Err(fault(
            "shape",
            sizes(shape),
            format!("at most {MOST_CELLS} elements can be drawn"),
        ));
    }
    if shape.is_empty() {
        return Err(fault(
            "shape",
            "[]".to_owned(),
            "a scalar has no layout to draw".to_owned(),
        ));
    }
    match (layout, view) {
        (AnyLayout::Distributed(layout), View::Tensor) => owners::tensor(layout, shape),
        (AnyLayout::Distributed(layout), View::Hardware) => owners::hardware(layout, shape),
        (AnyLayout::Distributed(layout), View::Banks) => Err(fault(
            "view",
            "banks".to_owned(),
            format!("{layout} lies in registers, which have no banks"),
        )),
        (AnyLayout::Shared(layout), View::Hardware) => memory::lines(layout, shape, elem_bits),
        (AnyLayout::Shared(layout), View::Tensor) => {
            memory::tensor(layout, shape, elem_bits, false)
        }
        (AnyLayout::Shared(layout), View::Banks) => memory::tensor(layout, shape, elem_bits, true),
    }
}

fn fault(field: &'static str, found: String, wanted: String) -> LayoutError {
    LayoutError::Parameter {
        layout: "a picture",
        field,
        found,
        wanted,
    }
}

/// The panels of a tensor: its last two dimensions as rows and columns, a panel for each index of the others; a vector
/// is folded into rows.
fn tensor_panels(shape: &[u32], cell: impl Fn(&[u32]) -> Cell) -> Vec<Panel> {
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

fn names(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
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

/// `32x64`.
fn sizes(shape: &[u32]) -> String {
    shape
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join("×")
}

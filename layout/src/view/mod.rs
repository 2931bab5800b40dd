//! Pictures of layouts.
//!
//! A [`Picture`] is plain data: a grid of cells, each with its text, its colour as numbers and what it belongs to. A
//! terminal may colour the cells as it likes; [`svg`] draws them.

mod colour;
mod memory;
mod owners;
mod panels;
mod picture;
mod refusal;
mod svg;

use refusal::{MOST_CELLS, fault, sizes};

use super::{AnyLayout, Dims, LayoutError};

pub use colour::Colour;
pub use picture::{Cell, Panel, Picture, View, run_name, runs};
pub use svg::svg;

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

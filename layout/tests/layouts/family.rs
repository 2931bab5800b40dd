//! The layouts and shapes over which properties are checked.

use layout::{Axis, Dims, Layout, LinearLayout};

pub(crate) use crate::samples::{MATRIX_LAYOUTS, MATRIX_SHAPES};

/// Shapes with sizes that are no powers of two: the first dimension, the last and both, of large and of small granules.
pub(crate) const CUT_SHAPES: [[u32; 2]; 8] = [
    [64, 24],
    [16, 80],
    [96, 16],
    [24, 48],
    [3, 64],
    [64, 7],
    [112, 2],
    [5, 3],
];

pub(crate) fn layout(text: &str) -> Layout {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Every pair of a layout of the family with a shape.
pub(crate) fn matrices() -> impl Iterator<Item = (Layout, Dims)> {
    let layouts = MATRIX_LAYOUTS.iter().map(|text| layout(text));
    layouts.flat_map(|layout| {
        MATRIX_SHAPES
            .iter()
            .map(move |shape| (layout.clone(), shape.into()))
    })
}

/// Places (register, lane, warp, block) of a map: all of a small one, of a large one every eleventh.
pub(crate) fn places(map: &LinearLayout) -> impl Iterator<Item = [(Axis, u32); 4]> + '_ {
    let count = 1_usize << map.total_in_bits();
    (0..count as u64)
        .step_by(if count > 1024 { 11 } else { 1 })
        .map(|packed| {
            let place = map.unpack_in(packed);
            [
                (Axis::Register, place[0]),
                (Axis::Lane, place[1]),
                (Axis::Warp, place[2]),
                (Axis::Block, place[3]),
            ]
        })
}

/// The row-major number of an element.
pub(crate) fn row_major(coords: &[u32], shape: &[u32]) -> u64 {
    coords.iter().zip(shape).fold(0, |number, (&coord, &size)| {
        number * u64::from(size) + u64::from(coord)
    })
}

//! The layouts of a kernel's tiles as the bases of their maps, from which a page draws them.

use ir::Func;
use layout::linear::cut::is_cut;
use layout::{AnyLayout, Axis, LinearLayout, SharedLayout};

use super::places::Places;
use super::sheet::TileRow;
use crate::harness::verbs::values::{Tile, tiles_of};

/// The tiles of a kernel, those of one layout, shape and width together.
pub(super) fn rows(func: &Func, places: &mut Places) -> Vec<TileRow> {
    let mut rows: Vec<TileRow> = Vec::new();
    for tile in tiles_of(func) {
        let layout = tile.layout.to_string();
        let same = rows
            .iter_mut()
            .find(|row| row.layout == layout && row.shape == tile.shape && row.bits == tile.bits);
        match same {
            Some(row) => row.names.push(tile.name),
            None => rows.push(row(tile, layout, places)),
        }
    }
    rows
}

fn row(tile: Tile, layout: String, places: &mut Places) -> TileRow {
    let place = tile.made_at.as_ref().map(|place| places.place(place));
    let (bases, padding) = map(&tile.layout, &tile.shape);
    TileRow {
        names: vec![tile.name],
        ty: tile.ty,
        place,
        layout,
        bits: tile.bits,
        shape: tile.shape,
        bases,
        padding,
    }
}

type Bases = Vec<(String, Vec<Vec<u32>>)>;

fn map(layout: &AnyLayout, shape: &[u32]) -> (Bases, Vec<[u32; 2]>) {
    match layout {
        AnyLayout::Distributed(layout) => {
            let map = layout.linear(shape);
            (
                map.map_or_else(|_| Bases::new(), |map| bases(&map)),
                Vec::new(),
            )
        }
        // What a shape cuts lies closer than the map says.
        AnyLayout::Shared(_) if is_cut(shape) => (Bases::new(), Vec::new()),
        AnyLayout::Shared(layout) => {
            let map = layout.linear(shape);
            let padding = match layout {
                SharedLayout::Padded(padded) => padded.pairs.clone(),
                SharedLayout::Nvmma(_) | SharedLayout::Swizzled(_) | SharedLayout::Linear(_) => {
                    Vec::new()
                }
            };
            (
                map.map_or_else(|_| Bases::new(), |map| bases(&map)),
                padding,
            )
        }
    }
}

fn bases(map: &LinearLayout) -> Bases {
    let name = |axis: Axis| match axis {
        Axis::Register => "register".to_string(),
        Axis::Lane => "lane".to_string(),
        Axis::Warp => "warp".to_string(),
        Axis::Block => "block".to_string(),
        Axis::Offset => "offset".to_string(),
        Axis::Dim(dim) => format!("dim{dim}"),
    };
    let of = |axis: Axis| {
        let coords = map.basis_coords(axis).into_iter();
        coords.map(|coords| coords.to_vec()).collect()
    };
    map.ins().map(|(axis, _)| (name(axis), of(axis))).collect()
}

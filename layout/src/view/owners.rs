//! The owner of each element.

use super::colour::Colour;
use super::panels::{names, tensor_panels};
use super::picture::{Cell, Panel, Picture};
use super::refusal::{MOST_CELLS, fault, sizes};
use crate::{Axis, Layout, LayoutError, LinearLayout};

/// The tensor, each element with its thread and register.
pub(super) fn tensor(layout: &Layout, shape: &[u32]) -> Result<Picture, LayoutError> {
    let map = layout.linear(shape)?;
    let owner = map
        .right_inverse()
        .expect("a layout reaches every element of its tensor");
    let registers = map.registers();
    let sets = layout.warp_sets();
    let bits = map.total_in_bits() - map.total_out_bits();
    let copies = match sets.divided(shape) {
        Some(_) => 1_u64 << bits,
        None => u64::from(sets.count) << (bits - sets.bits()),
    };
    let cell = |coords: &[u32]| {
        let place = owner.apply_packed(owner.pack_in(&named(coords)));
        owner_cell(&map, &registers, &map.unpack_in(place))
    };
    let held = if copies > 1 {
        format!("; every element is held {copies} times, the first is shown")
    } else {
        String::new()
    };
    let ctas = if map.in_bits(Axis::Block) > 0 {
        "C CTA, "
    } else {
        ""
    };
    Ok(Picture {
        title: format!("{layout} on {}", sizes(shape)),
        legend: format!(
            "{ctas}T thread of the CTA, number: register; a hue per warp, darker: higher lane{held}"
        ),
        panels: tensor_panels(shape, cell),
    })
}

fn named(coords: &[u32]) -> Vec<(Axis, u32)> {
    Axis::dims(coords.len())
        .zip(coords.iter().copied())
        .collect()
}

/// The cell of one element: `place` is (register, lane, warp, block), the register one of those that hold elements.
fn owner_cell(map: &LinearLayout, registers: &[u32], place: &[u32]) -> Cell {
    let &[register, lane, warp, block] = place else {
        panic!("a distributed layout has four inputs")
    };
    let warps = map.in_size(Axis::Warp);
    let cta = if map.in_bits(Axis::Block) > 0 {
        format!("C{block} ")
    } else {
        String::new()
    };
    Cell {
        group_name: format!("{cta}T{}", warp * 32 + lane),
        name: registers
            .partition_point(|&number| number < register)
            .to_string(),
        group: (block * warps + warp) * 32 + lane,
        region: block * warps + warp,
        colour: Some(Colour::around(
            block * warps + warp,
            warps * map.in_size(Axis::Block),
            94 - (lane * 20 / 31) as u8,
        )),
    }
}

/// Copies have places too, so that a small tensor may fill a large picture.
fn check_places(registers: usize, threads: u32) -> Result<(), LayoutError> {
    let most = 4 * MOST_CELLS;
    if registers as u64 * u64::from(threads) <= most {
        return Ok(());
    }
    Err(fault(
        "places",
        format!("{registers} registers of {threads} threads"),
        format!("at most {most} can be drawn; the tensor itself is drawn without its copies"),
    ))
}

/// The machine: a panel per warp, lanes as rows, registers as columns, in each cell the element.
pub(super) fn hardware(layout: &Layout, shape: &[u32]) -> Result<Picture, LayoutError> {
    let map = layout.linear(shape)?;
    let registers = map.registers();
    let (all_warps, blocks) = (map.in_size(Axis::Warp), map.in_size(Axis::Block));
    let warps = layout.warps().unwrap_or(all_warps);
    check_places(registers.len(), 32 * warps * blocks)?;
    let cell = |place: [u32; 4]| {
        let inputs = [Axis::Register, Axis::Lane, Axis::Warp, Axis::Block];
        let coords = map.apply(&inputs.into_iter().zip(place).collect::<Vec<_>>());
        let position = coords
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",");
        Cell {
            name: position,
            group_name: String::new(),
            group: place[0] + (place[1] << 16),
            ..owner_cell(&map, &registers, &place)
        }
    };
    let panel = |block: u32, warp: u32| Panel {
        title: if blocks > 1 {
            format!("CTA {block}, warp {warp}")
        } else {
            format!("warp {warp}")
        },
        rows: (0..map.in_size(Axis::Lane))
            .map(|lane| format!("T{}", warp * 32 + lane))
            .collect(),
        columns: names(0..registers.len() as u32),
        cells: (0..map.in_size(Axis::Lane))
            .map(|lane| {
                registers
                    .iter()
                    .map(|&register| cell([register, lane, warp, block]))
                    .collect()
            })
            .collect(),
    };
    let machine = (0..blocks).flat_map(|block| (0..warps).map(move |warp| (block, warp)));
    Ok(Picture {
        title: format!("{layout} on {}", sizes(shape)),
        legend: "rows: threads, columns: registers, in the cells: the element's coordinates"
            .to_owned(),
        panels: machine.map(|(block, warp)| panel(block, warp)).collect(),
    })
}

//! Where elements lie in shared memory.

use super::colour::Colour;
use super::panels::{names, tensor_panels};
use super::picture::{Cell, Panel, Picture};
use super::refusal::{fault, sizes};
use crate::banks::{BANK_BYTES, BANKS, WAVEFRONT_BYTES};
use crate::local::Storage;
use crate::{Axis, LayoutError, LinearLayout, SharedLayout};

/// Bytes that swizzles move together, and that stay one group of a picture.
const VECTOR_BYTES: u32 = 16;

/// The tensor, each element with its bank, or with its offset and coloured by its 16-byte vector within the line.
pub(super) fn tensor(
    layout: &SharedLayout,
    shape: &[u32],
    elem_bits: u32,
    by_bank: bool,
) -> Result<Picture, LayoutError> {
    let memory = Memory::new(layout, shape, elem_bits)?;
    let cell = |coords: &[u32]| {
        let (byte, block) = memory.place(coords);
        let (bank, vector) = (
            byte / BANK_BYTES % BANKS,
            byte % WAVEFRONT_BYTES / VECTOR_BYTES,
        );
        let cta = if memory.ctas > 1 {
            format!("C{block} ")
        } else {
            String::new()
        };
        Cell {
            group_name: if by_bank {
                format!("{cta}{bank}")
            } else {
                format!("{cta}{}", byte / memory.elem_bytes)
            },
            name: String::new(),
            group: if by_bank {
                byte / BANK_BYTES
            } else {
                vector_group(byte / memory.elem_bytes, memory.elem_bytes, coords)
            },
            region: block,
            colour: Some(if by_bank {
                Colour::around(bank, BANKS, 84)
            } else {
                Colour::around(vector, 8, 84)
            }),
        }
    };
    let legend = if by_bank {
        format!(
            "number and hue: the bank of 4 bytes, of {BANKS}; elements of {elem_bits} bits, one box per word"
        )
    } else {
        format!(
            "number: offset in elements of {elem_bits} bits; a hue per 16-byte column of the 128 bytes of all banks"
        )
    };
    Ok(Picture {
        title: format!("{layout} on {}", sizes(shape)),
        legend,
        panels: tensor_panels(shape, cell),
    })
}

/// Shared memory line by line, each place with the element that lies there; what holds none is empty.
pub(super) fn lines(
    layout: &SharedLayout,
    shape: &[u32],
    elem_bits: u32,
) -> Result<Picture, LayoutError> {
    let memory = Memory::new(layout, shape, elem_bits)?;
    let per_line = (WAVEFRONT_BYTES / memory.elem_bytes).max(1);
    let panel = |block: u32| {
        let places = memory.contents(block);
        let line = |line: usize, places: &[Option<Vec<u32>>]| -> Vec<Cell> {
            let full = (0..per_line as usize).map(|at| places.get(at).and_then(Option::as_ref));
            full.enumerate()
                .map(|(at, coords)| {
                    memory_cell(&memory, shape, line * per_line as usize + at, coords)
                })
                .collect()
        };
        let cells: Vec<Vec<Cell>> = places
            .chunks(per_line as usize)
            .enumerate()
            .map(|(at, places)| line(at, places))
            .collect();
        Panel {
            title: if memory.ctas > 1 {
                format!("CTA {block}")
            } else {
                String::new()
            },
            rows: names((0..cells.len() as u32).map(|line| line * WAVEFRONT_BYTES)),
            columns: (0..per_line)
                .map(|at| column_name(at * memory.elem_bytes))
                .collect(),
            cells,
        }
    };
    Ok(Picture {
        title: format!("{layout} on {}", sizes(shape)),
        legend: format!(
            "rows: lines of 128 bytes (offset in bytes), columns: banks of 4 bytes; in the cells: the element's \
             coordinates, a hue per row of the tensor, empty where there is none; {elem_bits} bits"
        ),
        panels: (0..memory.ctas).map(panel).collect(),
    })
}

/// The bank, above its first byte.
fn column_name(byte: u32) -> String {
    if byte.is_multiple_of(BANK_BYTES) {
        (byte / BANK_BYTES).to_string()
    } else {
        String::new()
    }
}

fn memory_cell(memory: &Memory<'_>, shape: &[u32], at: usize, coords: Option<&Vec<u32>>) -> Cell {
    let Some(coords) = coords else {
        return Cell {
            group: u32::MAX,
            ..Cell::default()
        };
    };
    let row: u32 = coords
        .iter()
        .zip(shape)
        .rev()
        .skip(1)
        .fold((0, 1), |(sum, step), (&c, &s)| (sum + c * step, step * s))
        .0;
    let rows: u32 = shape.iter().rev().skip(1).product();
    Cell {
        group_name: coords
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(","),
        name: String::new(),
        group: vector_group(at as u32, memory.elem_bytes, coords),
        region: 0,
        colour: Some(Colour::around(row, rows.max(8), 84)),
    }
}

/// Neighbours belong together when they lie in one vector and run on both in memory and in the tensor: only then are
/// a first and a last name enough.
fn vector_group(place: u32, elem_bytes: u32, coords: &[u32]) -> u32 {
    let column = coords.last().copied().unwrap_or(0);
    let run = place.wrapping_sub(column) & 0xf_ffff;
    ((place * elem_bytes / VECTOR_BYTES) & 0xfff) << 20 | run
}

/// The places of a tensor's elements.
struct Memory<'a> {
    layout: &'a SharedLayout,
    map: LinearLayout,
    back: LinearLayout,
    /// How offsets close up where the shape cuts them.
    storage: Storage,
    elem_bytes: u32,
    ctas: u32,
}

impl<'a> Memory<'a> {
    fn new(layout: &'a SharedLayout, shape: &[u32], elem_bits: u32) -> Result<Self, LayoutError> {
        // The layout first: by default the width of elements is its own, and so is the mistake.
        let map = layout.linear(shape)?;
        if ![8, 16, 32, 64].contains(&elem_bits) {
            let wanted = "elements have 8, 16, 32 or 64 bits".to_owned();
            return Err(fault("elem_bits", elem_bits.to_string(), wanted));
        }
        let back = map
            .right_inverse()
            .expect("a shared layout reaches every element of its tensor");
        let ctas = map.in_size(Axis::Block);
        Ok(Self {
            storage: Storage::new(layout, shape, elem_bits / 8)?,
            layout,
            map,
            back,
            elem_bytes: elem_bits / 8,
            ctas,
        })
    }

    /// The byte offset and the CTA of an element.
    fn place(&self, coords: &[u32]) -> (u32, u32) {
        let dims: Vec<(Axis, u32)> = Axis::dims(coords.len())
            .zip(coords.iter().copied())
            .collect();
        let place = self.back.apply(&dims);
        (self.padded(place[0]) * self.elem_bytes, place[1])
    }

    fn padded(&self, offset: u32) -> u32 {
        match self.layout {
            SharedLayout::Padded(padded) => padded.padded_offset(offset),
            _ => self.storage.bytes(offset) / self.elem_bytes,
        }
    }

    /// The coordinates at every place of a CTA; `None` in padding, and at offsets that no element is stored at.
    fn contents(&self, block: u32) -> Vec<Option<Vec<u32>>> {
        let is_held = |offset: &u32| {
            let shift = self.map.in_shift(Axis::Offset);
            self.map
                .is_inside(self.map.apply_packed(u64::from(*offset) << shift))
        };
        let offsets = 0..self.map.in_size(Axis::Offset);
        let last = offsets.clone().rev().find(is_held).unwrap_or(0);
        let mut places = vec![None; self.padded(last) as usize + 1];
        for offset in offsets.filter(is_held) {
            let coords = self
                .map
                .apply(&[(Axis::Offset, offset), (Axis::Block, block)]);
            let place = self.padded(offset);
            let is_used = self.place(&coords).0 == place * self.elem_bytes;
            places[place as usize] = is_used.then(|| coords.to_vec());
        }
        places
    }
}

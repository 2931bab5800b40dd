//! Which bytes a TMA copy moves: boxes and im2col pixels, cut at the tensor's edges and permuted in shared memory.

use crate::machine::state::copies::{Other, Piece};
use crate::program::windows::SHARED_BASE;
use ptx::{TensorAccess, TensorMap};
use target::MOST_TENSOR_RANK;

/// Bytes that swizzling moves as a whole.
const CHUNK: u32 = 16;

/// The pieces of a copy whose tile starts at index `tile` of shared memory.
pub(crate) fn pieces(map: &TensorMap, coords: &[i64], offsets: &[u16], tile: u32) -> Vec<Piece> {
    let mut pieces = Vec::new();
    match map.access {
        TensorAccess::Tiled { box_dims } => tiled(map, &box_dims, coords, |row, at| {
            emit_row(map, row, tile, at, &mut pieces);
        }),
        TensorAccess::Im2col { .. } => im2col(map, coords, offsets, |row, at| {
            emit_row(map, row, tile, at, &mut pieces);
        }),
    }
    pieces
}

/// A row of the tile: where its elements lie in the tensor.
struct Row {
    /// Coordinate of the first element along the innermost dimension.
    first: i64,
    count: u32,
    step: u32,
    /// Address of the element with coordinate zero; none when another coordinate is outside.
    base: Option<u64>,
}

/// Calls `f` with every row of a box and its number.
fn tiled(
    map: &TensorMap,
    box_dims: &[u32; MOST_TENSOR_RANK],
    coords: &[i64],
    mut f: impl FnMut(&Row, u32),
) {
    let rank = map.rank as usize;
    let counts: Vec<u32> = (0..rank)
        .map(|axis| box_dims[axis].div_ceil(map.element_strides[axis]))
        .collect();
    let rows: u32 = counts[1..].iter().product();
    for row in 0..rows {
        let mut rest = row;
        let mut base = Some(map.address);
        for axis in 1..rank {
            let at = coords[axis] + i64::from(rest % counts[axis] * map.element_strides[axis]);
            rest /= counts[axis];
            base = base.and_then(|base| step(map, base, axis, at));
        }
        f(
            &Row {
                first: coords[0],
                count: counts[0],
                step: map.element_strides[0],
                base,
            },
            row,
        );
    }
}

/// Moves an address along an axis; none when the coordinate is outside. Addresses are sums modulo 2^64, as the hardware's are: a map may begin outside of its allocation, where what is
/// accessed is inside.
fn step(map: &TensorMap, base: u64, axis: usize, at: i64) -> Option<u64> {
    let inside = (0..map.dims[axis] as i64).contains(&at);
    inside.then(|| base.wrapping_add((at as u64).wrapping_mul(map.strides[axis - 1])))
}

/// Calls `f` with every pixel: the walk starts at the coordinates and stays in the bounding box (PTX ISA 5.5.5).
fn im2col(map: &TensorMap, coords: &[i64], offsets: &[u16], mut f: impl FnMut(&Row, u32)) {
    let TensorAccess::Im2col {
        lower_corner,
        upper_corner,
        channels,
        pixels,
    } = map.access
    else {
        return;
    };
    let rank = map.rank as usize;
    let spatial = rank - 2;
    let mut at: Vec<i64> = coords[1..].to_vec();
    for pixel in 0..u32::from(pixels) {
        let mut base = Some(map.address);
        for axis in 0..spatial {
            let shifted = at[axis] + i64::from(offsets.get(axis).copied().unwrap_or(0));
            base = base.and_then(|base| step(map, base, axis + 1, shifted));
        }
        base = base.and_then(|base| step(map, base, rank - 1, at[spatial]));
        f(
            &Row {
                first: coords[0],
                count: channels.into(),
                step: 1,
                base,
            },
            pixel,
        );
        for axis in 0..spatial {
            at[axis] += i64::from(map.element_strides[axis + 1]);
            if at[axis] < map.dims[axis + 1] as i64 + i64::from(upper_corner[axis]) {
                break;
            }
            at[axis] = lower_corner[axis].into();
            if axis + 1 == spatial {
                at[spatial] += 1;
            }
        }
    }
}

/// Appends the pieces of a row: runs of elements that are inside, and those that are outside.
fn emit_row(map: &TensorMap, row: &Row, tile: u32, number: u32, pieces: &mut Vec<Piece>) {
    let element = map.element.bytes();
    let start = tile + number * row.count * element;
    if row.step != 1 {
        for index in 0..row.count {
            let at = row.first + i64::from(index * row.step);
            let base = row.base.filter(|_| (0..map.dims[0] as i64).contains(&at));
            let other = base.map_or(Other::Outside, |base| {
                Other::Global(base.wrapping_add(at as u64 * u64::from(element)))
            });
            emit_run(map.swizzle, start + index * element, element, other, pieces);
        }
        return;
    }
    let end = row.first + i64::from(row.count);
    let inside = row.first.clamp(0, map.dims[0] as i64)..end.clamp(0, map.dims[0] as i64);
    let Some(base) = row.base.filter(|_| inside.start < inside.end) else {
        return emit_run(
            map.swizzle,
            start,
            row.count * element,
            Other::Outside,
            pieces,
        );
    };
    let before = (inside.start - row.first) as u32 * element;
    let bytes = (inside.end - inside.start) as u32 * element;
    let after = (end - inside.end) as u32 * element;
    emit_run(map.swizzle, start, before, Other::Outside, pieces);
    let other = Other::Global(base.wrapping_add(inside.start as u64 * u64::from(element)));
    emit_run(map.swizzle, start + before, bytes, other, pieces);
    emit_run(
        map.swizzle,
        start + before + bytes,
        after,
        Other::Outside,
        pieces,
    );
}

/// Appends a run of bytes, chunk by chunk where chunks are permuted.
fn emit_run(swizzle: u32, start: u32, bytes: u32, other: Other, pieces: &mut Vec<Piece>) {
    let mut done = 0;
    while done < bytes {
        let at = start + done;
        let count = if swizzle == 0 {
            bytes
        } else {
            (CHUNK - at % CHUNK).min(bytes - done)
        };
        let other = match other {
            Other::Global(address) => Other::Global(address.wrapping_add(u64::from(done))),
            same => same,
        };
        pieces.push(Piece {
            shared: permuted(swizzle, at),
            bytes: count,
            other,
        });
        done += count;
    }
}

/// The index where the byte at index `at` goes: bits of the row number change the number of the chunk. The
/// hardware takes them from the shared address.
fn permuted(swizzle: u32, at: u32) -> u32 {
    let address = at + SHARED_BASE;
    let mask = (swizzle / CHUNK).saturating_sub(1);
    (address ^ (address >> 7 & mask) << 4) - SHARED_BASE
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::{L2Promotion, TensorElement};

    fn map(swizzle: u32, box_dims: [u32; 5]) -> TensorMap {
        TensorMap {
            element: TensorElement::U16,
            rank: 2,
            address: 0x1000,
            dims: [100, 7, 1, 1, 1],
            strides: [256, 0, 0, 0],
            element_strides: [1; 5],
            access: TensorAccess::Tiled { box_dims },
            swizzle,
            nan_fill: false,
            l2_promotion: L2Promotion::None,
        }
    }

    fn describe(pieces: &[Piece]) -> Vec<String> {
        pieces
            .iter()
            .map(|piece| match piece.other {
                Other::Global(address) => {
                    format!("{}+{} from {address:#x}", piece.shared, piece.bytes)
                }
                _ => format!("{}+{} outside", piece.shared, piece.bytes),
            })
            .collect()
    }

    #[test]
    fn boxes_are_cut_at_every_edge() {
        let pieces = pieces(&map(0, [8, 3, 1, 1, 1]), &[96, 5], &[], 0);
        assert_eq!(
            describe(&pieces),
            [
                "0+8 from 0x15c0",
                "8+8 outside",
                "16+8 from 0x16c0",
                "24+8 outside",
                "32+16 outside"
            ]
        );
        let pieces = super::pieces(&map(0, [8, 1, 1, 1, 1]), &[-3, 0], &[], 0);
        assert_eq!(describe(&pieces), ["0+6 outside", "6+10 from 0x1000"]);
    }

    #[test]
    fn chunks_are_permuted_by_the_row() {
        let pieces = pieces(&map(128, [64, 2, 1, 1, 1]), &[0, 0], &[], 0);
        assert_eq!(pieces.len(), 16);
        assert_eq!(pieces[8].shared, 128 + 16);
        assert_eq!(pieces[9].shared, 128);
        let narrow = super::pieces(&map(32, [16, 5, 1, 1, 1]), &[0, 0], &[], 0);
        assert_eq!(narrow[8].shared, 128 + 16);
    }

    #[test]
    fn pixels_walk_through_the_bounding_box() {
        let map = TensorMap {
            rank: 4,
            dims: [8, 4, 3, 2, 1],
            strides: [16, 64, 192, 0],
            access: TensorAccess::Im2col {
                lower_corner: [-1, -1, 0],
                upper_corner: [-1, -1, 0],
                channels: 8,
                pixels: 6,
            },
            ..map(0, [1; 5])
        };
        let pieces = pieces(&map, &[0, -1, -1, 0], &[1, 1], 0);
        // W runs over -1, 0, 1, 2 and H over -1, 0; the offset of one shifts every pixel.
        let expected = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)];
        for (pixel, (piece, (w, h))) in pieces.iter().zip(expected).enumerate() {
            let text = format!("{}+16 from {:#x}", pixel * 16, 0x1000 + w * 16 + h * 64);
            assert_eq!(describe(&[*piece]), [text]);
        }
    }
}

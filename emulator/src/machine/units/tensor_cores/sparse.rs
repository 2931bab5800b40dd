//! The sparse operand A of a `wgmma.mma_async.sp` (PTX ISA 9.7.15.6): the positions of the packed elements of a row.
//!
//! A row is cut into chunks of 4 bits of metadata each. A chunk of four elements has two places of 2 bits, the first packed
//! element's in the lower ones; one of two elements of 4 bytes has the places of both halves of its one packed element. Places
//! that repeat are undefined (ISA 9.7.15.6.1).

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::lanes::Registers;
use crate::machine::units::tensor_cores::operands::ROWS;
use crate::program::matrix::{GroupMultiply, SparseRows};

/// Chunks whose metadata a half of a register has.
const CHUNKS: usize = 4;

/// The place in its row of each packed element of the warp's 16 rows, row by row.
pub(crate) fn places_of_kept(
    regs: &Registers,
    op: &GroupMultiply,
    sparse: SparseRows,
) -> Stepped<Vec<u8>> {
    let words = &regs.words[sparse.metadata as usize].0;
    let bytes = op.a_element.bytes();
    let per_chunk = if bytes == 4 { 1 } else { 2 };
    let mut places = Vec::with_capacity(ROWS * op.columns);
    for row in 0..ROWS {
        for chunk in 0..op.columns / per_chunk {
            let (lane, half) = source(bytes, row, chunk / CHUNKS, sparse.selector);
            let bits = words[lane] >> (16 * half + 4 * (chunk % CHUNKS)) & 0xf;
            let found = if bytes == 4 {
                place_of_one(bits).map(|place| (2 * chunk as u8 + place, None))
            } else {
                let place = |at: u32| 4 * chunk as u8 + (bits >> at & 3) as u8;
                (place(0) < place(2)).then(|| (place(0), Some(place(2))))
            };
            let Some((first, second)) = found else {
                return Err(undefined(row, chunk, bits, lane));
            };
            places.push(first);
            places.extend(second);
        }
    }
    Ok(places)
}

/// The lane that gives the metadata of four chunks of a row, and which half of its register (PTX ISA 9.7.15.6.2).
fn source(bytes: usize, row: usize, chunks: usize, selector: bool) -> (usize, usize) {
    let (group, is_lower) = (row % 8 * 4, row / 8);
    if bytes == 1 {
        (group + is_lower + chunks / 2 * 2, chunks % 2)
    } else {
        (group + 2 * usize::from(selector) + chunks, is_lower)
    }
}

/// The first or second of two elements of 4 bytes, each of which has the places of two halves.
fn place_of_one(bits: u32) -> Option<u8> {
    match bits {
        0b0100 => Some(0),
        0b1110 => Some(1),
        _ => None,
    }
}

fn undefined(row: usize, chunk: usize, bits: u32, lane: usize) -> Box<Trouble> {
    let message = format!(
        "the metadata {bits:#06b} of chunk {chunk} of row {row} of the warp does not name different elements in ascending order, which is undefined"
    );
    Trouble::new(FaultKind::Wgmma, 1 << lane, message)
}

/// Adds a row of packed elements times the rows of B at their places; four at once, as of a dense row.
pub(crate) fn multiply_sparse_row(
    sums: &mut [f32],
    a: &[f32],
    places: &[u8],
    b: &[f32],
    sign: f32,
) {
    let n = sums.len();
    let (fours, _) = a.as_chunks::<4>();
    let (places, _) = places.as_chunks::<4>();
    for (factors, places) in fours.iter().zip(places) {
        let [b0, b1, b2, b3] = places.map(|place| &b[usize::from(place) * n..][..n]);
        let [f0, f1, f2, f3] = factors.map(|factor| factor * sign);
        for ((((sum, b0), b1), b2), b3) in sums.iter_mut().zip(b0).zip(b1).zip(b2).zip(b3) {
            *sum += (f0 * b0 + f1 * b1) + (f2 * b2 + f3 * b3);
        }
    }
}

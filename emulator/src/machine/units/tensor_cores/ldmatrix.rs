//! `ldmatrix`, `stmatrix` and `movmatrix` (PTX ISA 9.7.14.5.15 to 9.7.14.5.17).

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::lanes::{LANES, Lanes32};
use crate::machine::memory::address::{Target, addresses};
use crate::machine::memory::misuse::check_aligned;
use crate::machine::memory::time::Does;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::matrix::MoveMatrix;

/// Bytes of a row of a matrix.
const ROW: u32 = 16;

/// A matrix as eight rows of eight elements.
type Rows = [[u16; 8]; 8];

/// The two elements that a lane holds of a matrix: row and column of each.
fn places(lane: usize, transposed: bool) -> [(usize, usize); 2] {
    let (group, pair) = (lane / 4, lane % 4 * 2);
    if transposed {
        [(pair, group), (pair + 1, group)]
    } else {
        [(group, pair), (group, pair + 1)]
    }
}

fn to_lanes(rows: &Rows, transposed: bool) -> Lanes32 {
    Lanes32(std::array::from_fn(|lane| {
        let [low, high] =
            places(lane, transposed).map(|(row, column)| u32::from(rows[row][column]));
        low | high << 16
    }))
}

fn from_lanes(lanes: &Lanes32, transposed: bool) -> Rows {
    let mut rows = [[0; 8]; 8];
    for lane in 0..LANES {
        let [low, high] = places(lane, transposed);
        rows[low.0][low.1] = lanes.0[lane] as u16;
        rows[high.0][high.1] = (lanes.0[lane] >> 16) as u16;
    }
    rows
}

impl Worker<'_> {
    pub(crate) fn move_matrix(&mut self, scene: &mut Scene<'_>, op: &MoveMatrix) -> Stepped {
        scene.check_whole_warp(if op.is_store { "stmatrix" } else { "ldmatrix" })?;
        let verb = if op.is_store { "store" } else { "load" };
        let all = addresses(&scene.warp.regs, &op.base);
        scene.warp.has_accessed = true;
        // Lanes 8 i to 8 i + 7 give the rows of matrix i; the addresses of the others do not matter.
        let mut rest = u32::MAX >> (32 - 8 * op.registers.len() as u32);
        let givers = rest;
        let Some((target, lanes, within)) = Target::next(op.space, &all, &mut rest) else {
            return Ok(());
        };
        check_aligned(Memory::Shared, verb, &within, givers, ROW)?;
        if lanes != givers || target != Target::Shared {
            return Err(not_shared(&all, op.is_store));
        }
        let does = if op.is_store {
            self.counts.store(Memory::Shared, givers, ROW);
            Does::Store
        } else {
            self.counts.load(Memory::Shared, givers, ROW);
            Does::Load { asks_l1: false }
        };
        self.time_access(scene, target, (givers, &within), (ROW, does));
        for (index, &register) in op.registers.iter().enumerate() {
            if op.is_store {
                let rows = from_lanes(&scene.warp.regs.words[register as usize], op.transposed);
                for (row, values) in rows.iter().enumerate() {
                    let lane = index * 8 + row;
                    let mut bytes = [0; ROW as usize];
                    bytes
                        .as_chunks_mut::<2>()
                        .0
                        .iter_mut()
                        .zip(values)
                        .for_each(|(b, v)| *b = v.to_le_bytes());
                    self.store_shared(scene, lane, within[lane], &bytes)?;
                }
            } else {
                let mut rows = [[0; 8]; 8];
                for (row, values) in rows.iter_mut().enumerate() {
                    let lane = index * 8 + row;
                    let bytes: [u8; ROW as usize] = self.load_shared(scene, lane, within[lane])?;
                    values
                        .iter_mut()
                        .zip(bytes.as_chunks::<2>().0)
                        .for_each(|(v, b)| *v = u16::from_le_bytes(*b));
                }
                scene
                    .warp
                    .regs
                    .put32(register, u32::MAX, &to_lanes(&rows, op.transposed));
            }
        }
        Ok(())
    }

    pub(crate) fn transpose_matrix(
        &mut self,
        scene: &mut Scene<'_>,
        dst: u32,
        src: u32,
    ) -> Stepped {
        scene.check_whole_warp("movmatrix")?;
        let rows = from_lanes(&scene.warp.regs.words[src as usize], false);
        scene.warp.regs.put32(dst, u32::MAX, &to_lanes(&rows, true));
        Ok(())
    }
}

fn not_shared(addresses: &[u64; LANES], is_store: bool) -> Box<Trouble> {
    let name = if is_store { "stmatrix" } else { "ldmatrix" };
    let message = format!(
        "{name} works on shared memory, and {:#x} is no address of it",
        addresses[0]
    );
    Trouble::access(FaultKind::OutOfBounds, 0, addresses[0], ROW, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_to_lanes_and_back_are_unchanged() {
        let rows: Rows =
            std::array::from_fn(|row| std::array::from_fn(|column| (row * 8 + column) as u16));
        for transposed in [false, true] {
            assert_eq!(from_lanes(&to_lanes(&rows, transposed), transposed), rows);
        }
        assert_eq!(to_lanes(&rows, false).0[5], 0xb_000a);
        assert_eq!(to_lanes(&rows, true).0[5], (2 * 8 + 1) | (3 * 8 + 1) << 16);
    }
}

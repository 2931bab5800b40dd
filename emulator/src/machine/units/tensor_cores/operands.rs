//! Operands and accumulators of a `wgmma`: which chunks of shared memory it reads, and what it adds where.

use crate::fault::{Memory, Stepped};
use crate::lanes::{LANES, Registers};
use crate::machine::state::matrix_descriptor::{CHUNK, Descriptor};
use crate::machine::state::scene::{Scene, Worker};
use crate::machine::units::tensor_cores::element::widen;
use crate::machine::units::tensor_cores::mma::accumulator_place;
use crate::numeric::half;
use crate::program::matrix::GroupMultiply;
use ptx::Type;

/// Rows of the result that a warp has.
pub(crate) const ROWS: usize = 16;

impl Worker<'_> {
    pub(crate) fn chunk(&self, scene: &Scene<'_>, address: u32) -> Stepped<[u8; CHUNK]> {
        let shared = &scene.cluster.ctas[scene.cta].shared;
        let index = shared.index(address.into(), CHUNK as u32);
        let index = index.ok_or_else(|| {
            shared.outside(
                Memory::Shared,
                "wgmma read",
                0,
                address.into(),
                CHUNK as u32,
            )
        })?;
        Ok(shared.get(index))
    }

    /// The 16 rows of A of this warp, row by row.
    pub(crate) fn read_left(
        &self,
        scene: &Scene<'_>,
        op: &GroupMultiply,
        descriptor: &Descriptor,
    ) -> Stepped<Vec<f32>> {
        let mut values = vec![0.0; ROWS * op.columns];
        let chunks = left_chunks(descriptor, op, scene.warp.index % 4);
        let per_chunk = CHUNK / op.a_element.bytes();
        let mut part = [0.0; CHUNK];
        for (index, &address) in chunks.iter().enumerate() {
            widen(op.a_element, &self.chunk(scene, address)?, &mut part);
            if op.a_transposed {
                let (depth, row) = (index / 2, index % 2 * 8);
                (0..8).for_each(|i| values[(row + i) * op.columns + depth] = part[i]);
            } else {
                let at = index / 2 * op.columns + index % 2 * per_chunk;
                values[at..at + per_chunk].copy_from_slice(&part[..per_chunk]);
            }
        }
        Ok(values)
    }

    /// B as `k` rows of `n`.
    pub(crate) fn read_right(
        &self,
        scene: &Scene<'_>,
        op: &GroupMultiply,
        descriptor: &Descriptor,
        out: &mut [f32],
    ) -> Stepped {
        let chunks = right_chunks(descriptor, op);
        let per_chunk = CHUNK / op.b_element.bytes();
        let mut part = [0.0; CHUNK];
        for (index, &address) in chunks.iter().enumerate() {
            widen(op.b_element, &self.chunk(scene, address)?, &mut part);
            if op.b_transposed {
                let per_row = op.n / 8;
                let at = index / per_row * op.n + index % per_row * 8;
                out[at..at + 8].copy_from_slice(&part[..8]);
            } else {
                let per_row = op.k / per_chunk;
                let (column, depth) = (index / per_row, index % per_row * per_chunk);
                (0..per_chunk).for_each(|i| out[(depth + i) * op.n + column] = part[i]);
            }
        }
        Ok(())
    }
}

/// Chunks of the rows of A that warp `quarter` of the group reads.
pub(crate) fn left_chunks(descriptor: &Descriptor, op: &GroupMultiply, quarter: u32) -> Vec<u32> {
    if op.a_transposed {
        return (0..op.columns as u32 * 2)
            .map(|i| descriptor.along_mn(i / 2, quarter * 2 + i % 2))
            .collect();
    }
    (0..ROWS as u32 * 2)
        .map(|i| descriptor.along_k(quarter * 16 + i / 2, i % 2))
        .collect()
}

pub(crate) fn right_chunks(descriptor: &Descriptor, op: &GroupMultiply) -> Vec<u32> {
    if op.b_transposed {
        let per_row = op.n as u32 / 8;
        return (0..op.k as u32 * per_row)
            .map(|i| descriptor.along_mn(i / per_row, i % per_row))
            .collect();
    }
    let per_row = (op.k * op.b_element.bytes() / CHUNK) as u32;
    (0..op.n as u32 * per_row)
        .map(|i| descriptor.along_k(i / per_row, i % per_row))
        .collect()
}

/// Adds a row of A times B; four depths at once keep the sums in registers longer.
pub(crate) fn multiply_row(sums: &mut [f32], a: &[f32], b: &[f32], n: usize, sign: f32) {
    let (fours, _) = a.as_chunks::<4>();
    for (depth, factors) in fours.iter().enumerate() {
        let rows = &b[depth * 4 * n..(depth + 1) * 4 * n];
        let (b0, rest) = rows.split_at(n);
        let (b1, rest) = rest.split_at(n);
        let (b2, b3) = rest.split_at(n);
        let [f0, f1, f2, f3] = factors.map(|factor| factor * sign);
        for ((((sum, b0), b1), b2), b3) in sums.iter_mut().zip(b0).zip(b1).zip(b2).zip(b3) {
            *sum += (f0 * b0 + f1 * b1) + (f2 * b2 + f3 * b3);
        }
    }
}

pub(crate) fn add_to_accumulators(
    regs: &mut Registers,
    op: &GroupMultiply,
    sums: &[f32],
    accumulate: bool,
) {
    for index in 0..op.n / 2 {
        for lane in 0..LANES {
            let (row, column) = accumulator_place(lane, index);
            let sum = sums[row * op.n + column];
            match op.d_type {
                Type::F16 => {
                    let cell = &mut regs.words[op.d[index / 2] as usize].0[lane];
                    let shift = 16 * (index % 2);
                    let old = if accumulate {
                        half::f16_to_f32((*cell >> shift) as u16)
                    } else {
                        0.0
                    };
                    let new = half::f64_to_f16(f64::from(old) + f64::from(sum));
                    *cell = *cell & !(0xffff << shift) | u32::from(new) << shift;
                }
                Type::S32 => {
                    let cell = &mut regs.words[op.d[index] as usize].0[lane];
                    let old = if accumulate { *cell as i32 } else { 0 };
                    let new = if op.saturate {
                        old.saturating_add(sum as i32)
                    } else {
                        old.wrapping_add(sum as i32)
                    };
                    *cell = new as u32;
                }
                _ => {
                    let cell = &mut regs.words[op.d[index] as usize].0[lane];
                    let old = if accumulate {
                        f32::from_bits(*cell)
                    } else {
                        0.0
                    };
                    *cell = (old + sum).to_bits();
                }
            }
        }
    }
}

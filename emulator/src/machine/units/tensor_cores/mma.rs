//! `mma.sync` (PTX ISA 9.7.14.5).

use crate::fault::Stepped;
use crate::lanes::{LANES, Registers};
use crate::machine::state::scene::{Scene, Worker};
use crate::machine::units::tensor_cores::element::widen;
use crate::numeric::half;
use crate::program::matrix::{Element, Multiply};
use ptx::Type;

/// Elements of A that warps hold in registers: `m` rows of `k`, row by row.
pub(crate) fn left_fragment(
    regs: &Registers,
    slots: &[u32],
    element: Element,
    k: usize,
) -> Vec<f32> {
    let per_register = 4 / element.bytes();
    let mut values = vec![0.0; 16 * k];
    let mut part = [0.0; 4];
    for (index, &slot) in slots.iter().enumerate() {
        for lane in 0..LANES {
            let bytes = regs.words[slot as usize].0[lane].to_le_bytes();
            widen(element, &bytes, &mut part);
            let row = lane / 4 + 8 * (index % 2);
            let column = lane % 4 * per_register + 4 * per_register * (index / 2);
            values[row * k + column..][..per_register].copy_from_slice(&part[..per_register]);
        }
    }
    values
}

/// Elements of B: `k` rows of `n`, row by row.
fn right_fragment(
    regs: &Registers,
    slots: &[u32],
    element: Element,
    n: usize,
    k: usize,
) -> Vec<f32> {
    let per_register = 4 / element.bytes();
    let mut values = vec![0.0; k * n];
    let mut part = [0.0; 4];
    for (index, &slot) in slots.iter().enumerate() {
        for lane in 0..LANES {
            let bytes = regs.words[slot as usize].0[lane].to_le_bytes();
            widen(element, &bytes, &mut part);
            for (offset, &value) in part.iter().enumerate().take(per_register) {
                let row = lane % 4 * per_register + 4 * per_register * index + offset;
                values[row * n + lane / 4] = value;
            }
        }
    }
    values
}

/// Row and column of accumulator `index` of a lane.
pub(crate) fn accumulator_place(lane: usize, index: usize) -> (usize, usize) {
    (
        lane / 4 + 8 * (index / 2 % 2),
        index / 4 * 8 + lane % 4 * 2 + index % 2,
    )
}

/// Accumulators of 16 rows and `n` columns as numbers; f16 ones lie in pairs.
pub(crate) fn read_accumulators(regs: &Registers, slots: &[u32], ty: Type, n: usize) -> Vec<f64> {
    let mut values = vec![0.0; 16 * n];
    let count = n / 2;
    for index in 0..count {
        for lane in 0..LANES {
            let (row, column) = accumulator_place(lane, index);
            let cell = |slot: u32| regs.words[slot as usize].0[lane];
            values[row * n + column] = match ty {
                Type::F16 => {
                    half::f16_to_f32((cell(slots[index / 2]) >> (16 * (index % 2))) as u16).into()
                }
                Type::S32 => f64::from(cell(slots[index]) as i32),
                _ => f32::from_bits(cell(slots[index])).into(),
            };
        }
    }
    values
}

/// Writes accumulators back.
pub(crate) fn write_accumulators(
    regs: &mut Registers,
    slots: &[u32],
    ty: Type,
    n: usize,
    values: &[f64],
    saturate: bool,
) {
    for index in 0..n / 2 {
        for lane in 0..LANES {
            let (row, column) = accumulator_place(lane, index);
            let value = values[row * n + column];
            match ty {
                Type::F16 => {
                    let cell = &mut regs.words[slots[index / 2] as usize].0[lane];
                    let shift = 16 * (index % 2);
                    *cell =
                        *cell & !(0xffff << shift) | u32::from(half::f64_to_f16(value)) << shift;
                }
                Type::S32 if saturate => {
                    regs.words[slots[index] as usize].0[lane] = value as i32 as u32;
                }
                Type::S32 => regs.words[slots[index] as usize].0[lane] = value as i64 as u32,
                _ => regs.words[slots[index] as usize].0[lane] = (value as f32).to_bits(),
            }
        }
    }
}

impl Worker<'_> {
    pub(crate) fn multiply(&mut self, scene: &mut Scene<'_>, op: &Multiply) -> Stepped {
        scene.check_whole_warp("mma")?;
        let regs = &mut scene.warp.regs;
        if op.a_element == Element::F64 {
            multiply_f64(regs, op);
            return Ok(());
        }
        let a = left_fragment(regs, &op.a, op.a_element, op.k);
        let b = right_fragment(regs, &op.b, op.b_element, op.n, op.k);
        let mut d = read_accumulators(regs, &op.c, op.c_type, op.n);
        for row in 0..op.m {
            for depth in 0..op.k {
                let factor = f64::from(a[row * op.k + depth]);
                for column in 0..op.n {
                    d[row * op.n + column] += factor * f64::from(b[depth * op.n + column]);
                }
            }
        }
        write_accumulators(regs, &op.d, op.d_type, op.n, &d, op.saturate);
        Ok(())
    }
}

/// f64 products: one element a register (PTX ISA 9.7.14.5.1 and the m16n8 shapes of `sm_90`).
fn multiply_f64(regs: &mut Registers, op: &Multiply) {
    let value = |regs: &Registers, slot: u32, lane: usize| {
        f64::from_bits(regs.doubles[slot as usize].0[lane])
    };
    let rows = op.m / 8;
    let mut a = vec![0.0; op.m * op.k];
    let mut b = vec![0.0; op.k * op.n];
    for lane in 0..LANES {
        for (index, &slot) in op.a.iter().enumerate() {
            let (row, column) = (lane / 4 + 8 * (index % rows), lane % 4 + 4 * (index / rows));
            a[row * op.k + column] = value(regs, slot, lane);
        }
        for (index, &slot) in op.b.iter().enumerate() {
            b[(lane % 4 + 4 * index) * op.n + lane / 4] = value(regs, slot, lane);
        }
    }
    let mut results = Vec::new();
    for (index, (&c, &d)) in op.c.iter().zip(&op.d).enumerate() {
        for lane in 0..LANES {
            let (row, column) = accumulator_place(lane, index);
            let mut sum = value(regs, c, lane);
            for depth in 0..op.k {
                sum = a[row * op.k + depth].mul_add(b[depth * op.n + column], sum);
            }
            results.push((d, lane, sum));
        }
    }
    for (slot, lane, sum) in results {
        regs.doubles[slot as usize].0[lane] = sum.to_bits();
    }
}

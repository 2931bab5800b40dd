//! Elements between registers and the memory of a CTA.

use crate::lanes::{LANES, Lanes32, Lanes64, PerLane, Registers};
use crate::machine::state::linear::Linear;
use crate::program::{Cell, Extend, File};

/// The value of an element of at most eight bytes as its register holds it.
#[inline(always)]
fn extended(value: u64, element: u32, extend: Extend, register_bits: u32) -> u64 {
    if extend == Extend::Zero || element * 8 >= register_bits {
        return value;
    }
    let shift = 64 - element * 8;
    ((value << shift) as i64 >> shift) as u64 & (u64::MAX >> (64 - register_bits))
}

/// Writes one element per lane to a register.
#[inline(always)]
pub(crate) fn put_elements(
    regs: &mut Registers,
    cell: Cell,
    (element, extend): (u32, Extend),
    mask: u32,
    values: &PerLane,
) {
    if cell.file == File::Double {
        let mut out = Lanes64([0; LANES]);
        for lane in 0..LANES {
            out.0[lane] = extended(values[lane], element, extend, 64);
        }
        regs.put64(cell.slot, mask, &out);
        return;
    }
    let mut out = Lanes32([0; LANES]);
    for lane in 0..LANES {
        out.0[lane] = extended(values[lane], element, extend, cell.bits) as u32;
    }
    regs.put32(cell.slot, mask, &out);
}

/// The register of a cell in all lanes, as 64 bits.
#[inline(always)]
pub(crate) fn get_elements(regs: &Registers, cell: Cell) -> PerLane {
    if cell.file == File::Double {
        return regs.doubles[cell.slot as usize].0;
    }
    regs.words[cell.slot as usize].0.map(u64::from)
}

/// Reads an element of at most eight bytes.
#[inline(always)]
pub(crate) fn read(memory: &Linear, index: usize, element: u32) -> u64 {
    match element {
        1 => memory.bytes[index].into(),
        2 => u16::from_le_bytes(memory.get(index)).into(),
        4 => u32::from_le_bytes(memory.get(index)).into(),
        _ => u64::from_le_bytes(memory.get(index)),
    }
}

/// Writes an element of at most eight bytes.
#[inline(always)]
pub(crate) fn write(memory: &mut Linear, index: usize, element: u32, value: u64) {
    match element {
        1 => memory.put(index, [value as u8]),
        2 => memory.put(index, (value as u16).to_le_bytes()),
        4 => memory.put(index, (value as u32).to_le_bytes()),
        _ => memory.put(index, value.to_le_bytes()),
    }
}

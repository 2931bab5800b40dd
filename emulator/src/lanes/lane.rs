//! How a value of each type lies in the register files.

use super::registers::{LANES, Lanes32, Lanes64, Registers};

/// A type whose values registers hold.
pub(crate) trait Lane: Copy {
    /// All lanes of a register.
    type Cells: Copy;
    /// A register whose contents do not matter.
    const BLANK: Self::Cells;
    /// The register in `slot` of the file for this type.
    fn cells(regs: &Registers, slot: u32) -> &Self::Cells;
    /// The value in one lane.
    fn get(cells: &Self::Cells, lane: usize) -> Self;
    /// Sets the value in one lane.
    fn set(self, cells: &mut Self::Cells, lane: usize);
    /// Writes the lanes of `mask`.
    fn put(regs: &mut Registers, slot: u32, mask: u32, cells: &Self::Cells);
}

/// The pattern of an f16.
#[derive(Clone, Copy)]
pub(crate) struct F16(pub(crate) u16);

/// The pattern of a bf16.
#[derive(Clone, Copy)]
pub(crate) struct Bf16(pub(crate) u16);

macro_rules! lane {
    ($cells:ident, $file:ident, $zero:expr, $put:ident: $($ty:ty, |$bits:ident| $get:expr, |$value:ident| $set:expr;)+) => { $(
        impl Lane for $ty {
            type Cells = $cells;
            const BLANK: $cells = $cells([$zero; LANES]);

            #[inline(always)]
            fn cells(regs: &Registers, slot: u32) -> &$cells {
                &regs.$file[slot as usize]
            }

            #[inline(always)]
            fn get(cells: &$cells, lane: usize) -> Self {
                let $bits = cells.0[lane];
                $get
            }

            #[inline(always)]
            fn set(self, cells: &mut $cells, lane: usize) {
                let $value = self;
                cells.0[lane] = $set;
            }

            #[inline(always)]
            fn put(regs: &mut Registers, slot: u32, mask: u32, cells: &$cells) {
                regs.$put(slot, mask, cells);
            }
        }
    )+ };
}

lane! { Lanes32, words, 0, put32:
    u32, |bits| bits, |value| value;
    i32, |bits| bits as i32, |value| value as u32;
    f32, |bits| f32::from_bits(bits), |value| value.to_bits();
    u16, |bits| bits as u16, |value| u32::from(value);
    i16, |bits| bits as i16, |value| u32::from(value as u16);
    F16, |bits| F16(bits as u16), |value| u32::from(value.0);
    Bf16, |bits| Bf16(bits as u16), |value| u32::from(value.0);
}

lane! { Lanes64, doubles, 0, put64:
    u64, |bits| bits, |value| value;
    i64, |bits| bits as i64, |value| value as u64;
    f64, |bits| f64::from_bits(bits), |value| value.to_bits();
}

impl Lane for bool {
    type Cells = u32;
    const BLANK: u32 = 0;

    #[inline(always)]
    fn cells(regs: &Registers, slot: u32) -> &u32 {
        &regs.predicates[slot as usize]
    }

    #[inline(always)]
    fn get(cells: &u32, lane: usize) -> Self {
        cells >> lane & 1 == 1
    }

    #[inline(always)]
    fn set(self, cells: &mut u32, lane: usize) {
        *cells |= u32::from(self) << lane;
    }

    #[inline(always)]
    fn put(regs: &mut Registers, slot: u32, mask: u32, cells: &u32) {
        regs.put_predicate(slot, mask, *cells);
    }
}

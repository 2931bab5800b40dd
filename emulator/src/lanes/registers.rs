//! Registers of a warp: every register is an array over the 32 lanes, so that one instruction is one loop that the
//! compiler turns into vector code.

use super::wraps::Wraps;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// An address, or an offset, in each lane.
pub(crate) type PerLane = [u64; LANES];

/// A 32-bit register (or a 16-bit one, its upper half zero) in all lanes.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Lanes32(pub(crate) [u32; LANES]);

/// A 64-bit register in all lanes.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Lanes64(pub(crate) [u64; LANES]);

/// All ones in the lanes of `mask`: the form in which vector code selects.
#[inline(always)]
pub(crate) fn spread(mask: u32) -> [u32; LANES] {
    let mut wide = [0; LANES];
    for (lane, cell) in wide.iter_mut().enumerate() {
        *cell = if mask & (1 << lane) != 0 { u32::MAX } else { 0 };
    }
    wide
}

/// The lanes of `mask`, lowest first.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}

/// The registers of one warp. Constants and special registers are registers too, filled before the warp starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) words: Vec<Lanes32>,
    pub(crate) doubles: Vec<Lanes64>,
    /// One bit per lane. Slot zero is true in every lane.
    pub(crate) predicates: Vec<u32>,
    /// The condition code that extended-precision arithmetic reads and writes, one bit per lane.
    pub(crate) carry: u32,
    /// Integers that are not what unlimited precision would give.
    pub(crate) wraps: Wraps,
}

impl Registers {
    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn put32(&mut self, slot: u32, mask: u32, value: &Lanes32) {
        let target = &mut self.words[slot as usize];
        if mask == u32::MAX {
            *target = *value;
            return;
        }
        let select = spread(mask);
        for lane in 0..LANES {
            target.0[lane] = target.0[lane] & !select[lane] | value.0[lane] & select[lane];
        }
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn put64(&mut self, slot: u32, mask: u32, value: &Lanes64) {
        let target = &mut self.doubles[slot as usize];
        if mask == u32::MAX {
            *target = *value;
            return;
        }
        for lane in 0..LANES {
            if mask & (1 << lane) != 0 {
                target.0[lane] = value.0[lane];
            }
        }
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn put_predicate(&mut self, slot: u32, mask: u32, value: u32) {
        let target = &mut self.predicates[slot as usize];
        *target = *target & !mask | value & mask;
    }
}

/// Where an instruction finds its operands: slots of [`Registers`], each in the file that its type says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots {
    pub(crate) d: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
    pub(crate) e: u32,
}

impl Slots {
    /// Of an operation on one operand.
    pub(crate) fn unary(d: u32, a: u32) -> Self {
        Self::ternary(d, a, 0, 0)
    }

    /// Of one on two.
    pub(crate) fn binary(d: u32, a: u32, b: u32) -> Self {
        Self::ternary(d, a, b, 0)
    }

    /// Of one on three.
    pub(crate) fn ternary(d: u32, a: u32, b: u32, c: u32) -> Self {
        Self { d, a, b, c, e: 0 }
    }
}

/// Executes one instruction in the lanes of a mask.
pub(crate) type Exec = fn(&mut Registers, &Slots, u32);

/// Makes an [`Exec`] out of an expression over single lanes.
///
/// The expression runs in all lanes, also those outside the mask, and must not fail in any.
macro_rules! lanes {
    (|$a:ident: $ta:ty $(, $b:ident: $tb:ty $(, $c:ident: $tc:ty $(, $e:ident: $te:ty)?)?)?| -> $td:ty { $($body:tt)* }) => {{
        fn run(regs: &mut $crate::lanes::Registers, slots: &$crate::lanes::Slots, mask: u32) {
            use $crate::lanes::Lane as _;
            let mut out = <$td>::BLANK;
            {
                let a = <$ta>::cells(regs, slots.a);
                $(let b = <$tb>::cells(regs, slots.b);
                $(let c = <$tc>::cells(regs, slots.c);
                $(let e = <$te>::cells(regs, slots.e);)?)?)?
                for lane in 0..$crate::lanes::LANES {
                    let $a = <$ta>::get(a, lane);
                    $(let $b = <$tb>::get(b, lane);
                    $(let $c = <$tc>::get(c, lane);
                    $(let $e = <$te>::get(e, lane);)?)?)?
                    let value: $td = { $($body)* };
                    value.set(&mut out, lane);
                }
            }
            <$td>::put(regs, slots.d, mask, &out);
        }
        run as $crate::lanes::Exec
    }};
}
pub(crate) use lanes;

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        let ramp = Lanes32(std::array::from_fn(|lane| lane as u32));
        let wide = Lanes64(std::array::from_fn(|lane| lane as u64 * 1_000));
        Registers {
            words: vec![ramp; 4],
            doubles: vec![wide; 4],
            predicates: vec![u32::MAX, 0, 0xf0],
            carry: 0,
            wraps: Wraps::default(),
        }
    }

    #[test]
    fn only_lanes_of_the_mask_are_written() {
        for mask in [0, 1, 0x8000_0000, 0x00ff_0f0f, u32::MAX] {
            let mut regs = registers();
            let double = lanes!(|a: u32, b: u32| -> u32 { a + b });
            double(&mut regs, &Slots::binary(0, 0, 1), mask);
            let wide = lanes!(|a: u32, b: u64| -> u64 { u64::from(a) + b });
            wide(&mut regs, &Slots::binary(0, 1, 0), mask);
            for lane in 0..LANES {
                let active = u32::from(mask >> lane & 1 == 1);
                assert_eq!(regs.words[0].0[lane], lane as u32 * (1 + active));
                assert_eq!(
                    regs.doubles[0].0[lane],
                    lane as u64 * (1_000 + u64::from(active))
                );
            }
        }
    }

    #[test]
    fn predicates_are_masks() {
        let mut regs = registers();
        let less = lanes!(|a: i32, b: u32| -> bool { a < 7 && b < 9 });
        less(&mut regs, &Slots::binary(1, 0, 1), 0xffff_fffe);
        assert_eq!(regs.predicates[1], 0x7e);
        let choose = lanes!(|p: bool, a: u32| -> u32 { if p { a } else { 0 } });
        choose(&mut regs, &Slots::binary(3, 2, 0), u32::MAX);
        assert_eq!(regs.words[3].0[..9], [0, 0, 0, 0, 4, 5, 6, 7, 0]);
    }

    #[test]
    fn lanes_of_a_mask_are_in_ascending_order() {
        assert_eq!(lanes_of(0x8000_0011).collect::<Vec<_>>(), [0, 4, 31]);
    }
}

//! Arithmetic that addresses are made of, and whether a signed result left its 32 bits.

use super::registers::{Exec, LANES, Lanes32, Registers, Slots, lanes_of};
use super::wraps::{Exact, IntSlot, Origin};

/// What an operation computes of its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    MultiplyAdd,
    /// The first source by as many bits as the second says.
    ShiftLeft,
    Negate,
    Divide,
    /// The first source, with a sign.
    Copy,
    /// The first source where the predicate of this slot is true, else the second.
    Select(u32),
}

/// An operation on registers that may be part of an address.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    pub(crate) op: Arithmetic,
    pub(crate) exec: Exec,
    pub(crate) slots: Slots,
    pub(crate) sources: [Option<IntSlot>; 3],
    pub(crate) result: IntSlot,
    /// Sources of 32 bits have no sign.
    pub(crate) is_unsigned: bool,
    /// The result is a signed number of 32 bits.
    pub(crate) may_wrap: bool,
}

impl Linear {
    /// Executes it in the lanes of `mask`, and keeps what the result would be where that wraps.
    #[inline]
    pub(crate) fn run(&self, regs: &mut Registers, mask: u32, step: u32) {
        if regs.wraps.is_empty() && !(self.may_wrap && self.overflows(regs, mask)) {
            (self.exec)(regs, &self.slots, mask);
        } else {
            self.run_exactly(regs, mask, step);
        }
    }

    #[cold]
    fn run_exactly(&self, regs: &mut Registers, mask: u32, step: u32) {
        let mut exact = [0; LANES];
        for lane in lanes_of(mask) {
            exact[lane] = self.exact(regs, lane);
        }
        let before = self.origin(regs, mask);
        (self.exec)(regs, &self.slots, mask);
        regs.compare(self.result, mask, (&exact, before), step);
    }

    /// Where a source wrapped first.
    fn origin(&self, regs: &Registers, mask: u32) -> Option<Origin> {
        let mut sources = self.sources.iter().flatten();
        sources.find_map(|place| Some(regs.wraps.of(*place, mask)?.1))
    }

    /// The result in unlimited precision, modulo two to the power 64.
    fn exact(&self, regs: &Registers, lane: usize) -> i64 {
        let of = |at: usize| self.sources[at].map_or(0, |place| self.source(regs, place, lane));
        match self.op {
            Arithmetic::Add => of(0).wrapping_add(of(1)),
            Arithmetic::Subtract => of(0).wrapping_sub(of(1)),
            Arithmetic::Multiply => of(0).wrapping_mul(of(1)),
            Arithmetic::MultiplyAdd => of(0).wrapping_mul(of(1)).wrapping_add(of(2)),
            Arithmetic::ShiftLeft => shifted(of(0), of(1)),
            Arithmetic::Negate => of(0).wrapping_neg(),
            // A zero divisor is a fault of its own.
            Arithmetic::Divide => of(0).checked_div(of(1)).unwrap_or(0),
            Arithmetic::Copy => of(0),
            Arithmetic::Select(slot) => {
                let yes = regs.predicates[slot as usize] >> lane & 1 == 1;
                of(usize::from(!yes))
            }
        }
    }

    /// The exact value of a source. Without a sign it is that of the register unless it fits neither kind of number.
    fn source(&self, regs: &Registers, place: IntSlot, lane: usize) -> i64 {
        let exact = regs.exact(place, lane);
        let fits = (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&exact);
        if self.is_unsigned && fits && matches!(place, IntSlot::Word(_)) {
            i64::from(regs.signed(place, lane) as u32)
        } else {
            exact
        }
    }

    /// Does the signed result of 32 bits wrap in a lane of `mask`? Magnitudes over all lanes nearly always say no.
    #[inline]
    fn overflows(&self, regs: &Registers, mask: u32) -> bool {
        let of = |at: usize| match self.sources[at] {
            Some(IntSlot::Word(slot)) => &regs.words[slot as usize],
            _ => &ZERO,
        };
        let (a, b, c) = (of(0), of(1), of(2));
        let is_small = match self.op {
            Arithmetic::Add | Arithmetic::Subtract => bits(a).max(bits(b)) < 31,
            Arithmetic::Multiply => bits(a) + bits(b) < 31,
            Arithmetic::MultiplyAdd => (bits(a) + bits(b)).max(bits(c)) < 31,
            Arithmetic::ShiftLeft => most(b) <= 31 && bits(a) + most(b) <= 31,
            Arithmetic::Negate | Arithmetic::Divide => bits(a) < 31,
            Arithmetic::Copy | Arithmetic::Select(_) => true,
        };
        !is_small && self.overflows_in_some(regs, mask)
    }

    #[cold]
    fn overflows_in_some(&self, regs: &Registers, mask: u32) -> bool {
        lanes_of(mask).any(|lane| i32::try_from(self.exact(regs, lane)).is_err())
    }
}

impl Registers {
    /// The value that a register has, as a signed number.
    fn signed(&self, place: IntSlot, lane: usize) -> i64 {
        match place {
            IntSlot::Word(slot) => i64::from(self.words[slot as usize].0[lane] as i32),
            IntSlot::Double(slot) => self.doubles[slot as usize].0[lane] as i64,
        }
    }

    /// The value that it would have if nothing had wrapped.
    fn exact(&self, place: IntSlot, lane: usize) -> i64 {
        let wrapped = self.wraps.exact(place, lane);
        wrapped.unwrap_or_else(|| self.signed(place, lane))
    }

    /// Compares what was written to a register in the lanes of `mask` with the exact results.
    fn compare(
        &mut self,
        place: IntSlot,
        mask: u32,
        (exact, before): (&Exact, Option<Origin>),
        step: u32,
    ) {
        let differs = |lane: &usize| self.signed(place, *lane) != exact[*lane];
        let lanes = lanes_of(mask)
            .filter(differs)
            .fold(0_u32, |lanes, lane| lanes | 1 << lane);
        self.wraps.forget(place, mask);
        if lanes == 0 {
            return;
        }
        let lane = lanes.trailing_zeros();
        let here = Origin {
            step,
            lane,
            exact: exact[lane as usize],
        };
        self.wraps.note(place, lanes, exact, before.unwrap_or(here));
    }
}

const ZERO: Lanes32 = Lanes32([0; LANES]);

/// So many bits that every lane is a number from `-(1 << bits)` to `(1 << bits) - 1`.
#[inline(always)]
fn bits(values: &Lanes32) -> u32 {
    let magnitude = |value: &u32| value ^ ((*value as i32) >> 31) as u32;
    let all = values.0.iter().fold(0, |all, value| all | magnitude(value));
    u32::BITS - all.leading_zeros()
}

#[inline(always)]
fn most(values: &Lanes32) -> u32 {
    values.0.iter().fold(0, |most, value| most.max(*value))
}

/// `value << count` where that fits 64 bits, else a number that no register of 32 bits holds.
fn shifted(value: i64, count: i64) -> i64 {
    match u32::try_from(count) {
        _ if value == 0 => 0,
        Ok(count) if count < i64::BITS && value << count >> count == value => value << count,
        _ => i64::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::lanes;

    fn registers(a: i32, b: i32) -> Registers {
        let all = |value: i32| Lanes32([value as u32; LANES]);
        Registers {
            words: vec![all(a), all(b), all(0), all(0)],
            doubles: vec![crate::lanes::Lanes64([0; LANES])],
            predicates: vec![u32::MAX],
            ..Registers::default()
        }
    }

    fn word(op: Arithmetic, exec: Exec, [d, a, b]: [u32; 3]) -> Linear {
        Linear {
            op,
            exec,
            slots: Slots::binary(d, a, b),
            sources: [Some(IntSlot::Word(a)), Some(IntSlot::Word(b)), None],
            result: IntSlot::Word(d),
            is_unsigned: false,
            may_wrap: true,
        }
    }

    fn add(slots: [u32; 3]) -> Linear {
        let exec = lanes!(|a: u32, b: u32| -> u32 { a.wrapping_add(b) });
        word(Arithmetic::Add, exec, slots)
    }

    fn subtract(slots: [u32; 3]) -> Linear {
        let exec = lanes!(|a: u32, b: u32| -> u32 { a.wrapping_sub(b) });
        word(Arithmetic::Subtract, exec, slots)
    }

    #[test]
    fn a_sum_that_comes_back_is_exact() {
        let mut regs = registers(i32::MAX, 2);
        add([2, 0, 1]).run(&mut regs, 0b110, 7);
        let origin = Origin {
            step: 7,
            lane: 1,
            exact: i64::from(i32::MAX) + 2,
        };
        assert_eq!(
            regs.wraps.of(IntSlot::Word(2), u32::MAX),
            Some((0b110, origin))
        );
        assert_eq!(regs.wraps.of(IntSlot::Word(2), 1), None);
        subtract([3, 2, 1]).run(&mut regs, 0b10, 8);
        assert_eq!(regs.words[3].0[1], i32::MAX as u32);
        assert_eq!(regs.wraps.of(IntSlot::Word(3), u32::MAX), None);
        // In the lane that was left out of the subtraction the old value stays, and so does the other register.
        subtract([2, 2, 1]).run(&mut regs, 0b10, 9);
        assert_eq!(
            regs.wraps.of(IntSlot::Word(2), u32::MAX),
            Some((0b100, origin))
        );
        regs.wraps.forget(IntSlot::Word(2), 0b100);
        assert!(regs.wraps.is_empty());
    }

    /// Each operation at both ends of what fits: the quick answer by magnitudes never hides a wrap.
    #[test]
    fn every_wrap_is_seen_and_nothing_else() {
        let edge = [
            0,
            1,
            -1,
            2,
            -2,
            31,
            1 << 15,
            -(1 << 15),
            46341,
            1 << 30,
            -(1 << 30),
            i32::MAX,
            i32::MIN,
        ];
        let multiply = lanes!(|a: u32, b: u32| -> u32 { a.wrapping_mul(b) });
        for (a, b) in edge.iter().flat_map(|a| edge.map(|b| (*a, b))) {
            let (x, y) = (i64::from(a), i64::from(b));
            for (linear, exact) in [
                (add([2, 0, 1]), x + y),
                (subtract([2, 0, 1]), x - y),
                (word(Arithmetic::Multiply, multiply, [2, 0, 1]), x * y),
            ] {
                let mut regs = registers(a, b);
                linear.run(&mut regs, u32::MAX, 0);
                let wraps = i32::try_from(exact).is_err();
                assert_eq!(!regs.wraps.is_empty(), wraps, "{:?} {a} {b}", linear.op);
            }
        }
    }

    #[test]
    fn a_shift_past_the_width_wraps_unless_it_moves_a_zero() {
        let shift = lanes!(|a: u32, n: u32| -> u32 { if n > 31 { 0 } else { a << n } });
        for (a, count, wraps) in [
            (1, 30, false),
            (1, 31, true),
            (-1, 31, false),
            (1, 32, true),
            (1, -1, true),
            (0, 40, false),
            (3, 29, false),
            (3, 30, true),
        ] {
            let mut regs = registers(a, count);
            let shift = word(Arithmetic::ShiftLeft, shift, [2, 0, 1]);
            shift.run(&mut regs, u32::MAX, 0);
            assert_eq!(!regs.wraps.is_empty(), wraps, "{a} << {count}");
        }
    }
}

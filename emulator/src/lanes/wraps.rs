//! Integers that have wrapped around: what they would be in unlimited precision.
//!
//! A sum that leaves 32 bits may come back into them (`i + j - k`), so that a wrapped result alone is no mistake. The exact value of each wrapped
//! register is kept beside it, is computed with, and is forgotten when both are the same again.

/// A number in each lane of a mask.
pub(super) type Exact = [i64; u32::BITS as usize];

/// A register of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IntSlot {
    /// Slot of a 32-bit one.
    Word(u32),
    /// Slot of a 64-bit one.
    Double(u32),
}

/// The operation that left 32 bits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) step: u32,
    /// The first lane where it did, and its exact result there.
    pub(crate) lane: u32,
    pub(crate) exact: i64,
}

/// A register whose value is not the exact one in some lanes.
#[derive(Clone, Debug)]
struct Wrapped {
    place: IntSlot,
    lanes: u32,
    /// Modulo two to the power 64, as addresses are.
    exact: Box<Exact>,
    origin: Origin,
}

/// All such registers of a warp: few, and mostly none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wraps(Vec<Wrapped>);

impl Wraps {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, place: IntSlot) -> Option<&Wrapped> {
        self.0.iter().find(|wrapped| wrapped.place == place)
    }

    /// The lanes of `mask` in which a register is wrapped, and where that began.
    pub(crate) fn of(&self, place: IntSlot, mask: u32) -> Option<(u32, Origin)> {
        let wrapped = self.find(place)?;
        let lanes = wrapped.lanes & mask;
        (lanes != 0).then_some((lanes, wrapped.origin))
    }

    /// The value that a register would have in a lane if nothing had wrapped, where it has another one.
    pub(super) fn exact(&self, place: IntSlot, lane: usize) -> Option<i64> {
        let wrapped = self.find(place)?;
        (wrapped.lanes >> lane & 1 == 1).then(|| wrapped.exact[lane])
    }

    /// A register was written in the lanes of `mask` with values that are exact.
    pub(crate) fn forget(&mut self, place: IntSlot, mask: u32) {
        for wrapped in self.0.iter_mut().filter(|wrapped| wrapped.place == place) {
            wrapped.lanes &= !mask;
        }
        self.0.retain(|wrapped| wrapped.lanes != 0);
    }

    /// A register was written; in `lanes` its value is not exact.
    pub(super) fn note(&mut self, place: IntSlot, lanes: u32, exact: &Exact, origin: Origin) {
        let at = self.0.iter().position(|wrapped| wrapped.place == place);
        let at = at.unwrap_or_else(|| {
            self.0.push(Wrapped {
                place,
                lanes: 0,
                exact: Box::new([0; u32::BITS as usize]),
                origin,
            });
            self.0.len() - 1
        });
        let wrapped = &mut self.0[at];
        wrapped.lanes |= lanes;
        wrapped.origin = origin;
        for (lane, (kept, new)) in wrapped.exact.iter_mut().zip(exact).enumerate() {
            if lanes >> lane & 1 == 1 {
                *kept = *new;
            }
        }
    }
}

//! Where the numbers come from that decide a mutation.

/// A source of choices, which repeats itself for the same beginning.
#[derive(Clone, Debug)]
pub enum Choices<'b> {
    /// The numbers of `SplitMix64`.
    Seeded(u64),
    /// A fuzzer's bytes, each a choice; zeros after the last.
    Bytes(&'b [u8]),
}

impl Choices<'_> {
    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let number = match self {
            Choices::Seeded(state) => split_mix(state),
            Choices::Bytes(bytes) => {
                // Two bytes where one cannot reach every choice, so that a fuzzer's change of one byte changes one choice.
                let width = if limit > 256 { 2 } else { 1 };
                let (taken, rest) = bytes.split_at(width.min(bytes.len()));
                *bytes = rest;
                taken
                    .iter()
                    .fold(0, |number, &byte| number << 8 | u64::from(byte))
            }
        };
        (number % limit.max(1) as u64) as usize
    }

    /// One of the items; `None` of none.
    pub fn one_of<'i, T>(&mut self, items: &'i [T]) -> Option<&'i T> {
        items.get(self.below(items.len()))
    }

    /// Is there nothing left to choose by?
    pub fn is_over(&self) -> bool {
        matches!(self, Choices::Bytes([]))
    }
}

/// The next number of `SplitMix64` (Steele, Lea and Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

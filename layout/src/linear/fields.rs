//! Moving the bits of packed coordinates, axis by axis.

use smallvec::SmallVec;

/// Runs of bits, each of which moves as one; bits that stand in none are dropped.
#[derive(Debug, Default)]
pub(super) struct Fields(SmallVec<[Field; 4]>);

#[derive(Clone, Copy, Debug)]
struct Field {
    mask: u64,
    from: u32,
    to: u32,
}

impl Fields {
    /// Adds the run of `bits` bits that begins at `from` and is to begin at `to`.
    pub(super) fn push(&mut self, bits: u32, from: u32, to: u32) {
        // A run of no bits may begin where a word has ended.
        if bits > 0 {
            let mask = u64::MAX >> (u64::BITS - bits);
            self.0.push(Field { mask, from, to });
        }
    }

    /// The word with its runs moved.
    pub(super) fn moved(&self, word: u64) -> u64 {
        self.0
            .iter()
            .fold(0, |all, run| all | (word >> run.from & run.mask) << run.to)
    }
}

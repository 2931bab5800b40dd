//! The banks of shared memory.

pub(super) use target::{BANK_BYTES, BANKS};

/// Bytes of one wavefront: one word of each bank.
pub(super) const WAVEFRONT_BYTES: u32 = BANKS * BANK_BYTES;

/// The lanes that the hardware serves together: all for accesses of up to 4 bytes, fewer for wider ones.
pub(super) fn lanes_together(bytes: u32) -> u32 {
    WAVEFRONT_BYTES / bytes.max(BANK_BYTES)
}

/// The most different words in one bank, for accesses of `words` words each.
pub(super) fn most_in_one_bank(starts: impl Iterator<Item = u32>, words: u32) -> u32 {
    let mut touched: Vec<u32> = starts.flat_map(|start| start..start + words).collect();
    touched.sort_unstable();
    touched.dedup();
    let mut in_bank = [0; BANKS as usize];
    for word in touched {
        in_bank[(word % BANKS) as usize] += 1;
    }
    in_bank.into_iter().max().unwrap_or(1).max(1)
}

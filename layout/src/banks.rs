//! The banks of shared memory.

/// Shared memory has 32 banks of 4 bytes, one word of each per wavefront.
pub(super) const BANKS: u32 = target::SM_90A.access.banks;

/// Bytes of one bank's word.
pub(super) const BANK_BYTES: u32 = target::SM_90A.access.bank_bytes;

/// The lanes that the hardware serves together: all for accesses of up to 4 bytes, fewer for wider ones.
pub(super) fn lanes_together(bytes: u32) -> u32 {
    BANKS * BANK_BYTES / bytes.max(BANK_BYTES)
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

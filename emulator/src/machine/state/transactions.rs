//! What an access of a warp is to memory: wavefronts of shared memory, sectors of global memory.

use smallvec::SmallVec;

use crate::lanes::{LANES, PerLane, lanes_of};
use target::{BANK_BYTES, BANKS};

/// Bytes that shared memory moves in one wavefront.
const WAVEFRONT_BYTES: u32 = BANKS * BANK_BYTES;

/// Bytes of a sector: what L1 and L2 are asked for at least.
pub(crate) const SECTOR_BYTES: u64 = 32;

/// What an access is to shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wavefronts {
    /// Cycles in which shared memory does nothing else.
    pub(crate) all: u64,
    /// Those of them that bank conflicts cost.
    pub(crate) conflicts: u64,
}

/// Wavefronts of shared memory: lanes that together access 128 bytes go at once, and where they want different words of one bank, one
/// after the other. Lanes that want the same word share it.
pub(crate) fn wavefronts(addresses: &PerLane, lanes: u32, bytes: u32) -> Wavefronts {
    let words = bytes.div_ceil(BANK_BYTES).max(1);
    let group = (WAVEFRONT_BYTES / (words * BANK_BYTES)).clamp(1, LANES as u32);
    let all = (0..LANES as u32).step_by(group as usize);
    let of_group = |first: u32| {
        let members = (u64::from(u32::MAX) >> (32 - group)) << first;
        deepest_bank(addresses, lanes & members as u32, words)
    };
    let mut found = Wavefronts::default();
    for deep in all.map(of_group) {
        found.all += deep;
        found.conflicts += deep.saturating_sub(1);
    }
    found
}

/// How many different words of one bank these lanes want, at most.
fn deepest_bank(addresses: &PerLane, lanes: u32, words: u32) -> u64 {
    let mut wanted: SmallVec<[u32; 32]> = SmallVec::new();
    for lane in lanes_of(lanes) {
        let first = (addresses[lane] / u64::from(BANK_BYTES)) as u32;
        wanted.extend(first..first + words);
    }
    wanted.sort_unstable();
    wanted.dedup();
    let mut depths = [0; BANKS as usize];
    for word in wanted {
        depths[(word % BANKS) as usize] += 1;
    }
    depths.into_iter().max().unwrap_or(0)
}

/// Sectors by their numbers.
pub(crate) type Sectors = SmallVec<[u64; 64]>;

/// The sectors of global memory that lanes access, each once, ascending.
pub(crate) fn sectors(addresses: &PerLane, lanes: u32, bytes: u32) -> Sectors {
    let spans = lanes_of(lanes).flat_map(|lane| {
        let first = addresses[lane] / SECTOR_BYTES;
        let last = (addresses[lane] + u64::from(bytes.max(1)) - 1) / SECTOR_BYTES;
        first..=last
    });
    let mut all: Sectors = spans.collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_wavefronts(bytes: u32, address: impl Fn(u64) -> u64, expected: (u64, u64)) {
        let addresses: PerLane = std::array::from_fn(|lane| address(lane as u64));
        let Wavefronts { all, conflicts } = wavefronts(&addresses, u32::MAX, bytes);
        assert_eq!((all, conflicts), expected);
    }

    #[test]
    fn lanes_that_want_different_words_of_a_bank_take_turns() {
        check_wavefronts(4, |lane| lane * 4, (1, 0));
        check_wavefronts(4, |_| 64, (1, 0));
        check_wavefronts(4, |lane| lane * 8, (2, 1));
        check_wavefronts(4, |lane| lane * 128, (32, 31));
        check_wavefronts(8, |lane| lane * 8, (2, 0));
        check_wavefronts(16, |lane| lane * 16, (4, 0));
        // Rows of 64 bytes, of which four lanes take 8 bytes each: rows 0 and 2 lie in the same banks.
        check_wavefronts(8, |lane| lane / 4 * 64 + lane % 4 * 8, (4, 2));
        check_wavefronts(2, |lane| lane * 2, (1, 0));
        assert_eq!(wavefronts(&[0; LANES], 0, 4), Wavefronts::default());
    }

    #[test]
    fn sectors_are_counted_once() {
        let of = |step: u64, bytes: u32, lanes: u32| {
            let addresses: PerLane = std::array::from_fn(|lane| 4096 + lane as u64 * step);
            sectors(&addresses, lanes, bytes).len()
        };
        assert_eq!(of(4, 4, u32::MAX), 4);
        assert_eq!(of(16, 16, u32::MAX), 16);
        assert_eq!(of(128, 4, u32::MAX), 32);
        assert_eq!(of(0, 4, u32::MAX), 1);
        assert_eq!(of(48, 32, 0b11), 3);
    }
}

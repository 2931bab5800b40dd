//! Which bytes of an allocation have been written: one bit each.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// A set of byte offsets that threads extend at the same time.
#[derive(Debug)]
pub(crate) struct ByteSet {
    bits: Box<[AtomicU32]>,
    /// All bytes are in the set, which makes look-ups unnecessary.
    is_full: AtomicBool,
}

impl ByteSet {
    /// The empty set over `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bits: bytemuck::zeroed_slice_box(bytes.div_ceil(32)),
            is_full: AtomicBool::new(bytes == 0),
        }
    }

    /// Marks every byte.
    pub(crate) fn fill(&self) {
        for word in &self.bits {
            word.store(u32::MAX, Relaxed);
        }
        self.is_full.store(true, Relaxed);
    }

    /// Removes `len` bytes from `start`.
    pub(crate) fn remove(&self, start: usize, len: usize) {
        self.is_full.store(false, Relaxed);
        for_words(start, len, |word, mask| {
            self.bits[word].fetch_and(!mask, Relaxed);
        });
    }

    /// Adds `len` bytes from `start`.
    #[inline]
    pub(crate) fn insert(&self, start: usize, len: usize) {
        if self.is_full.load(Relaxed) {
            return;
        }
        for_words(start, len, |word, mask| {
            let word = &self.bits[word];
            if mask == u32::MAX {
                word.store(mask, Relaxed);
            } else if word.load(Relaxed) & mask != mask {
                word.fetch_or(mask, Relaxed);
            }
        });
    }

    /// The first of `len` bytes from `start` that is not in the set.
    #[inline]
    pub(crate) fn first_missing(&self, start: usize, len: usize) -> Option<usize> {
        if self.is_full.load(Relaxed) {
            return None;
        }
        let mut missing = None;
        for_words(start, len, |word, mask| {
            let absent = !self.bits[word].load(Relaxed) & mask;
            if absent != 0 && missing.is_none() {
                missing = Some(word * 32 + absent.trailing_zeros() as usize);
            }
        });
        missing
    }
}

/// Calls `f` with each word of bits that `len` bits from `start` touch, and the touched bits in it.
#[inline]
fn for_words(start: usize, len: usize, mut f: impl FnMut(usize, u32)) {
    let (mut at, end) = (start, start + len);
    while at < end {
        let in_word = at % 32;
        let count = (32 - in_word).min(end - at);
        let mask = ((1u64 << count) - 1) as u32;
        f(at / 32, mask << in_word);
        at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_exact() {
        for (start, len) in [(0, 1), (3, 40), (31, 2), (32, 32), (64, 100), (5, 0)] {
            let set = ByteSet::new(200);
            set.insert(start, len);
            for byte in 0..200 {
                let inside = (start..start + len).contains(&byte);
                assert_eq!(
                    set.first_missing(byte, 1).is_none(),
                    inside,
                    "{start}+{len} at {byte}"
                );
            }
            set.fill();
            assert_eq!(set.first_missing(0, 200), None);
            set.remove(start, len);
            assert_eq!(set.first_missing(0, 200), (len > 0).then_some(start));
        }
    }
}

//! One allocation of device memory, written by many threads at once.

use super::bytes::ByteSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A range of device addresses with its contents.
///
/// Contents are 32-bit atomics with relaxed ordering, which compile to plain moves; a store of part of a word is
/// an atomic update, so that a neighbour's store is never lost. Offsets are in bytes from the base, and the caller
/// has checked that accesses lie inside.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    /// Rank of the device that owns it.
    pub(crate) device: u16,
    /// Of memory of the host that kernels access too (mapped): the granules in which the host accesses it, as a power of two of bytes, at most
    /// four bytes.
    pub(crate) host_granule_bits: Option<u32>,
    words: Box<[AtomicU32]>,
    pub(crate) written: ByteSet,
}

impl Allocation {
    /// Zero bytes that count as not written.
    pub(crate) fn new(
        (base, bytes): (u64, u64),
        device: u16,
        host_granule_bits: Option<u32>,
    ) -> Self {
        let length = bytes as usize;
        let words = bytemuck::zeroed_slice_box(length.div_ceil(4));
        Self {
            base,
            bytes,
            device,
            host_granule_bits,
            words,
            written: ByteSet::new(length),
        }
    }

    /// The first address after it.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// The words from `offset`, which is a multiple of four.
    #[inline]
    pub(crate) fn words(&self, offset: usize, count: usize) -> &[AtomicU32] {
        &self.words[offset / 4..offset / 4 + count]
    }

    /// Up to four bytes that do not cross a word.
    #[inline]
    pub(crate) fn load(&self, offset: usize) -> u32 {
        self.words[offset / 4].load(Relaxed) >> (offset % 4 * 8)
    }

    /// An element of at most eight bytes, none of which crosses a word that it does not fill.
    pub(crate) fn element(&self, offset: usize, bytes: u32) -> u64 {
        let low = u64::from(self.load(offset));
        let high = if bytes == 8 {
            u64::from(self.load(offset + 4)) << 32
        } else {
            0
        };
        (low | high) & u64::MAX >> (64 - bytes * 8)
    }

    /// Stores such an element.
    pub(crate) fn put_element(&self, offset: usize, bytes: u32, value: u64) {
        self.store(offset, bytes.min(4) as usize, value as u32);
        if bytes == 8 {
            self.store(offset + 4, 4, (value >> 32) as u32);
        }
    }

    /// `bytes` bytes (1, 2 or 4) that do not cross a word.
    #[inline]
    pub(crate) fn store(&self, offset: usize, bytes: usize, value: u32) {
        let word = &self.words[offset / 4];
        if bytes == 4 {
            return word.store(value, Relaxed);
        }
        let shift = offset % 4 * 8;
        let mask = ((1u64 << (bytes * 8)) - 1) as u32;
        self.update(offset, |old| {
            old & !(mask << shift) | (value & mask) << shift
        });
    }

    /// Changes the word around `offset` in one step and returns its old value.
    #[inline]
    pub(crate) fn update(&self, offset: usize, mut change: impl FnMut(u32) -> u32) -> u32 {
        let word = &self.words[offset / 4];
        let mut old = word.load(Relaxed);
        loop {
            match word.compare_exchange_weak(old, change(old), Relaxed, Relaxed) {
                Ok(old) => return old,
                Err(current) => old = current,
            }
        }
    }

    /// Copies bytes in and marks them as written.
    pub(crate) fn write(&self, offset: usize, data: &[u8]) {
        let head = data.len().min((4 - offset % 4) % 4);
        let (head, rest) = data.split_at(head);
        for (index, &byte) in head.iter().enumerate() {
            self.store(offset + index, 1, byte.into());
        }
        let start = offset + head.len();
        let (chunks, tail) = rest.as_chunks::<4>();
        for (word, chunk) in self.words(start, chunks.len()).iter().zip(chunks) {
            word.store(u32::from_le_bytes(*chunk), Relaxed);
        }
        let start = start + chunks.len() * 4;
        for (index, &byte) in tail.iter().enumerate() {
            self.store(start + index, 1, byte.into());
        }
        self.mark(offset, data.len());
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) {
        let head = data.len().min((4 - offset % 4) % 4);
        let (head, rest) = data.split_at_mut(head);
        for (index, byte) in head.iter_mut().enumerate() {
            *byte = self.load(offset + index) as u8;
        }
        let start = offset + head.len();
        let (chunks, tail) = rest.as_chunks_mut::<4>();
        for (word, chunk) in self
            .words(start, chunks.len())
            .iter()
            .zip(chunks.iter_mut())
        {
            *chunk = word.load(Relaxed).to_le_bytes();
        }
        let start = start + chunks.len() * 4;
        for (index, byte) in tail.iter_mut().enumerate() {
            *byte = self.load(start + index) as u8;
        }
    }

    /// Sets `len` bytes to `value` and marks them as written.
    pub(crate) fn fill(&self, offset: usize, len: usize, value: u8) {
        let block = [value; 4096];
        let mut done = 0;
        while done < len {
            let count = (len - done).min(block.len());
            self.write(offset + done, &block[..count]);
            done += count;
        }
        self.mark(offset, len);
    }

    fn mark(&self, offset: usize, len: usize) {
        if len as u64 == self.bytes {
            self.written.fill();
        } else {
            self.written.insert(offset, len);
        }
    }
}

//! Memory that one simulated CTA has to itself: shared, local, constant and parameter bytes.

use crate::fault::{FaultKind, Memory, Trouble};
use crate::machine::order::Shadow;

/// Bytes from `base` on, and which of them have been written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linear {
    pub(crate) base: u32,
    pub(crate) bytes: Vec<u8>,
    /// One for a byte that was written.
    pub(crate) written: Vec<u8>,
    /// The last accesses of each granule; only shared memory has it.
    pub(crate) shadow: Shadow,
}

impl Linear {
    /// `length` bytes that count as not written.
    pub(crate) fn new(base: u32, length: usize) -> Self {
        Self {
            base,
            bytes: vec![0; length],
            written: vec![0; length],
            shadow: Shadow::default(),
        }
    }

    /// Shared memory of `length` bytes, in whose granules of two to the power `granule_bits` bytes races are looked for.
    pub(crate) fn shared(base: u32, length: usize, granule_bits: u32) -> Self {
        Self {
            shadow: Shadow::new(length, granule_bits),
            ..Self::new(base, length)
        }
    }

    /// Bytes with contents.
    pub(crate) fn filled(base: u32, bytes: Vec<u8>) -> Self {
        let written = vec![1; bytes.len()];
        Self {
            base,
            bytes,
            written,
            shadow: Shadow::default(),
        }
    }

    /// Index of the first of `bytes` bytes at `address`, when all are inside.
    #[inline(always)]
    pub(crate) fn index(&self, address: u64, bytes: u32) -> Option<usize> {
        let index = address.wrapping_sub(self.base.into());
        let inside = index
            .checked_add(bytes.into())
            .is_some_and(|end| end <= self.bytes.len() as u64);
        inside.then_some(index as usize)
    }

    /// The first of `bytes` bytes from `index` that was not written.
    #[inline(always)]
    pub(crate) fn first_unwritten(&self, index: usize, bytes: u32) -> Option<u32> {
        let written = &self.written[index..index + bytes as usize];
        let all = match written.first_chunk::<4>() {
            Some(four) if bytes == 4 => u32::from_le_bytes(*four) == 0x0101_0101,
            _ => written.iter().fold(1, |all, &one| all & one) == 1,
        };
        if all {
            return None;
        }
        written
            .iter()
            .position(|&one| one == 0)
            .map(|position| position as u32)
    }

    /// Little-endian integer of `N` bytes.
    #[inline(always)]
    pub(crate) fn get<const N: usize>(&self, index: usize) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&self.bytes[index..index + N]);
        value
    }

    /// Stores bytes and marks them as written.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, index: usize, value: [u8; N]) {
        self.bytes[index..index + N].copy_from_slice(&value);
        self.written[index..index + N].copy_from_slice(&[1; N]);
    }

    /// The report of an access of `bytes` bytes at `address` that is out of bounds.
    pub(crate) fn outside(
        &self,
        memory: Memory,
        verb: &str,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Box<Trouble> {
        let end = u64::from(self.base) + self.bytes.len() as u64;
        let past = (address + u64::from(bytes)).saturating_sub(end);
        let size = self.bytes.len();
        let place = match () {
            () if size == 0 => format!("the kernel has no {memory} memory"),
            () if address < u64::from(self.base) => {
                format!(
                    "it starts {} bytes before the {size} bytes of {memory} memory",
                    u64::from(self.base) - address
                )
            }
            () => {
                format!("it ends {past} bytes past the end of the {size} bytes of {memory} memory")
            }
        };
        let message = format!(
            "{verb} of {bytes} bytes in {memory} memory at {address:#x} is out of bounds: {place}"
        );
        Trouble::access(FaultKind::OutOfBounds, lane, address, bytes, message)
            .help("an index, an offset or a length exceeds the allocation")
    }
}

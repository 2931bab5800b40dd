//! The parameters of a launch, packed.

use ptx::ParameterOffsets;
use smallvec::SmallVec;

/// Parameters packed as an entry's `.param` list lays them out: each at the next multiple of its alignment.
///
/// Up to 512 bytes (three tensor maps and more) and 16 parameters are kept in place, so that packing allocates nothing.
#[derive(Clone, Debug)]
pub struct ParameterBlock {
    bytes: SmallVec<[u8; 512]>,
    ends: ParameterOffsets,
    places: SmallVec<[ParameterPlace; 16]>,
    /// For each parameter the size of the buffer that it points to, bytes; 0 for what is no pointer to a buffer.
    reaches: SmallVec<[u64; 16]>,
    /// A bit for each of the first 64 parameters whose buffer is `#[readonly]`.
    readonly: u64,
    /// The same for those that the kernel stores to.
    written: u64,
    /// The host accesses one of the buffers while the kernel runs.
    is_beside_host: bool,
}

/// Where a parameter lies in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterPlace {
    /// From the start of the block, bytes.
    pub offset: u32,
    /// Size, bytes.
    pub bytes: u32,
}

impl Default for ParameterBlock {
    fn default() -> ParameterBlock {
        ParameterBlock::new()
    }
}

impl ParameterBlock {
    /// A block without parameters.
    pub fn new() -> ParameterBlock {
        ParameterBlock {
            bytes: SmallVec::new(),
            ends: ParameterOffsets::default(),
            places: SmallVec::new(),
            reaches: SmallVec::new(),
            readonly: 0,
            written: 0,
            is_beside_host: false,
        }
    }

    /// Appends a parameter, little-endian, aligned to `align` bytes.
    #[inline]
    pub fn push(&mut self, parameter: &[u8], align: usize) {
        let offset = self.ends.place(parameter.len() as u64, align as u32);
        self.bytes.resize(offset as usize, 0);
        self.places.push(ParameterPlace {
            offset: offset as u32,
            bytes: parameter.len() as u32,
        });
        self.reaches.push(0);
        self.bytes.extend_from_slice(parameter);
    }

    /// Appends the address of a buffer of `bytes` bytes.
    #[inline]
    pub fn push_buffer(&mut self, address: u64, bytes: u64) {
        self.push(&address.to_le_bytes(), 8);
        if let Some(reach) = self.reaches.last_mut() {
            *reach = bytes;
        }
    }

    /// Appends the address of memory of the host, which goes on beside the launch.
    pub fn push_mapped(&mut self, address: u64, bytes: u64) {
        self.push_buffer(address, bytes);
        self.is_beside_host = true;
    }

    /// Whether the host accesses one of the buffers while the kernel runs.
    pub(crate) fn is_beside_host(&self) -> bool {
        self.is_beside_host
    }

    /// The addresses of the buffer that parameter `index` points to; empty for what is no pointer to a buffer.
    #[inline]
    pub(crate) fn buffer(&self, index: usize) -> std::ops::Range<u64> {
        let bytes = self.parameter(index);
        let start = bytes
            .iter()
            .take(8)
            .rev()
            .fold(0, |all, byte| all << 8 | u64::from(*byte));
        start..start + self.reaches[index]
    }

    /// Notes which of its parameters are only read and which are stored to.
    #[inline]
    pub(crate) fn set_roles(&mut self, readonly: u64, written: u64) {
        (self.readonly, self.written) = (readonly, written);
    }

    /// The indices and buffers of parameters that are `#[readonly]`.
    pub(crate) fn readonly(&self) -> impl Iterator<Item = (usize, std::ops::Range<u64>)> {
        self.buffers(self.readonly)
    }

    /// The indices and buffers of parameters that the kernel stores to.
    pub(crate) fn written(&self) -> impl Iterator<Item = (usize, std::ops::Range<u64>)> {
        self.buffers(self.written)
    }

    fn buffers(&self, mut roles: u64) -> impl Iterator<Item = (usize, std::ops::Range<u64>)> {
        std::iter::from_fn(move || {
            let index = roles.trailing_zeros() as usize;
            roles &= roles.checked_sub(1)?;
            Some((index, self.buffer(index)))
        })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where each parameter lies.
    pub fn places(&self) -> &[ParameterPlace] {
        &self.places
    }

    /// The bytes of parameter `index`.
    #[inline]
    pub(crate) fn parameter(&self, index: usize) -> &[u8] {
        let ParameterPlace { offset, bytes } = self.places[index];
        &self.bytes[offset as usize..][..bytes as usize]
    }

    /// Where each parameter starts, in bytes.
    #[cfg(test)]
    pub(crate) fn offsets(&self) -> Vec<u32> {
        self.places.iter().map(|place| place.offset).collect()
    }

    /// How many parameters there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_aligned_as_ptx_aligns_them() {
        let mut block = ParameterBlock::new();
        block.push(&1u32.to_le_bytes(), 4);
        block.push(&2u64.to_le_bytes(), 8);
        block.push(&[3], 1);
        block.push(&4u16.to_le_bytes(), 2);
        block.push(&[0; 128], 64);
        assert_eq!(block.offsets(), [0, 8, 16, 18, 64]);
        assert_eq!(block.bytes().len(), 192);
        assert_eq!(&block.bytes()[8..10], [2, 0]);
    }
}

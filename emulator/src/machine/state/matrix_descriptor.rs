//! Shared-memory matrix descriptors (PTX ISA 9.7.15.5.1): where the chunks of an operand lie.

use crate::fault::{FaultKind, Stepped, Trouble};

/// Bytes that swizzling moves as a whole.
pub(crate) const CHUNK: usize = 16;

/// A decoded descriptor; all distances are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    /// Bytes over which chunks are permuted: 128, 64, 32, or 16 for none.
    span: u32,
}

impl Descriptor {
    /// Reads the fields; a base offset must agree with the start address, as the hardware permutes by address bits.
    pub(crate) fn new(bits: u64, lanes: u32) -> Stepped<Self> {
        let field = |low: u32| ((bits >> low & 0x3fff) as u32) << 4;
        let span = [16, 128, 64, 32][(bits >> 62) as usize];
        let descriptor = Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            span,
        };
        let base_offset = (bits >> 49 & 7) as u32;
        let expected = descriptor.start >> 7 & (span / 16 - 1);
        if span == 16 || base_offset == expected {
            return Ok(descriptor);
        }
        let message = format!(
            "the matrix descriptor {bits:#018x} has base offset {base_offset}, but its start address {:#x} asks for {expected} with a swizzle of {span} bytes (the tile is not aligned to its pattern)",
            descriptor.start
        );
        Err(Trouble::new(FaultKind::Descriptor, lanes, message))
    }

    fn swizzled(&self, offset: u32) -> u32 {
        let address = self.start.wrapping_add(offset);
        address ^ ((address >> 7 & (self.span / 16 - 1)) << 4)
    }

    /// Address of a chunk of a matrix whose rows run along K: 16 bytes of `row`, which has two of them, or four in a sparse
    /// product.
    pub(crate) fn along_k(&self, row: u32, chunk: u32) -> u32 {
        let offset = if self.span == 16 {
            row % 8 * 16 + row / 8 * self.stride + chunk * self.leading
        } else {
            row % 8 * self.span + row / 8 * self.stride + chunk * 16
        };
        self.swizzled(offset)
    }

    /// Address of a chunk of a matrix that is contiguous along M or N: eight 16-bit elements at `depth`.
    pub(crate) fn along_mn(&self, depth: u32, chunk: u32) -> u32 {
        let offset = if self.span == 16 {
            // Without swizzling the two distances change their meaning.
            depth % 8 * 16 + depth / 8 * self.leading + chunk * self.stride
        } else {
            let per_row = self.span / 16;
            chunk % per_row * 16
                + depth % 8 * self.span
                + depth / 8 * self.stride
                + chunk / per_row * self.leading
        };
        self.swizzled(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(start: u32, leading: u32, stride: u32, mode: u64) -> u64 {
        u64::from(start >> 4)
            | u64::from(leading >> 4) << 16
            | u64::from(stride >> 4) << 32
            | mode << 62
    }

    #[test]
    fn rows_of_128_bytes_are_permuted_by_their_number() {
        let descriptor = Descriptor::new(bits(0x400, 0, 1024, 1), 0).unwrap();
        assert_eq!(descriptor.along_k(0, 0), 0x400);
        assert_eq!(descriptor.along_k(1, 0), 0x400 + 128 + 16);
        assert_eq!(descriptor.along_k(7, 1), 0x400 + 7 * 128 + (1 ^ 7) * 16);
        assert_eq!(descriptor.along_k(8, 1), 0x400 + 1024 + 16);
        // A step of 32 bytes along K starts inside the rows.
        let second = Descriptor::new(bits(0x420, 0, 1024, 1), 0).unwrap();
        assert_eq!(second.along_k(3, 0), 0x400 + 3 * 128 + 16);
    }

    #[test]
    fn without_swizzle_core_matrices_lie_apart() {
        let descriptor = Descriptor::new(bits(0x800, 256, 128, 0), 0).unwrap();
        assert_eq!(descriptor.along_k(9, 1), 0x800 + 128 + 16 + 256);
        assert_eq!(descriptor.along_mn(9, 1), 0x800 + 256 + 16 + 128);
    }

    #[test]
    fn columns_of_64_elements_are_the_leading_distance_apart() {
        let descriptor = Descriptor::new(bits(0x400, 8192, 1024, 1), 0).unwrap();
        assert_eq!(descriptor.along_mn(2, 3), 0x400 + 2 * 128 + 16);
        assert_eq!(descriptor.along_mn(9, 8), 0x400 + 8192 + 1024 + 128 + 16);
    }

    #[test]
    fn a_base_offset_against_the_start_address_is_refused() {
        assert!(Descriptor::new(bits(0x600, 0, 1024, 1), 1).is_err());
        assert!(Descriptor::new(bits(0x600, 0, 1024, 1) | 4 << 49, 1).is_ok());
    }
}

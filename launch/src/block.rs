//! The parameters of a launch, packed.

use std::ffi::c_void;

use crate::manifest::Parameter;

/// The most parameters that a kernel has, of which each number of an array is one.
pub(crate) const MOST_PARAMETERS: usize = 96;

/// The parameters of a launch, each where the manifest says. Those of most kernels lie in place, so that packing allocates
/// nothing.
pub(crate) struct Block {
    few: Line,
    many: Vec<u8>,
}

/// Tensor maps are aligned to 64 bytes.
#[repr(align(64))]
struct Line([u8; LINE_BYTES]);

/// Three tensor maps and some numbers.
const LINE_BYTES: usize = 512;

impl Block {
    pub(crate) fn new(bytes: u32) -> Block {
        let many = if bytes as usize > LINE_BYTES {
            bytes as usize
        } else {
            0
        };
        Block {
            few: Line([0; LINE_BYTES]),
            many: vec![0; many],
        }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        if self.many.is_empty() {
            &mut self.few.0
        } else {
            &mut self.many
        }
    }

    /// Writes a parameter: as many of the bytes as it has.
    pub(crate) fn set(&mut self, parameter: &Parameter, bytes: &[u8]) {
        let (offset, size) = (
            parameter.offset_bytes as usize,
            parameter.size_bytes as usize,
        );
        self.write(offset, &bytes[..size]);
    }

    /// Writes these bytes at this offset.
    #[inline]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// A pointer to each parameter, as the driver takes them.
    pub(crate) fn pointers(&mut self, parameters: &[Parameter]) -> [*mut c_void; MOST_PARAMETERS] {
        let mut pointers = [std::ptr::null_mut(); MOST_PARAMETERS];
        let bytes = self.bytes();
        for (pointer, parameter) in pointers.iter_mut().zip(parameters) {
            *pointer = bytes[parameter.offset_bytes as usize..].as_mut_ptr().cast();
        }
        pointers
    }
}

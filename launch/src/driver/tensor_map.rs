//! Tensor maps in the hardware's encoding, which only the driver knows.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::c_void;

use super::{Driver, Failure};

/// The most dimensions of a tensor map.
pub const RANK: usize = 5;

/// A tensor map as a kernel takes it.
pub type Encoded = [u8; 128];

/// What a tensor map is made of. Dimensions are innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapShape {
    /// Type of the elements.
    pub element: MapElement,
    /// Dimensions.
    pub rank: u32,
    /// Of the first element.
    pub address: u64,
    /// Elements along each dimension.
    pub dims: [u64; RANK],
    /// Bytes along each dimension but the innermost.
    pub strides_bytes: [u64; RANK - 1],
    /// Elements from one that is taken to the next.
    pub steps: [u32; RANK],
    /// What a copy takes.
    pub access: MapAccess,
    /// Bytes over which 16-byte chunks are permuted in shared memory: 0, 32, 64 or 128.
    pub swizzle_bytes: u32,
    /// How much is fetched into L2.
    pub promotion: Promotion,
    /// Whether elements outside of the tensor are read as NaN and not as 0.
    pub fills_with_nan: bool,
}

/// What one copy by a tensor map takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapAccess {
    /// A box.
    Tiled {
        /// Elements of it along each dimension.
        box_dims: [u32; RANK],
    },
    /// Pixels of an image with dimensions C, W, H, D, N (`im2col`).
    Im2col {
        /// Offset of the first pixel of the bounding box in W, H, D.
        lower_corner: [i32; RANK - 2],
        /// Offset of the end of the bounding box from that of the tensor in W, H, D.
        upper_corner: [i32; RANK - 2],
        /// Channels of a copy.
        channels: u32,
        /// Pixels of a copy.
        pixels: u32,
    },
}

/// `CUtensorMapDataType`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say it")]
pub enum MapElement {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    I32 = 3,
    U64 = 4,
    I64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
    F32Ftz = 10,
    Tf32 = 11,
    Tf32Ftz = 12,
}

/// `CUtensorMapL2promotion`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Promotion {
    None = 0,
    Bytes64 = 1,
    Bytes128 = 2,
    Bytes256 = 3,
}

/// `CU_TENSOR_MAP_INTERLEAVE_NONE`
const NO_INTERLEAVE: u32 = 0;

#[repr(align(64))]
struct Aligned([u64; 16]);

impl MapShape {
    /// Has the driver encode it.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn encode(&self, driver: &Driver) -> Result<Encoded, Failure> {
        let mut encoded = Aligned([0; 16]);
        match &self.access {
            MapAccess::Tiled { box_dims } => self.encode_tiled(driver, box_dims, &mut encoded)?,
            MapAccess::Im2col {
                lower_corner,
                upper_corner,
                channels,
                pixels,
            } => {
                let corners = [lower_corner, upper_corner];
                self.encode_im2col(driver, corners, [*channels, *pixels], &mut encoded)?;
            }
        }
        let mut bytes = [0; 128];
        for (part, word) in bytes.chunks_exact_mut(8).zip(encoded.0) {
            part.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(bytes)
    }

    fn encode_tiled(
        &self,
        driver: &Driver,
        box_dims: &[u32; RANK],
        encoded: &mut Aligned,
    ) -> Result<(), Failure> {
        // SAFETY: writes one tensor map, aligned to 64 bytes; each array has at least `rank` entries, the strides `rank` - 1, and
        // a larger rank is refused; the address is only recorded.
        let code = unsafe {
            (driver.functions.cuTensorMapEncodeTiled)(
                encoded.0.as_mut_ptr().cast(),
                self.element as u32,
                self.rank,
                self.address_pointer(),
                self.dims.as_ptr(),
                self.strides_bytes.as_ptr(),
                box_dims.as_ptr(),
                self.steps.as_ptr(),
                NO_INTERLEAVE,
                self.swizzle(),
                self.promotion as u32,
                self.fills_with_nan.into(),
            )
        };
        driver.check("cuTensorMapEncodeTiled", code)
    }

    fn encode_im2col(
        &self,
        driver: &Driver,
        [lower, upper]: [&[i32; RANK - 2]; 2],
        [channels, pixels]: [u32; 2],
        encoded: &mut Aligned,
    ) -> Result<(), Failure> {
        // SAFETY: as above; a corner has `rank` - 2 entries.
        let code = unsafe {
            (driver.functions.cuTensorMapEncodeIm2col)(
                encoded.0.as_mut_ptr().cast(),
                self.element as u32,
                self.rank,
                self.address_pointer(),
                self.dims.as_ptr(),
                self.strides_bytes.as_ptr(),
                lower.as_ptr(),
                upper.as_ptr(),
                channels,
                pixels,
                self.steps.as_ptr(),
                NO_INTERLEAVE,
                self.swizzle(),
                self.promotion as u32,
                self.fills_with_nan.into(),
            )
        };
        driver.check("cuTensorMapEncodeIm2col", code)
    }

    fn address_pointer(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.address as usize)
    }

    /// `CU_TENSOR_MAP_SWIZZLE_NONE`, `_32B`, `_64B` and `_128B`.
    fn swizzle(&self) -> u32 {
        let log = self.swizzle_bytes.checked_ilog2();
        log.map_or(0, |log| log.saturating_sub(4))
    }
}

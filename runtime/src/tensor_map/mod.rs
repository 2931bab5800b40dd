//! Tensor maps: what a TMA copy knows of a tensor in global memory (PTX ISA 5.5.8 "Tensor-map").

mod describe;
mod kept;
mod place;
mod sequences;
mod view;

use describe::{Room, describe};
pub use kept::KeptMap;
pub use place::TensorPlace;
pub use ptx::L2Promotion;
pub use sequences::SEQUENCE_END;
use sequences::Sequences;
pub use view::{TensorSource, TensorView};

use ptx::{EncodedTensorMap, TensorMap};
use target::TENSOR_MAP_ALIGNMENT_BYTES;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::{Error, Result};

/// How copies cut a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Elements of a block along each dimension, the innermost last; at most
    /// [`box_elements`](target::TensorMapLimits::box_elements) each.
    pub block: Vec<u32>,
    /// Bytes over which 16-byte chunks are permuted in shared memory: 0, 32, 64 or 128. The block's innermost dimension
    /// has at most this many bytes, unless it is 0.
    pub swizzle_bytes: u32,
    /// How much of the tensor is fetched into L2 around what a copy asks for.
    pub l2_promotion: L2Promotion,
    /// Whether elements outside the tensor are read as NaN and not as 0; floats only.
    pub fills_with_nan: bool,
    /// Whether loads round elements of f32 to the nearest tf32; f32 only.
    pub rounds_to_tf32: bool,
}

impl Tiling {
    /// Blocks of this shape, with a swizzle, 128 bytes of promotion and zeros outside.
    pub fn new(block: &[u32], swizzle_bytes: u32) -> Tiling {
        Tiling {
            block: block.to_vec(),
            swizzle_bytes,
            l2_promotion: L2Promotion::default(),
            fills_with_nan: false,
            rounds_to_tf32: false,
        }
    }
}

/// What a copy does beside moving elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CopyOptions {
    l2_promotion: L2Promotion,
    fills_with_nan: bool,
    rounds_to_tf32: bool,
    /// The sequences that copies end with.
    sequences: Option<Sequences>,
}

/// What one message of a copy takes of a tensor.
#[derive(Clone, Debug)]
struct Cut {
    /// Elements along each dimension, or pixels and channels where there is a window.
    block: Vec<u32>,
    /// Elements from one that is taken to the next, along each dimension of the tensor.
    steps: Vec<u32>,
    swizzle_bytes: u32,
    window: Option<Window>,
}

/// Where the pixels of an im2col copy may lie: offsets along the dimensions of the image between batch and channels, of
/// the first pixel from the image's begin, and of the last from the image's end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    lower: Vec<i32>,
    upper: Vec<i32>,
}

/// A tensor map, ready to be passed to a kernel by value.
///
/// It keeps the buffer's address and not the buffer, which must live as long as kernels use the map. For a kernel with
/// a parameter of type `TensorMap<T>` a [`TensorView`] is passed, and the launch makes the map that the kernel wants.
#[derive(Clone, Debug)]
pub struct TensorMapDescriptor {
    device: Device,
    bytes: EncodedTensorMap,
    block_bytes: u32,
}

impl TensorMapDescriptor {
    /// What a parameter of this kind is aligned to, in bytes.
    pub const ALIGN: usize = TENSOR_MAP_ALIGNMENT_BYTES as usize;

    /// The map of a tensor in `buffer`.
    ///
    /// # Errors
    /// [`Error::TensorMap`] with the rule that is broken and the value that breaks it.
    pub fn tiled<T: DeviceElement>(
        buffer: &Buffer<T>,
        place: &TensorPlace,
        tiling: &Tiling,
    ) -> Result<TensorMapDescriptor> {
        let cut = Cut {
            block: tiling.block.clone(),
            steps: vec![1; place.shape.len()],
            swizzle_bytes: tiling.swizzle_bytes,
            window: None,
        };
        let options = CopyOptions {
            l2_promotion: tiling.l2_promotion,
            fills_with_nan: tiling.fills_with_nan,
            rounds_to_tf32: tiling.rounds_to_tf32,
            sequences: None,
        };
        let room = Room {
            address: buffer.address(),
            elements: buffer.len(),
            dtype: T::DTYPE,
        };
        let device = buffer.device();
        let map =
            describe(device.target(), room, place, &cut, options).map_err(Error::TensorMap)?;
        TensorMapDescriptor::encode(device, &map)
    }

    /// The bytes of a map whose rules have been checked.
    fn encode(device: &Device, map: &TensorMap) -> Result<TensorMapDescriptor> {
        Ok(TensorMapDescriptor {
            device: device.clone(),
            bytes: device.encode_tensor_map(map)?,
            block_bytes: map.tile_bytes(),
        })
    }

    /// What a kernel takes as its parameter: `block.push(map.bytes(), TensorMapDescriptor::ALIGN)` appends it to a
    /// [`ParameterBlock`](crate::ParameterBlock).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that a copy of one block writes to shared memory, those outside the tensor included: what its barrier
    /// expects.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The device that it is for.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

#[cfg(test)]
mod tests;

//! Tensor maps: what a TMA copy knows of a tensor in global memory (PTX ISA 5.5.8 "Tensor-map").

use emulator::{TensorAccess, TensorElement};
use gluon_lang::elem::DType;

use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::launch::ParameterBlock;

/// Where a tensor lies in its buffer. Dimensions are in row-major order, the innermost last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlace {
    /// Elements along each dimension, 1 to 5 dimensions.
    pub shape: Vec<usize>,
    /// Elements from one index to the next along each dimension; the innermost must be 1.
    pub strides: Vec<usize>,
    /// Elements in front of the first.
    pub offset: usize,
}

impl TensorPlace {
    /// A tensor without gaps that begins where its buffer does.
    pub fn dense(shape: &[usize]) -> TensorPlace {
        let mut strides = vec![1; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim] * shape[dim];
        }
        TensorPlace {
            shape: shape.to_vec(),
            strides,
            offset: 0,
        }
    }

    /// How many elements a buffer must have for it.
    fn needs_elements(&self) -> usize {
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .map(|(&extent, &stride)| extent.saturating_sub(1) * stride);
        self.offset + last.sum::<usize>() + 1
    }
}

/// How copies cut a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Elements of a block along each dimension, the innermost last; 1 to 256 each.
    pub block: Vec<u32>,
    /// Bytes over which 16-byte chunks are permuted in shared memory: 0, 32, 64 or 128. The block's innermost dimension
    /// has at most this many bytes, unless it is 0.
    pub swizzle_bytes: u32,
    /// How much of the tensor is fetched into L2 around what a copy asks for.
    pub l2_promotion: L2Promotion,
    /// Whether elements outside the tensor are read as NaN and not as 0; floats only.
    pub fills_with_nan: bool,
}

/// How much is fetched into L2 at a time. Where it matters, 256 bytes are the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum L2Promotion {
    /// What is asked for.
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    #[default]
    Bytes256,
}

impl Tiling {
    /// Blocks of this shape, with a swizzle, 256 bytes of promotion and zeros outside.
    pub fn new(block: &[u32], swizzle_bytes: u32) -> Tiling {
        Tiling {
            block: block.to_vec(),
            swizzle_bytes,
            l2_promotion: L2Promotion::default(),
            fills_with_nan: false,
        }
    }
}

/// A tensor map, ready to be passed to a kernel by value.
///
/// It keeps the buffer's address and not the buffer, which must live as long as kernels use the map.
#[derive(Clone, Debug)]
pub struct TensorMap {
    device: Device,
    bytes: [u8; 128],
    block_bytes: u32,
}

impl TensorMap {
    /// What a parameter of this kind is aligned to, bytes (`.param .align 64 .b8 map[128]`).
    pub const ALIGN: usize = 64;

    /// The map of a tensor in `buffer`.
    ///
    /// # Errors
    /// [`Error::TensorMap`] with the rule that is broken and the value that breaks it.
    pub fn tiled<T: DeviceElement>(
        buffer: &Buffer<T>,
        place: &TensorPlace,
        tiling: &Tiling,
    ) -> Result<TensorMap> {
        let map = describe(buffer, place, tiling)?;
        map.validate().map_err(|error| Error::TensorMap(error.0))?;
        let bytes = match (buffer.device().backend(), map.access) {
            (Backend::Cuda(context), TensorAccess::Tiled { box_dims }) => {
                context.encode_tiled(&map, &box_dims, tiling.l2_promotion)?
            }
            _ => map.encode().map_err(|error| Error::TensorMap(error.0))?,
        };
        Ok(TensorMap {
            device: buffer.device().clone(),
            bytes,
            block_bytes: map.tile_bytes(),
        })
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

    /// Appends it to a kernel's parameters.
    pub fn push_to(&self, parameters: &mut ParameterBlock) {
        parameters.push(&self.bytes, TensorMap::ALIGN);
    }
}

/// The map as data, its dimensions innermost first as the hardware counts them.
fn describe<T: DeviceElement>(
    buffer: &Buffer<T>,
    place: &TensorPlace,
    tiling: &Tiling,
) -> Result<emulator::TensorMap> {
    let rank = place.shape.len();
    let fail = |message: String| Err(Error::TensorMap(message));
    if !(1..=5).contains(&rank) {
        return fail(format!(
            "a tensor of {rank} dimensions; there can be 1 to 5"
        ));
    }
    if place.strides.len() != rank || tiling.block.len() != rank {
        let (strides, block) = (place.strides.len(), tiling.block.len());
        return fail(format!(
            "{rank} dimensions, {strides} strides and a block of {block}; all must be as many"
        ));
    }
    if place.strides[rank - 1] != 1 {
        let stride = place.strides[rank - 1];
        return fail(format!(
            "the innermost dimension has a stride of {stride} elements; it must be 1"
        ));
    }
    if place.needs_elements() > buffer.len() {
        let (needs, has) = (place.needs_elements(), buffer.len());
        return fail(format!(
            "the tensor ends after element {needs} and its buffer has {has}"
        ));
    }
    let inner_first = |values: &[usize], scale: usize| {
        values
            .iter()
            .rev()
            .map(move |&value| (value * scale) as u64)
            .collect::<Vec<_>>()
    };
    let dims = inner_first(&place.shape, 1);
    let strides = inner_first(&place.strides[..rank - 1], size_of::<T>());
    let block: Vec<u32> = tiling.block.iter().rev().copied().collect();
    Ok(emulator::TensorMap {
        element: tensor_element(T::DTYPE),
        rank: rank as u32,
        address: buffer.address() + (place.offset * size_of::<T>()) as u64,
        dims: padded(&dims, 1),
        strides: padded(&strides, 0),
        element_strides: [1; 5],
        access: TensorAccess::Tiled {
            box_dims: padded(&block, 1),
        },
        swizzle: tiling.swizzle_bytes,
        nan_fill: tiling.fills_with_nan,
    })
}

/// `values` with `rest` behind them.
fn padded<V: Copy, const N: usize>(values: &[V], rest: V) -> [V; N] {
    std::array::from_fn(|at| values.get(at).copied().unwrap_or(rest))
}

/// The copy engine moves bytes; what it does not know as a number is an unsigned integer of the same width.
fn tensor_element(dtype: DType) -> TensorElement {
    match dtype {
        DType::I1 | DType::I8 | DType::U8 | DType::E4m3 | DType::E5m2 => TensorElement::U8,
        DType::I16 | DType::U16 => TensorElement::U16,
        DType::I32 => TensorElement::S32,
        DType::U32 => TensorElement::U32,
        DType::I64 => TensorElement::S64,
        DType::U64 => TensorElement::U64,
        DType::F16 => TensorElement::F16,
        DType::Bf16 => TensorElement::Bf16,
        DType::F32 => TensorElement::F32,
        DType::F64 => TensorElement::F64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::EntryShape;
    use crate::launch::grid;
    use crate::stream::Stream;

    /// Copies block (1, 1) of blocks of 4×8 to shared memory, and from there to `out`.
    const COPY: &str = "
.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out)
.reqntid 32, 1, 1
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mov.u32 %r3, bar;
    mov.u64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [out];
    mov.u32 %r4, 8;
    mov.u32 %r5, 4;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r3], 128;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, %r5}], [%r3];
READY:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;
    @!%p1 bra WAIT;
    shl.b32 %r6, %r1, 2;
    add.u32 %r7, %r2, %r6;
    ld.shared.u32 %r6, [%r7];
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd5, %rd2, %rd4;
    st.global.u32 [%rd5], %r6;
    ret;
}
";

    fn copied(device: &Device, columns: usize) -> Result<Vec<i32>> {
        let place = TensorPlace {
            shape: vec![6, columns],
            strides: vec![16, 1],
            offset: 0,
        };
        let elements: Vec<i32> = (0..6 * 16).collect();
        let buffer = Buffer::from_slice(device, &elements)?;
        let map = TensorMap::tiled(&buffer, &place, &Tiling::new(&[4, 8], 0))?;
        assert_eq!(map.block_bytes(), 128);
        let out = Buffer::<i32>::zeros(device, 32)?;
        let mut parameters = ParameterBlock::new();
        map.push_to(&mut parameters);
        parameters.push(&out.address().to_le_bytes(), 8);
        let shape = EntryShape {
            name: "copy".to_string(),
            threads: [32, 1, 1],
            cluster: [1; 3],
            shared_bytes: 0,
            overlaps_previous: false,
        };
        let stream = Stream::new(device)?;
        device
            .load_ptx(COPY)?
            .entry(shape)?
            .launch(&stream, grid(1u32), &parameters)?;
        stream.synchronize()?;
        out.to_vec()
    }

    #[test]
    fn a_copy_brings_the_block_with_zeros_outside_the_tensor() {
        for device in [Some(Device::emulator()), Device::cuda(0).ok()]
            .into_iter()
            .flatten()
        {
            // Rows 4 to 7 and columns 8 to 15 of a 6×13 tensor whose rows are 16 apart.
            let expected: Vec<i32> = (4..8)
                .flat_map(|row| {
                    (8..16).map(move |column| {
                        if row < 6 && column < 13 {
                            row * 16 + column
                        } else {
                            0
                        }
                    })
                })
                .collect();
            assert_eq!(copied(&device, 13).unwrap(), expected, "{device:?}");
        }
    }

    fn refused(place: &TensorPlace, tiling: &Tiling) -> String {
        let buffer = Buffer::<f32>::zeros(&Device::emulator(), 1024).unwrap();
        TensorMap::tiled(&buffer, place, tiling)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn each_broken_rule_is_named_with_its_value() {
        let dense = TensorPlace::dense(&[32, 32]);
        let check = |place: &TensorPlace, tiling: &Tiling, part: &str| {
            let line = refused(place, tiling);
            assert!(line.contains(part), "{line}");
        };
        check(&dense, &Tiling::new(&[8], 0), "a block of 1");
        check(
            &dense,
            &Tiling::new(&[8, 3], 0),
            "12 bytes along the innermost",
        );
        check(
            &dense,
            &Tiling::new(&[8, 32], 64),
            "128 bytes along the innermost",
        );
        check(&dense, &Tiling::new(&[8, 16], 48), "a swizzle of 48 bytes");
        check(&dense, &Tiling::new(&[512, 16], 0), "a box of 512");
        check(
            &TensorPlace::dense(&[32, 33]),
            &Tiling::new(&[8, 16], 0),
            "ends after element 1056",
        );
        check(
            &TensorPlace::dense(&[32, 31]),
            &Tiling::new(&[8, 16], 0),
            "a stride of 124 bytes",
        );
        check(
            &TensorPlace {
                offset: 1,
                ..TensorPlace::dense(&[31, 32])
            },
            &Tiling::new(&[8, 16], 0),
            "multiple of 16",
        );
        check(
            &TensorPlace {
                strides: vec![32, 2],
                ..TensorPlace::dense(&[8, 8])
            },
            &Tiling::new(&[8, 8], 0),
            "stride of 2 elements",
        );
        check(
            &TensorPlace::dense(&[1; 6]),
            &Tiling::new(&[1; 6], 0),
            "6 dimensions",
        );
    }
}

//! Tensor maps: what a TMA copy reads about a tensor in global memory (PTX ISA 5.5.8).

use std::fmt;

use target::{MOST_TENSOR_RANK, TENSOR_MAP_BYTES, Target, TensorMapLimits};

use crate::types::Type;

/// A tensor map as a kernel takes it: bytes that only who made them can read.
pub type EncodedTensorMap = [u8; TENSOR_MAP_BYTES as usize];

/// Room for the dimensions of a tensor.
const RANK: usize = MOST_TENSOR_RANK;

/// Type of the elements of a tensor (`CUtensorMapDataType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TensorElement {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
    F32Ftz,
    Tf32,
    Tf32Ftz,
}

impl TensorElement {
    /// All of them, in the order of the driver's enumeration.
    pub const ALL: [Self; 13] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::S32,
        Self::U64,
        Self::S64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F32Ftz,
        Self::Tf32,
        Self::Tf32Ftz,
    ];

    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
            Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Its number as a field of a map (PTX ISA, `tensormap.replace`, `.elemtype`).
    pub const fn field(self) -> u8 {
        match self {
            Self::U8 => 0,
            Self::U16 => 1,
            Self::U32 => 2,
            Self::S32 => 3,
            Self::U64 => 4,
            Self::S64 => 5,
            Self::F16 => 6,
            Self::F32 => 7,
            Self::F32Ftz => 8,
            Self::F64 => 9,
            Self::Bf16 => 10,
            Self::Tf32 => 11,
            Self::Tf32Ftz => 12,
        }
    }

    /// Is it a floating-point type?
    pub const fn is_float(self) -> bool {
        !matches!(
            self,
            Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64
        )
    }

    /// The type of the elements in registers, as which `cp.reduce.async.bulk.tensor` combines them.
    pub const fn reduction_type(self) -> Type {
        match self {
            Self::U8 => Type::U8,
            Self::U16 => Type::U16,
            Self::U32 => Type::U32,
            Self::S32 => Type::S32,
            Self::U64 => Type::U64,
            Self::S64 => Type::S64,
            Self::F16 => Type::F16,
            Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => Type::F32,
            Self::F64 => Type::F64,
            Self::Bf16 => Type::Bf16,
        }
    }
}

/// How a box selects elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorAccess {
    /// A box of the tensor.
    Tiled {
        /// Elements of the box along each dimension, the innermost first.
        box_dims: [u32; RANK],
    },
    /// Pixels of a convolution's input: C, W, H, D, N.
    Im2col {
        /// Offset of the first pixel of the bounding box in W, H, D.
        lower_corner: [i16; 3],
        /// Offset of the end of the bounding box from that of the tensor in W, H, D.
        upper_corner: [i16; 3],
        /// Channels that a copy takes.
        channels: u16,
        /// Pixels that a copy takes.
        pixels: u16,
    },
}

/// How much of a tensor is fetched into L2 around what a copy reads (`CUtensorMapL2promotion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum L2Promotion {
    /// What the copy reads.
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes: a line, and what a row of a swizzled block has at most.
    #[default]
    Bytes128,
    /// 256 bytes. Of a tensor that is read once, the line beside each row is fetched twice, and the fabric between the halves of L2 limits an H200 to 4.16 of 4.57 TB/s.
    Bytes256,
}

/// A tensor in global memory and the way in which copies cut it.
///
/// It is what `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` of the CUDA driver API take; the bytes that a kernel takes are
/// made of it by the driver, or by the emulator in an encoding of its own. [`TensorMap::validate`] states the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Element type.
    pub element: TensorElement,
    /// Dimensions.
    pub rank: u32,
    /// Address of the tensor.
    pub address: u64,
    /// Elements along each dimension, the innermost first.
    pub dims: [u64; RANK],
    /// Bytes from one element to the next along dimensions 1 and up; the innermost is dense.
    pub strides: [u64; RANK - 1],
    /// Steps between elements that a copy takes.
    pub element_strides: [u32; RANK],
    /// Boxes or pixels.
    pub access: TensorAccess,
    /// Bytes over which 16-byte chunks are permuted in shared memory; 0 for no swizzle.
    pub swizzle: u32,
    /// Elements outside of the tensor become NaN instead of zero (floats only).
    pub nan_fill: bool,
    /// How much is fetched into L2 at a time.
    pub l2_promotion: L2Promotion,
}

/// Why a tensor map cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapError(pub String);

impl fmt::Display for TensorMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TensorMapError {}

impl TensorMap {
    /// Elements that a copy moves, along each dimension of the shared memory tile.
    pub fn tile_dims(&self) -> Vec<u32> {
        match self.access {
            TensorAccess::Tiled { box_dims } => {
                let rank = self.rank as usize;
                box_dims
                    .iter()
                    .zip(self.element_strides)
                    .take(rank)
                    .map(|(n, step)| n.div_ceil(step))
                    .collect()
            }
            TensorAccess::Im2col {
                channels, pixels, ..
            } => vec![channels.into(), pixels.into()],
        }
    }

    /// Bytes that a copy writes to shared memory, those outside of the tensor included.
    pub fn tile_bytes(&self) -> u32 {
        self.tile_dims().iter().product::<u32>() * self.element.bytes()
    }

    /// Checks the rules of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` with the limits of `machine`.
    ///
    /// # Errors
    /// The rule that is broken, and the value that breaks it.
    pub fn validate(&self, machine: &Target) -> Result<(), TensorMapError> {
        let limits = &machine.tensor_map;
        let checked = self
            .check_rank(limits)
            .and_then(|()| self.check_tensor(limits))
            .and_then(|()| self.check_box(limits))
            .and_then(|()| self.check_swizzle(limits));
        checked.map_err(TensorMapError)
    }

    fn is_im2col(&self) -> bool {
        matches!(self.access, TensorAccess::Im2col { .. })
    }

    fn check_rank(&self, limits: &TensorMapLimits) -> Result<(), String> {
        let lowest = if self.is_im2col() {
            limits.least_im2col_rank
        } else {
            1
        };
        let (rank, most) = (self.rank, limits.rank.min(RANK as u32));
        require((lowest..=most).contains(&rank), || {
            format!("rank {rank}; it must be {lowest} to {most}")
        })
    }

    /// Address, extents and strides.
    fn check_tensor(&self, limits: &TensorMapLimits) -> Result<(), String> {
        let (rank, unit) = (self.rank as usize, u64::from(limits.unit_bytes));
        require(self.address.is_multiple_of(unit), || {
            format!(
                "the address {:#x} must be a multiple of {unit}",
                self.address
            )
        })?;
        let most = limits.dim_elements;
        first_wrong(
            &self.dims[..rank],
            |dim| (1..=most).contains(&dim),
            |dim| {
                format!(
                    "a dimension of {dim} elements; it must be 1 to {}",
                    power(most)
                )
            },
        )?;
        let below = limits.stride_bytes;
        let fits = |stride: u64| stride.is_multiple_of(unit) && stride < below;
        first_wrong(&self.strides[..rank - 1], fits, |stride| {
            format!(
                "a stride of {stride} bytes; it must be a multiple of {unit} below {}",
                power(below)
            )
        })?;
        let most = limits.element_stride;
        first_wrong(
            &self.element_strides[..rank],
            |step| (1..=most).contains(&step),
            |step| format!("an element stride of {step}; it must be 1 to {most}"),
        )?;
        require(!self.nan_fill || self.element.is_float(), || {
            "only floats can be filled with NaN".to_owned()
        })
    }

    /// Elements of a box, or pixels and channels.
    fn check_box(&self, limits: &TensorMapLimits) -> Result<(), String> {
        let (most, most_pixels) = (limits.box_elements, limits.pixels);
        match self.access {
            TensorAccess::Tiled { box_dims } => {
                let dims = &box_dims[..self.rank as usize];
                first_wrong(
                    dims,
                    |dim| (1..=most).contains(&dim),
                    |dim| {
                        format!("a box of {dim} elements along a dimension; it must be 1 to {most}")
                    },
                )
            }
            TensorAccess::Im2col {
                channels, pixels, ..
            } => {
                let fits = (1..=most).contains(&channels.into())
                    && (1..=most_pixels).contains(&pixels.into());
                require(fits, || {
                    format!(
                        "{channels} channels and {pixels} pixels; the limits are {most} and {most_pixels}"
                    )
                })
            }
        }
    }

    /// The rows of a box in shared memory.
    fn check_swizzle(&self, limits: &TensorMapLimits) -> Result<(), String> {
        let (swizzle, unit) = (self.swizzle, limits.unit_bytes);
        require(limits.swizzles.contains(&swizzle), || {
            let [spans @ .., last] = limits.swizzles.map(|bytes| bytes.to_string());
            format!(
                "a swizzle of {swizzle} bytes; it must be {} or {last}",
                spans.join(", ")
            )
        })?;
        let inner = self.tile_dims()[0] * self.element.bytes();
        require(inner.is_multiple_of(unit), || {
            format!(
                "{inner} bytes along the innermost dimension of the box; it must be a multiple of {unit}"
            )
        })?;
        require(swizzle == 0 || inner <= swizzle, || {
            format!(
                "{inner} bytes along the innermost dimension of the box; with a swizzle of {swizzle} bytes it may have no more than those"
            )
        })
    }
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// An error for the first of `values` that does not fit.
fn first_wrong<V: Copy>(
    values: &[V],
    fits: impl Fn(V) -> bool,
    message: impl FnOnce(V) -> String,
) -> Result<(), String> {
    match values.iter().copied().find(|value| !fits(*value)) {
        Some(wrong) => Err(message(wrong)),
        None => Ok(()),
    }
}

/// A power of two for people: `2^40`.
fn power(value: u64) -> String {
    format!("2^{}", value.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use target::SM_90A;

    fn tiled() -> TensorMap {
        TensorMap {
            element: TensorElement::Bf16,
            rank: 2,
            address: 0x7000_0000_0000,
            dims: [1 << 32, 100, 1, 1, 1],
            strides: [1 << 33, 0, 0, 0],
            element_strides: [1; 5],
            access: boxes([64, 128, 1, 1, 1]),
            swizzle: 128,
            nan_fill: true,
            l2_promotion: L2Promotion::default(),
        }
    }

    fn boxes(box_dims: [u32; 5]) -> TensorAccess {
        TensorAccess::Tiled { box_dims }
    }

    /// What the rules of `machine` say of a map that is right on `sm_90a` but for this change.
    #[track_caller]
    fn check_on(machine: &Target, change: impl FnOnce(&mut TensorMap), expected: &str) {
        let mut map = tiled();
        change(&mut map);
        let message = map.validate(machine).expect_err("a rule is broken").0;
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn every_rule_is_checked() {
        assert_eq!(tiled().validate(&SM_90A), Ok(()));
        let check =
            |change: fn(&mut TensorMap), expected: &str| check_on(&SM_90A, change, expected);
        check(|m| m.rank = 6, "rank 6; it must be 1 to 5");
        check(|m| m.address += 8, "multiple of 16");
        check(
            |m| m.dims[1] = 0,
            "a dimension of 0 elements; it must be 1 to 2^32",
        );
        check(
            |m| m.strides[0] = 24,
            "a stride of 24 bytes; it must be a multiple of 16 below 2^40",
        );
        check(|m| m.strides[0] = 1 << 40, "below 2^40");
        check(
            |m| m.element_strides[0] = 9,
            "an element stride of 9; it must be 1 to 8",
        );
        check(
            |m| m.swizzle = 16,
            "a swizzle of 16 bytes; it must be 0, 32, 64 or 128",
        );
        check(
            |m| m.access = boxes([64, 257, 1, 1, 1]),
            "a box of 257 elements",
        );
        check(
            |m| m.access = boxes([65, 1, 1, 1, 1]),
            "must be a multiple of 16",
        );
        check(
            |m| m.access = boxes([128, 1, 1, 1, 1]),
            "no more than those",
        );
        check(|m| m.element = TensorElement::U16, "only floats");
    }

    #[test]
    fn an_image_has_three_dimensions_and_as_many_pixels_as_the_target_allows() {
        let image = |map: &mut TensorMap, pixels: u16| {
            map.rank = 4;
            map.access = TensorAccess::Im2col {
                lower_corner: [0; 3],
                upper_corner: [0; 3],
                channels: 64,
                pixels,
            };
        };
        check_on(
            &SM_90A,
            |m| image(m, 1025),
            "64 channels and 1025 pixels; the limits are 256 and 1024",
        );
        let flat = |map: &mut TensorMap| {
            image(map, 8);
            map.rank = 2;
        };
        check_on(&SM_90A, flat, "rank 2; it must be 3 to 5");
    }

    #[test]
    fn rules_follow_the_limits_of_the_target() {
        let mut machine = SM_90A;
        machine.tensor_map.box_elements = 64;
        check_on(
            &machine,
            |_| {},
            "a box of 128 elements along a dimension; it must be 1 to 64",
        );
        machine = SM_90A;
        machine.tensor_map.dim_elements = 1 << 20;
        check_on(
            &machine,
            |_| {},
            "a dimension of 4294967296 elements; it must be 1 to 2^20",
        );
        machine = SM_90A;
        machine.tensor_map.swizzles = [0, 16, 32, 64];
        check_on(
            &machine,
            |_| {},
            "a swizzle of 128 bytes; it must be 0, 16, 32 or 64",
        );
        machine = SM_90A;
        machine.tensor_map.rank = 1;
        check_on(&machine, |_| {}, "rank 2; it must be 1 to 1");
    }
}

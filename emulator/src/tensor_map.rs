//! Tensor maps: what a TMA copy knows of a tensor in global memory.
//!
//! The hardware's 128 bytes are opaque; the emulator has its own encoding of the same contents, which whoever
//! launches on the emulator passes in place of `cuTensorMapEncode*`.

use std::fmt;

/// Marks the encoding of the emulator.
const MAGIC: [u8; 4] = *b"TKtm";

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
    const ALL: [Self; 13] = [
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

    const fn is_float(self) -> bool {
        !matches!(
            self,
            Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64
        )
    }

    /// The type of reductions on the elements.
    pub(crate) const fn reduction_type(self) -> ptx::Type {
        match self {
            Self::U8 => ptx::Type::U8,
            Self::U16 => ptx::Type::U16,
            Self::U32 => ptx::Type::U32,
            Self::S32 => ptx::Type::S32,
            Self::U64 => ptx::Type::U64,
            Self::S64 => ptx::Type::S64,
            Self::F16 => ptx::Type::F16,
            Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => ptx::Type::F32,
            Self::F64 => ptx::Type::F64,
            Self::Bf16 => ptx::Type::Bf16,
        }
    }
}

/// How a box selects elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorAccess {
    /// A box of the tensor.
    Tiled {
        /// Elements of the box along each dimension, the innermost first; 1 to 256.
        box_dims: [u32; 5],
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

/// A tensor in global memory and the way in which copies cut it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Element type.
    pub element: TensorElement,
    /// Dimensions, 1 to 5 (3 to 5 for im2col).
    pub rank: u32,
    /// Address of the tensor, a multiple of 16.
    pub address: u64,
    /// Elements along each dimension, the innermost first.
    pub dims: [u64; 5],
    /// Bytes from one element to the next along dimensions 1 and up, multiples of 16; the innermost is dense.
    pub strides: [u64; 4],
    /// Steps between elements that a copy takes, 1 to 8.
    pub element_strides: [u32; 5],
    /// Boxes or pixels.
    pub access: TensorAccess,
    /// Bytes over which 16-byte chunks are permuted in shared memory: 0, 32, 64 or 128.
    pub swizzle: u32,
    /// Elements outside of the tensor become NaN instead of zero (floats only).
    pub nan_fill: bool,
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

/// Bytes that the engine writes as a whole.
const WRITE_UNIT_BYTES: u64 = 16;

impl TensorMap {
    /// The map as a store sees it: of a row that ends inside a unit of 16 bytes the H200 writes all of the unit, padding
    /// included. (Measured: rows of 1 to 33 elements of 2 bytes; the PTX ISA says only that places outside are not written.)
    pub(crate) fn written_in_whole_units(mut self) -> TensorMap {
        let element = u64::from(self.element.bytes());
        self.dims[0] = (self.dims[0] * element).next_multiple_of(WRITE_UNIT_BYTES) / element;
        self
    }

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

    /// Checks the rules of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`.
    pub fn validate(&self) -> Result<(), TensorMapError> {
        let fail = |message: String| Err(TensorMapError(message));
        let rank = self.rank as usize;
        let lowest = if matches!(self.access, TensorAccess::Im2col { .. }) {
            3
        } else {
            1
        };
        if !(lowest..=5).contains(&rank) {
            return fail(format!("rank {rank}; it must be {lowest} to 5"));
        }
        if !self.address.is_multiple_of(16) {
            return fail(format!(
                "the address {:#x} must be a multiple of 16",
                self.address
            ));
        }
        if let Some(dim) = self.dims[..rank]
            .iter()
            .find(|&&dim| dim == 0 || dim > 1 << 32)
        {
            return fail(format!(
                "a dimension of {dim} elements; it must be 1 to 2^32"
            ));
        }
        if let Some(stride) = self.strides[..rank - 1]
            .iter()
            .find(|&&s| !s.is_multiple_of(16) || s >= 1 << 40)
        {
            return fail(format!(
                "a stride of {stride} bytes; it must be a multiple of 16 below 2^40"
            ));
        }
        if let Some(step) = self.element_strides[..rank]
            .iter()
            .find(|&&step| step == 0 || step > 8)
        {
            return fail(format!("an element stride of {step}; it must be 1 to 8"));
        }
        if self.nan_fill && !self.element.is_float() {
            return fail("only floats can be filled with NaN".to_owned());
        }
        if ![0, 32, 64, 128].contains(&self.swizzle) {
            return fail(format!(
                "a swizzle of {} bytes; it must be 0, 32, 64 or 128",
                self.swizzle
            ));
        }
        self.validate_tile()
    }

    fn validate_tile(&self) -> Result<(), TensorMapError> {
        let fail = |message: String| Err(TensorMapError(message));
        let tile = self.tile_dims();
        if let TensorAccess::Tiled { box_dims } = self.access
            && let Some(dim) = box_dims[..self.rank as usize]
                .iter()
                .find(|&&dim| dim == 0 || dim > 256)
        {
            return fail(format!(
                "a box of {dim} elements along a dimension; it must be 1 to 256"
            ));
        }
        if let TensorAccess::Im2col {
            channels, pixels, ..
        } = self.access
            && (channels == 0 || channels > 256 || pixels == 0 || pixels > 1024)
        {
            return fail(format!(
                "{channels} channels and {pixels} pixels; the limits are 256 and 1024"
            ));
        }
        let inner = tile[0] * self.element.bytes();
        if !inner.is_multiple_of(16) {
            return fail(format!(
                "{inner} bytes along the innermost dimension of the box; it must be a multiple of 16"
            ));
        }
        if self.swizzle != 0 && inner > self.swizzle {
            return fail(format!(
                "{inner} bytes along the innermost dimension of the box; with a swizzle of {} bytes it may have no more than those",
                self.swizzle
            ));
        }
        Ok(())
    }

    /// The 128 bytes that a kernel takes as its parameter.
    pub fn encode(&self) -> Result<[u8; 128], TensorMapError> {
        self.validate()?;
        let mut writer = Writer {
            bytes: [0; 128],
            at: 0,
        };
        writer.put(&MAGIC);
        let element = TensorElement::ALL
            .iter()
            .position(|&element| element == self.element)
            .unwrap_or(0);
        writer.put(&[
            element as u8,
            self.rank as u8,
            self.swizzle as u8,
            u8::from(self.nan_fill),
        ]);
        writer.put(&self.address.to_le_bytes());
        // Dimensions go up to 2^32, so that one less is kept.
        self.dims
            .iter()
            .for_each(|dim| writer.put(&(dim.wrapping_sub(1) as u32).to_le_bytes()));
        self.strides
            .iter()
            .for_each(|stride| writer.put(&stride.to_le_bytes()));
        writer.put(&self.element_strides.map(|step| step as u8));
        match self.access {
            TensorAccess::Tiled { box_dims } => {
                writer.put(&[0]);
                for dim in box_dims {
                    writer.put(&(dim as u16).to_le_bytes());
                }
            }
            TensorAccess::Im2col {
                lower_corner,
                upper_corner,
                channels,
                pixels,
            } => {
                writer.put(&[1]);
                lower_corner
                    .iter()
                    .chain(&upper_corner)
                    .for_each(|corner| writer.put(&corner.to_le_bytes()));
                writer.put(&channels.to_le_bytes());
                writer.put(&pixels.to_le_bytes());
            }
        }
        Ok(writer.bytes)
    }

    /// Reads the 128 bytes back; none when they are something else.
    pub fn decode(bytes: &[u8; 128]) -> Option<Self> {
        let map = Self::read(bytes)?;
        map.validate().ok().map(|()| map)
    }

    /// The same of a map that nobody has checked: a kernel's.
    pub(crate) fn read(bytes: &[u8; 128]) -> Option<Self> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.take::<4>() != MAGIC {
            return None;
        }
        let [element, rank, swizzle, nan_fill] = reader.take();
        Some(Self {
            element: *TensorElement::ALL.get(usize::from(element))?,
            rank: rank.into(),
            swizzle: swizzle.into(),
            nan_fill: nan_fill != 0,
            address: u64::from_le_bytes(reader.take()),
            dims: std::array::from_fn(|_| u64::from(u32::from_le_bytes(reader.take())) + 1),
            strides: std::array::from_fn(|_| u64::from_le_bytes(reader.take())),
            element_strides: reader.take::<5>().map(u32::from),
            access: match reader.take::<1>() {
                [0] => TensorAccess::Tiled {
                    box_dims: std::array::from_fn(|_| u16::from_le_bytes(reader.take()).into()),
                },
                _ => TensorAccess::Im2col {
                    lower_corner: std::array::from_fn(|_| i16::from_le_bytes(reader.take())),
                    upper_corner: std::array::from_fn(|_| i16::from_le_bytes(reader.take())),
                    channels: u16::from_le_bytes(reader.take()),
                    pixels: u16::from_le_bytes(reader.take()),
                },
            },
        })
    }
}

/// Where a kernel's change of a field lies in the encoding, and its bytes (`tensormap.replace`, PTX ISA 9.7.9.28).
///
/// A map that is made in memory starts as zeros; any change also marks it as one.
pub(crate) fn replacement(
    field: ptx::TensormapField,
    index: u32,
    value: u64,
) -> Result<(usize, Vec<u8>), String> {
    use ptx::TensormapField as Field;
    let axis = index as usize;
    let limit = if field == Field::GlobalStride { 4 } else { 5 };
    if axis >= limit {
        return Err(format!(
            "dimension {index} of a tensor map; there are {limit}"
        ));
    }
    let byte = |at: usize, value: u8| Ok((at, vec![value]));
    let known = |table: &[u8], what: &str| {
        let found = usize::try_from(value)
            .ok()
            .and_then(|value| table.get(value));
        found
            .copied()
            .ok_or_else(|| format!("{value} is no {what} of a tensor map"))
    };
    match field {
        // The instruction numbers f32.ftz before f64, the driver's enumeration behind bf16.
        Field::ElementType => byte(
            4,
            known(&[0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12], "element type")?,
        ),
        Field::Rank => byte(5, known(&[1, 2, 3, 4, 5], "rank")?),
        Field::Swizzle => byte(6, known(&[0, 32, 64, 128], "swizzle mode")?),
        Field::Fill => byte(7, known(&[0, 1], "fill mode")?),
        Field::Interleave => byte(73, known(&[0], "interleave layout that the emulator has")?),
        Field::GlobalAddress => Ok((8, value.to_le_bytes().to_vec())),
        Field::GlobalDim => Ok((
            16 + 4 * axis,
            (value as u32).wrapping_sub(1).to_le_bytes().to_vec(),
        )),
        Field::GlobalStride => Ok((36 + 8 * axis, value.to_le_bytes().to_vec())),
        Field::ElementStride => byte(68 + axis, value.min(255) as u8),
        Field::BoxDim => Ok((
            74 + 2 * axis,
            (value.min(65_535) as u16).to_le_bytes().to_vec(),
        )),
    }
}

/// The bytes that say that 128 bytes are a tensor map.
pub(crate) const MARK: [u8; 4] = MAGIC;

struct Writer {
    bytes: [u8; 128],
    at: usize,
}

impl Writer {
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.at..self.at + part.len()].copy_from_slice(part);
        self.at += part.len();
    }
}

struct Reader<'a> {
    bytes: &'a [u8; 128],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiled() -> TensorMap {
        TensorMap {
            element: TensorElement::Bf16,
            rank: 2,
            address: 0x7000_0000_0000,
            dims: [1 << 32, 100, 1, 1, 1],
            strides: [1 << 33, 0, 0, 0],
            element_strides: [1; 5],
            access: TensorAccess::Tiled {
                box_dims: [64, 128, 1, 1, 1],
            },
            swizzle: 128,
            nan_fill: true,
        }
    }

    #[test]
    fn maps_read_back() {
        let im2col = TensorMap {
            rank: 4,
            access: TensorAccess::Im2col {
                lower_corner: [-1, -2, 0],
                upper_corner: [-1, 0, 3],
                channels: 64,
                pixels: 256,
            },
            ..tiled()
        };
        for map in [tiled(), im2col] {
            assert_eq!(TensorMap::decode(&map.encode().unwrap()), Some(map));
        }
        assert_eq!(TensorMap::decode(&[0; 128]), None);
        assert_eq!(tiled().tile_bytes(), 16384);
    }

    #[test]
    fn maps_can_be_made_field_by_field() {
        use ptx::TensormapField as Field;
        let mut bytes = [0; 128];
        bytes[..4].copy_from_slice(&MARK);
        let mut put = |field, index, value| {
            let (at, part) = replacement(field, index, value).unwrap();
            bytes[at..at + part.len()].copy_from_slice(&part);
        };
        let map = tiled();
        put(Field::ElementType, 0, 10);
        put(Field::Rank, 0, 1);
        put(Field::GlobalAddress, 0, map.address);
        put(Field::Swizzle, 0, 3);
        put(Field::Fill, 0, 1);
        put(Field::Interleave, 0, 0);
        for axis in 0..5 {
            put(Field::GlobalDim, axis, map.dims[axis as usize]);
            put(Field::ElementStride, axis, 1);
            put(Field::BoxDim, axis, [64, 128, 1, 1, 1][axis as usize]);
        }
        put(Field::GlobalStride, 0, map.strides[0]);
        assert_eq!(bytes, map.encode().unwrap());
        assert!(replacement(Field::GlobalStride, 4, 16).is_err());
        assert!(replacement(Field::Swizzle, 0, 4).is_err());
    }

    #[test]
    fn every_rule_is_checked() {
        let check = |change: fn(&mut TensorMap), expected: &str| {
            let mut map = tiled();
            change(&mut map);
            let message = map.encode().unwrap_err().0;
            assert!(message.contains(expected), "{message}");
        };
        check(|m| m.rank = 6, "rank 6");
        check(|m| m.address += 8, "multiple of 16");
        check(|m| m.dims[1] = 0, "a dimension of 0 elements");
        check(|m| m.strides[0] = 24, "a stride of 24 bytes");
        check(|m| m.element_strides[0] = 9, "an element stride of 9");
        check(|m| m.swizzle = 16, "a swizzle of 16 bytes");
        check(
            |m| {
                m.access = TensorAccess::Tiled {
                    box_dims: [64, 257, 1, 1, 1],
                }
            },
            "a box of 257 elements",
        );
        check(
            |m| {
                m.access = TensorAccess::Tiled {
                    box_dims: [65, 1, 1, 1, 1],
                }
            },
            "must be a multiple of 16",
        );
        check(
            |m| {
                m.access = TensorAccess::Tiled {
                    box_dims: [128, 1, 1, 1, 1],
                }
            },
            "no more than those",
        );
        check(
            |m| (m.element, m.swizzle) = (TensorElement::U16, 128),
            "only floats",
        );
    }
}

//! Tensor maps as the emulator encodes them. The bytes of the hardware are opaque; whoever launches on the emulator passes these in
//! their place.

use ptx::{EncodedTensorMap, L2Promotion, TensorAccess, TensorElement, TensorMap, TensorMapError};
use target::Target;

/// Marks the encoding of the emulator, so that other bytes are not taken for a map.
pub(crate) const MARK: [u8; 4] = *b"TKtm";

/// Bytes that the TMA unit writes as a whole.
const WRITE_UNIT_BYTES: u64 = 16;

/// The map as a store sees it: of a row that ends inside a unit of 16 bytes the H200 writes all of the unit, padding
/// included. (Measured: rows of 1 to 33 elements of 2 bytes; the PTX ISA says only that places outside are not written.)
pub(crate) fn written_in_whole_units(mut map: TensorMap) -> TensorMap {
    let element = u64::from(map.element.bytes());
    map.dims[0] = (map.dims[0] * element).next_multiple_of(WRITE_UNIT_BYTES) / element;
    map
}

/// The bytes that a kernel takes as its parameter. The emulator has no caches, so that the promotion into L2 is left out.
///
/// # Errors
/// A rule of `target` that the map breaks.
pub fn encode_tensor_map(
    map: &TensorMap,
    target: &Target,
) -> Result<EncodedTensorMap, TensorMapError> {
    map.validate(target)?;
    Ok(encode(map))
}

fn encode(map: &TensorMap) -> EncodedTensorMap {
    let mut writer = Writer {
        bytes: [0; size_of::<EncodedTensorMap>()],
        at: 0,
    };
    writer.put(&MARK);
    writer.put(&[
        map.element as u8,
        map.rank as u8,
        map.swizzle as u8,
        u8::from(map.nan_fill),
    ]);
    writer.put(&map.address.to_le_bytes());
    // Dimensions go up to 2^32, so that one less is kept.
    let dims = map.dims.iter();
    dims.for_each(|dim| writer.put(&(dim.wrapping_sub(1) as u32).to_le_bytes()));
    let strides = map.strides.iter();
    strides.for_each(|stride| writer.put(&stride.to_le_bytes()));
    writer.put(&map.element_strides.map(|step| step as u8));
    put_access(&mut writer, &map.access);
    writer.bytes
}

fn put_access(writer: &mut Writer, access: &TensorAccess) {
    match *access {
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
            let corners = lower_corner.iter().chain(&upper_corner);
            corners.for_each(|corner| writer.put(&corner.to_le_bytes()));
            writer.put(&channels.to_le_bytes());
            writer.put(&pixels.to_le_bytes());
        }
    }
}

/// Reads a map back that nobody has checked, for a kernel may have made it; none where the bytes are something else.
pub(crate) fn read_tensor_map(bytes: &EncodedTensorMap) -> Option<TensorMap> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.take::<4>() != MARK {
        return None;
    }
    let [element, rank, swizzle, nan_fill] = reader.take();
    Some(TensorMap {
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
        l2_promotion: L2Promotion::None,
    })
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
            u16::try_from(value)
                .unwrap_or(u16::MAX)
                .to_le_bytes()
                .to_vec(),
        )),
    }
}

struct Writer {
    bytes: EncodedTensorMap,
    at: usize,
}

impl Writer {
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.at..self.at + part.len()].copy_from_slice(part);
        self.at += part.len();
    }
}

struct Reader<'a> {
    bytes: &'a EncodedTensorMap,
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
            l2_promotion: L2Promotion::None,
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
            assert_eq!(read_tensor_map(&encode(&map)), Some(map));
        }
        assert_eq!(read_tensor_map(&[0; 128]), None);
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
        assert_eq!(bytes, encode(&map));
        assert!(replacement(Field::GlobalStride, 4, 16).is_err());
        assert!(replacement(Field::Swizzle, 0, 4).is_err());
    }
}

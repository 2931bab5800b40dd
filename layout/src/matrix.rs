//! Shared memory as the tensor cores read it: matrix descriptors of `wgmma` (PTX ISA, matrix-descriptor format).
//!
//! The tensor cores know four swizzles and two orders. A layout fits one of them if every bit of a coordinate inside one
//! instruction's tile lands where the hardware looks for it; both sides are linear, so bits are enough.

use std::sync::Arc;

use super::linear::cut::bits_below;
use super::local::{Places, Storage};
use super::{Dims, LayoutError, SharedLayout};

/// What a matrix descriptor says besides the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixDescriptor {
    /// Bytes of a swizzled row: 128, 64, 32, or 0 for none.
    pub swizzle_bytes: u32,
    /// Leading-dimension byte offset.
    pub leading_bytes: u32,
    /// Stride-dimension byte offset.
    pub stride_bytes: u32,
    /// The rows of A or columns of B follow one another in memory, and not K.
    pub is_mn_major: bool,
}

impl MatrixDescriptor {
    /// The upper 32 bits of the descriptor: stride and swizzle.
    pub fn high_word(&self) -> u32 {
        let mode = match self.swizzle_bytes {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        self.stride_bytes >> 4 & 0x3fff | mode << 30
    }

    /// What is added to the address, shifted right by 4, in the lower 32 bits: the leading offset.
    pub fn low_word(&self) -> u32 {
        (self.leading_bytes >> 4 & 0x3fff) << 16
    }
}

/// A tile of one `wgmma` in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct MatrixTile {
    /// The dimension of the view that is M or N: 0 for A, 1 for B.
    pub mn_dim: usize,
    /// Elements of the tile along it.
    pub mn: u32,
    /// Elements of the tile along K.
    pub k: u32,
    /// Bits of an element.
    pub elem_bits: u32,
}

/// The descriptor of tiles in an allocation of `alloc_shape`, of rank 2.
pub fn plan_matrix(
    shared: &SharedLayout,
    alloc_shape: &[u32],
    tile: MatrixTile,
) -> Result<MatrixDescriptor, LayoutError> {
    let refuse = |why: String| LayoutError::NoRelation {
        operation: "feed `wgmma` from",
        layout: shared.to_string(),
        why,
    };
    if alloc_shape.len() != 2 || matches!(shared, SharedLayout::Padded(_)) {
        return Err(refuse(
            "the tensor cores read two dimensions without padding".into(),
        ));
    }
    let view = View {
        places: Places::new(shared, alloc_shape)?,
        storage: Storage::new(shared, alloc_shape, tile.elem_bits / 8)?,
        tile,
    };
    let majors = [false, true]
        .into_iter()
        .filter(|mn_major| !mn_major || tile.elem_bits == 16);
    let all = majors.flat_map(|mn_major| [128, 64, 32, 0].map(|swizzle| (mn_major, swizzle)));
    for (is_mn_major, swizzle_bytes) in all {
        if let Some(found) = view.fit(is_mn_major, swizzle_bytes) {
            return Ok(found);
        }
    }
    Err(refuse(format!(
        "the tensor cores cannot address a tile of {} by {} of K in it{}",
        tile.mn,
        tile.k,
        if tile.elem_bits == 16 {
            ""
        } else {
            "; elements of other than 16 bits must have K contiguous"
        }
    )))
}

struct View {
    places: Arc<Places>,
    storage: Storage,
    tile: MatrixTile,
}

impl View {
    /// Bytes from the origin to an element.
    fn bytes(&self, mn: u32, k: u32) -> u32 {
        let mut coords = Dims::filled(0, 2);
        coords[self.tile.mn_dim] = mn;
        coords[1 - self.tile.mn_dim] = k;
        self.storage.bytes(self.places.offset(&coords))
    }

    fn fit(&self, is_mn_major: bool, swizzle_bytes: u32) -> Option<MatrixDescriptor> {
        let row_bytes = swizzle_bytes.max(16);
        let row = row_bytes * 8 / self.tile.elem_bits;
        // How far the next group of 8 across, and the next row's width along, lie away.
        let (along, across) = if is_mn_major {
            (self.tile.mn, self.tile.k)
        } else {
            (self.tile.k, self.tile.mn)
        };
        let at = |along: u32, across: u32| {
            if is_mn_major {
                self.bytes(along, across)
            } else {
                self.bytes(across, along)
            }
        };
        let next_row = if along > row { at(row, 0) } else { 0 };
        let next_group = if across > 8 { at(0, 8) } else { 0 };
        // Swizzled rows never span K-major tiles: a tile of K fits in one.
        if !is_mn_major && swizzle_bytes > 0 && along > row {
            return None;
        }
        let expected = |along: u32, across: u32| {
            let linear = along / row * next_row
                + across / 8 * next_group
                + across % 8 * row_bytes
                + along % row * self.tile.elem_bits / 8;
            let phase_mask = swizzle_bytes.max(16) / 16 - 1;
            linear ^ (linear >> 7 & phase_mask) << 4
        };
        // Of a size that is no power of two, the steps beyond its granule add up: bits are enough there too.
        let along_bits = (0..bits_below(along)).map(|b| (1 << b, 0));
        let across_bits = (0..bits_below(across)).map(|b| (0, 1 << b));
        let mut bits = along_bits.chain(across_bits);
        if !bits.all(|(x, y)| at(x, y) == expected(x, y)) {
            return None;
        }
        // Without a swizzle the two offsets exchange their meaning between the orders.
        let (leading_bytes, stride_bytes) = match (is_mn_major, swizzle_bytes) {
            (true, 0) => (next_group, next_row),
            _ => (next_row, next_group),
        };
        let are_encodable = [leading_bytes, stride_bytes]
            .iter()
            .all(|b| b % 16 == 0 && b >> 4 < 1 << 14);
        are_encodable.then_some(MatrixDescriptor {
            swizzle_bytes,
            leading_bytes,
            stride_bytes,
            is_mn_major,
        })
    }
}

//! Any shared-memory layout without padding, given by its bases.

use std::fmt;

use super::text::write_call;
use super::{Axis, BasisFault, Dims, LayoutError, rules};

/// A shared-memory layout by its bases over GF(2): the coordinate of the element at an offset is the XOR of the bases
/// of all bits set in the offset (in elements) and in the CTA number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedLinear {
    /// One basis per bit of the offset in elements.
    pub offset: Vec<Dims>,
    /// One basis per bit of the CTA number, in elements.
    pub block: Vec<Dims>,
    /// The alignment of the allocation in bytes, a power of two.
    pub alignment_bytes: u32,
}

impl SharedLinear {
    /// A layout for kernels without clusters, aligned to 16 bytes.
    pub fn new<B: Into<Dims>>(offset: impl IntoIterator<Item = B>) -> Self {
        Self {
            offset: offset.into_iter().map(Into::into).collect(),
            block: Vec::new(),
            alignment_bytes: 16,
        }
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.offset
            .iter()
            .chain(&self.block)
            .next()
            .map_or(0, Dims::rank)
    }

    /// The shape that the bases cover: per dimension, the first power of two that no basis reaches.
    pub fn shape(&self) -> Dims {
        let mut reached = Dims::filled(0, self.rank());
        for basis in self.offset.iter().chain(&self.block) {
            for (dim, &entry) in basis.iter().enumerate() {
                reached[dim] |= entry;
            }
        }
        reached
            .iter()
            .map(|&bits| (bits + 1).next_power_of_two())
            .collect()
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        const NAME: &str = "SharedLinear";
        rules::power_of_two(NAME, "alignment_bytes", self.alignment_bytes)?;
        let rank = self.rank();
        rules::rank(NAME, rank)?;
        rules::offset_bases(NAME, &self.offset)?;
        rules::block_count(NAME, &self.block)?;
        for (axis, bases) in [(Axis::Offset, &self.offset), (Axis::Block, &self.block)] {
            if let Some(bit) = bases.iter().position(|basis| basis.rank() != rank) {
                let (basis, fault) = (bases[bit].clone(), BasisFault::Rank);
                return Err(LayoutError::Basis {
                    layout: NAME,
                    axis,
                    bit,
                    basis,
                    fault,
                });
            }
        }
        Ok(())
    }
}

impl fmt::Display for SharedLinear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "SharedLinear", |args| {
            args.bases("offset", &self.offset)?;
            args.bases("block", &self.block)?;
            args.named_unless("alignment", &self.alignment_bytes, &16)
        })
    }
}

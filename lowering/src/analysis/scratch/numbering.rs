//! Numbers for places of a tensor, made of some bits of their coordinates.

use ir::elem::Elem;
use layout::linear::cut::granule;
use layout::{Axis, Dims, LinearLayout};

/// Coordinate bits that number places, the lowest first. Other bits tell apart what has one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbering {
    bits: Vec<u32>,
    count: u32,
    /// How many of the numbers are those of places: fewer where several extents are no powers of two.
    places: u32,
}

impl Numbering {
    /// The numbering by these bits of packed coordinates.
    pub(crate) fn new(bits: impl IntoIterator<Item = u32>) -> Numbering {
        let bits: Vec<u32> = bits.into_iter().collect();
        let count = 1 << bits.len();
        Numbering {
            bits,
            count,
            places: count,
        }
    }

    /// Numbers in row-major order the results of a reduction along `axis` that one CTA holds. What an extent that is no power
    /// of two cuts comes slowest, so that the numbers end with the last result.
    pub(crate) fn of_results(map: &LinearLayout, axis: usize) -> Numbering {
        let elsewhere = held_by_ctas(map);
        let dims = (0..map.outs().len()).rev().filter(|dim| *dim != axis);
        let bits = dims.flat_map(|dim| bits_of(map, dim));
        let here = bits.filter(|bit| elsewhere >> bit & 1 == 0);
        Numbering::with_cuts_last(map, here)
    }

    /// Numbers all elements: by their packed coordinates, where no extent cuts these.
    pub(crate) fn of_elements(map: &LinearLayout) -> Numbering {
        Numbering::with_cuts_last(map, 0..map.total_out_bits())
    }

    /// The numbering by these bits, which are all those of whole granules of a dimension or none of them.
    pub(crate) fn with_cuts_last(map: &LinearLayout, bits: impl Iterator<Item = u32>) -> Numbering {
        let cut = map.cut_mask();
        let (cut, whole): (Vec<u32>, Vec<u32>) = bits.partition(|bit| cut >> bit & 1 == 1);
        let granules = (0..map.outs().len()).filter(|&dim| {
            let of_dim = bits_of(map, dim);
            cut.iter().any(|bit| of_dim.contains(bit))
        });
        let granules = granules.map(|dim| {
            let size = map.out_size(Axis::dim(dim));
            size / granule(size)
        });
        let places = granules.product::<u32>() << whole.len();
        let mut numbering = Numbering::new(whole.into_iter().chain(cut));
        if map.is_cut() {
            let sizes = map.out_sizes();
            let last: Dims = sizes.iter().map(|size| size - 1).collect();
            numbering.count = numbering.number(map.pack_out(&last)) + 1;
            numbering.places = places;
        }
        numbering
    }

    /// How many numbers there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How many places have a number, and how many numbers there are.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.places, self.count)
    }

    /// The number of a packed place.
    pub(crate) fn number(&self, packed: u64) -> u32 {
        let bits = self.bits.iter().enumerate();
        bits.map(|(to, from)| ((packed >> from & 1) as u32) << to)
            .sum()
    }
}

/// The bits of the packed coordinate that belong to dimension `dim`, the lowest first.
pub(crate) fn bits_of(map: &LinearLayout, dim: usize) -> std::ops::Range<u32> {
    let first = map.out_shift(Axis::dim(dim));
    first..first + map.out_bits(Axis::dim(dim))
}

/// The bits of the packed coordinate that the CTA's rank decides.
pub(crate) fn held_by_ctas(map: &LinearLayout) -> u64 {
    map.bases(Axis::Block)
        .iter()
        .fold(0, |all, basis| all | basis)
}

/// The bytes of what one CTA holds of a tensor of this layout.
pub(crate) fn held_bytes(map: &LinearLayout, elem: Elem) -> u32 {
    let bits = map.total_out_bits() - held_by_ctas(map).count_ones();
    elem.bytes() << bits
}

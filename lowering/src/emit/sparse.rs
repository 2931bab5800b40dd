//! The metadata of a sparse operand A, as `wgmma.mma_async.sp` takes it: one register of two numbers, and a selector.

use std::collections::HashMap;

use ir::elem::{DType, Elem};
use ir::entity::Value;
use layout::{Axis, elements_of_metadata};

use super::Emitter;
use super::element::Element;

const U16: Elem = Elem::Data(DType::U16);

/// The metadata of an operand, and where its numbers lie.
pub(super) struct Metadata {
    elements: Vec<Element>,
    /// The element of the first lane of a warpgroup at a place.
    of_first_lane: HashMap<u64, usize>,
    /// What bit 1 of a lane adds to the place. Of 16- and 32-bit operands, the lanes in which it is set may hold the numbers
    /// of every second instruction: then those have the selector 1.
    second_lanes: u64,
    /// The place of the number beside another one in a register.
    partner: [u32; 2],
    /// Elements of K that a number describes.
    per_number: u32,
    /// From a row and a column to a place.
    shifts: [u32; 2],
}

impl Metadata {
    /// The metadata `value` of an operand of so many bits.
    pub(super) fn of(cx: &mut Emitter<'_>, value: Value, elem_bits: u32) -> Metadata {
        let ty = cx.func.ty(value).as_tensor();
        let ty = ty.expect("the verifier admits only tensors as metadata");
        let distribution = cx.distribution(ty);
        Metadata {
            elements: cx.elements(value).to_vec(),
            of_first_lane: distribution.by_offset(),
            second_lanes: distribution.map.bases(Axis::Lane)[1],
            partner: if elem_bits == 8 { [0, 1] } else { [8, 0] },
            per_number: elements_of_metadata(elem_bits),
            shifts: [0, 1].map(|dim| distribution.map.out_shift(Axis::dim(dim))),
        }
    }

    fn place(&self, at: [u32; 2]) -> u64 {
        u64::from(at[0]) << self.shifts[0] | u64::from(at[1]) << self.shifts[1]
    }

    /// What the instruction takes whose rows begin at `row` and whose K at `k`.
    pub(super) fn word(&self, cx: &mut Emitter<'_>, row: u32, k: u32) -> ptx::Sparse {
        let column = k / self.per_number;
        let [low, high] =
            [[0, 0], self.partner].map(|more| self.place([row + more[0], column + more[1]]));
        let selector = !self.of_first_lane.contains_key(&low);
        let skipped = if selector { self.second_lanes } else { 0 };
        let numbers = [low, high].map(|place| {
            let index = self.of_first_lane.get(&(place ^ skipped));
            self.elements[*index.expect("the verifier admits only the layout of metadata")]
        });
        let word = cx.code.operand_words(&numbers, U16)[0];
        ptx::Sparse {
            metadata: word,
            selector,
        }
    }
}

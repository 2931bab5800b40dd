//! The registers of a thread that hold elements.

use super::LinearLayout;
use crate::Axis;

/// The registers of a thread that hold elements, called by their index: their place among them.
///
/// The number of a register in its map is another one where an extent is no power of two
/// ([`LinearLayout::registers`]). Bits of registers, such as those that tell copies apart, are bits of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    count: usize,
    /// The number of each register, if it differs from its index.
    numbers: Option<Vec<u32>>,
    copied: u32,
    cut: u32,
}

impl Registers {
    /// Those of a map from (register, lane, warp, block).
    pub fn of(map: &LinearLayout) -> Self {
        let numbers = map.is_cut().then(|| map.registers());
        let all = map.in_size(Axis::Register) as usize;
        let mask = map.cut_mask();
        let bases = map.bases(Axis::Register).iter().enumerate();
        let cut = bases.filter(|(_, basis)| *basis & mask != 0);
        Self {
            count: numbers.as_ref().map_or(all, Vec::len),
            numbers,
            copied: map.free_mask(Axis::Register),
            cut: cut.fold(0, |all, (bit, _)| all | 1 << bit),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of a register in the map.
    pub fn number(&self, register: usize) -> u32 {
        match &self.numbers {
            Some(numbers) => numbers[register],
            None => register as u32,
        }
    }

    /// The register with this number, if it holds an element.
    pub fn with_number(&self, number: u32) -> Option<usize> {
        match &self.numbers {
            Some(numbers) => numbers.binary_search(&number).ok(),
            None => Some(number as usize),
        }
    }

    /// Is the register no copy of an earlier one?
    pub fn is_own(&self, register: usize) -> bool {
        self.number(register) & self.copied == 0
    }

    /// The register of which this one is a copy: itself, unless it is one.
    pub fn original(&self, register: usize) -> usize {
        self.without(register, self.copied)
    }

    /// The register whose number has these bits clear, where this one's may be set. It holds an element too: its
    /// coordinates are no larger.
    pub fn without(&self, register: usize, bits: u32) -> usize {
        if bits == 0 {
            return register;
        }
        let other = self.with_number(self.number(register) & !bits);
        other.expect("smaller coordinates lie in the tensor as well")
    }

    /// The register whose number differs in these bits, which must hold an element: [`Registers::cut`] has none of them.
    pub fn across(&self, register: usize, bits: u32) -> usize {
        let other = self.with_number(self.number(register) ^ bits);
        other.expect("registers that differ within a granule hold elements or none of them does")
    }

    /// The bits that add nothing: registers with one of them set hold copies.
    pub fn copied(&self) -> u32 {
        self.copied
    }

    /// The bits that step over whole granules of an extent that is no power of two. What is accessed together does not
    /// differ in them.
    pub fn cut(&self) -> u32 {
        self.cut
    }
}

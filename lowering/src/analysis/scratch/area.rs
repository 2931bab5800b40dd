//! The shared memory of an exchange between the CTAs of a cluster.

use ir::elem::{DType, Elem};
use target::MBARRIER_BYTES;
use target::WIDEST_ACCESS_BYTES;

/// Where the mbarriers end and the slots begin.
const FIRST_SLOT: u32 = (2 * MBARRIER_BYTES).next_multiple_of(WIDEST_ACCESS_BYTES);

/// mbarriers, then one or two sets of slots. A set has, for each operand and each number that tells apart what a CTA sends,
/// one word from every CTA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// How many CTAs exchange.
    pub(crate) parts: u32,
    /// How many tuples each of them sends.
    pub(crate) sent: u32,
    /// Where the slots of each operand begin in a set, in bytes.
    starts: Vec<u32>,
    /// Bytes of a set.
    pub(crate) set_bytes: u32,
    /// The same exchange may be done several times.
    pub(crate) is_repeated: bool,
}

impl Area {
    /// The area for an exchange of `sent` tuples of these elements between `parts` CTAs, which have as many numbers or more.
    pub(crate) fn new(
        elems: &[Elem],
        (sent, numbers): (u32, u32),
        parts: u32,
        is_repeated: bool,
    ) -> Area {
        let mut set_bytes: u32 = 0;
        let starts = elems.iter().map(|&elem| {
            let start = set_bytes.next_multiple_of(WIDEST_ACCESS_BYTES);
            set_bytes = start + numbers * parts * word(elem).bytes();
            start
        });
        let starts = starts.collect();
        Area {
            parts,
            sent,
            starts,
            set_bytes: set_bytes.next_multiple_of(WIDEST_ACCESS_BYTES),
            is_repeated,
        }
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u32 {
        FIRST_SLOT + self.set_bytes * self.sets()
    }

    /// Where the mbarriers lie, in bytes from its beginning.
    pub(crate) fn mbarriers(&self) -> impl Iterator<Item = u32> + use<> {
        (0..self.sets()).map(|set| set * MBARRIER_BYTES)
    }

    /// Where the slots of an operand begin in the first set, in bytes from its beginning.
    pub(crate) fn slots(&self, operand: usize) -> u32 {
        FIRST_SLOT + self.starts[operand]
    }

    fn sets(&self) -> u32 {
        if self.is_repeated { 2 } else { 1 }
    }
}

/// An element as it travels: in 32 or 64 bits.
pub(crate) fn word(elem: Elem) -> Elem {
    match elem {
        Elem::Data(DType::F32 | DType::F64) => elem,
        _ if elem.bits() == 64 => DType::U64.into(),
        _ => DType::U32.into(),
    }
}

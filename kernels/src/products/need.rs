//! A product as the choice of its kernel depends on it.

use super::epilogue_kind::{Finishing, Together};
use super::factor::STAGE_BYTES;
use super::options::Precision;

/// Elements along which indices of 32 bits may count.
pub(super) const MOST: usize = 1 << 28;

/// A product, as the choice of its kernel depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Need {
    /// M, N and K.
    pub size: [usize; 3],
    /// Products of that size.
    pub batches: usize,
    /// Bytes of an element of A and B, and of the result.
    pub element_bytes: [usize; 2],
    /// Elements of A follow each other along M, those of B along N.
    pub is_mn_major: [bool; 2],
    /// How exactly f32 is multiplied.
    pub precision: Precision,
    /// How matrices lie that no tensor map takes; none where those that need it are copied whatever computes it, and where none needs it.
    pub loose: Option<Loose>,
    /// Rows of C are longer than N, and N ends within 16 bytes: what stores by TMA, which writes whole units, goes through a workspace.
    pub ends_early: bool,
    /// No tile is of every other row of C: it is read as it was, or N does not say where its rows begin, as they have another pitch or an address between sectors.
    pub all_rows: bool,
    /// Columns of C that the epilogue finishes together.
    pub together: Together,
    /// What the epilogue does to sums.
    pub finishing: Finishing,
}

/// How matrices of 16 bits lie whose lines begin anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loose {
    /// Elements of which lines of A, B and C begin and end at multiples: 1, 2, 4 or 8.
    pub units: [usize; 3],
    /// Whether A, B and C are copied for a kernel that wants tensor maps.
    pub are_copied: [bool; 3],
    /// Elements of A follow each other along M, those of B along N.
    pub is_mn_major: [bool; 2],
}

impl Need {
    /// One product of bf16 or f16 with results of the same type, contiguous along K.
    pub fn of_16_bits(size: [usize; 3]) -> Need {
        Need {
            size,
            batches: 1,
            element_bytes: [2, 2],
            is_mn_major: [false; 2],
            precision: Precision::Tf32,
            loose: None,
            ends_early: false,
            all_rows: false,
            together: Together::One,
            finishing: Finishing::Nothing,
        }
    }

    /// The same of matrices without gaps between their rows.
    pub fn of_packed_16_bits(size: [usize; 3]) -> Need {
        let [_, n, k] = size;
        let units = [k, k, n].map(unit_of);
        let are_copied = units.map(|unit| unit < 8);
        let loose = Loose {
            units,
            are_copied,
            is_mn_major: [false; 2],
        };
        Need {
            loose: are_copied.contains(&true).then_some(loose),
            ..Need::of_16_bits(size)
        }
    }

    /// Steps along K, each of [`STAGE_BYTES`].
    pub(super) fn steps(&self) -> usize {
        (self.size[2] * self.element_bytes[0]).div_ceil(STAGE_BYTES)
    }

    /// Whether indices of 32 bits count its extents and the results of a product, as each call checks.
    pub(crate) fn is_countable(&self) -> bool {
        let [m, n, _] = self.size;
        self.size.iter().all(|&extent| extent <= MOST) && i32::try_from(m * n).is_ok()
    }

    /// Bytes of all matrices.
    pub(super) fn bytes(&self) -> f64 {
        let [m, n, k] = self.size.map(|extent| extent as f64);
        let [of_operands, of_result] = self.element_bytes.map(|bytes| bytes as f64);
        ((m * k + n * k) * of_operands + m * n * of_result) * self.batches as f64
    }
}

/// The largest of 1, 2, 4 and 8 that divides this.
pub(super) fn unit_of(extent: usize) -> usize {
    1 << extent.trailing_zeros().min(3)
}

//! The layout of the metadata of a sparse operand A.

use super::Element;
use layout::{DistributedLinear, Wgmma, elements_of_metadata};

/// The layout of the metadata of a sparse operand A of type `A` (PTX ISA 9.7.15.6.2), for
/// [`Accumulator::mma_sparse`](super::Accumulator::mma_sparse): of `m` rows and `k` elements of K, counted before rows are
/// compressed, beside sums of the layout `sums`.
///
/// The tensor is `[m, k / 16]` of u16, or `[m, k / 8]` for elements of 4 bytes: a number has four groups of a row, the first
/// in its lowest 4 bits. A thread holds numbers of two rows, or of 8-bit elements two neighbours of one row. A K that is no
/// whole number of them is reported where the product is written.
pub fn sparse_metadata<A: Element>(sums: &Wgmma, [m, k]: [usize; 2]) -> DistributedLinear {
    let elem_bits = A::DTYPE.bits();
    let columns = k as u32 / elements_of_metadata(elem_bits);
    sums.sparse_metadata(elem_bits, [m as u32, columns.max(1)])
}

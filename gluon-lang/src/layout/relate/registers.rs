//! Finding the elements of one layout in the registers of another, thread by thread.

use smallvec::SmallVec;

use crate::layout::linear::gf2::Span;
use crate::layout::{Axis, LinearLayout};

/// For each register of `dst`, the register of `src` that holds the same element in the same thread; `None` when
/// some thread does not hold what it needs. Both map (register, lane, warp, block) to the same outputs.
///
/// This is how an operation that moves no data is emitted: a broadcast asks with `dst` clipped to the source's shape
/// ([`LinearLayout::clipped_to`]), an `expand_dims`, a transposition or a reshape with its outputs renamed.
pub fn registers_in(src: &LinearLayout, dst: &LinearLayout) -> Option<Vec<u32>> {
    let order: SmallVec<[Axis; 4]> = src.outs().map(|(axis, _)| axis).collect();
    let dst = dst.with_outs_ordered(&order);
    for axis in [Axis::Lane, Axis::Warp, Axis::Block] {
        // A thread that stands elsewhere in one of the layouts would need another register than its neighbour.
        if src.bases(axis) != dst.bases(axis) {
            return None;
        }
    }
    let held = Span::of(src.bases(Axis::Register).iter().copied());
    let wanted = dst.bases(Axis::Register).iter();
    let sources: Option<SmallVec<[u64; 8]>> = wanted.map(|&basis| held.solve(basis)).collect();
    let sources = sources?;
    let register = |number: u32| {
        let bits = sources
            .iter()
            .enumerate()
            .filter(|&(bit, _)| number >> bit & 1 == 1);
        bits.fold(0, |register, (_, &source)| register ^ source as u32)
    };
    Some((0..dst.num_registers()).map(register).collect())
}

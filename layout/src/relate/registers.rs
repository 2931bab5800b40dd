//! Finding the elements of one layout in the registers of another, thread by thread.

use smallvec::SmallVec;

use crate::linear::gf2::Span;
use crate::{Axis, LinearLayout};

/// For each register of `dst`, the register of `src` that holds the same element in the same thread; `None` when
/// some thread does not hold what it needs. Both map (register, lane, warp, block) to the same outputs, and registers are
/// counted among those that [hold elements](LinearLayout::registers).
///
/// This is how an operation that moves no data is emitted: an `expand_dims`, a transposition or a reshape asks with the
/// outputs of one side renamed.
pub fn registers_in(src: &LinearLayout, dst: &LinearLayout) -> Option<Vec<u32>> {
    registers_of(src, dst, dst)
}

/// The same where dimensions of size 1 of `src` are broadcast.
pub fn broadcast(src: &LinearLayout, dst: &LinearLayout) -> Option<Vec<u32>> {
    registers_of(src, &dst.clipped_to(&src.out_sizes()), dst)
}

/// For each register of `dst`, the register of `src` with the element that `wanted` says for it.
fn registers_of(src: &LinearLayout, wanted: &LinearLayout, dst: &LinearLayout) -> Option<Vec<u32>> {
    let order: SmallVec<[Axis; 4]> = src.outs().map(|(axis, _)| axis).collect();
    let wanted = wanted.with_outs_ordered(&order);
    for axis in [Axis::Lane, Axis::Warp, Axis::Block] {
        // A thread that stands elsewhere in one of the layouts would need another register than its neighbour.
        if src.bases(axis) != wanted.bases(axis) {
            return None;
        }
    }
    let held = Span::of(src.bases(Axis::Register).iter().copied());
    let bases = wanted.bases(Axis::Register).iter();
    let sources: Option<SmallVec<[u64; 8]>> = bases.map(|&basis| held.solve(basis)).collect();
    let sources = sources?;
    let register = |number: u32| {
        let bits = sources
            .iter()
            .enumerate()
            .filter(|&(bit, _)| number >> bit & 1 == 1);
        bits.fold(0, |register, (_, &source)| register ^ source as u32)
    };
    if !src.is_cut() && !dst.is_cut() {
        return Some((0..dst.num_registers()).map(register).collect());
    }
    let existing = src.registers();
    let index = |number: u32| existing.binary_search(&register(number)).ok();
    let found = dst.registers().into_iter().map(index);
    found.map(|at| at.map(|at| at as u32)).collect()
}

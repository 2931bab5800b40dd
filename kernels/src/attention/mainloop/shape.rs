//! The tile of an instance, and the schedule of its warpgroups, as data.

use tilekit::prelude::*;

use super::softmax::Exponentials;

/// The tile of an instance, and the schedule of its warpgroups.
#[derive(Clone, Copy, Debug)]
pub(in crate::attention) struct Shape {
    /// Elements of a row of Q and K.
    pub(in crate::attention) depth: usize,
    /// Elements of a row of V and of the output.
    pub(in crate::attention) values: usize,
    /// Keys of a block.
    pub(in crate::attention) keys: usize,
    /// Whether named barriers order the warpgroups' products (ping-pong).
    pub(in crate::attention) turns: bool,
    pub(in crate::attention) rescaling: Rescaling,
    /// Whether maxima of scores are taken three at a time, as integers, where [`Softmax::is_high`](super::softmax::Softmax::is_high) says that this is right.
    pub(in crate::attention) is_triple: bool,
    pub(in crate::attention) exponentials: Exponentials,
    /// Registers of a consumer thread, and of a producer thread.
    pub(in crate::attention) registers: [u32; 2],
}

impl Shape {
    /// Is O multiplied while Q · K of the next block is in flight? So it is where no turns leave a warpgroup waiting, and every block rescales.
    pub(super) fn rescales_later(self) -> bool {
        match self.rescaling {
            Rescaling::Always => !self.turns,
            Rescaling::Lazily => false,
            Rescaling::LazilyLater => true,
        }
    }
}

/// When the accumulator is rescaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::attention) enum Rescaling {
    /// In every block.
    Always,
    /// Where a maximum has grown by 2^8 (of e4m3 2^4), once P · V is done and before the exponentials.
    Lazily,
    /// The same, while Q · K of the next block is in flight: exponentials begin before P · V is done.
    LazilyLater,
}

/// The shared layout of an operand of `wgmma`: the widest swizzle that divides a row.
pub(in crate::attention) fn swizzle<T: Element>(columns: usize, rank: u32) -> Nvmma {
    let bytes = columns * size_of::<T>();
    let swizzle = match 1 << bytes.trailing_zeros() {
        32 => Nvmma::B32,
        64 => Nvmma::B64,
        _ => Nvmma::B128,
    };
    swizzle.of(T::DTYPE.bits()).with_rank(rank)
}

//! Parameters of kernels: the host type in the signature, the handle in the body.

use super::kernel_param::{InAggregates, KernelParam, NextParam, ParamHandle};
use super::trace::{self, here};
use super::{Element, IntoDims, PeerMap, Ptr, Scalar, TensorMap};
use ir::TensorMapMode;
use ir::elem::Elem;
use layout::{Nvmma, NvmmaSwizzle, Padded, SharedLayout, SharedLinear, SplitNvmma, Swizzled};

/// The divisor in bytes that is promised of every address unless the author says otherwise: that of the widest access.
const POINTER: u32 = 16;

impl<T: Element> ParamHandle for Scalar<T> {
    type Host = T;
    fn declare(next: &mut NextParam) -> Self {
        let elem = Elem::Data(T::DTYPE);
        Self::wrap(trace::declare_param(next.index(), elem, 1, here()))
    }
}

impl<T: Element> ParamHandle for Ptr<T> {
    type Host = Ptr<T>;
    fn declare(next: &mut NextParam) -> Self {
        let elem = Elem::Ptr(T::DTYPE);
        Self::wrap(trace::declare_param(next.index(), elem, POINTER, here()))
    }
}

impl<T: Element> ParamHandle for PeerMap<T> {
    type Host = PeerMap<T>;
    fn declare(next: &mut NextParam) -> Self {
        let table = Elem::Ptr(u64::DTYPE);
        Self::wrap(trace::declare_param(next.index(), table, POINTER, here()))
    }
}

impl<T: Element> InAggregates for Scalar<T> {}
impl<T: Element> InAggregates for Ptr<T> {}
impl<T: Element> InAggregates for PeerMap<T> {}

impl<T: Element> KernelParam for TensorMap<T> {
    type Handle = Self;
}

impl<T: Element> ParamHandle for TensorMap<T> {
    type Host = TensorMap<T>;
    fn declare(next: &mut NextParam) -> Self {
        Self::wrap(trace::declare_map(next.index(), T::DTYPE, here()))
    }
}

/// What can say how the blocks of a tensor map lie in shared memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no layout of a block in shared memory",
    note = "write `Nvmma::B128` (or `B64`, `B32`, `PLAIN`), or a whole layout"
)]
pub trait BlockLayout {
    /// The layout of blocks of `rank` dimensions with elements of `element_bits`.
    fn of_block(self, element_bits: u32, rank: u32) -> SharedLayout;
}

impl BlockLayout for NvmmaSwizzle {
    fn of_block(self, element_bits: u32, rank: u32) -> SharedLayout {
        self.of(element_bits).with_rank(rank).into()
    }
}

impl BlockLayout for SplitNvmma {
    fn of_block(self, element_bits: u32, rank: u32) -> SharedLayout {
        self.of(element_bits).with_rank(rank).into()
    }
}

macro_rules! whole_layouts {
    ($($layout:ty)*) => {$(
        impl BlockLayout for $layout {
            fn of_block(self, _: u32, _: u32) -> SharedLayout {
                self.into()
            }
        }
        impl BlockLayout for &$layout {
            fn of_block(self, _: u32, _: u32) -> SharedLayout {
                self.into()
            }
        }
    )*};
}

whole_layouts!(SharedLayout Nvmma Swizzled Padded SharedLinear);

/// What the attribute of a parameter says of its blocks.
#[track_caller]
pub(crate) fn set_block<T: Element>(
    map: TensorMap<T>,
    mode: TensorMapMode,
    block: impl IntoDims,
    layout: impl BlockLayout,
) {
    let block = block.into_dims();
    let layout = layout.of_block(T::DTYPE.bits(), block.rank() as u32);
    trace::set_block(map.value(), mode, block, layout, here());
}

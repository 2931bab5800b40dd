//! Parameters of kernels: the host type in the signature, the handle in the body.

use super::trace::{self, here};
use super::{Element, IntoDims, Ptr, Scalar, TensorMap};
use ir::TensorMapMode;
use ir::elem::Elem;
use layout::{Nvmma, NvmmaSwizzle, Padded, SharedLayout, SharedLinear, SplitNvmma, Swizzled};

/// A type that a kernel's signature may name: an element type, which is passed by value, a [`Ptr`] or a
/// [`TensorMap`].
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a `{Self}`",
    label = "not a parameter type",
    note = "a parameter is an element type (i32, f32, ...) or a `Ptr` or `TensorMap` of one; what is known while compiling is a const generic"
)]
pub trait KernelParam {
    /// What the body works with.
    type Handle: ParamHandle;
}

/// The handle that a kernel's body gets for `T`: `Param<i32>` is `Scalar<i32>`.
pub type Param<T> = <T as KernelParam>::Handle;

/// A handle that stands for a parameter. Launchers say per handle type which host values they take for it.
pub trait ParamHandle: Copy + 'static {
    /// What the signature says: `i32` for `Scalar<i32>`, `Ptr<f32>` for itself.
    type Host: KernelParam<Handle = Self>;

    /// The divisor promised of every argument unless the author says otherwise: that of pointers is the widest access.
    const DEFAULT_DIVISOR: u32;

    /// The parameter `index` of the kernel being traced.
    fn declare(index: usize) -> Self;
}

impl<T: Element> ParamHandle for Scalar<T> {
    type Host = T;
    const DEFAULT_DIVISOR: u32 = 1;
    fn declare(index: usize) -> Self {
        Self::wrap(trace::declare_param(index, Elem::Data(T::DTYPE), 1, here()))
    }
}

impl<T: Element> ParamHandle for Ptr<T> {
    type Host = Ptr<T>;
    const DEFAULT_DIVISOR: u32 = 16;
    fn declare(index: usize) -> Self {
        Self::wrap(trace::declare_param(index, Elem::Ptr(T::DTYPE), 16, here()))
    }
}

impl<T: Element> KernelParam for TensorMap<T> {
    type Handle = Self;
}

impl<T: Element> ParamHandle for TensorMap<T> {
    type Host = TensorMap<T>;
    /// A map is passed by value, at a place that PTX aligns.
    const DEFAULT_DIVISOR: u32 = 1;
    fn declare(index: usize) -> Self {
        Self::wrap(trace::declare_map(index, T::DTYPE, here()))
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

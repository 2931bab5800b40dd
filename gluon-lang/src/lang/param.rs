//! Parameters of kernels: the host type in the signature, the handle in the body.

use super::trace::{self, here};
use super::{Element, Ptr, Scalar};
use crate::elem::Elem;

/// A type that a kernel's signature may name: an element type, which is passed by value, or a [`Ptr`].
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a `{Self}`",
    label = "not a parameter type",
    note = "a parameter is an element type (i32, f32, ...) or a `Ptr` of one; what is known while compiling is a const generic"
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

    /// The parameter's type in the tile IR.
    const ELEM: Elem;

    /// The divisor promised of every argument unless the author says otherwise: pointers are 16-byte aligned.
    const DEFAULT_DIVISOR: u32;

    /// The parameter `index` of the kernel being traced.
    fn declare(index: usize) -> Self;
}

impl<T: Element> ParamHandle for Scalar<T> {
    type Host = T;
    const ELEM: Elem = Elem::Data(T::DTYPE);
    const DEFAULT_DIVISOR: u32 = 1;
    fn declare(index: usize) -> Self {
        Self::wrap(trace::declare_param(index, Self::ELEM, 1, here()))
    }
}

impl<T: Element> ParamHandle for Ptr<T> {
    type Host = Ptr<T>;
    const ELEM: Elem = Elem::Ptr(T::DTYPE);
    const DEFAULT_DIVISOR: u32 = 16;
    fn declare(index: usize) -> Self {
        Self::wrap(trace::declare_param(index, Self::ELEM, 16, here()))
    }
}

//! What a kernel's signature may name, and what the body gets for it.

/// A type that a kernel's signature may name: an element type, which is passed by value, a [`Ptr`](super::Ptr) or a
/// [`TensorMap`](super::TensorMap).
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

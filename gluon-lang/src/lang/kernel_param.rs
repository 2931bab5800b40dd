//! What a kernel's signature may name, and what the body gets for it.

/// A type that a kernel's signature may name: an element type, which is passed by value, a [`Ptr`](super::Ptr), a
/// [`TensorMap`](super::TensorMap), or an array of element types or of `Ptr`.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a `{Self}`",
    label = "not a parameter type",
    note = "a parameter is an element type (i32, f32, ...), a `Ptr` or `TensorMap` of one, or an array of numbers or of `Ptr`; what is known while compiling is a const generic"
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

    /// How many parameters an array is: `name_0`, `name_1` and so on. `None` of what is one.
    const ELEMENTS: Option<usize> = None;

    /// The parameter `index` of the kernel being traced, or as many as there are elements from there on.
    fn declare(index: usize) -> Self;
}

/// A handle of which a kernel takes an array.
#[diagnostic::on_unimplemented(
    message = "a kernel takes no array of `{Self}`",
    note = "arrays are of numbers or of `Ptr`: a `TensorMap` has blocks of its own and is a parameter of its own"
)]
pub trait InArrays: ParamHandle {}

/// How many parameters a handle stands for.
pub(super) const fn count<H: ParamHandle>() -> usize {
    match H::ELEMENTS {
        Some(elements) => elements,
        None => 1,
    }
}

impl<T: KernelParam<Handle: InArrays>, const N: usize> KernelParam for [T; N] {
    type Handle = [T::Handle; N];
}

impl<H: InArrays, const N: usize> ParamHandle for [H; N] {
    type Host = [H::Host; N];
    const DEFAULT_DIVISOR: u32 = H::DEFAULT_DIVISOR;
    const ELEMENTS: Option<usize> = Some(N);

    fn declare(index: usize) -> Self {
        std::array::from_fn(|at| H::declare(index + at))
    }
}

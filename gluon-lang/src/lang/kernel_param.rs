//! What a kernel's signature may name, and what the body gets for it.

use super::parts::Parts;

/// A type that a kernel's signature may name: an element type, which is passed by value, a [`Ptr`](super::Ptr), a
/// [`TensorMap`](super::TensorMap), an array of element types or of `Ptr`, or a struct of such handles under
/// `#[derive(KernelParam)]`.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a `{Self}`",
    label = "not a parameter type",
    note = "a parameter is an element type (i32, f32, ...), a `Ptr` or `TensorMap` of one, an array of numbers or of `Ptr`, or a struct of \
            these under `#[derive(KernelParam)]`; what is known while compiling is a const generic"
)]
pub trait KernelParam {
    /// What the body works with.
    type Handle: ParamHandle;
}

/// The handle that a kernel's body gets for `T`: `Param<i32>` is `Scalar<i32>`.
pub type Param<T> = <T as KernelParam>::Handle;

/// A handle that stands for a parameter. Launchers say per handle type which host values they take for it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the handle of a parameter",
    note = "a handle is a `Scalar`, `Ptr` or `TensorMap`, an array of `Scalar` or `Ptr`, or a struct of such under `#[derive(KernelParam)]`"
)]
pub trait ParamHandle: Copy + 'static {
    /// What the signature says: `i32` for `Scalar<i32>`, `Ptr<f32>` for itself.
    type Host: KernelParam<Handle = Self>;

    /// Lists the parameters that it is: itself, or the elements of an array, or the fields of a struct.
    fn parts(parts: &mut Parts) {
        parts.add();
    }

    /// Declares them, in the same order, in the kernel being traced.
    fn declare(next: &mut NextParam) -> Self;
}

/// Counts the parameters that are declared.
#[derive(Debug, Default)]
pub struct NextParam(usize);

impl NextParam {
    /// The number of the parameter that is declared now.
    pub(super) fn index(&mut self) -> usize {
        self.0 += 1;
        self.0 - 1
    }
}

/// A handle that arrays and structs of parameters may hold.
#[diagnostic::on_unimplemented(
    message = "a kernel takes no array or struct with a `{Self}`",
    note = "arrays and structs are of numbers or of `Ptr`: a `TensorMap` has blocks of its own and is a parameter of its own"
)]
pub trait InAggregates: ParamHandle {}

/// A struct that is one parameter of a kernel: `#[derive(KernelParam)]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a struct of parameters",
    note = "a struct of handles that a kernel takes has `#[derive(KernelParam)]`"
)]
pub trait ParamStruct: ParamHandle {
    /// The handles of its fields, in order, as a tuple.
    type Fields;
}

impl<T: KernelParam<Handle: InAggregates>, const N: usize> KernelParam for [T; N] {
    type Handle = [T::Handle; N];
}

impl<H: InAggregates, const N: usize> InAggregates for [H; N] {}

impl<H: InAggregates, const N: usize> ParamHandle for [H; N] {
    type Host = [H::Host; N];

    fn parts(parts: &mut Parts) {
        for at in 0..N {
            parts.within(&at.to_string(), H::parts);
        }
    }

    fn declare(next: &mut NextParam) -> Self {
        std::array::from_fn(|_| H::declare(next))
    }
}

//! A scalar function of each element.

use super::reduce::Reducible;
use super::trace::{self, here};
use super::{Element, Scalar, Tensor};
use ir::entity::Value;

/// What an elementwise function gives: a scalar, or a tuple of two to four.
#[diagnostic::on_unimplemented(
    message = "an elementwise function cannot return `{Self}`",
    note = "return a scalar of the kernel, or a tuple of two to four; make one of a host number by `scalar(1.0_f32)`"
)]
pub trait Mapped: Copy {
    /// The tensors made of all its results.
    type Tensors;
    /// The values.
    #[doc(hidden)]
    fn values(self) -> Vec<Value>;
    /// The handles of the results.
    #[doc(hidden)]
    fn tensors(values: &[Value]) -> Self::Tensors;
}

impl<T: Element> Mapped for Scalar<T> {
    type Tensors = Tensor<T>;
    fn values(self) -> Vec<Value> {
        vec![self.value()]
    }
    fn tensors(values: &[Value]) -> Tensor<T> {
        Tensor::wrap(values[0])
    }
}

macro_rules! mapped_tuples {
    ($(($($name:ident $index:tt)*))*) => {$(
        impl<$($name: Element),*> Mapped for ($(Scalar<$name>,)*) {
            type Tensors = ($(Tensor<$name>,)*);
            fn values(self) -> Vec<Value> {
                vec![$(self.$index.value()),*]
            }
            fn tensors(values: &[Value]) -> Self::Tensors {
                ($(Tensor::wrap(values[$index]),)*)
            }
        }
    )*};
}

mapped_tuples!((A 0 B 1) (A 0 B 1 C 2) (A 0 B 1 C 2 D 3));

/// `function` of each element of a tensor, or of the elements at one place of several tensors of one shape and layout:
/// `map_elementwise((x, y), |(x, y)| x.hypot(y))`. The function only computes with scalars (TK0034). It may branch and loop,
/// each thread by itself. The PTX of one element is contiguous, so that few registers are live at once.
#[inline]
#[track_caller]
pub fn map_elementwise<R: Reducible, M: Mapped>(
    operands: R,
    function: impl FnOnce(R::Elements) -> M,
) -> M::Tensors {
    map_elementwise_packed(operands, |[elements]| [function(elements)])
}

/// The same of `P` elements at a time, which a thread holds next to one another, in the order of its layout's registers: to
/// use instructions that compute on several, or to share work between them. Each thread must hold whole packs (TK0038).
#[inline]
#[track_caller]
pub fn map_elementwise_packed<R: Reducible, M: Mapped, const P: usize>(
    operands: R,
    function: impl FnOnce([R::Elements; P]) -> [M; P],
) -> M::Tensors {
    const { assert!(P > 0, "a pack holds elements") };
    let at = here();
    let operands = trace::fit_mapped(&operands.operands(), at);
    let elements = trace::open_map(&operands, P, at);
    let packs = std::array::from_fn(|of| {
        let tuple: Vec<Value> = elements.iter().skip(of).step_by(P).copied().collect();
        R::elements(&tuple)
    });
    let given = function(packs).map(Mapped::values);
    let results = given[0].len();
    let in_order: Vec<Value> = (0..results)
        .flat_map(|result| given.iter().map(move |tuple| tuple[result]))
        .collect();
    M::tensors(&trace::close_map(&operands, P, &in_order, at))
}

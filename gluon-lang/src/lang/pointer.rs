//! Pointer arithmetic, in elements.

use std::ops::Add;

use super::access::Access;
use super::trace::{self, Raw, here};
use super::{Element, HostInt, Index, Pointers, Ptr, Scalar, Tensor};
use ir::elem::DType;
use ir::ops::create::Const;

/// What can move a pointer: integers of 32 or 64 bits, or a host integer. They count elements, not bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no offset of a pointer",
    note = "an offset is a scalar or tensor of i32, i64, u32 or u64, or a host integer; cast first"
)]
pub trait Offset {
    /// Where one pointer to `T` gets by it: to one place or to many.
    type Moved<T: Element>: Moved<T>;
    /// The type it counts in.
    const INDEX: DType;
    /// The offset before it is fitted.
    #[doc(hidden)]
    fn into_offset(self) -> Raw;
}

impl<H: HostInt> Offset for H {
    type Moved<T: Element> = Ptr<T>;
    const INDEX: DType = DType::I64;
    #[inline]
    fn into_offset(self) -> Raw {
        Raw::Const(Const::Int(self.to_i128()))
    }
}

impl<I: Index> Offset for Scalar<I> {
    type Moved<T: Element> = Ptr<T>;
    const INDEX: DType = I::DTYPE;
    #[inline]
    fn into_offset(self) -> Raw {
        self.raw()
    }
}

impl<I: Index> Offset for Tensor<I> {
    type Moved<T: Element> = Pointers<T>;
    const INDEX: DType = I::DTYPE;
    #[inline]
    fn into_offset(self) -> Raw {
        self.raw()
    }
}

/// A pointer or a tensor of pointers to `T`.
pub trait Moved<T: Element>: super::access::Target<Element = T> {}

impl<T: Element> Moved<T> for Ptr<T> {}
impl<T: Element> Moved<T> for Pointers<T> {}

impl<T: Element, O: Offset> Add<O> for Ptr<T> {
    type Output = O::Moved<T>;
    #[inline]
    #[track_caller]
    fn add(self, offset: O) -> O::Moved<T> {
        super::access::Target::from_value(trace::ptr_add(
            self.value(),
            T::DTYPE,
            offset.into_offset(),
            O::INDEX,
            here(),
        ))
    }
}

impl<T: Element, O: Offset> Add<O> for Pointers<T> {
    type Output = Pointers<T>;
    #[inline]
    #[track_caller]
    fn add(self, offset: O) -> Pointers<T> {
        Pointers::wrap(trace::ptr_add(
            self.value(),
            T::DTYPE,
            offset.into_offset(),
            O::INDEX,
            here(),
        ))
    }
}

impl<T: Element> Ptr<T> {
    /// The elements `offset` away, to be loaded or stored.
    #[inline]
    #[track_caller]
    pub fn at<O: Offset>(self, offset: O) -> Access<O::Moved<T>> {
        Access::new(self + offset)
    }
}

impl<T: Element> Pointers<T> {
    /// The elements `offset` further away, to be loaded or stored.
    #[inline]
    #[track_caller]
    pub fn at<O: Offset>(self, offset: O) -> Access<Pointers<T>> {
        Access::new(self + offset)
    }
}

//! Which dimensions a reduction goes over: one, several, or all.

use std::ops::RangeFull;

/// Dimensions by their numbers, from 0: one as `1`, several as `(0, 2)`, all as `..`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no dimension",
    label = "expected a dimension, a host `usize`",
    note = "write several dimensions as a tuple, `(0, 1)`, and all of them as `..`; `max` and `min` of a tensor reduce along dimensions; the elementwise ones are `maximum` and `minimum`"
)]
pub trait Axis {
    /// The numbers.
    #[doc(hidden)]
    fn axes(self) -> Axes;
}

/// The dimensions that a reduction goes over.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// One.
    One(usize),
    /// These.
    Several(Vec<usize>),
    /// Every one.
    All,
}

impl Axis for usize {
    #[inline]
    fn axes(self) -> Axes {
        Axes::One(self)
    }
}

impl Axis for RangeFull {
    #[inline]
    fn axes(self) -> Axes {
        Axes::All
    }
}

macro_rules! several {
    ($(($($name:ident)*))*) => {$(
        impl Axis for ($(several!(@ $name),)*) {
            #[inline]
            fn axes(self) -> Axes {
                #[allow(non_snake_case, reason = "the names stand for the places of a tuple")]
                let ($($name,)*) = self;
                Axes::Several(vec![$($name),*])
            }
        }
    )*};
    (@ $name:ident) => { usize };
}

several!((A B) (A B C) (A B C D));

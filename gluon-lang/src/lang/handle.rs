//! Handles: what a kernel's variables hold while it is traced.
//!
//! A handle is the name of one value of the tile IR, with its element type in its Rust type. It is `Copy`, as small as
//! an integer, and means something only while its kernel is traced, in the thread that traces it.

use std::fmt;
use std::marker::PhantomData;

use super::Element;
use super::trace::{self, Raw, here};
use ir::entity::Value;
use layout::{Dims, Layout};

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[must_use = "an operation gives a value and changes nothing else; of an atomic load whose order alone matters, write `let _ =`"]
        pub struct $name<T>(Value, PhantomData<*const T>);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl<T> $name<T> {
            /// The handle of a value that is known to have this element type.
            #[inline]
            pub(crate) fn wrap(value: Value) -> Self {
                Self(value, PhantomData)
            }

            /// The value in the kernel being traced, for code that extends the language.
            #[inline]
            pub fn value(self) -> Value {
                self.0
            }

            #[inline]
            pub(crate) fn value_mut(&mut self) -> &mut Value {
                &mut self.0
            }

        }
    };
}

handle! {
    /// One element, the same in every thread of the CTA.
    Scalar
}

handle! {
    /// A tile of elements, spread over the threads of the CTA by its layout. Its shape and layout are checked while the
    /// kernel is traced. What is left of a vector after a reduction has rank 0, and is one element: see
    /// [`scalar`](Tensor::scalar).
    Tensor
}

handle! {
    /// A pointer into global memory.
    Ptr
}

handle! {
    /// A tile of pointers into global memory.
    Pointers
}

handle! {
    /// A tile of elements in shared memory, or a view of one: see [`alloc`](Smem::alloc). A view is an address and a map;
    /// making one copies nothing.
    Smem
}

handle! {
    /// A tensor in global memory as TMA takes it: a parameter of a kernel, whose attribute says what one
    /// copy moves and how that lies in shared memory, or [made](super::GlobalTensor::map) by the kernel.
    ///
    /// ```text
    /// #[block([BM, BK], Nvmma::B128)] a: TensorMap<bf16>
    /// #[im2col(4, [PIXELS, CHANNELS], Nvmma::B64)] image: TensorMap<f16>
    /// ```
    TensorMap
}

handle! {
    /// Where the ranks have a buffer that all of them share, by rank: [`of`](PeerMap::of) is one rank's part. A parameter of a kernel, or [made](PeerMap::new) of
    /// a table of addresses.
    PeerMap
}

handle! {
    /// A pointer into memory of a rank, another one or the own: see [`PeerMap::of`].
    PeerPtr
}

macro_rules! operands {
    ($($name:ident)*) => {$(
        impl<T> $name<T> {
            #[inline]
            pub(crate) fn raw(self) -> Raw {
                Raw::Value(self.0)
            }
        }
    )*};
}

operands!(Scalar Tensor);

macro_rules! shaped {
    ($($name:ident)*) => {$(
        impl<T: Element> $name<T> {
            /// The sizes of the dimensions, in elements.
            #[track_caller]
            pub fn shape(self) -> Dims {
                trace::shape_of(self.value(), here())
            }

            /// The number of dimensions.
            #[track_caller]
            pub fn rank(self) -> usize {
                self.shape().len()
            }

            /// The owner of each element; `Auto` or `Coalesced` while it is unresolved.
            #[track_caller]
            pub fn layout(self) -> Layout {
                trace::layout_of(self.value(), here())
            }
        }
    )*};
}

shaped!(Tensor Pointers);

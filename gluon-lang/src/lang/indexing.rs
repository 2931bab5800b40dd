//! `x[i]`, which no handle has: what stands in its place is said at the index.

use std::ops::{Index, IndexMut};

use super::{Element, Pointers, Ptr, Scalar, Smem, Tensor};

macro_rules! not_indexed {
    ($($(#[$doc:meta])* $trait:ident $message:literal $note:literal: $($handle:ident)*;)*) => {$(
        $(#[$doc])*
        #[diagnostic::on_unimplemented(message = $message, label = "cannot be indexed by `{Self}`", note = $note)]
        pub trait $trait {
            /// Never called.
            #[doc(hidden)]
            fn never(self) -> !;
        }

        $(
            impl<T: Element, I: $trait> Index<I> for $handle<T> {
                type Output = Scalar<T>;
                fn index(&self, index: I) -> &Scalar<T> {
                    index.never()
                }
            }

            impl<T: Element, I: $trait> IndexMut<I> for $handle<T> {
                fn index_mut(&mut self, index: I) -> &mut Scalar<T> {
                    index.never()
                }
            }
        )*
    )*};
}

not_indexed! {
    /// What would index a tensor: nothing does.
    TensorIndex
        "the elements of a tensor have no index in a kernel"
        "they lie in the registers of many threads: `x.gather(indices, axis)` takes some, `select(at == i, x, 0).sum(0)` takes one, `split` and `reshape` take halves": Tensor;
    /// What would index a pointer: nothing does.
    PointerIndex
        "a pointer of a kernel has no index"
        "`p.at(i).load()` reads the element `i` further, and `p.at(i).store(value)` writes it": Ptr Pointers;
    /// What would index a tile of shared memory: nothing does.
    TileIndex
        "a tile of shared memory has no index in brackets"
        "`tile.index(i)` is a view of its row `i`, and `load` and `store` move its elements": Smem;
}

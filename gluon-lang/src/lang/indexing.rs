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
        "a tensor cannot be indexed in a kernel"
        "its elements are in the registers of many threads: write `x.gather(indices, axis)` for some, `select(at == i, x, 0).sum(0)` for one, `slice` or `chunks` for a part": Tensor;
    /// What would index a pointer: nothing does.
    PointerIndex
        "a pointer cannot be indexed in a kernel"
        "write `p.at(i).load()` and `p.at(i).store(value)`": Ptr Pointers;
    /// What would index a tile of shared memory: nothing does.
    TileIndex
        "a tile of shared memory cannot be indexed in brackets"
        "write `tile.index(i)` for a view of its row `i`; `load` and `store` access its elements": Smem;
}

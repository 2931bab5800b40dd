//! Tensor maps that a kernel makes.

use smallvec::SmallVec;

use super::mix::{Operand, ScalarOperand};
use super::param::BlockLayout;
use super::trace::{self, Raw, here};
use super::{Coordinates, Element, IntoDims, Ptr, TensorMap};
use ir::{TensorMapMode, TensorMapType};

/// Steps between the elements of a tensor in global memory: one number of elements for each dimension but the last, the
/// slowest first. `()` for a tensor of one dimension.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of strides of a tensor",
    note = "write `[stride]` or `(plane, row)`: an i64 or i32 of the kernel or a host integer for each dimension but the last"
)]
pub trait Strides {
    /// The strides before they are fitted.
    #[doc(hidden)]
    fn into_strides(self) -> SmallVec<[Raw; 5]>;
}

impl<S: ScalarOperand<i64>, const COUNT: usize> Strides for [S; COUNT] {
    fn into_strides(self) -> SmallVec<[Raw; 5]> {
        self.into_iter().map(Operand::into_raw).collect()
    }
}

macro_rules! strides {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: ScalarOperand<i64>),*> Strides for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names are those of the type parameters")]
            fn into_strides(self) -> SmallVec<[Raw; 5]> {
                let ($($name,)*) = self;
                SmallVec::from_iter([$($name.into_raw()),*])
            }
        }
    )*};
}

strides!(()(A)(A B)(A B C)(A B C D));

/// A tensor in global memory, of which the kernel is about to make a map.
#[derive(Clone, Debug)]
#[must_use = "TMA takes a tensor through a `map` of it"]
pub struct GlobalTensor<T> {
    base: Ptr<T>,
    shape: SmallVec<[Raw; 5]>,
    strides: SmallVec<[Raw; 5]>,
    fills_with_nan: bool,
    rounds_to_tf32: bool,
}

impl<T: Element> Ptr<T> {
    /// The tensor that begins here, with these sizes, the slowest first; its rows are `strides` elements apart, and lie
    /// dense.
    #[inline]
    pub fn tensor(self, shape: impl Coordinates, strides: impl Strides) -> GlobalTensor<T> {
        GlobalTensor {
            base: self,
            shape: shape.into_coordinates(),
            strides: strides.into_strides(),
            fills_with_nan: false,
            rounds_to_tf32: false,
        }
    }
}

impl<T: Element> GlobalTensor<T> {
    /// Elements outside of the tensor are loaded as NaN instead of zero; for floats.
    #[inline]
    pub fn filled_with_nan(mut self) -> Self {
        self.fills_with_nan = true;
        self
    }

    /// Makes a tensor map of it for copies of `block` elements with this layout in shared memory. The map is written to `place`,
    /// the bytes of a tensor map, aligned to their number, which no other program and no other map in use shares; all
    /// copies through an earlier map there must be complete. Elements outside of the tensor are loaded as zero.
    ///
    /// The address of the tensor and its strides are multiples of the target's `tensor_map.unit_bytes`.
    #[track_caller]
    pub fn map(
        self,
        block: impl IntoDims,
        layout: impl BlockLayout,
        place: Ptr<u64>,
    ) -> TensorMap<T> {
        let block = block.into_dims();
        let ty = TensorMapType {
            layout: layout.of_block(T::DTYPE.bits(), block.rank() as u32),
            block,
            elem: T::DTYPE.into(),
            mode: TensorMapMode::Tiled,
        };
        let pointers = (place.value(), self.base.value());
        let sizes = (&self.shape[..], &self.strides[..]);
        let modes = (self.fills_with_nan, self.rounds_to_tf32);
        let map = trace::make_tensor_map(ty, pointers, sizes, modes, here());
        TensorMap::wrap(map)
    }
}

impl GlobalTensor<f32> {
    /// Loads round each element to the nearest tf32, as products of tf32 need them: without it they leave the lower bits
    /// out. What is loaded are f32 whose lower 13 bits are 0.
    #[inline]
    pub fn rounded_to_tf32(mut self) -> Self {
        self.rounds_to_tf32 = true;
        self
    }
}

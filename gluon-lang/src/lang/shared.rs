//! Tiles in shared memory.

use std::ops::Range;

use super::mix::{Operand, ScalarOperand};
use super::trace::{self, here};
use super::{BlockLayout, Element, HostInt, Int, IntoDims, Smem, Tensor};
use layout::{Dims, Layout, SharedLayout};

impl<T: Element> Smem<T> {
    /// A new tile in shared memory, its elements undefined. The layout covers all dimensions, or all but the first, which
    /// then counts buffers. Rows of a swizzled layout are a whole number of swizzles. A swizzle alone, `Nvmma::B128`, is one of
    /// the whole matrix, or of each of several buffers. The tile is live until its last use, and its bytes are reused by others before
    /// and after. The tiles that are live at a time must fit the shared memory of a CTA (TK0020).
    #[inline]
    #[track_caller]
    pub fn alloc(shape: impl IntoDims, layout: impl BlockLayout) -> Self {
        let shape = shape.into_dims();
        let rank = shape.rank() as u32;
        let matrix_rank = if rank > 2 { rank - 1 } else { rank };
        let layout = layout.of_block(T::DTYPE.bits(), matrix_rank);
        Self::wrap(trace::smem_alloc(T::DTYPE.into(), shape, layout, here()))
    }

    /// A new tile in shared memory with the shape and the elements of a tensor.
    #[inline]
    #[track_caller]
    pub fn alloc_with(init: Tensor<T>, layout: impl BlockLayout) -> Self {
        let layout = layout.of_block(T::DTYPE.bits(), init.rank() as u32);
        Self::wrap(trace::smem_alloc_with(init.value(), layout, here()))
    }

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

    /// Where each element lies, over the trailing dimensions of the allocation that this is a view of. A mistake that was
    /// reported is unswizzled.
    #[track_caller]
    pub fn layout(self) -> SharedLayout {
        trace::smem_layout(self.value(), here())
    }

    /// Bytes of the elements of the allocation that this is a view of, padding between them included: of all its buffers, without what
    /// aligns each of them.
    #[track_caller]
    pub fn bytes(self) -> usize {
        trace::smem_bytes(self.value(), here()) as usize
    }

    /// Reads all elements into registers, each thread those that `layout` gives it: by vectors as wide as an access can be, or by
    /// `ldmatrix` where that takes fewer accesses. With `Auto`, what uses the tensor decides its layout. Stores of other threads of the
    /// partition are visible: the compiler inserts a CTA barrier where needed.
    #[inline]
    #[track_caller]
    pub fn load(self, layout: impl Into<Layout>) -> Tensor<T> {
        Tensor::wrap(trace::smem_load(self.value(), layout.into(), here()))
    }

    /// Writes a tensor of this shape, in any layout, by vectors as wide as an access can be or by `stmatrix`. Of replicated elements, one
    /// thread writes.
    #[inline]
    #[track_caller]
    pub fn store(self, value: Tensor<T>) {
        trace::smem_store(self.value(), value.value(), here());
    }

    /// Element `index` of the first dimension: one buffer of several. An index that is known while tracing is checked; one
    /// that is not must lie inside: on the emulator an access through another is a fault.
    #[inline]
    #[track_caller]
    pub fn index(self, index: impl ScalarOperand<i32>) -> Self {
        Self::wrap(trace::smem_index(self.value(), index.into_raw(), here()))
    }

    /// The elements `range` of dimension `axis`. The first is a multiple of the largest power of two that divides their
    /// number; in a dimension that counts buffers both are free.
    #[inline]
    #[track_caller]
    pub fn slice<H: HostInt>(self, axis: usize, range: Range<H>) -> Self {
        let (start, end) = (range.start.to_i128(), range.end.to_i128());
        Self::wrap(trace::smem_slice(self.value(), axis, start, end, here()))
    }

    /// Dimension `i` of the result is dimension `order[i]` of this. No element moves.
    #[inline]
    #[track_caller]
    pub fn permute(self, order: impl IntoDims) -> Self {
        let order = Some(order.into_dims());
        Self::wrap(trace::smem_permute(self.value(), order, here()))
    }

    /// The dimensions in the opposite order. No element moves.
    #[inline]
    #[track_caller]
    pub fn transpose(self) -> Self {
        Self::wrap(trace::smem_permute(self.value(), None, here()))
    }

    /// The same elements in row-major order, counted in another shape. No element moves.
    #[inline]
    #[track_caller]
    pub fn reshape(self, shape: impl IntoDims) -> Self {
        Self::wrap(trace::smem_reshape(self.value(), shape.into_dims(), here()))
    }

    /// The bytes of a whole allocation, or of one whole buffer, as elements of another type in another shape and layout,
    /// which takes no more bytes.
    #[inline]
    #[track_caller]
    pub fn reinterpret<U: Element>(
        self,
        shape: impl IntoDims,
        layout: impl Into<SharedLayout>,
    ) -> Smem<U> {
        let (shape, layout) = (shape.into_dims(), layout.into());
        let elem = U::DTYPE.into();
        Smem::wrap(trace::smem_reinterpret(
            self.value(),
            elem,
            shape,
            layout,
            here(),
        ))
    }

    /// For each index: the element at the index along `axis`, and at the index's own coordinates along the other
    /// dimensions. The result has the shape and layout of the indices, which must lie inside.
    #[inline]
    #[track_caller]
    pub fn gather<I: Int>(self, indices: Tensor<I>, axis: usize) -> Tensor<T> {
        Tensor::wrap(trace::smem_gather(
            self.value(),
            indices.value(),
            axis,
            here(),
        ))
    }

    /// For each index: writes the value at the index along `axis`, and at the index's own coordinates along the other
    /// dimensions. Of several values for one place any is left. Scalars, host numbers and dimensions of 1 are repeated.
    #[inline]
    #[track_caller]
    pub fn scatter<I: Int>(self, values: impl Operand<T>, indices: Tensor<I>, axis: usize) {
        let place = (self.value(), indices.value(), axis);
        trace::smem_scatter(place, values.into_raw(), here());
    }

    /// Keeps the allocation live until here, for readers that the compiler does not see.
    #[inline]
    #[track_caller]
    pub fn keep_alive(self) {
        trace::smem_keep(self.value(), here());
    }
}

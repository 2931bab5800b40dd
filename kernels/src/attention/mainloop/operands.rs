//! How a consumer warpgroup holds scores, P and sums: layouts, and the operands of its products.

use tilekit::prelude::*;

use super::buffers::{columns_of_place, is_converted, is_transposed};
use super::consumer::Consumer;
use super::problem::{Problem, ROWS};
use super::shape::{Rescaling, swizzle};
use super::transpose::order_of_operand;

impl<T: WgmmaOperand<T, f32>, P: Problem<T>, const GROUPS: usize> Consumer<T, P, GROUPS> {
    /// P as the left operand of P · V.
    #[device]
    pub(super) fn factor(self, powers: Tensor<f32>) -> Tensor<T> {
        let of_powers = DotOperand::new(0, self.of_sums(), 4 / size_of::<T>() as u32);
        if !is_transposed::<T>() {
            let powers = powers.cast::<T>();
            return powers.convert_layout_trivial(of_powers);
        }
        // In the order of the operand first: four elements that are converted in a row are a word of it.
        let powers = order_of_operand(powers, ROWS, self.shape.keys);
        powers.convert_layout_trivial(of_powers).cast::<T>()
    }

    /// A block of V as the right operand of P · V.
    #[device]
    pub(super) fn right(self, values: Smem<T>) -> Smem<T> {
        if is_transposed::<T>() {
            values.transpose()
        } else {
            values
        }
    }

    /// A number of each row beside its sums.
    #[device]
    pub(super) fn spread(self, of_rows: Tensor<f32>) -> Tensor<f32> {
        let column = of_rows.expand_dims(1);
        column.convert_layout_trivial(self.of_sums())
    }

    #[device]
    pub(super) fn rescaled(self, done: Tensor<f32>, rescale: Tensor<f32>) -> Accumulator<f32> {
        Accumulator::from_tensor(if self.shape.rescaling == Rescaling::Always {
            done * self.spread(rescale)
        } else {
            done.rescale(self.spread(rescale))
        })
    }

    #[device]
    pub(super) fn scores(self) -> Accumulator<f32> {
        Accumulator::zeros([ROWS, self.shape.keys], self.of_scores())
    }

    /// The place of Q as one of the output, of as many columns as fit.
    #[device]
    pub(super) fn place_of_queries(self, q: Smem<T>) -> Smem<P::Output> {
        let columns = columns_of_place::<T, P>(self.shape.depth);
        q.reinterpret([ROWS, columns], swizzle::<P::Output>(columns, 2))
    }

    /// The layout of accumulators `[ROWS, columns]`.
    fn of_columns(columns: usize) -> Wgmma {
        // One instruction has at most 128 columns where warps are launched with fewer registers.
        let widest = if is_transposed::<T>() || is_converted::<T, P>() {
            128
        } else {
            256
        };
        let columns = columns / columns.div_ceil(widest);
        Wgmma::new([4, 1], [64, columns, 32 / size_of::<T>()])
    }

    pub(super) fn of_scores(self) -> Wgmma {
        Self::of_columns(self.shape.keys)
    }

    pub(super) fn of_sums(self) -> Wgmma {
        Self::of_columns(self.shape.values)
    }

    pub(super) fn of_rows(self) -> Slice {
        Slice::new(1, self.of_scores())
    }
}

//! Strided tensors in buffers of a device.

use proptest::prelude::*;
use tilekit::prelude::*;

use crate::numbers::Number;

/// The order of dimensions and the gaps of a tensor in memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLayout<const RANK: usize> {
    /// Dimensions from the slowest to the one of lines.
    pub(crate) order: [usize; RANK],
    /// From one element of a line to the next.
    pub(crate) step: usize,
    /// Elements between the end of a line and the next one.
    pub(crate) gap: usize,
    /// Elements in front of the first one.
    pub(crate) offset: usize,
}

/// A tensor in a buffer that may be longer.
pub(crate) struct Tensor<T, const RANK: usize> {
    pub(crate) buffer: Buffer<T>,
    pub(crate) shape: [usize; RANK],
    strides: [usize; RANK],
    offset: usize,
}

impl<T: Number, const RANK: usize> Tensor<T, RANK> {
    /// Its elements are those of a list of so many, and between and beside them is what would be seen in results.
    pub(crate) fn new(
        device: &Device,
        shape: [usize; RANK],
        layout: &MemoryLayout<RANK>,
        elements: impl Fn(usize) -> Vec<T>,
    ) -> Tensor<T, RANK> {
        let mut strides = [0; RANK];
        let mut inner = layout.order.iter().rev();
        let of_lines = inner.next().copied().unwrap();
        strides[of_lines] = layout.step;
        let mut stride = (shape[of_lines] * layout.step + layout.gap).max(1);
        for &dimension in inner {
            strides[dimension] = stride;
            stride *= shape[dimension].max(1);
        }
        let len = layout.offset + stride;
        let mut tensor = Tensor {
            buffer: Buffer::new(device, len).unwrap(),
            shape,
            strides,
            offset: layout.offset,
        };
        let mut all = vec![T::beside(); len];
        let inside = elements(len);
        let count: usize = shape.iter().product();
        for place in (0..count).map(|number| tensor.at(tensor.index(number))) {
            all[place] = inside[place];
        }
        tensor.buffer = Buffer::from_slice(device, &all).unwrap();
        tensor
    }

    /// The index of an element by its number in row-major order. Here and in `at` without iterators: tests are not optimised, and they took a third of the time.
    fn index(&self, mut number: usize) -> [usize; RANK] {
        let mut index = [0; RANK];
        let mut dimension = RANK;
        while dimension > 0 {
            dimension -= 1;
            index[dimension] = number % self.shape[dimension];
            number /= self.shape[dimension];
        }
        index
    }

    /// Without the dimensions before `first`.
    pub(crate) fn view(&self, first: usize) -> TensorView<'_, T> {
        let view = self.buffer.view(&self.shape[first..]);
        view.with_strides(&self.strides[first..])
            .with_offset(self.offset)
    }

    /// Where an element is in the buffer. There may be one matrix or head for all: indices past the extent are the last.
    pub(crate) fn at(&self, index: [usize; RANK]) -> usize {
        let mut place = self.offset;
        let mut dimension = 0;
        while dimension < RANK {
            let last = self.shape[dimension] - 1;
            let inside = if index[dimension] < last {
                index[dimension]
            } else {
                last
            };
            place += inside * self.strides[dimension];
            dimension += 1;
        }
        place
    }

    /// All elements of the buffer.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let elements = self.buffer.to_vec().unwrap();
        elements.into_iter().map(Number::back).collect()
    }
}

/// Of tensors of heads, or of pages of a cache: rows are contiguous, and everything else is a multiple of so many elements.
pub(crate) fn rows(unit: usize) -> impl Strategy<Value = MemoryLayout<4>> {
    let order = prop_oneof![Just([0, 1, 2, 3]), Just([0, 2, 1, 3])];
    let gap = prop_oneof![3 => Just(0_usize), 1 => 1..5_usize];
    let offset = prop_oneof![3 => Just(0_usize), 1 => Just(1_usize), 1 => Just(8_usize)];
    (order, gap, offset).prop_map(move |(order, gap, offset)| MemoryLayout {
        order,
        step: 1,
        gap: unit * gap,
        offset: unit * offset,
    })
}

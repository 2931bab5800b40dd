//! Where a tensor lies in its buffer.

/// Where a tensor lies in its buffer. Dimensions are in row-major order, the innermost last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlace {
    /// Elements along each dimension, 1 to 5 dimensions.
    pub shape: Vec<usize>,
    /// Elements from one index to the next along each dimension; the innermost must be 1.
    pub strides: Vec<usize>,
    /// Elements in front of the first.
    pub offset: usize,
}

impl TensorPlace {
    /// A tensor without gaps that begins where its buffer does. Of one that is larger than memory, steps end at the largest
    /// number, which no buffer has room for.
    pub fn dense(shape: &[usize]) -> TensorPlace {
        let mut strides = vec![1_usize; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim].saturating_mul(shape[dim]);
        }
        TensorPlace {
            shape: shape.to_vec(),
            strides,
            offset: 0,
        }
    }

    /// How many elements a buffer must have for it.
    pub(super) fn needs_elements(&self) -> usize {
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .map(|(&extent, &stride)| extent.saturating_sub(1).saturating_mul(stride));
        last.fold(self.offset.saturating_add(1), usize::saturating_add)
    }
}

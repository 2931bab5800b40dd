//! Extents and strides, in place.

/// The most dimensions that a tensor of a launch has.
pub(crate) const MOST_RANK: usize = 8;

/// The most sizes that a kernel names.
pub(crate) const MOST_SIZES: usize = 32;

/// Extents or strides of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dims {
    count: usize,
    values: [i64; MOST_RANK],
}

impl Dims {
    /// # Panics
    /// Beyond [`MOST_RANK`].
    pub(crate) fn of(list: &[usize]) -> Dims {
        assert!(
            list.len() <= MOST_RANK,
            "a tensor has up to {MOST_RANK} dimensions"
        );
        let mut values = [0; MOST_RANK];
        for (value, &given) in values.iter_mut().zip(list) {
            *value = i64::try_from(given).unwrap_or(i64::MAX);
        }
        Dims {
            count: list.len(),
            values,
        }
    }

    pub(crate) fn as_slice(&self) -> &[i64] {
        &self.values[..self.count]
    }
}

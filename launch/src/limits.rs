//! What machines of an architecture allow a launch, as the manifest states it.

use std::fmt;

/// Limits of the machines that run a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Of the tensors that tensor maps describe.
    pub tensor_map: MapLimits,
}

/// What a tensor map can describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLimits {
    /// The most elements along a dimension.
    pub dim_elements: u64,
    /// What the address and the strides are multiples of, bytes.
    pub unit_bytes: u64,
    /// Strides are below this, bytes.
    pub stride_bytes: u64,
    /// The most elements that a box reaches over along a dimension, those that steps pass over included.
    pub box_elements: u64,
    /// The most elements from one that is taken to the next.
    pub step: u64,
}

/// A limit for people: a large power of two as such, `2^40`.
pub(crate) struct Limit(pub(crate) u64);

/// Numbers from here on are read more easily as powers.
const LARGE: u64 = 1 << 20;

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit(number) = *self;
        if number.is_power_of_two() && number >= LARGE {
            write!(f, "2^{}", number.ilog2())
        } else {
            write!(f, "{number}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_powers_of_two_are_written_as_such() {
        let text = |number| Limit(number).to_string();
        assert_eq!(text(1 << 40), "2^40");
        assert_eq!(text(1 << 20), "2^20");
        assert_eq!(text((1 << 40) - 1), "1099511627775");
        assert_eq!(text(16), "16");
        assert_eq!(text(0), "0");
    }
}

//! Host integers as shapes.

use super::HostInt;
use layout::Dims;

/// What can say a shape or one number for each dimension: an array or slice of host integers, or one integer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of sizes",
    note = "write `[64, 32]`, with host integers of one type"
)]
pub trait IntoDims {
    /// The sizes. What no size can be becomes 0, which every shape refuses.
    fn into_dims(self) -> Dims;
}

fn size<H: HostInt>(value: H) -> u32 {
    u32::try_from(value.to_i128()).unwrap_or(0)
}

impl<H: HostInt> IntoDims for H {
    fn into_dims(self) -> Dims {
        Dims::from([size(self)])
    }
}

impl<H: HostInt, const RANK: usize> IntoDims for [H; RANK] {
    fn into_dims(self) -> Dims {
        self.into_iter().map(size).collect()
    }
}

impl<H: HostInt> IntoDims for &[H] {
    fn into_dims(self) -> Dims {
        self.iter().copied().map(size).collect()
    }
}

impl IntoDims for Dims {
    fn into_dims(self) -> Dims {
        self
    }
}

impl IntoDims for &Dims {
    fn into_dims(self) -> Dims {
        self.clone()
    }
}

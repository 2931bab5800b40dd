//! Host integers as shapes.

use super::HostInt;
use super::trace::{self, At, here};
use layout::Dims;

/// What can say a shape or one number for each dimension: an array or slice of host integers, or one integer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of sizes",
    note = "write `[64, 32]`, with host integers of one type"
)]
pub trait IntoDims {
    /// The sizes. One that no dimension can have is reported at the caller, and ends tracing.
    #[track_caller]
    fn into_dims(self) -> Dims;
}

fn sizes<H: HostInt>(values: &[H], at: At) -> Dims {
    let size = |value: &H| u32::try_from(value.to_i128()).ok();
    let dims: Option<Dims> = values.iter().map(size).collect();
    dims.unwrap_or_else(|| {
        let values: Vec<i128> = values.iter().map(|value| value.to_i128()).collect();
        trace::refuse_sizes(&values, at)
    })
}

impl<H: HostInt> IntoDims for H {
    #[track_caller]
    fn into_dims(self) -> Dims {
        sizes(&[self], here())
    }
}

impl<H: HostInt, const RANK: usize> IntoDims for [H; RANK] {
    #[track_caller]
    fn into_dims(self) -> Dims {
        sizes(&self, here())
    }
}

impl<H: HostInt> IntoDims for &[H] {
    #[track_caller]
    fn into_dims(self) -> Dims {
        sizes(self, here())
    }
}

impl IntoDims for Dims {
    #[track_caller]
    fn into_dims(self) -> Dims {
        self
    }
}

impl IntoDims for &Dims {
    #[track_caller]
    fn into_dims(self) -> Dims {
        self.clone()
    }
}

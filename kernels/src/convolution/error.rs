//! Errors of a call.

pub use crate::error::{Error, Result};

/// An error unless `holds`.
pub(super) fn expect(
    holds: bool,
    argument: &'static str,
    found: impl FnOnce() -> String,
    expected: impl Into<String>,
) -> Result<()> {
    crate::error::expect(holds, ["convolution", argument], found, expected)
}

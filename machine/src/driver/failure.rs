//! A refusal by the driver, in the driver's own words.

use std::fmt;

/// One call of the driver that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaFailure {
    /// The driver function that was called.
    pub call: &'static str,
    /// The `CUresult` that it returned.
    pub code: u32,
    /// The code's name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// What the driver says about the code.
    pub text: String,
}

impl CudaFailure {
    /// Whether the failure was caused by a kernel that ran earlier (traps, bad addresses, failed assertions).
    ///
    /// The codes are those of `cuda.h` that are documented to leave the process in an inconsistent state.
    pub fn is_kernel_fault(&self) -> bool {
        matches!(self.code, 700 | 702 | 710 | 714..=719)
    }
}

impl fmt::Display for CudaFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.call, self.text, self.name)
    }
}

impl std::error::Error for CudaFailure {}

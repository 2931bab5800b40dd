//! What stops a program at the driver: a call that it refuses, or that there is none to call.

use std::fmt;

/// One call of the driver that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The driver function that was called.
    pub call: &'static str,
    /// The `CUresult` that it returned.
    pub code: u32,
    /// The code's name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// What the driver says about the code.
    pub text: String,
}

impl Failure {
    /// Whether the failure was caused by a kernel that ran earlier (traps, bad addresses, failed assertions).
    ///
    /// The codes are those of `cuda.h` that are documented to leave the process in an inconsistent state.
    pub fn is_kernel_fault(&self) -> bool {
        matches!(self.code, 700 | 702 | 710 | 714..=719)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.call, self.text, self.name)
    }
}

impl std::error::Error for Failure {}

/// Why there is no GPU to launch on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The driver's library could not be loaded.
    NoDriver {
        /// The library.
        library: String,
        /// What the loader says.
        reason: String,
    },
    /// The library lacks a function that every supported driver has.
    Incomplete {
        /// The missing symbol.
        symbol: &'static str,
    },
    /// The driver is older than the first one that is supported.
    TooOld {
        /// What `cuDriverGetVersion` said, as 1000 · major + 10 · minor.
        found: i32,
    },
    /// The driver works and sees no GPU.
    NoDevice,
    /// A GPU was requested by a number that is not there.
    NoSuchDevice {
        /// The number requested.
        ordinal: usize,
        /// How many GPUs the driver sees.
        count: usize,
    },
    /// The driver refused a call.
    Refused(Failure),
}

impl Unavailable {
    /// Whether an emulator helps: it is not what was asked for where only the number of the GPU is wrong.
    pub fn is_lack(&self) -> bool {
        !matches!(
            self,
            Unavailable::NoSuchDevice { .. } | Unavailable::Refused(_)
        )
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::NoDriver { library, reason } => write!(
                f,
                "no NVIDIA driver: {library} could not be loaded ({reason}); install the driver"
            ),
            Unavailable::Incomplete { symbol } => write!(
                f,
                "the NVIDIA driver library has no `{symbol}`; reinstall the driver (CUDA {} or later)",
                version_text(LOWEST_VERSION)
            ),
            Unavailable::TooOld { found } => write!(
                f,
                "the NVIDIA driver supports CUDA {}, and {} or later is needed; update the driver",
                version_text(*found),
                version_text(LOWEST_VERSION)
            ),
            Unavailable::NoDevice => write!(
                f,
                "the NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES"
            ),
            Unavailable::NoSuchDevice { ordinal, count } => write!(
                f,
                "there is no GPU {ordinal}; the driver sees {count}, counted from 0"
            ),
            Unavailable::Refused(failure) => write!(f, "{failure}"),
        }
    }
}

impl std::error::Error for Unavailable {}

impl From<Failure> for Unavailable {
    fn from(failure: Failure) -> Unavailable {
        Unavailable::Refused(failure)
    }
}

/// The lowest driver that is supported, in the driver's own numbering: CUDA 12.8.
pub const LOWEST_VERSION: i32 = 12_080;

/// `12080` as `12.8`.
pub fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

//! What stops a launch on memory of cudarc.

use std::fmt;

/// What stops a launch on memory of cudarc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The stream's context is not the primary one of this GPU.
    NotPrimary {
        /// The number of the GPU.
        ordinal: usize,
    },
    /// A slice is of another context than the stream.
    OtherContext {
        /// Which of the slices, from 0.
        argument: usize,
        /// The number of the slice's GPU.
        found: usize,
        /// That of the stream's.
        expected: usize,
    },
    /// What does not fit the kernel, or what the driver refuses.
    Launch(tilekit_launch::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotPrimary { ordinal } => write!(
                f,
                "the stream's context is not the primary one of GPU {ordinal}, which kernels are loaded in; make it by `CudaContext::new({ordinal})`"
            ),
            Error::OtherContext {
                argument,
                found,
                expected,
            } => write!(
                f,
                "slice {argument} is of a context on GPU {found} and the stream of another on GPU {expected}; copy the slice to the stream's context"
            ),
            Error::Launch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Launch(error) => Some(error),
            Error::NotPrimary { .. } | Error::OtherContext { .. } => None,
        }
    }
}

impl From<tilekit_launch::Error> for Error {
    fn from(error: tilekit_launch::Error) -> Error {
        Error::Launch(error)
    }
}

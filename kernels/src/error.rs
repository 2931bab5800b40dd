//! Errors of a call of a kernel.

use std::fmt;

/// Why a call failed.
#[derive(Clone)]
pub enum Error {
    /// An argument that is not supported.
    Argument {
        /// What was called: `attention`, `product`.
        operation: &'static str,
        /// Its name: `q`, `options.window`, ..
        argument: &'static str,
        /// What was found.
        found: String,
        /// What is expected.
        expected: String,
    },
    /// An error of compiling, loading or launching.
    Runtime(tilekit::Error),
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// The text, as of [`tilekit::Error`].
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Argument {
                operation,
                argument,
                found,
                expected,
            } => write!(
                f,
                "{operation}: `{argument}`: found {found}; expected {expected}"
            ),
            Error::Runtime(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Argument { .. } => None,
            Error::Runtime(error) => Some(error),
        }
    }
}

impl From<tilekit::Error> for Error {
    fn from(error: tilekit::Error) -> Error {
        Error::Runtime(error)
    }
}

/// An error of `operation` unless `holds`.
pub(crate) fn expect(
    holds: bool,
    [operation, argument]: [&'static str; 2],
    found: impl FnOnce() -> String,
    expected: impl Into<String>,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::Argument {
        operation,
        argument,
        found: found(),
        expected: expected.into(),
    })
}

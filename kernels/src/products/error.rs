//! What is wrong with a call of a product.

use std::fmt;

/// Why a call did nothing.
#[derive(Clone, Debug)]
pub enum Error {
    /// An argument that no kernel takes.
    Argument {
        /// Which one: `a`, `b`, `c`.
        argument: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// What compiling, loading or launching ended with.
    Runtime(tilekit::Error),
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Argument {
                argument,
                found,
                expected,
            } => write!(
                f,
                "product: `{argument}`: found {found}; expected {expected}"
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

/// An error unless `holds`.
pub(super) fn expect(
    holds: bool,
    argument: &'static str,
    found: impl FnOnce() -> String,
    expected: impl Into<String>,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::Argument {
        argument,
        found: found(),
        expected: expected.into(),
    })
}

//! What stops a launch: one line with kernel, argument, what was found, what is expected and the help.

use std::fmt;

use crate::driver::{Failure, Unavailable};

/// What stops a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    text: String,
    failure: Option<Box<Failure>>,
}

/// What sort of mistake it is: a binding to another language chooses its exception by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An argument of the wrong sort: a tensor for a scalar, or elements of another type.
    Type,
    /// An argument with a wrong value: shape, stride, address, grid.
    Value,
    /// Driver, GPU or code.
    Runtime,
}

impl Error {
    pub(crate) fn of_type(text: String) -> Error {
        Error::new(Kind::Type, text)
    }

    pub(crate) fn of_value(text: String) -> Error {
        Error::new(Kind::Value, text)
    }

    pub(crate) fn of_runtime(text: impl Into<String>) -> Error {
        Error::new(Kind::Runtime, text.into())
    }

    fn new(kind: Kind, text: String) -> Error {
        Error {
            kind,
            text,
            failure: None,
        }
    }

    /// A refusal of the driver while `what` was done.
    pub(crate) fn of_driver(what: &str, failure: Failure) -> Error {
        Error {
            kind: Kind::Runtime,
            text: format!("{what}: {failure}"),
            failure: Some(Box::new(failure)),
        }
    }

    /// There is no GPU for `what`.
    pub(crate) fn of_unavailable(what: &str, lack: Unavailable) -> Error {
        match lack {
            Unavailable::Refused(failure) => Error::of_driver(what, failure),
            lack if lack.is_lack() => Error::of_runtime(format!(
                "{lack}, or run the kernel on TileKit's emulator, which needs none"
            )),
            lack => Error::of_runtime(lack.to_string()),
        }
    }

    /// What sort of mistake it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What the driver said, where it is the driver that refused.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<Unavailable> for Error {
    fn from(lack: Unavailable) -> Error {
        Error::of_unavailable("the NVIDIA driver", lack)
    }
}

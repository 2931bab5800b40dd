//! What stops a call, as Python's exceptions.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use tilekit_launch::{Error, Kind, Manifest};

/// The exception for what a launch says.
#[cold]
pub fn raised(error: &Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        Kind::Type => PyTypeError::new_err(text),
        Kind::Value => PyValueError::new_err(text),
        Kind::Runtime => PyRuntimeError::new_err(text),
    }
}

/// Why an argument does not fit, before it is known whose it is.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It is of another sort or type.
    Type(String),
    /// Its value does not fit.
    Value(String),
    /// Its own code raised this.
    Raised(PyErr),
}

/// `softmax(x, out): x is on the CPU; ..`
fn about(manifest: &Manifest, name: &str, text: &str) -> String {
    format!("{}: {name} {text}", manifest.signature())
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Self {
        Refusal::Raised(error)
    }
}

impl Refusal {
    /// The same where there is no Python: the exception's name, and `softmax(x, out): x is on the CPU; ..`
    #[cold]
    pub(crate) fn said(&self, manifest: &Manifest, name: &str) -> (Kind, String) {
        let (kind, text) = match self {
            Refusal::Type(text) => (Kind::Type, text.clone()),
            Refusal::Value(text) => (Kind::Value, text.clone()),
            Refusal::Raised(error) => (Kind::Runtime, error.to_string()),
        };
        (kind, about(manifest, name, &text))
    }

    /// The exception: `softmax(x, out): x is on the CPU; ..`
    #[cold]
    pub(crate) fn of_argument(self, py: Python<'_>, manifest: &Manifest, name: &str) -> PyErr {
        let about = |text: &str| about(manifest, name, text);
        match self {
            Refusal::Type(text) => PyTypeError::new_err(about(&text)),
            Refusal::Value(text) => PyValueError::new_err(about(&text)),
            Refusal::Raised(error) => {
                if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
                    // An interrupt is the caller's to see as it is.
                    return error;
                }
                // What follows the first line is a stack of calls, which the cause has too.
                let said = error.to_string();
                let said = said.lines().next().unwrap_or_default();
                let text = about(&format!("does not give its memory: {said}"));
                let shown = PyValueError::new_err(text);
                shown.set_cause(py, Some(error));
                shown
            }
        }
    }
}

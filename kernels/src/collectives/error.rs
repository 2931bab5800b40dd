//! Errors of a call.

pub use crate::error::{Error, Result};

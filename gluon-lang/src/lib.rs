//! The language.

pub mod layout;

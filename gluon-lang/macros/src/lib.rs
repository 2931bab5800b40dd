//! The attribute macros.

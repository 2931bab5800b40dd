//! PTX as data.

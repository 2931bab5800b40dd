//! The package whose kernels a harness runs.

/// What [`harness!`](crate::harness!) says of the package.
#[derive(Clone, Copy, Debug)]
pub struct Harness {
    /// Its name.
    pub package: &'static str,
    /// The folder of its `Cargo.toml`.
    pub root: &'static str,
    /// The crates whose kernels are meant.
    pub crates: &'static [&'static str],
}

//! The harness of this package: what `cargo tilekit` and `cargo test` run.

tilekit::harness!(tilekit_kernels);

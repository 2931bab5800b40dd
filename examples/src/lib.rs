//! The example kernels.

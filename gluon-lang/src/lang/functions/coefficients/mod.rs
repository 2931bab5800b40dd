//! Coefficients, highest powers first, as `coefficients.py` beside this folder computes them.
#![allow(
    clippy::approx_constant,
    clippy::excessive_precision,
    clippy::unreadable_literal,
    reason = "coefficients stand as they were computed, which for the first ones is near a constant"
)]

pub(super) mod bessel;
pub(super) mod elementary;
pub(super) mod error;
pub(super) mod gamma;

//! Activations of f32 results.

use gluon_lang::lang::prelude::*;

/// `sqrt(2 / π)` and the cubic coefficient of the tanh form of gelu.
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

/// `max(x, 0)`; 0 for NaN.
#[track_caller]
pub fn relu(x: Tensor<f32>) -> Tensor<f32> {
    maximum(x, 0.0)
}

/// `x / (1 + exp(-x))`, also called swish.
#[device]
pub fn silu(x: Tensor<f32>) -> Tensor<f32> {
    x / ((x * -LOG2_E).exp2() + 1.0)
}

/// `x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, the tanh form that models are trained with, by the hardware's tanh: to 2^-11 of the
/// larger of `|x|` and 1.
#[device]
pub fn gelu(x: Tensor<f32>) -> Tensor<f32> {
    gelu_of_twice(x * 0.5)
}

/// `gelu(2 · half)`: a caller that scales `x` anyway folds the factor 1/2 into its scale.
#[device]
pub fn gelu_of_twice(half: Tensor<f32>) -> Tensor<f32> {
    const LINEAR: f32 = 2.0 * SQRT_2_OVER_PI;
    let inner = half * (half * half * (4.0 * CUBIC * LINEAR) + LINEAR);
    half * inner.fast().tanh() + half
}

/// `x · Φ(x)` with the distribution function Φ of the normal distribution, the form by erf.
#[device]
pub fn gelu_erf(x: Tensor<f32>) -> Tensor<f32> {
    x * x.normcdf()
}

//! Convolutions of images, channels last, and gradients of images and filters.
//!
//! [`Convolutions`] is what a program calls: it checks tensors and [`Options`], chooses among the algorithms that can compute the call by models of their time, copies what they do not take as it lies, and
//! launches. [`implicit::convolve`] is a product whose operand A is gathered by TMA loads in im2col mode; what it is compiled for is a [`form::Form`]. [`implicit::convolve_apart`] stores pixels a stride apart, of gradients of
//! images. [`depthwise::depthwise`] has channels one by one. What has one tap, or is out of the reach of maps ([`patches`]), is a product of matrices.
//! [`filters::filter_gradient`] is a product over pixels.

mod call;
mod call_plan;
#[cfg(not(test))]
mod cases;
mod check;
mod copies;
pub mod depthwise;
#[cfg(not(test))]
mod depthwise_cases;
pub mod depthwise_filters;
mod error;
pub mod filters;
mod filters_call;
#[cfg(not(test))]
mod filters_cases;
mod filters_plan;
pub mod form;
pub mod implicit;
mod launch;
mod options;
pub mod pad;
pub mod patches;
mod plan;
mod reach;
mod residue;
mod run;
mod run_filters;
mod shape;
mod sizes;
mod walk;
mod ways;
mod ways_plan;

pub use crate::products::Activation;
pub use call::{Convolutions, Pixel};
pub use call_plan::CallPlan;
pub use error::{Error, Result};
pub use options::Options;

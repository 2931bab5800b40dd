//! Convolutions of images, channels last, and gradients of images and filters.
//!
//! [`Convolutions`] is what a program calls: it checks tensors and [`Options`], copies what no im2col map takes, chooses a tile by the model of products' time, and
//! launches. Below it is [`implicit::convolve`], a product whose operand A is gathered by TMA loads in im2col mode; what it is compiled for is a [`form::Form`].
//! [`filters::filter_gradient`] is a product over pixels.

mod call;
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

pub use crate::products::Activation;
pub use call::{Convolutions, Pixel};
pub use check::CallPlan;
pub use error::{Error, Result};
pub use options::Options;

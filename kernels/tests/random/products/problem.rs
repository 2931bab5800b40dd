//! How a product of a family is called, and compared with direct evaluation.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::products::{Products, Result};

use crate::broken::{Broken, refused};
use crate::calls::{device, each};
use crate::near::{Within, exact};
use crate::numbers::Number;
use crate::tensor::Tensor;

/// The matrices and numbers of a call.
pub(super) trait Problem: Sized {
    /// What is drawn.
    type Call: std::fmt::Debug;
    type Output: Number;

    fn new(device: &Device, call: Self::Call) -> Self;

    fn result(&self) -> &Tensor<Self::Output, 3>;

    /// Elements of the buffer of the result after the call, each with the error that it may have before it is rounded; none where no result is stored.
    fn wanted(&self, before: &[f64]) -> Within;

    /// Makes the call, with one of its arguments broken.
    fn run(&self, products: &Products, stream: &Stream, broken: Option<Broken>) -> Result<()>;

    /// Other products than those of every call.
    fn products(&self, _: &Device) -> Option<Products> {
        None
    }
}

/// Makes so many calls, and compares every element of the buffer of each result, those beside the result with what they were.
pub(super) fn right<P: Problem>(count: u32, calls: &impl Strategy<Value = P::Call>) {
    let device = device();
    let products = Products::new(&device);
    each(count, calls, |call| {
        let problem = P::new(&device, call);
        let before = problem.result().numbers();
        let wanted = problem.wanted(&before);
        let wanted: Within = wanted
            .into_iter()
            .map(|wanted| wanted.map(representable::<P::Output>))
            .collect();
        let own = problem.products(&device);
        let stream = Stream::new(&device).unwrap();
        let made = problem.run(own.as_ref().unwrap_or(&products), &stream, None);
        made.unwrap();
        stream.synchronize().unwrap();
        let rounding = P::Output::ROUNDING;
        exact("c", &problem.result().numbers(), &wanted, &before, rounding);
    });
}

/// What is beyond the largest number of the results is infinite, or the largest where there are no infinities.
fn representable<O: Number>((wanted, error): (f64, f64)) -> (f64, f64) {
    let rounded = O::of(wanted).back();
    let is_beyond = wanted.is_finite() && (rounded - wanted).abs() > wanted.abs() / 4.0 + 1.0;
    // The steps of 8 bits are so large that some of what is beyond them is near.
    let is_beyond = is_beyond || wanted.abs() > O::of(f64::MAX).back();
    (if is_beyond { rounded } else { wanted }, error)
}

/// Makes so many calls with one of their arguments broken, which are refused.
pub(super) fn broken<P: Problem>(count: u32, calls: impl Strategy<Value = P::Call>) {
    let device = device();
    let products = Products::new(&device);
    each(count, &(calls, Broken::any()), |(call, broken)| {
        let problem = P::new(&device, call);
        let before = problem.result().numbers();
        let stream = Stream::new(&device).unwrap();
        let result = problem.run(&products, &stream, Some(broken));
        stream.synchronize().unwrap();
        let after = problem.result().numbers();
        refused(result, &[[before, after]]);
    });
}

//! The operations, as the handles call them: free of generics, each with the author's place.

mod arith;
mod atomic;
mod axes;
mod bulk;
mod checks;
mod cluster;
mod cp_async;
mod create;
mod gather;
mod inline_ptx;
mod map;
mod mbarrier;
mod memory;
mod reduce;
mod remote;
mod shape;
mod shared;
mod sort;
mod step;
mod tensor_cores;
mod tensor_map;
mod tma;
mod warps;

pub(crate) use arith::*;
pub(crate) use atomic::*;
pub(crate) use axes::*;
pub(crate) use bulk::*;
pub(crate) use checks::*;
pub(crate) use cluster::*;
pub(crate) use cp_async::*;
pub(crate) use create::*;
pub(crate) use gather::*;
pub(crate) use inline_ptx::*;
pub(crate) use map::*;
pub(crate) use mbarrier::*;
pub(crate) use memory::*;
pub(crate) use reduce::*;
pub(crate) use remote::*;
pub(crate) use shape::*;
pub(crate) use shared::*;
pub(crate) use sort::*;
pub(crate) use step::*;
pub(crate) use tensor_cores::*;
pub(crate) use tensor_map::*;
pub(crate) use tma::*;
pub(crate) use warps::*;

use super::{At, with};
use diag::Code;
use ir::OpError;
use ir::entity::Value;
use ir::verify::MOST_TENSOR_ELEMENTS;
use layout::{Dims, Layout};
use target::Target;

/// The shape of a value; a scalar has rank 0. What was reported as wrong has none, and tracing ends: what the author's host
/// code makes of a shape, a second report among it, would follow from the first mistake.
#[inline(never)]
pub(crate) fn shape_of(value: Value, at: At) -> Dims {
    let shape = with(at, |trace| {
        let is_known = !trace.is_poison(value);
        is_known.then(|| Dims::from(trace.ty(value).shape()))
    });
    shape.unwrap_or_else(|| super::end())
}

/// The layout of a tensor; `Auto` for a scalar and for what was reported as wrong.
#[inline(never)]
pub(crate) fn layout_of(value: Value, at: At) -> Layout {
    with(at, |trace| {
        trace.ty(value).layout().cloned().unwrap_or(Layout::Auto)
    })
}

/// Reports a list of sizes of which one can be no size, and ends tracing.
#[inline(never)]
pub(crate) fn refuse_sizes(sizes: &[i128], at: At) -> ! {
    let is_size = |size: &&i128| (0..=i128::from(u32::MAX)).contains(*size);
    let wrong = sizes.iter().find(|size| !is_size(size));
    let wrong = wrong.copied().unwrap_or_default();
    let error = OpError::new(
        Code::TooLarge,
        format!(
            "{sizes:?} has a dimension of {wrong}; a tile has 1 to {MOST_TENSOR_ELEMENTS} elements"
        ),
    );
    with(at, |trace| {
        let cta = &trace.builder.func().target.cta;
        let note = format!("a CTA has {} bytes of shared memory", cta.shared_bytes);
        let help =
            "a tile is the part that one CTA works on: take a smaller one, and more CTAs or a loop";
        trace.fail(error.note(note).help(help), at);
    });
    super::end();
}

/// What there may be so many of, at most.
pub(crate) struct Counted<'a> {
    pub(crate) what: &'a str,
    pub(crate) least: u32,
    /// By the target; where it sets no limit, [`u32::MAX`].
    pub(crate) most: fn(&Target) -> u32,
    pub(crate) help: &'a str,
}

/// A number of the host that says how many of something there are. One that there cannot be is reported, and none returned.
#[inline(never)]
pub(crate) fn checked_count(number: i128, of: &Counted<'_>, at: At) -> Option<u32> {
    with(at, |trace| {
        let most = (of.most)(trace.builder.func().target);
        let count = u32::try_from(number).ok();
        let count = count.filter(|count| (of.least..=most).contains(count));
        if count.is_none() {
            let range = format!("{} to {most}", of.least);
            let message = format!("{} cannot be {number}; there can be {range}", of.what);
            trace.fail(OpError::new(Code::ConstantRange, message).help(of.help), at);
        }
        count
    })
}

/// The same of what no target limits. A number that there cannot be counts as 1.
#[inline(never)]
pub(crate) fn count_of(number: i128, what: &str, at: At) -> u32 {
    let of = Counted {
        what,
        least: 0,
        most: |_| u32::MAX,
        help: "look at where the number comes from: a difference below 0, or a product that is larger than was meant",
    };
    checked_count(number, &of, at).unwrap_or(1)
}

/// Says what a value is called in timelines.
#[inline(never)]
pub(crate) fn label_value(value: Value, label: &str) {
    super::TRACE.with(|trace| {
        if let Some(trace) = trace.borrow_mut().as_mut() {
            trace.builder.func_mut().set_label(value, label);
        }
    });
}

/// Gives the value of a `let` the author's name for it.
#[inline(never)]
pub(crate) fn name_value(value: Value, name: &str) {
    super::TRACE.with(|trace| {
        if let Some(trace) = trace.borrow_mut().as_mut() {
            trace.name(value, name);
        }
    });
}

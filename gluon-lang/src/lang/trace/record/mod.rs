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
use layout::{Dims, Layout};

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

/// A number of the host that says how many of something there are; `what` names it. One that is below 0 or above the
/// largest u32 is reported, and counts as 1.
#[inline(never)]
pub(crate) fn count_of(number: i128, what: &str, at: At) -> u32 {
    u32::try_from(number).unwrap_or_else(|_| {
        let message = format!("{what} cannot be {number}");
        let error = OpError::new(Code::ConstantRange, message);
        with(at, |trace| trace.fail(error, at));
        1
    })
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

//! The operations, as the handles call them: free of generics, each with the author's place.

mod arith;
mod atomic;
mod bulk;
mod checks;
mod cluster;
mod cp_async;
mod create;
mod gather;
mod mbarrier;
mod memory;
mod reduce;
mod remote;
mod shape;
mod shared;
mod sort;
mod tensor_cores;
mod tensor_map;
mod tma;
mod warps;

pub(crate) use arith::*;
pub(crate) use atomic::*;
pub(crate) use bulk::*;
pub(crate) use checks::*;
pub(crate) use cluster::*;
pub(crate) use cp_async::*;
pub(crate) use create::*;
pub(crate) use gather::*;
pub(crate) use mbarrier::*;
pub(crate) use memory::*;
pub(crate) use reduce::*;
pub(crate) use remote::*;
pub(crate) use shape::*;
pub(crate) use shared::*;
pub(crate) use sort::*;
pub(crate) use tensor_cores::*;
pub(crate) use tensor_map::*;
pub(crate) use tma::*;
pub(crate) use warps::*;

use super::{At, with};
use crate::entity::Value;
use crate::layout::{Dims, Layout};

/// The shape of a value; a scalar and what was reported as wrong have rank 0.
#[inline(never)]
pub(crate) fn shape_of(value: Value, at: At) -> Dims {
    with(at, |trace| Dims::from(trace.ty(value).shape()))
}

/// The layout of a tensor; `Auto` for a scalar and for what was reported as wrong.
#[inline(never)]
pub(crate) fn layout_of(value: Value, at: At) -> Layout {
    with(at, |trace| {
        trace.ty(value).layout().cloned().unwrap_or(Layout::Auto)
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

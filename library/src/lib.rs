//! The standard library of TileKit: pipelines, tile schedulers, epilogues and reductions for Hopper kernels, written in the language itself.
//!
//! Kernels get it by `use tilekit::prelude::*`; whatever the prelude leaves out is in `tilekit::library`. None of it needs support of the
//! compiler, so any of it can be copied and changed.
//!
//! - [`pipeline`]: circular buffers in shared memory between producers and consumers.
//! - [`schedule`]: which program makes which tile of a result, and in which order.
//! - [`epilogue`]: from accumulators to global memory.
//! - [`rows`]: whole rows in the registers of a CTA; [`span`]: rows of any length, read in stretches;
//!   [`bulk_row`]: long rows in the shared memory of a cluster.
//! - [`NamedTurns`]: groups of warps ordered by named barriers; [`OnlineSoftmax`]: softmax block by block;
//!   [`RowStatistics`]: mean and variance block by block; [`merge_top_k`]: the largest block by block; [`LookBack`]: prefix sums;
//!   [`GridBarrier`]: a barrier of all CTAs of a launch; [`HostFlag`]: a flag that the host polls or sets while the kernel runs;
//!   [`Signals`]: counts by which GPUs wait for each other; [`WaitLimit`]: how long a wait may take.
//! - [`Tf32Parts`], [`wgmma_tf32x3`]: products of f32 by three of tf32.
#![forbid(unsafe_code)]

// The macros expand to paths of `::tilekit`.
extern crate gluon_lang as tilekit;

pub mod bulk_row;
pub mod epilogue;
mod grid_barrier;
mod host_flag;
mod look_back;
mod named_turns;
pub mod pipeline;
pub mod prelude;
pub mod rows;
pub mod schedule;
mod signals;
mod softmax;
pub mod span;
mod statistics;
mod tf32x3;
mod top_k;
mod wait_limit;

pub use grid_barrier::{GridArrival, GridBarrier};
pub use host_flag::HostFlag;
pub use look_back::{LookBack, SumBefore};
pub use named_turns::NamedTurns;
pub use signals::{Signals, SignalsWithin};
pub use softmax::OnlineSoftmax;
pub use statistics::RowStatistics;
pub use tf32x3::{Tf32Parts, wgmma_tf32x3};
pub use top_k::merge_top_k;
pub use wait_limit::WaitLimit;

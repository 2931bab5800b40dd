//! Kernels in PTX, run on the emulator and compared with what the host computes.
#![allow(
    clippy::unwrap_used,
    clippy::double_comparisons,
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::format_collect,
    clippy::precedence,
    reason = "tests build texts and compare bits"
)]

mod kernel;

mod atomics;
mod barriers;
mod bulk_uses;
mod control;
mod conversion;
mod devices;
mod devices_start;
mod exchange;
mod faults;
mod floats;
mod gemm;
mod global_copies;
mod global_races;
mod global_ranges;
mod global_start;
mod hopper;
mod host;
mod hostile;
mod integers;
mod lane_order;
mod launch;
mod lifetimes;
mod limits;
mod matrices;
mod mbarrier_order;
mod mbarrier_uses;
mod memory;
mod printing;
mod products_order;
mod races;
mod reports;
mod schedules;
mod shared_ranges;
mod sparse;
mod tensors;
mod timed;
mod warpgroup;
mod wraps;

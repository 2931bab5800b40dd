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
mod memory;
mod printing;
mod races;
mod reports;
mod schedules;
mod sparse;
mod tensors;
mod warpgroup;
mod wraps;

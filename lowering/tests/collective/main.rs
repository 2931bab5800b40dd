//! Operations between the elements of a tensor (scans, gathers, histograms, sorts, reductions) and atomics: every kind of
//! layout, on the emulator, against references on the host.

#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::format_collect,
    clippy::manual_is_multiple_of,
    clippy::similar_names,
    reason = "a test says what failed by where it failed; a kernel's text grows line by line"
)]

mod assembler;
mod atomics;
mod clusters;

mod family;
mod gathers;
#[path = "../gpu/mod.rs"]
mod gpu;
mod kernel;
mod partitions;
mod random;
mod reductions;
mod scans;
mod sorts;
mod tables;
mod warp_sets;

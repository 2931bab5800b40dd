//! Asynchronous copies, products and barriers of Hopper, executed by the emulator, which checks proxies, phases and races, and
//! accepted by ptxas where there is one.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what failed by where it failed"
)]

extern crate gluon_lang as tilekit;

mod accumulators;
mod bounds;
mod bulk;
mod cluster;
mod cluster_partitions;
mod cp_async;
mod cta_barriers;
mod faulty;
mod machine;
mod mbarrier;
mod remote;
mod split;
mod tensor_maps;
mod tma;

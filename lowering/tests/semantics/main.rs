//! What kernels compute, executed by the emulator and compared with the host, bit by bit: every operation on every
//! element type, casts between all of them, ragged masks, reductions over every axis, conversions between layouts.

#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::match_same_arms,
    clippy::float_cmp,
    clippy::similar_names,
    reason = "a test says what failed by where it failed, and compares bits; a table of references reads line by line"
)]

extern crate gluon_lang as tilekit;

mod assembly;
mod bits;
mod caching;
mod casts;
mod control;
mod dots;
mod elementwise;
mod exits;
mod floats;
mod functions;
#[path = "../gpu/mod.rs"]
mod gpu;
mod indexed;
mod inline;
mod integers;
mod machine;
mod maps;
mod masks;
mod memory;
mod narrow;
mod partitions;
mod parts;
mod philox;
mod printing;
mod random;
mod reductions;
mod shared;
mod sparse;
mod tensor_cores;
mod tiles;
mod values;
mod views;
mod warp_sets;

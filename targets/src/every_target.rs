//! What holds for every target: facts of PTX and of all NVIDIA GPUs, and the most that any target has.

use crate::{TARGETS, Target};

/// Banks of shared memory (CUDA C++ Programming Guide, "Shared Memory"; the same since compute capability 2.0).
pub const BANKS: u32 = 32;

/// Bytes that one bank serves in one cycle (same place).
pub const BANK_BYTES: u32 = 4;

/// An mbarrier object in bytes, and its alignment (PTX ISA 9.7.13.15.1).
pub const MBARRIER_BYTES: u32 = 8;

/// An encoded tensor map in bytes (PTX ISA 5.5.8; `CUtensorMap` of the CUDA driver API).
pub const TENSOR_MAP_BYTES: u32 = 128;

/// What an encoded tensor map is aligned to as a parameter, in bytes (`CUtensorMap` of the CUDA driver API).
pub const TENSOR_MAP_ALIGNMENT_BYTES: u32 = 64;

/// The most dimensions of a tensor map on any target: room for them in types that name no target.
pub const MOST_TENSOR_RANK: usize = {
    let (mut most, mut at) = (0, 0);
    while at < TARGETS.len() {
        if TARGETS[at].tensor_map.rank > most {
            most = TARGETS[at].tensor_map.rank;
        }
        at += 1;
    }
    most as usize
};

/// The widest access of a thread on any target, in bytes: the alignment of what is laid out before a target is known.
pub const WIDEST_ACCESS_BYTES: u32 = {
    let (mut most, mut at) = (0, 0);
    while at < TARGETS.len() {
        if TARGETS[at].access.widest_bytes > most {
            most = TARGETS[at].access.widest_bytes;
        }
        at += 1;
    }
    most
};

/// The most that any target has of something: what a check allows that knows no target. The check of a kernel compares with the
/// kernel's own.
pub fn most(of: impl Fn(&Target) -> u32) -> u32 {
    TARGETS.into_iter().map(of).max().unwrap_or_default()
}

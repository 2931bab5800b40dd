//! What a run of a case did.

use std::time::Duration;

use ir::elem::DType;

use super::bench::Timing;
use super::compare::Agreement;
use super::space::Chosen;
use crate::emulated::Modelled;
use crate::kernel::{Compiled, Instance};
use crate::launch::Grid;
use crate::trace::Recording;

/// What a run of a case did.
#[derive(Debug, Default)]
pub struct CaseReport {
    /// Its launches, in order.
    pub launches: Vec<LaunchReport>,
    /// Times of its chains of launches, in order, if it was benchmarked.
    pub timings: Vec<Timing>,
    /// The outputs that were compared and agree.
    pub agreements: Vec<Agreement>,
    /// Bytes of all its tensors together.
    pub tensor_bytes: usize,
    /// On how many ranks it runs, if it is for several.
    pub ranks: Option<usize>,
    /// Bytes that the work must move between memory and the GPU, if the case says.
    pub moved_bytes: Option<u64>,
    /// Operations that the work takes, if the case says.
    pub flops: Option<u64>,
    /// The element type whose tensor cores do them; none for those of ordinary cores.
    pub tensor_cores: Option<DType>,
    /// What the launches are timed beside.
    pub peers: Vec<String>,
    /// The candidates among which the case chose, if it has a space.
    pub space: Option<Chosen>,
}

/// One launch of a case.
#[derive(Debug)]
pub struct LaunchReport {
    /// The kernel with its compile-time parameters.
    pub instance: Instance,
    /// Its CTAs.
    pub grid: Grid,
    /// The compiled kernel, unless the case was only described.
    pub compiled: Option<Compiled>,
    /// From the call to the end of the kernel, as the host saw it; none where nothing was launched.
    pub wall: Option<Duration>,
    /// The warp instructions that it executed on the emulator.
    pub warp_instructions: Option<u64>,
    /// What it would take on an H200, where that is modelled.
    pub modelled: Option<Modelled>,
    /// What it recorded, if its kernel was compiled to be traced.
    pub trace: Option<Recording>,
}

//! What the launches of attention on one stream share: memory of the device, as large as its calls have needed so far.

use std::sync::{Arc, Mutex};

use tilekit::Device;
use tilekit::prelude::*;

use super::backward::{GROUPS, QUERIES};
use super::error::Result;

/// What the launches of one stream share, which run one after the other.
pub(super) struct Workspace {
    /// From which tiles are drawn; 0 between launches.
    pub(super) counter: Buffer<i32>,
    /// Stands for offsets, logits and data that a call does not have.
    pub(super) nothing: (Buffer<i32>, Buffer<f32>),
    /// What gradients need, as many rows as a call has had yet.
    pub(super) gradients: Mutex<Option<Arc<GradientRows>>>,
    /// What splits of a cache need, likewise.
    pub(super) splits: Mutex<Option<Arc<SplitRows>>>,
}

impl Workspace {
    pub(super) fn new(device: &Device) -> Result<Workspace> {
        Ok(Workspace {
            counter: Buffer::zeros(device, 1)?,
            nothing: (Buffer::zeros(device, 1)?, Buffer::zeros(device, 1)?),
            gradients: Mutex::default(),
            splits: Mutex::default(),
        })
    }
}

/// What the kernels of a backward pass share: numbers of each row of Q, in blocks of 64.
pub(super) struct GradientRows {
    /// Blocks of 64 rows, and the elements of all of them.
    pub(super) room: [usize; 2],
    pub(super) delta: Buffer<f32>,
    pub(super) log2_sum: Buffer<f32>,
    /// dQ so far.
    pub(super) sums: Buffer<f32>,
    /// A ticket, and two counters for each block.
    pub(super) turns: Buffer<i32>,
}

impl GradientRows {
    pub(super) fn new(device: &Device, [blocks, elements]: [usize; 2]) -> Result<GradientRows> {
        Ok(GradientRows {
            room: [blocks, elements],
            delta: Buffer::new(device, blocks * QUERIES)?,
            log2_sum: Buffer::new(device, blocks * QUERIES)?,
            sums: Buffer::new(device, elements)?,
            turns: Buffer::new(device, 1 + blocks * GROUPS)?,
        })
    }
}

/// What each split gave.
pub(super) struct SplitRows {
    pub(super) sums: Buffer<f32>,
    pub(super) lse: Buffer<f32>,
}

//! The workspace of a stream's launches: device memory, as large as its calls have needed so far.

use std::sync::{Arc, Mutex, PoisonError};

use tilekit::Device;
use tilekit::prelude::*;

use super::backward::lines::parts_of_block;
use super::backward::part::GROUPS;
use super::error::Result;
use super::mainloop::problem::ROWS;

/// The workspace that the launches of one stream share; they run in order.
pub(super) struct Workspace {
    /// The counter that tiles are drawn from; 0 between launches.
    pub(super) counter: Buffer<i32>,
    /// Buffers of one element for offsets, logits and data that a call does not have.
    pub(super) nothing: (Buffer<i32>, Buffer<f32>),
    /// The rows of backward passes: as many as the largest call so far needed.
    pub(super) gradients: Mutex<Option<Arc<GradientRows>>>,
    /// The results of splits of a cache: as many as the largest call so far needed.
    pub(super) splits: Mutex<Option<Arc<SplitRows>>>,
    /// The plan of a call that makes its own.
    plan: Mutex<Option<Arc<Buffer<i32>>>>,
}

/// That of a stream, once there was a call.
#[derive(Default)]
struct OfStream(Mutex<Option<Arc<Workspace>>>);

impl Workspace {
    /// That of a stream, which its first call makes.
    pub(super) fn of(stream: &Stream) -> Result<Arc<Workspace>> {
        let local = stream.local::<OfStream>();
        let mut made = local.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workspace) = made.as_ref() {
            return Ok(Arc::clone(workspace));
        }
        let workspace = Arc::new(Workspace::new(stream.device())?);
        *made = Some(Arc::clone(&workspace));
        Ok(workspace)
    }

    fn new(device: &Device) -> Result<Workspace> {
        Ok(Workspace {
            counter: Buffer::zeros(device, 1)?,
            nothing: (Buffer::zeros(device, 1)?, Buffer::zeros(device, 1)?),
            gradients: Mutex::default(),
            splits: Mutex::default(),
            plan: Mutex::default(),
        })
    }

    /// A buffer for a plan of so many numbers.
    pub(super) fn plan(
        &self,
        device: &Device,
        stream: &Stream,
        numbers: usize,
    ) -> Result<Arc<Buffer<i32>>> {
        let mut kept = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_ref().filter(|kept| kept.len() >= numbers) {
            return Ok(Arc::clone(kept));
        }
        let made = Arc::new(Buffer::new(device, numbers)?);
        // Earlier launches may still use the smaller one.
        stream.synchronize()?;
        *kept = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// The numbers that the kernels of a backward pass keep for each row of Q, in whole blocks.
pub(super) struct GradientRows {
    /// Rows, and the elements of all of them.
    pub(super) room: [usize; 2],
    pub(super) delta: Buffer<f32>,
    pub(super) log2_sum: Buffer<f32>,
    /// The parts of both, which depths 96 and 128 take.
    pub(super) parts: Buffer<bf16>,
    /// The accumulator of dQ.
    pub(super) sums: Buffer<f32>,
    /// A ticket, and two counters for each block, which has 64 rows or more.
    pub(super) turns: Buffer<i32>,
    /// Two counts for each head of K and V, of which each has a block.
    pub(super) progress: Buffer<i32>,
}

impl GradientRows {
    pub(super) fn new(device: &Device, [rows, elements]: [usize; 2]) -> Result<GradientRows> {
        Ok(GradientRows {
            room: [rows, elements],
            delta: Buffer::new(device, rows)?,
            log2_sum: Buffer::new(device, rows)?,
            parts: Buffer::new(device, parts_of_block(rows))?,
            sums: Buffer::new(device, elements)?,
            turns: Buffer::new(device, 1 + rows / ROWS * GROUPS)?,
            progress: Buffer::new(device, rows / ROWS * 2)?,
        })
    }
}

/// The results of each split.
pub(super) struct SplitRows {
    pub(super) sums: Buffer<f32>,
    pub(super) lse: Buffer<f32>,
}

//! The map of shared memory over the program: who has which bytes, from which instruction to which.

use diag::{Diagnostics, Place};
use ir::Func;
use ir::entity::Inst;
use ir::ops::Scratch;

use super::overflow::user;
use super::shared::{Need, needs};
use crate::analysis::scratch::Scratches;

/// Bytes of the CTA's shared memory that one thing has for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBytes {
    /// What has them: an allocation by its name, or the scratch of an op.
    pub user: String,
    /// Where the author wrote it.
    pub place: Option<Place>,
    /// Offset of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub bytes: u32,
    /// The first instruction that needs them, and the last, in the order of the kernel's text, from 0.
    pub needed: [u32; 2],
    /// The partition that needs them, if others run beside it.
    pub partition: Option<usize>,
}

/// Everything that has shared memory in a kernel whose memory is planned, by offset.
pub fn shared_map(func: &Func) -> Vec<SharedBytes> {
    let scratches = Scratches::of(func);
    // What is wrong with an allocation was reported when it was planned.
    let needs = needs(func, &scratches, &mut Diagnostics::default());
    let mut map: Vec<SharedBytes> = needs.iter().filter_map(|need| row(func, need)).collect();
    map.sort_by_key(|row| (row.start, row.needed));
    map
}

fn row(func: &Func, need: &Need) -> Option<SharedBytes> {
    let Scratch { start, bytes } = planned(func, need.inst, need.is_scratch)?;
    let moment = |at: u32| at.saturating_sub(1);
    Some(SharedBytes {
        user: user(func, need),
        place: func.place(need.inst),
        start,
        bytes,
        needed: [moment(need.block.first), moment(need.block.last)],
        partition: need.block.partition,
    })
}

fn planned(func: &Func, inst: Inst, is_scratch: bool) -> Option<Scratch> {
    let rules = func.op(inst).rules();
    let found = if is_scratch {
        rules.scratch()
    } else {
        rules.allocation()
    };
    found.filter(|planned| planned.bytes > 0)
}

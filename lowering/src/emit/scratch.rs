//! How much shared memory the emission of an op needs while it runs, and who meets in it.

use gluon_lang::entity::Inst;
use gluon_lang::ir::{Func, TensorType};
use gluon_lang::layout::{Axis, LinearLayout};
use gluon_lang::ops::Op;

/// The threads that meet inside the emission of an op, between its writes to its scratch and its reads of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meeting {
    /// None: each thread reads what it wrote itself, or there is no scratch.
    #[default]
    Nobody,
    /// The lanes of a warp; no warp touches what another one wrote.
    Warp,
    /// All threads of the CTA.
    Cta,
}

/// What one op needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScratchNeed {
    /// Bytes of shared memory.
    pub bytes: u32,
    /// Who meets before the scratch is read.
    pub meeting: Meeting,
}

/// What the emission of `inst` needs.
pub fn need(func: &Func, inst: Inst) -> ScratchNeed {
    match func.op(inst) {
        Op::ConvertLayout(op) => match (
            func.ty(op.operand).as_tensor(),
            func.ty(func.result(inst)).as_tensor(),
        ) {
            (Some(from), Some(to)) => conversion(from, to),
            _ => ScratchNeed::default(),
        },
        Op::Reduce(op) => {
            let tensors = op.operands.iter().filter_map(|v| func.ty(*v).as_tensor());
            reduction(tensors, op.axis as usize)
        }
        _ => ScratchNeed::default(),
    }
}

/// A conversion goes through shared memory as a whole, unless every thread holds already what it shall hold.
fn conversion(from: &TensorType, to: &TensorType) -> ScratchNeed {
    let maps = (from.layout.linear(&from.shape), to.layout.linear(&to.shape));
    let (Ok(source), Ok(target)) = maps else {
        return ScratchNeed::default();
    };
    if gluon_lang::layout::relate::registers_in(&source, &target).is_some() {
        return ScratchNeed::default();
    }
    let bytes = from.len() as u32 * from.elem.bytes();
    ScratchNeed {
        bytes,
        meeting: Meeting::Cta,
    }
}

/// Each warp leaves one partial result per element of the result and per warp along the axis.
fn reduction<'t>(tensors: impl Iterator<Item = &'t TensorType>, axis: usize) -> ScratchNeed {
    let mut need = ScratchNeed::default();
    for t in tensors {
        let Ok(map) = t.layout.linear(&t.shape) else {
            continue;
        };
        let warps = 1 << bases_along(&map, Axis::Warp, axis);
        if warps == 1 {
            continue;
        }
        let results = t.len() as u32 / t.shape[axis];
        // Each operand's part begins at a multiple of 16 bytes.
        need.bytes = need.bytes.next_multiple_of(16) + results * warps * t.elem.bytes();
        need.meeting = Meeting::Cta;
    }
    need
}

/// How many bits of `input` move along dimension `axis`.
fn bases_along(map: &LinearLayout, input: Axis, axis: usize) -> usize {
    map.basis_coords(input)
        .iter()
        .filter(|basis| basis[axis] != 0)
        .count()
}

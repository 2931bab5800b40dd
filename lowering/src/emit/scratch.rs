//! How much shared memory the emission of an op needs while it runs, and who meets in it.

use gluon_lang::entity::{Inst, Value};
use gluon_lang::ir::{Func, TensorType, Type};
use gluon_lang::layout::convert::{Conversion, ConversionPlan, Limits, Scope, plan_conversion};
use gluon_lang::layout::{Axis, LayoutError, LinearLayout};
use gluon_lang::ops::Op;
use gluon_lang::ops::gather::Gather;
use gluon_lang::ops::layout::ConvertLayout;

use super::lookup::Lookup;
use super::runs;

/// The threads that meet inside the emission of an op, between its writes to its scratch and its reads of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meeting {
    /// None: each thread reads what it wrote itself, or there is no scratch.
    #[default]
    Nobody,
    /// The lanes of a warp; no warp touches what another one wrote.
    Warp,
    /// All threads of the CTA.
    Cta,
    /// All threads of all CTAs of the cluster; they meet again after the last read.
    Cluster,
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
        Op::ConvertLayout(op) => {
            let (from, to) = (func.ty(op.operand), func.ty(func.result(inst)));
            let tensors = from.as_tensor().zip(to.as_tensor());
            tensors.map_or_else(ScratchNeed::default, |(from, to)| exchange(op, from, to))
        }
        Op::Reduce(op) => {
            let tensors = op.operands.iter().filter_map(|v| func.ty(*v).as_tensor());
            reduction(tensors, op.axis as usize)
        }
        Op::Scan(op) => {
            let tensors = op.operands.iter().filter_map(|v| func.ty(*v).as_tensor());
            scan(&tensors.collect::<Vec<_>>(), op.axis as usize)
        }
        Op::Sort(op) => {
            let tensors = op.operands.iter().filter_map(|v| func.ty(*v).as_tensor());
            sort(&tensors.collect::<Vec<_>>(), op.axis as usize)
        }
        Op::Gather(op) => gather_way(func, op).need,
        Op::Histogram(_) => ScratchNeed {
            bytes: func.ty(func.result(inst)).shape()[0] * 4,
            meeting: Meeting::Cta,
        },
        Op::AtomicRmw(_) | Op::AtomicCas(_) | Op::AtomicLoad(_) => {
            told_to_copies(func, func.result(inst))
        }
        _ => ScratchNeed::default(),
    }
}

/// How a tensor gets from one layout to another. Once the conversion has its scratch, that is the most it may use: where
/// it is too small for the whole tensor, the plan takes several rounds.
///
/// # Errors
/// Layouts that do not spread the tensor over the same threads.
pub fn conversion(
    op: &ConvertLayout,
    from: &TensorType,
    to: &TensorType,
) -> Result<ConversionPlan, LayoutError> {
    let limits = if op.scratch.is_none() {
        Limits::default()
    } else {
        Limits {
            scratch_bytes: op.scratch.bytes,
        }
    };
    let (source, target) = (
        from.layout.linear(&from.shape)?,
        to.layout.linear(&to.shape)?,
    );
    plan_conversion(&source, &target, 8 * from.elem.bytes(), limits)
}

/// What a conversion needs; emission reports one that cannot be planned.
fn exchange(op: &ConvertLayout, from: &TensorType, to: &TensorType) -> ScratchNeed {
    let plan = conversion(op, from, to).map(|plan| plan.conversion);
    let Ok(Conversion::Shared(plan)) = plan else {
        return ScratchNeed::default();
    };
    ScratchNeed {
        bytes: plan.scratch_bytes,
        meeting: match plan.scope {
            Scope::Warp => Meeting::Warp,
            Scope::Cta => Meeting::Cta,
            Scope::Cluster => Meeting::Cluster,
        },
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

/// Elements go through shared memory where warps hold bits of the coordinate.
fn sort(tensors: &[&TensorType], axis: usize) -> ScratchNeed {
    let Some(map) = tensors.first().and_then(|t| t.layout.linear(&t.shape).ok()) else {
        return ScratchNeed::default();
    };
    if bases_along(&map, Axis::Warp, axis) == 0 {
        return ScratchNeed::default();
    }
    let elems: Vec<_> = tensors.iter().map(|t| t.elem).collect();
    ScratchNeed {
        bytes: super::sort::scratch_bytes(tensors[0].len() as u32, &elems),
        meeting: Meeting::Cta,
    }
}

/// How a gather gets at its source.
pub(super) struct GatherWay {
    /// By shuffles, if this is given; else through its scratch.
    pub(super) lookup: Option<Lookup>,
    /// What it needs for that.
    pub(super) need: ScratchNeed,
}

/// By shuffles where a warp holds all that it looks up and they cost less, else through shared memory.
pub(super) fn gather_way(func: &Func, op: &Gather) -> GatherWay {
    let nothing = GatherWay {
        lookup: None,
        need: ScratchNeed::default(),
    };
    let tensors = (
        func.ty(op.source).as_tensor(),
        func.ty(op.indices).as_tensor(),
    );
    let (Some(source), Some(indices)) = tensors else {
        return nothing;
    };
    let maps = (
        source.layout.linear(&source.shape),
        indices.layout.linear(&indices.shape),
    );
    let (Ok(from), Ok(at)) = maps else {
        return nothing;
    };
    let lookup = Lookup::new(&from, &at, op.axis as usize);
    // Only owners write, so no warp may hold copies of what another one owns, nor wait to part.
    let stays_in_warp =
        lookup.is_some() && from.free_mask(Axis::Warp) == 0 && func.launch_warps() == func.warps;
    let lookup = lookup.filter(|lookup| lookup.is_worthwhile(&from, &at, source.elem));
    if lookup.is_some() {
        return GatherWay { lookup, ..nothing };
    }
    let need = ScratchNeed {
        bytes: source.len() as u32 * source.elem.bytes(),
        meeting: if stays_in_warp {
            Meeting::Warp
        } else {
            Meeting::Cta
        },
    };
    GatherWay { lookup, need }
}

/// Warps leave what their blocks come to, for every run of the coordinate that they hold.
fn scan(tensors: &[&TensorType], axis: usize) -> ScratchNeed {
    let map = tensors.first().and_then(|t| t.layout.linear(&t.shape).ok());
    let Some(map) = map else {
        return ScratchNeed::default();
    };
    let elems: Vec<_> = tensors.iter().map(|t| t.elem).collect();
    let (_, bytes) = runs::slots(&map, axis, &runs::runs(&map, axis), &elems);
    ScratchNeed {
        bytes,
        meeting: if bytes > 0 {
            Meeting::Cta
        } else {
            Meeting::Nobody
        },
    }
}

/// What only the threads that own an element know goes through shared memory where other warps hold copies.
fn told_to_copies(func: &Func, result: Value) -> ScratchNeed {
    let (elem, elements, is_in_warps) = match func.ty(result) {
        Type::Tensor(t) => {
            let map = t.layout.linear(&t.shape);
            let is_copied = map.is_ok_and(|map| map.free_mask(Axis::Warp) != 0);
            // Warps that wait to part run along, and must know what the others know.
            let is_followed = func.launch_warps() > func.warps;
            (t.elem, t.len() as u32, is_copied || is_followed)
        }
        Type::Scalar(elem) => (*elem, 1, func.launch_warps() > 1),
        _ => return ScratchNeed::default(),
    };
    if !is_in_warps || !is_used(func, result) {
        return ScratchNeed::default();
    }
    ScratchNeed {
        bytes: elements * elem.bytes(),
        meeting: Meeting::Cta,
    }
}

/// Does any instruction take this value?
pub(super) fn is_used(func: &Func, value: Value) -> bool {
    func.walk()
        .into_iter()
        .any(|inst| func.op(inst).operands().contains(&value))
}

/// How many bits of `input` move along dimension `axis`.
fn bases_along(map: &LinearLayout, input: Axis, axis: usize) -> usize {
    map.basis_coords(input)
        .iter()
        .filter(|basis| basis[axis] != 0)
        .count()
}

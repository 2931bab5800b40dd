//! How much shared memory the emission of an op needs while it runs, and who meets in it.

use gluon_lang::elem::Elem;
use gluon_lang::entity::{Inst, Value};
use gluon_lang::ir::{Func, TensorType, Type};
use gluon_lang::layout::convert::{Conversion, ConversionPlan, Limits, Scope, plan_conversion};
use gluon_lang::layout::{Axis, LayoutError, LinearLayout};
use gluon_lang::ops::gather::{Gather, Histogram};
use gluon_lang::ops::layout::ConvertLayout;
use gluon_lang::ops::reduce::Reduce;
use gluon_lang::ops::scan::Scan;
use gluon_lang::ops::{Op, flow};

use super::flat::Flat;
use super::lookup::Lookup;
use super::peers::Area;
use super::runs::{self, Place};
use super::{histogram, reduce};

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
    /// Other CTAs of the cluster write into it, when they come to the op: before this CTA does, or while it still reads.
    pub is_written_by_peers: bool,
}

/// What the emission of `inst` needs.
pub fn need(func: &Func, inst: Inst) -> ScratchNeed {
    match func.op(inst) {
        Op::ConvertLayout(op) => {
            let (from, to) = (func.ty(op.operand), func.ty(func.result(inst)));
            let tensors = from.as_tensor().zip(to.as_tensor());
            tensors.map_or_else(ScratchNeed::default, |(from, to)| exchange(op, from, to))
        }
        Op::Reduce(op) => reduction(func, inst, op),
        Op::Scan(op) => scan(func, inst, op),
        Op::Sort(op) => {
            let tensors = op.operands.iter().filter_map(|v| func.ty(*v).as_tensor());
            sort(&tensors.collect::<Vec<_>>(), op.axis as usize)
        }
        Op::Gather(op) => gather_way(func, op).need,
        Op::Histogram(op) => counting(func, inst, op),
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
        ..ScratchNeed::default()
    }
}

/// Each warp leaves one partial result per element of the result and per warp along the axis, and each CTA sends one to
/// every other along the axis.
fn reduction(func: &Func, inst: Inst, op: &Reduce) -> ScratchNeed {
    let sizes = reduction_sizes(func, inst, op);
    sizes.map_or_else(ScratchNeed::default, |sizes| ScratchNeed {
        bytes: sizes.bytes,
        meeting: if sizes.warp_parts > 1 {
            Meeting::Cta
        } else {
            Meeting::Nobody
        },
        is_written_by_peers: sizes.exchange.is_some(),
    })
}

fn reduction_sizes(func: &Func, inst: Inst, op: &Reduce) -> Option<reduce::Sizes> {
    let (map, elems) = map_and_elems(func, &op.operands)?;
    let is_repeated = flow::is_in_loop(func, inst);
    let axis = op.axis as usize;
    Some(reduce::Sizes::new(&map, axis, &elems, is_repeated))
}

/// The common layout of some tensors, and what they consist of.
fn map_and_elems(func: &Func, operands: &[Value]) -> Option<(LinearLayout, Vec<Elem>)> {
    let tensors = operands.iter().map(|v| func.ty(*v).as_tensor());
    let tensors: Vec<&TensorType> = tensors.collect::<Option<_>>()?;
    let first = tensors.first()?;
    let map = first.layout.linear(&first.shape).ok()?;
    Some((map, tensors.iter().map(|t| t.elem).collect()))
}

/// Does `inst` exchange data with other CTAs of the cluster?
pub fn reaches_peers(func: &Func, inst: Inst) -> bool {
    if !func.has_cluster() || func.op(inst).rules().scratch().is_none() {
        return false;
    }
    let need = need(func, inst);
    need.is_written_by_peers || need.meeting == Meeting::Cluster
}

/// Where the barriers lie on which the exchanges of `inst` with other CTAs complete, in bytes from the beginning of its
/// scratch.
pub fn exchange_barriers(func: &Func, inst: Inst) -> Vec<u32> {
    let areas: Vec<(u32, Area)> = match func.op(inst) {
        Op::Reduce(op) => {
            let sizes = reduction_sizes(func, inst, op);
            sizes.and_then(|sizes| sizes.exchange).into_iter().collect()
        }
        Op::Scan(op) => scan_places(func, inst, op).map_or_else(Vec::new, |places| {
            places.iter().filter_map(Place::area).collect()
        }),
        Op::Histogram(op) => {
            let sizes = histogram::Sizes::new(func, inst, op);
            sizes
                .map(|sizes| (sizes.start, sizes.area))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    };
    let of_area = |(start, area): &(u32, Area)| -> Vec<u32> {
        area.barriers().map(|barrier| start + barrier).collect()
    };
    areas.iter().flat_map(of_area).collect()
}

/// One counter a bin, and room for those of the CTAs that split what is counted.
fn counting(func: &Func, inst: Inst, op: &Histogram) -> ScratchNeed {
    if let Some(shares) = histogram::Shares::of(func, inst, op) {
        return ScratchNeed {
            bytes: shares.bytes,
            meeting: if shares.are_exchanged() {
                Meeting::Cluster
            } else {
                Meeting::Cta
            },
            ..ScratchNeed::default()
        };
    }
    let counters = func.ty(func.result(inst)).shape()[0] * Elem::I32.bytes();
    let exchange = histogram::Sizes::new(func, inst, op);
    let bytes = exchange
        .as_ref()
        .map(|sizes| sizes.start + sizes.area.bytes());
    ScratchNeed {
        bytes: bytes.unwrap_or(counters),
        meeting: Meeting::Cta,
        is_written_by_peers: exchange.is_some(),
    }
}

/// Elements go through shared memory where warps or CTAs hold bits of the coordinate.
fn sort(tensors: &[&TensorType], axis: usize) -> ScratchNeed {
    let Some(map) = tensors.first().and_then(|t| t.layout.linear(&t.shape).ok()) else {
        return ScratchNeed::default();
    };
    let is_split = bases_along(&map, Axis::Block, axis) > 0;
    if bases_along(&map, Axis::Warp, axis) == 0 && !is_split {
        return ScratchNeed::default();
    }
    let elems: Vec<_> = tensors.iter().map(|t| t.elem).collect();
    ScratchNeed {
        bytes: super::sort::scratch_bytes(&map, &elems),
        meeting: if is_split {
            Meeting::Cluster
        } else {
            Meeting::Cta
        },
        ..ScratchNeed::default()
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
    let is_split = bases_along(&from, Axis::Block, op.axis as usize) > 0;
    let need = ScratchNeed {
        bytes: Flat::bytes(&from, source.elem),
        meeting: match (stays_in_warp, is_split) {
            (_, true) => Meeting::Cluster,
            (true, _) => Meeting::Warp,
            _ => Meeting::Cta,
        },
        ..ScratchNeed::default()
    };
    GatherWay { lookup, need }
}

/// Warps leave what their blocks come to, and CTAs send it, for every run of the coordinate that they hold.
fn scan(func: &Func, inst: Inst, op: &Scan) -> ScratchNeed {
    let Some(places) = scan_places(func, inst, op) else {
        return ScratchNeed::default();
    };
    ScratchNeed {
        bytes: places.iter().map(Place::end).max().unwrap_or(0),
        meeting: if places.iter().any(|p| matches!(p, Place::Warps { .. })) {
            Meeting::Cta
        } else {
            Meeting::Nobody
        },
        is_written_by_peers: places.iter().any(|p| p.area().is_some()),
    }
}

fn scan_places(func: &Func, inst: Inst, op: &Scan) -> Option<Vec<Place>> {
    let (map, elems) = map_and_elems(func, &op.operands)?;
    let axis = op.axis as usize;
    let runs = runs::runs(&map, axis);
    let is_repeated = flow::is_in_loop(func, inst);
    Some(runs::places(&map, axis, &runs, &elems, is_repeated))
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
        ..ScratchNeed::default()
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

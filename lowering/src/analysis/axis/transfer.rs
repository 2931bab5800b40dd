//! What is known of a result, given what is known of the operands.

use cranelift_entity::SecondaryMap;
use gluon_lang::elem::{DType, Elem};
use gluon_lang::entity::Value;
use gluon_lang::ir::{Func, Type};
use gluon_lang::ops::arith::{Cast, InlinePtx, Select};
use gluon_lang::ops::cluster::{ClusterId, NumClusters};
use gluon_lang::ops::control::For;
use gluon_lang::ops::create::{Const, GridAxis, NumPrograms, ProgramId};
use gluon_lang::ops::debug::{Hint, HintKind};
use gluon_lang::ops::global::Load;
use gluon_lang::ops::{LayoutRule, Op, Values};

use super::arith;
use super::facts::{DimFacts, Facts, MAX_DIVISIBILITY, Range, divisibility_of, log2};
use super::shape;

type Known = SecondaryMap<Value, Facts>;

/// Result number `at` of `op`, whose type is `ty`.
pub(super) fn result(func: &Func, known: &Known, op: &Op, at: usize, ty: &Type) -> Facts {
    let facts = match op {
        Op::Constant(c) => constant(c.value, ty),
        Op::Arange(a) => arange(a.start, a.end),
        Op::Splat(s) => Facts::splat(
            ty.shape(),
            known[s.value].divisibility(),
            known[s.value].range,
        ),
        Op::ProgramId(ProgramId { axis }) | Op::ClusterId(ClusterId { axis }) => grid(*axis, 0, ty),
        Op::NumPrograms(NumPrograms { axis }) | Op::NumClusters(NumClusters { axis }) => {
            grid(*axis, 1, ty)
        }
        Op::ClusterRank(_) => rank(func, ty),
        Op::Binary(b) => arith::binary(b.op, &known[b.lhs], &known[b.rhs], ty),
        Op::Compare(c) => arith::compare(c.op, &known[c.lhs], &known[c.rhs]),
        Op::Select(s) => select(known, s),
        Op::Cast(c) => cast(func, known, c, ty),
        Op::Bitcast(b) => same_bits(&known[b.operand], func.ty(b.operand), ty),
        Op::PtrAdd(p) => ptr_add(&known[p.ptr], &known[p.offset], ty),
        Op::ExpandDims(e) => shape::expand_dims(&known[e.operand], e.axis as usize),
        Op::Broadcast(b) => {
            shape::broadcast(&known[b.operand], func.ty(b.operand).shape(), ty.shape())
        }
        Op::Reshape(r) => shape::reshape(&known[r.operand], func.ty(r.operand).shape(), ty.shape()),
        Op::Permute(p) => shape::permute(&known[p.operand], &p.order),
        Op::Split(s) => shape::split(&known[s.operand]),
        Op::Join(j) => shape::join(&known[j.lhs], &known[j.rhs]),
        Op::ConvertLayout(c) => known[c.operand].clone(),
        Op::SetLayout(s) => known[s.operand].clone(),
        Op::Hint(h) => hint(&known[h.operand], h, ty),
        Op::Load(l) => load(known, l, ty),
        Op::InlinePtx(InlinePtx { .. }) => Facts::unknown(ty),
        op => elementwise(known, op, ty),
    };
    debug_assert!(
        at == 0 || !matches!(op, Op::Constant(_)),
        "only shape ops and inline PTX have several results"
    );
    facts.within(ty)
}

/// The index of a loop.
pub(super) fn loop_index(known: &Known, op: &For, ty: &Type) -> Facts {
    let (low, high, step) = (&known[op.low], &known[op.high], &known[op.step]);
    let divisibility = low.divisibility().min(step.divisibility());
    let range = match (low.range, high.range) {
        // The body runs only while the index is below `high`; where it never does, nothing is claimed of it.
        (Some(low), Some(high)) => Some(Range::new(low.low, (high.high - 1).max(low.low))),
        _ => None,
    };
    Facts::splat(&[], divisibility, range).within(ty)
}

fn constant(value: Const, ty: &Type) -> Facts {
    match value {
        Const::Int(i) => Facts::splat(ty.shape(), divisibility_of(i), Some(Range::new(i, i))),
        Const::Float(_) => Facts::splat(ty.shape(), 0, None),
    }
}

fn arange(start: i64, end: i64) -> Facts {
    let (start, end) = (i128::from(start), i128::from(end));
    let contiguity = log2(u32::try_from(end - start).unwrap_or(1));
    let dim = DimFacts {
        contiguity,
        divisibility: divisibility_of(start),
        constancy: 0,
    };
    Facts {
        dims: [dim].into_iter().collect(),
        range: Some(Range::new(start, end - 1)),
    }
}

/// The index (`least` 0) or the extent (`least` 1) along a dimension of the grid (CUDA C++ guide, technical
/// specifications: at most 2^31 - 1 CTAs along x, 65535 along y and z).
fn grid(axis: GridAxis, least: i128, ty: &Type) -> Facts {
    let extent = match axis {
        GridAxis::X => i128::from(i32::MAX),
        GridAxis::Y | GridAxis::Z => 65535,
    };
    Facts {
        range: Some(Range::new(least, extent - 1 + least)),
        ..Facts::unknown(ty)
    }
}

/// The number of a CTA in its cluster: the only one where there are no clusters.
fn rank(func: &Func, ty: &Type) -> Facts {
    let ctas = i128::from(func.cluster.iter().product::<u32>());
    if ctas == 1 {
        return constant(Const::Int(0), ty);
    }
    Facts {
        range: Some(Range::new(0, ctas - 1)),
        ..Facts::unknown(ty)
    }
}

fn select(known: &Known, op: &Select) -> Facts {
    let (condition, yes, no) = (&known[op.condition], &known[op.yes], &known[op.no]);
    let mut facts = yes.join(no);
    for (dim, condition) in facts.dims.iter_mut().zip(&condition.dims) {
        let contiguity = dim.contiguity.min(condition.constancy);
        dim.divisibility = dim.divisibility_at(contiguity);
        dim.contiguity = contiguity;
        dim.constancy = dim.constancy.min(condition.constancy);
    }
    facts
}

fn cast(func: &Func, known: &Known, op: &Cast, ty: &Type) -> Facts {
    let operand = &known[op.operand];
    let from = func.ty(op.operand);
    match (from.elem(), ty.elem()) {
        (Some(Elem::Data(a)), Some(Elem::Data(b))) if a.is_int() && b.is_int() => {
            let mut facts = operand.clone();
            if b.bits() <= a.bits() {
                facts.dims.iter_mut().for_each(|dim| cut_runs(dim, b));
            }
            facts
        }
        // Whether a number differs from zero is the same for equal numbers, and so on: equal stays equal.
        (Some(Elem::Data(a)), Some(Elem::Data(b))) => {
            let mut facts = equal_runs(operand, ty);
            if a == DType::I1 && b.is_int() {
                facts.range = operand.range;
            }
            facts
        }
        _ => same_bits(operand, from, ty),
    }
}

/// A number cut to fewer bits, or read with a sign, counts up only as far as the type goes.
fn cut_runs(dim: &mut DimFacts, to: DType) {
    let count_bits = to.bits() - u32::from(to.is_signed_int());
    let contiguity = dim.contiguity.min(count_bits as u8);
    dim.divisibility = dim.divisibility_at(contiguity);
    dim.contiguity = contiguity;
}

/// The same bits under another type: a pointer counts elements, an integer does not.
fn same_bits(operand: &Facts, from: &Type, ty: &Type) -> Facts {
    let (Some(from), Some(to)) = (from.elem(), ty.elem()) else {
        return Facts::unknown(ty);
    };
    let mut facts = equal_runs(operand, ty);
    let step = |elem: Elem| elem.pointee().map_or(1, DType::bytes);
    if from.is_float() || to.is_float() {
        return facts;
    }
    for (dim, old) in facts.dims.iter_mut().zip(&operand.dims) {
        dim.contiguity = if step(from) == step(to) {
            old.contiguity
        } else {
            0
        };
        dim.divisibility = old.divisibility_at(dim.contiguity);
    }
    let is_narrowed = from.bits() > to.bits();
    facts.range = if is_narrowed || from.is_ptr() {
        facts.range
    } else {
        operand.range
    };
    facts
}

fn ptr_add(ptr: &Facts, offset: &Facts, ty: &Type) -> Facts {
    let elem_bytes = ty.elem().and_then(Elem::pointee).map_or(1, DType::bytes);
    let dims = ptr.dims.iter().zip(&offset.dims).map(|(p, o)| {
        let contiguity = arith::contiguity_of_sum(*p, *o);
        let offset_bytes = o
            .divisibility_at(contiguity)
            .saturating_add(log2(elem_bytes));
        // Within a run of pointers, shorter runs begin at multiples of whole elements.
        let base = if contiguity < p.contiguity {
            p.divisibility.min(contiguity + log2(elem_bytes))
        } else {
            p.divisibility
        };
        DimFacts {
            contiguity,
            divisibility: base.min(offset_bytes).min(MAX_DIVISIBILITY),
            constancy: p.constancy.min(o.constancy),
        }
    });
    Facts {
        dims: dims.collect(),
        range: None,
    }
}

/// What the author states wins over what is not known.
fn hint(operand: &Facts, op: &Hint, ty: &Type) -> Facts {
    let mut facts = operand.clone();
    let unit = ty.elem().and_then(Elem::pointee).map_or(1, DType::bytes);
    for (dim, &stated) in facts.dims.iter_mut().zip(&op.values) {
        match op.kind {
            HintKind::MultipleOf => {
                let stated = divisibility_of(i128::from(stated) * i128::from(unit));
                dim.divisibility = dim.divisibility.max(stated);
            }
            HintKind::MaxContiguous => dim.contiguity = dim.contiguity.max(log2(stated)),
            HintKind::MaxConstancy => dim.constancy = dim.constancy.max(log2(stated)),
        }
    }
    facts
}

/// Equal pointers read equal elements where they read at all, and `other` stands elsewhere.
fn load(known: &Known, op: &Load, ty: &Type) -> Facts {
    let mut facts = Facts::unknown(ty);
    if op.is_volatile {
        return facts;
    }
    let operands = [Some(op.ptr), op.mask.expand(), op.other.expand()];
    let operands: Values = operands.into_iter().flatten().collect();
    weaken_to_equal_runs(&mut facts, known, &operands);
    facts
}

/// An op without effects on elements of one place: equal operands give equal results.
fn elementwise(known: &Known, op: &Op, ty: &Type) -> Facts {
    let mut facts = Facts::unknown(ty);
    let rules = op.rules();
    if rules.effects().is_pure() && rules.layout_rule() == LayoutRule::Same {
        weaken_to_equal_runs(&mut facts, known, &op.operands());
    }
    facts
}

fn weaken_to_equal_runs(facts: &mut Facts, known: &Known, operands: &[Value]) {
    for (at, dim) in facts.dims.iter_mut().enumerate() {
        let runs = operands
            .iter()
            .filter_map(|v| known[*v].dims.get(at))
            .map(|d| d.constancy);
        dim.constancy = runs.min().unwrap_or(0);
    }
}

fn equal_runs(operand: &Facts, ty: &Type) -> Facts {
    let mut facts = Facts::unknown(ty);
    for (dim, old) in facts.dims.iter_mut().zip(&operand.dims) {
        dim.constancy = old.constancy;
    }
    facts
}

//! Accesses through pointers to global memory.
//!
//! The elements of a thread that follow one another in memory are accessed together, up to the target's widest access. How many do so
//! follows from the facts about the addresses, and from which elements the layout gives to one thread.
//!
//! Matches on ops: each kind of access has its own forms of instructions, as emission has.

use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::Op;
use ir::ops::atomic::{AtomicOp, AtomicRmw, Semantics};
use ir::{Func, TensorType};
use layout::linear::Registers;
use layout::linear::gf2::Span;
use layout::local::{LocalPlan, plan_local};
use layout::{Axis, LinearLayout};

use super::plan::{AccessPlan, Cut, Limit, Memory};
use super::{Accesses, shared};
use crate::analysis::mask;

/// How each thread accesses global memory by one instruction of the tile IR.
#[derive(Clone, Debug)]
pub struct GlobalPlan {
    /// Width, number and limit.
    pub access: AccessPlan,
    /// The pointers.
    pub pointers: Value,
    /// The dimension along which the elements of an access lie.
    pub dim: usize,
    /// Registers that are accessed together, in the order of memory. Registers that hold copies stand in none.
    pub runs: Vec<Vec<usize>>,
    /// For each register, the one that is accessed for it.
    pub copies: Vec<usize>,
    /// Of an asynchronous copy, how it accesses shared memory.
    pub shared: Option<LocalPlan>,
}

/// What the instruction that an op becomes can do.
#[derive(Clone, Copy)]
enum Instruction {
    /// It moves several neighbouring elements; where a mask splits them, others move them one by one.
    Vector,
    /// It moves neighbouring elements to a view of shared memory, and fills with zeros what a mask cuts off at the end.
    Copy(Value),
    /// It moves one element.
    Element,
}

/// One op's access.
struct Through {
    pointers: Value,
    mask: Option<Value>,
    elem: Elem,
    instruction: Instruction,
    /// Instructions for each access.
    instructions: u32,
}

pub(super) fn plan(accesses: &Accesses<'_>, inst: Inst) -> Option<GlobalPlan> {
    let through = through(accesses, inst)?;
    let Some(t) = accesses.func.ty(through.pointers).as_tensor() else {
        return Some(scalar(&through));
    };
    let map = t.layout.linear(&t.shape).ok()?;
    Some(match through.instruction {
        Instruction::Vector => vectors(accesses, &through, t, &map),
        Instruction::Element => elements(&through, &map),
        Instruction::Copy(view) => copies(accesses, &through, view, t, &map)?,
    })
}

/// The op's pointers, and what moves its elements. The op decides: an atomic that gives old values has no vector form.
fn through(accesses: &Accesses<'_>, inst: Inst) -> Option<Through> {
    let func = accesses.func;
    let (pointers, mask, instruction) = match func.op(inst) {
        Op::Load(op) => (op.ptr, op.mask, Instruction::Vector),
        Op::Store(op) => (op.ptr, op.mask, Instruction::Vector),
        Op::AsyncCopy(op) => (op.ptr, op.mask, Instruction::Copy(op.view)),
        Op::AtomicRmw(op) if adds_vectors(accesses, inst, op) => {
            (op.ptr, op.mask, Instruction::Vector)
        }
        Op::AtomicRmw(op) => (op.ptr, op.mask, Instruction::Element),
        Op::AtomicCas(op) => (op.ptr, op.mask, Instruction::Element),
        Op::AtomicLoad(op) => (op.ptr, op.mask, Instruction::Element),
        Op::AtomicPoll(op) => (op.ptr, op.mask, Instruction::Element),
        Op::AtomicStore(op) => (op.ptr, op.mask, Instruction::Element),
        _ => return None,
    };
    let elem: Elem = Elem::Data(func.ty(pointers).elem()?.pointee()?);
    let instructions = match func.op(inst) {
        Op::AtomicRmw(op) if is_float_extreme(op.op, elem) => 2,
        _ => 1,
    };
    Some(Through {
        pointers,
        mask: mask.expand(),
        elem,
        instruction,
        instructions,
    })
}

/// Is it an addition of floats whose old values nothing uses (PTX ISA 9.7.13.6: `red` of vectors)?
fn adds_vectors(accesses: &Accesses<'_>, inst: Inst, op: &AtomicRmw) -> bool {
    let func = accesses.func;
    let elem = func.ty(op.value).elem();
    op.op == AtomicOp::Add
        && matches!(
            elem,
            Some(Elem::Data(DType::F32 | DType::F16 | DType::Bf16))
        )
        && matches!(op.semantics, Semantics::Relaxed | Semantics::Release)
        && func.ty(op.ptr).as_tensor().is_some()
        && accesses.uses().of_value(func.result(inst)).is_empty()
}

/// Floats are compared as integers, which order those below zero the other way round.
pub(super) fn is_float_extreme(op: AtomicOp, elem: Elem) -> bool {
    matches!(op, AtomicOp::Min | AtomicOp::Max) && elem.is_float()
}

fn scalar(through: &Through) -> GlobalPlan {
    with_runs(
        through,
        0,
        (vec![vec![0]], vec![0]),
        Cut::Nowhere,
        Limit::Element,
    )
}

/// The plan for these runs and copies.
fn with_runs(
    through: &Through,
    dim: usize,
    (runs, copies): (Vec<Vec<usize>>, Vec<usize>),
    cut: Cut,
    limit: Limit,
) -> GlobalPlan {
    let elem_bytes = through.elem.bytes();
    GlobalPlan {
        access: AccessPlan {
            memory: Memory::Global,
            bytes: runs[0].len() as u32 * elem_bytes,
            elem_bytes,
            runs: runs.len() as u32,
            instructions: through.instructions,
            is_atomic: false,
            cut,
            limit,
        },
        pointers: through.pointers,
        dim,
        runs,
        copies,
        shared: None,
    }
}

fn elements(through: &Through, map: &LinearLayout) -> GlobalPlan {
    let held = Held::of(map);
    let runs = held.own().map(|register| vec![register]).collect();
    let limit = Limit::Element;
    with_runs(through, 0, (runs, held.copies()), Cut::Nowhere, limit)
}

fn vectors(
    accesses: &Accesses<'_>,
    through: &Through,
    t: &TensorType,
    map: &LinearLayout,
) -> GlobalPlan {
    let held = Held::of(map);
    let along = |dim| (dim, Along::of(accesses, through, &held, dim));
    let (dim, along) = (0..t.rank())
        .map(along)
        .max_by_key(|(_, along)| along.rank())
        .expect("a tensor has a dimension");
    let len = 1 << along.steps.len();
    let cut = through
        .mask
        .map_or(Cut::Nowhere, |mask| cut_of(accesses, mask, dim, len));
    let runs = held.runs(&along.steps);
    let limit = along.limit(accesses.func, through.elem.bytes());
    with_runs(through, dim, (runs, held.copies()), cut, limit)
}

/// Where a mask may split aligned runs of `len` elements along `dim`.
fn cut_of(accesses: &Accesses<'_>, mask: Value, dim: usize, len: u32) -> Cut {
    if accesses.axes.constancy(mask, dim) >= len {
        Cut::Nowhere
    } else if mask::ends_within_runs(accesses.func, accesses.axes, mask, dim, len) {
        Cut::Once
    } else {
        Cut::Anywhere
    }
}

/// Asynchronous copies: the parts of runs that are contiguous in shared memory as well.
fn copies(
    accesses: &Accesses<'_>,
    through: &Through,
    view: Value,
    t: &TensorType,
    map: &LinearLayout,
) -> Option<GlobalPlan> {
    let mut plan = vectors(accesses, through, t, map);
    let memory = accesses.func.ty(view).as_smem()?;
    let bits = 8 * memory.elem.bytes();
    let local = plan_local(
        accesses.func.target,
        map,
        &memory.layout,
        &memory.alloc_shape,
        bits,
    )
    .ok()?;
    let places = shared::places(&local);
    let longest = if plan.access.cut == Cut::Anywhere {
        1
    } else {
        plan.runs[0].len()
    };
    let width = (0..=longest.ilog2())
        .rev()
        .map(|bits| 1 << bits)
        .find(|&width| shared::lie_together(&places, &plan.runs, width))?;
    if width < plan.runs[0].len() {
        plan.access.limit = if longest == 1 {
            Limit::Mask
        } else {
            Limit::Layout(width as u32)
        };
    }
    let parts = plan.runs.iter().flat_map(|run| run.chunks(width));
    plan.runs = parts.map(<[usize]>::to_vec).collect();
    plan.access.runs = plan.runs.len() as u32;
    plan.access.bytes = width as u32 * through.elem.bytes();
    plan.shared = Some(local);
    Some(plan)
}

/// What lets elements along one dimension be accessed together.
struct Along {
    /// The registers that differ by 1, 2, 4, ... elements, as far as one access reaches.
    steps: Vec<u64>,
    /// Elements that are known to follow one another.
    contiguity: u32,
    /// Bytes that are known to divide the first address of each run.
    aligned_bytes: u32,
    /// Elements that a thread holds in a row.
    in_row: u32,
}

impl Along {
    fn of(accesses: &Accesses<'_>, through: &Through, held: &Held<'_>, dim: usize) -> Along {
        let axes = accesses.axes;
        let elem_bytes = through.elem.bytes();
        let most = accesses.func.target.access.widest_bytes / elem_bytes;
        let contiguity = axes.contiguity(through.pointers, dim);
        let aligned_bytes = axes.divisibility(through.pointers, dim);
        let width = most.min(contiguity).min(aligned_bytes / elem_bytes).max(1);
        let mut steps = held.steps_along(dim, most);
        let in_row = 1 << steps.len();
        steps.truncate(width.ilog2() as usize);
        Along {
            steps,
            contiguity,
            aligned_bytes,
            in_row,
        }
    }

    /// The dimension with the longest runs is taken; where no elements go together, the one that comes nearest.
    fn rank(&self) -> (usize, u32) {
        match self.steps.len() {
            0 => (0, self.contiguity),
            steps => (steps, 0),
        }
    }

    /// What keeps the runs from being longer: the addresses before the layout, which follows them where it is `Coalesced`.
    fn limit(&self, func: &Func, elem_bytes: u32) -> Limit {
        let len = 1 << self.steps.len();
        if len * elem_bytes >= func.target.access.widest_bytes {
            Limit::Widest
        } else if self.contiguity <= len {
            Limit::Contiguity(self.contiguity)
        } else if self.aligned_bytes <= len * elem_bytes {
            Limit::Alignment(self.aligned_bytes)
        } else {
            Limit::Layout(self.in_row)
        }
    }
}

/// The registers of a thread, by the layout.
struct Held<'m> {
    map: &'m LinearLayout,
    registers: Registers,
}

impl Held<'_> {
    fn of(map: &LinearLayout) -> Held<'_> {
        let registers = Registers::of(map);
        Held { map, registers }
    }

    /// The registers that are no copies.
    fn own(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.registers.count()).filter(|&r| self.registers.is_own(r))
    }

    fn copies(&self) -> Vec<usize> {
        let registers = 0..self.registers.count();
        registers.map(|r| self.registers.original(r)).collect()
    }

    /// The register bits that differ by 1, 2, 4, ... elements along `dim`, up to runs of `most`.
    fn steps_along(&self, dim: usize, most: u32) -> Vec<u64> {
        let mut span = Span::new();
        let left_out = self.registers.copied() | self.registers.cut();
        for (bit, &basis) in self.map.bases(Axis::Register).iter().enumerate() {
            if left_out >> bit & 1 == 0 {
                span.insert_tagged(basis, 1 << bit);
            }
        }
        let shift = self.map.out_shift(Axis::dim(dim));
        let bits = self.map.out_bits(Axis::dim(dim)).min(most.ilog2());
        (0..bits)
            .map_while(|bit| span.solve(1 << (shift + bit)))
            .collect()
    }

    /// The registers of each run, in the order of their elements; copies are in none.
    fn runs(&self, steps: &[u64]) -> Vec<Vec<usize>> {
        let offset = |r: usize| self.map.apply_packed(self.registers.number(r).into());
        let offsets: Vec<u64> = (0..self.registers.count()).map(offset).collect();
        let pick = |at: u64| {
            let taken = steps.iter().enumerate().filter(|&(k, _)| at >> k & 1 == 1);
            taken.fold(0, |r, (_, s)| r ^ s)
        };
        let run_of = |r: usize| {
            let others = 0..1_u64 << steps.len();
            others.map(move |at| self.registers.across(r, pick(at) as u32))
        };
        let begins = |&r: &usize| run_of(r).all(|other| other >= r);
        let in_order = |r: usize| {
            let first = run_of(r).min_by_key(|&other| offsets[other]);
            run_of(first.unwrap_or(r)).collect()
        };
        self.own().filter(begins).map(in_order).collect()
    }
}

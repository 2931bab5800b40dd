//! `bar.warp.sync` in front of what the first lane does for its warp, where no lane has anything to tell the others.
//!
//! That is what they have accessed since the last barrier, or what the first lane alone has waited for: only `bar.warp.sync` or a barrier
//! orders memory among lanes (PTX ISA 9.7.13.1). What products have read is complete for each thread that has waited for them (9.7.15.7.3),
//! the first lane too; lanes that wait for a phase poll by one instruction; and copies that are loads are waited for by who reads them.

use ptx::{
    BarOp, BinaryOp, Compare, Inst, Instruction, Mov, Operand, Predicate, Reg, Role, Space,
    Special, Stmt,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::flow::{Facts, find};
use crate::emit::tidy::is_pure;

/// What there may be to tell since the last barrier of the warp or of more.
#[derive(Clone, Debug, PartialEq)]
struct Lanes<'p> {
    have_news: bool,
    /// Predicates that hold in the first lane at most.
    first: &'p FxHashSet<Reg>,
}

/// The barriers of a warp in front of an instruction of the first lane that order nothing.
pub(super) fn find_barriers(statements: &[&Stmt]) -> Vec<usize> {
    let first = first_lane_predicates(statements);
    let start = Lanes {
        have_news: false,
        first: &first,
    };
    find(statements, start, |lanes, at, instruction| {
        is_of_all_lanes(instruction)
            && !lanes.have_news
            && is_next_of_first_lane(&statements[at + 1..], &first)
    })
}

/// Behind nothing but arithmetic, addresses in other CTAs and bounds, which are comments to ptxas, does the first lane alone execute the next instruction?
fn is_next_of_first_lane(statements: &[&Stmt], first: &FxHashSet<Reg>) -> bool {
    let is_idle = |i: &Instruction| {
        i.guard.is_none() && (is_pure(&i.inst) || matches!(i.inst, Inst::Bound(_) | Inst::Mapa(_)))
    };
    let mut code = statements.iter().filter(|s| !matches!(s, Stmt::Comment(_)));
    let next = code.find(|s| s.instruction().is_none_or(|i| !is_idle(i)));
    let guard = next.and_then(|next| next.instruction()?.guard);
    guard.is_some_and(|guard| is_first(guard, first))
}

/// A predicate that holds in the first lane at most.
fn is_first(guard: Predicate, first: &FxHashSet<Reg>) -> bool {
    !guard.negated && first.contains(&guard.reg)
}

fn is_of_all_lanes(instruction: &Instruction) -> bool {
    match &instruction.inst {
        Inst::BarWarpSync(sync) => {
            instruction.guard.is_none() && sync.mask == Operand::Int(u32::MAX.into())
        }
        _ => false,
    }
}

impl Facts for Lanes<'_> {
    fn join(&mut self, other: &Self) {
        self.have_news |= other.have_news;
    }

    fn pass(&mut self, instruction: &Instruction) {
        let Instruction { guard, inst, .. } = instruction;
        let is_barrier = matches!(inst, Inst::Bar(bar) if guard.is_none() && bar.op == BarOp::Sync);
        let is_of_first = guard.is_some_and(|guard| is_first(guard, self.first));
        if is_barrier || is_of_all_lanes(instruction) {
            self.have_news = false;
        } else if is_of_first && is_asynchronous(inst) {
            // Who reads the bytes waits for them, and the first lane waits for what it stores.
        } else {
            let waits_alone = is_of_first && matches!(inst, Inst::MbarrierWait(_));
            self.have_news |= waits_alone || !leaves_memory(inst);
        }
    }
}

/// Copies and prefetches that are issued to the async proxy.
fn is_asynchronous(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::TensorLoad(_)
            | Inst::TensorStore(_)
            | Inst::TensorReduce(_)
            | Inst::TensorPrefetch(_)
            | Inst::BulkLoad(_)
            | Inst::BulkStore(_)
            | Inst::BulkReduce(_)
            | Inst::BulkPrefetch(_)
    )
}

/// Does a thread neither access memory by the instruction that another one could access too, nor learn that a copy of its own is complete?
/// Arrivals are releases of who executes them.
fn leaves_memory(inst: &Inst) -> bool {
    match inst {
        // What is read through the non-coherent path nobody writes.
        Inst::Ld(load) => {
            load.nc || matches!(load.space, Some(Space::Param | Space::Const | Space::Local))
        }
        Inst::St(store) => store.space == Some(Space::Local),
        Inst::Bra(_)
        | Inst::Ret(_)
        | Inst::Exit(_)
        | Inst::Trap(_)
        | Inst::Bar(_)
        | Inst::BarWarpSync(_)
        | Inst::ClusterBar(_)
        | Inst::Fence(_)
        | Inst::Membar(_)
        | Inst::FenceProxyAsync(_)
        | Inst::FenceMbarrierInit(_)
        | Inst::MbarrierArrive(_)
        | Inst::MbarrierWait(_)
        | Inst::Bound(_)
        | Inst::Nanosleep(_)
        | Inst::Shfl(_)
        | Inst::Vote(_)
        | Inst::Redux(_)
        | Inst::Elect(_)
        | Inst::Mapa(_)
        | Inst::SetMaxNReg(_)
        | Inst::GridDepControl(_)
        | Inst::PrefetchTensormap(_)
        | Inst::CpAsyncCommitGroup(_)
        | Inst::BulkCommitGroup(_)
        | Inst::WgmmaFence(_)
        | Inst::Wgmma(_)
        | Inst::WgmmaCommitGroup(_)
        | Inst::WgmmaWaitGroup(_)
        | Inst::Mma(_)
        | Inst::Movmatrix(_) => true,
        inst => is_pure(inst),
    }
}

/// Registers that hold in the first lane of a warp at most, in blocks of one dimension: comparisons of the number of the thread, and what
/// is true only where one of these is.
fn first_lane_predicates(statements: &[&Stmt]) -> FxHashSet<Reg> {
    let definitions = definitions(statements);
    let mut first = FxHashSet::default();
    // Registers are written before they are read, but for those of loops, which have several definitions.
    for inst in statements
        .iter()
        .filter_map(|s| s.instruction())
        .map(|i| &i.inst)
    {
        let Some(reg) = written(inst).filter(|reg| definitions.contains_key(reg)) else {
            continue;
        };
        let is_first = match inst {
            Inst::Setp(test) if test.compare == Compare::Eq && test.combine.is_none() => {
                tests_first_lane(test.a, test.b, &definitions)
            }
            Inst::Binary(both) if both.op == BinaryOp::And => [both.a, both.b]
                .iter()
                .any(|operand| matches!(operand, Operand::Reg(reg) if first.contains(reg))),
            _ => false,
        };
        if is_first {
            first.insert(reg);
        }
    }
    first
}

/// Does `a == b` hold for one number of a lane, 0, alone?
fn tests_first_lane(a: Operand, b: Operand, definitions: &FxHashMap<Reg, &Inst>) -> bool {
    const LANES: i64 = 31;
    let Operand::Int(wanted) = b else {
        return false;
    };
    let defined = |operand: Operand| match operand {
        Operand::Reg(reg) => definitions.get(&reg).copied(),
        _ => None,
    };
    let is_thread = |operand: Operand| matches!(defined(operand), Some(Inst::Mov(Mov { src, .. })) if *src == Operand::Special(Special::TidX).into());
    if wanted & LANES != 0 {
        return false;
    }
    match defined(a) {
        Some(Inst::Binary(bits)) if bits.op == BinaryOp::And => {
            let masks = matches!(bits.b, Operand::Int(mask) if mask & LANES == LANES);
            // A number that is counted from another warp on has the same lanes.
            masks && (is_thread(bits.a) || is_counted_from_warp(defined(bits.a), is_thread))
        }
        _ => is_thread(a),
    }
}

/// Is it the number of the thread less that of the first thread of a warp, or its low bits?
fn is_counted_from_warp(inst: Option<&Inst>, is_thread: impl Fn(Operand) -> bool) -> bool {
    const LANES: i64 = 31;
    match inst {
        Some(Inst::Binary(from)) => match (from.op, from.b) {
            (BinaryOp::Sub, Operand::Int(first)) => first & LANES == 0 && is_thread(from.a),
            (BinaryOp::And, Operand::Int(mask)) => mask & LANES == LANES && is_thread(from.a),
            _ => false,
        },
        _ => false,
    }
}

/// What writes each register that is written once.
fn definitions<'s>(statements: &[&'s Stmt]) -> FxHashMap<Reg, &'s Inst> {
    let mut found: FxHashMap<Reg, Option<&Inst>> = FxHashMap::default();
    for inst in statements
        .iter()
        .filter_map(|s| s.instruction())
        .map(|i| &i.inst)
    {
        inst.visit_registers(|reg, role| {
            if role != Role::Read {
                found
                    .entry(reg)
                    .and_modify(|known| *known = None)
                    .or_insert(Some(inst));
            }
        });
    }
    let once = found.into_iter();
    once.filter_map(|(reg, inst)| Some((reg, inst?))).collect()
}

fn written(inst: &Inst) -> Option<Reg> {
    let mut found = None;
    inst.visit_registers(|reg, role| {
        if role == Role::Write {
            found = found.or(Some(reg));
        }
    });
    found
}

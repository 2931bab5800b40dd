//! `plan-shared`: assigns offsets in the CTA's shared memory.
//!
//! An allocation is live from its definition to its last use; one that is accessed asynchronously, to the end of the kernel; one
//! that other CTAs write, from the beginning, since they may be ahead of this one. The scratch of an op is live while the op
//! runs; scratch that other CTAs of the cluster write, for the whole kernel, since they reach the op at another time. Where
//! there is room scratch is kept to the next CTA barrier, so that the next op may write its own scratch without a barrier.

use diag::{Code, Diagnostic, Diagnostics};
use ir::entity::{Inst, Value};
use ir::ops::{Scratch, SharedAccess};
use ir::{Func, SmemType};
use layout::convert::Limits;
use layout::{LayoutError, relate};
use target::{SmLimits, Target};

use super::first_fit::{self, Block};
use super::moments::Moments;
use super::{conversion_passes, overflow};
use crate::analysis::pressure;
use crate::analysis::scratch::{BarrierScope, ScratchNeed, Scratches};
use crate::analysis::shared::Views;

/// Registers of a thread beside its tiles, at the least: addresses, and what instructions read and write on their way.
const OTHER_REGISTERS: u32 = 8;

/// Scratch of this size is kept longer even where larger one cannot be.
const SMALL_SCRATCH_BYTES: u32 = 1024;

/// Something that needs shared memory for a while.
pub(super) struct Need {
    /// The op.
    pub inst: Inst,
    /// At the least.
    pub block: Block,
    /// The last moment if it is kept to the next CTA barrier.
    kept_until: u32,
    /// Scratch, and not an allocation of the author's.
    pub is_scratch: bool,
}

/// Gives everything its bytes, and the kernel its size.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    let most = most_bytes(func);
    let mut scratches = Scratches::of(func);
    let plan = planned(func, &scratches, found);
    let (needs, offsets, total) = if found.has_errors() {
        plan
    } else if plan.2 <= most {
        in_fewer_passes(func, &mut scratches, plan)
    } else {
        in_more_passes(func, &mut scratches, plan, found)
    };
    if total > most {
        found.push(overflow::report(func, &needs, &offsets, [total, most]));
    }
    if found.has_errors() {
        return;
    }
    for (need, &start) in needs.iter().zip(&offsets) {
        let bytes = Scratch {
            start,
            bytes: need.block.bytes,
        };
        let rules = func.op_mut(need.inst).rules_mut();
        if need.is_scratch {
            rules.set_scratch(bytes);
        } else {
            rules.set_allocation(bytes);
        }
    }
    func.shared_bytes = total;
}

/// What everything needs, where it lies, and the size of all.
type Plan = (Vec<Need>, Vec<u32>, u32);

/// The plan with conversions in as many passes as the kernel needs to fit, if it can.
fn in_more_passes(
    func: &mut Func,
    scratches: &mut Scratches,
    mut plan: Plan,
    found: &mut Diagnostics,
) -> Plan {
    let most = most_bytes(func);
    for limit in conversion_passes::FEWER_BYTES {
        if plan.2 > most && conversion_passes::reduce(func, scratches, &plan.0, limit) {
            plan = planned(func, scratches, found);
        }
    }
    plan
}

/// The plan with conversions in fewer passes, as far as occupancy stays the same.
fn in_fewer_passes(func: &mut Func, scratches: &mut Scratches, plan: Plan) -> Plan {
    let conversions = conversion_passes::of_several(func, &plan.0);
    let Some(largest) = conversions.iter().map(|(_, bytes)| *bytes).max() else {
        return plan;
    };
    let budget = budget(func, plan.2);
    let least = Limits::of(func.target).scratch_bytes;
    let limits = std::iter::successors(Some(largest), |limit| Some(limit / 2));
    let limits = limits.take_while(|limit| *limit > least);
    for limit in limits.filter(|limit| *limit <= budget) {
        conversion_passes::widen(func, scratches, &conversions, limit);
        let wider = planned(func, scratches, &mut Diagnostics::default());
        if wider.2 <= budget {
            return wider;
        }
    }
    conversion_passes::widen(func, scratches, &conversions, least);
    plan
}

fn planned(func: &Func, scratches: &Scratches, found: &mut Diagnostics) -> Plan {
    let needs = needs(func, scratches, found);
    let (offsets, total) = place(func, &needs);
    (needs, offsets, total)
}

/// Everything that needs shared memory, and when.
pub(super) fn needs(func: &Func, scratches: &Scratches, found: &mut Diagnostics) -> Vec<Need> {
    let moments = Moments::of(func, scratches);
    let mut needs = of_scratches(func, &moments);
    allocations(func, &moments, &mut needs, found);
    needs
}

/// The first of these that does not cost a CTA on the SM: everything kept, small things kept, nothing kept.
fn place(func: &Func, needs: &[Need]) -> (Vec<u32>, u32) {
    let kept_up_to = |limit: u32| {
        let blocks = needs.iter().map(|need| {
            let is_kept = need.is_scratch && need.block.bytes <= limit;
            let last = if is_kept {
                need.kept_until
            } else {
                need.block.last
            };
            Block { last, ..need.block }
        });
        first_fit::place(&blocks.collect::<Vec<_>>())
    };
    let least = kept_up_to(0);
    let mut tries = [u32::MAX, SMALL_SCRATCH_BYTES].into_iter().map(kept_up_to);
    let fits = |total: u32| total == least.1 || total <= budget(func, least.1);
    tries.find(|(_, total)| fits(*total)).unwrap_or(least)
}

/// Bytes that a CTA can use while as many of them fit an SM as its threads, the registers that its tiles take at the least
/// and the `least` bytes that it needs allow.
fn budget(func: &Func, least: u32) -> u32 {
    let threads = func.launch_warps() * 32;
    let sm = &func.target.sm;
    let by_threads = sm.threads / threads;
    let by_bytes = sm.shared_bytes / taken_of_sm(sm, least);
    let by_registers = sm.registers / (threads * least_registers(func));
    let ctas = by_threads.min(by_bytes).min(by_registers);
    let ctas = ctas.max(func.min_ctas_per_sm.unwrap_or(1));
    share_of(func.target, ctas)
}

/// The most that a CTA can have, where the author wants several on an SM the share of each.
fn most_bytes(func: &Func) -> u32 {
    share_of(func.target, func.min_ctas_per_sm.unwrap_or(1))
}

/// Bytes that each CTA can use where so many fit an SM.
fn share_of(target: &Target, ctas: u32) -> u32 {
    let sm = &target.sm;
    let share = sm.shared_bytes / ctas.clamp(1, sm.ctas);
    let share = share / sm.shared_unit_bytes * sm.shared_unit_bytes;
    share
        .saturating_sub(sm.reserved_shared_bytes_per_cta)
        .min(target.cta.shared_bytes)
}

/// Registers of a thread, at the least.
fn least_registers(func: &Func) -> u32 {
    // Partitions have register budgets of their own (`setmaxnreg`).
    if func.launch_warps() > func.warps {
        return OTHER_REGISTERS;
    }
    let tiles = pressure::of_region(func, func.body).registers;
    let most = func.max_registers.unwrap_or(u32::MAX);
    (tiles + OTHER_REGISTERS).min(most)
}

/// The bytes of an SM's shared memory that a CTA with so many takes.
fn taken_of_sm(sm: &SmLimits, bytes: u32) -> u32 {
    bytes.next_multiple_of(sm.shared_unit_bytes) + sm.reserved_shared_bytes_per_cta
}

fn of_scratches(func: &Func, moments: &Moments) -> Vec<Need> {
    let need = |(inst, need): &(Inst, ScratchNeed)| {
        let inst = *inst;
        let now = moments.start(inst);
        debug_assert!(
            need.scope != BarrierScope::None || need.is_written_by_peers(),
            "an op with scratch hands data to other threads"
        );
        let own = Block {
            bytes: need.bytes,
            // The widest shared access.
            alignment: func.target.access.widest_bytes,
            first: now,
            last: now,
            partition: moments.partition(inst),
        };
        let (block, kept_until) = if need.is_written_by_peers() {
            let whole = Block {
                first: 0,
                last: moments.last(),
                partition: None,
                ..own
            };
            (whole, moments.last())
        } else {
            (own, moments.next_barrier(func, inst))
        };
        Need {
            inst,
            block,
            kept_until,
            is_scratch: true,
        }
    };
    moments.scratches.iter().map(need).collect()
}

fn allocations(func: &Func, moments: &Moments, needs: &mut Vec<Need>, found: &mut Diagnostics) {
    let first = needs.len();
    for &inst in &moments.allocations {
        match allocation(func, moments, inst) {
            Ok(block) => needs.push(Need {
                inst,
                block,
                kept_until: block.last,
                is_scratch: false,
            }),
            Err(d) => found.push(*d),
        }
    }
    if needs.len() == first {
        return;
    }
    let views = Views::of(func);
    let mut alignments = Alignments::default();
    for user in func.walk() {
        let op = func.op(user);
        for &view in func.results(user) {
            if let Some(s) = func.ty(view).as_smem() {
                let bytes = alignments.of(s);
                align(&views, view, bytes, &mut needs[first..]);
            }
        }
        let accesses = op.rules().shared_accesses();
        for value in op.operands() {
            let mut to_it = accesses.iter().filter(|(view, _)| *view == value);
            let is_from_peers = to_it.clone().any(|(_, a)| *a == SharedAccess::RemoteWrite);
            let stays = to_it.any(|(_, access)| stays(*access));
            for &maker in views.allocations(value) {
                let need = needs[first..].iter_mut().find(|need| need.inst == maker);
                let Some(need) = need else { continue };
                let (start, end) = moments.span(func, maker, user);
                need.block.first = need.block.first.min(start);
                let end = if stays { moments.last() } else { end };
                need.block.last = need.block.last.max(end);
                if is_from_peers {
                    need.block.first = 0;
                    need.block.partition = None;
                }
            }
        }
    }
}

/// Does what happens to the bytes continue beyond the op? A barrier is one as long as the kernel runs.
fn stays(access: SharedAccess) -> bool {
    access.is_asynchronous()
        || matches!(
            access,
            SharedAccess::Initialise | SharedAccess::RemoteRead | SharedAccess::RemoteWrite
        )
}

/// An allocation at the moment that it is made.
fn allocation(func: &Func, moments: &Moments, inst: Inst) -> Result<Block, Box<Diagnostic>> {
    let s = func
        .ty(func.result(inst))
        .as_smem()
        .expect("an allocation gives shared memory");
    let refused = |e: LayoutError| {
        Box::new(Diagnostic::error(
            Code::InvalidLayout,
            func.place(inst),
            e.to_string(),
        ))
    };
    let elem_bytes = s.elem.bytes();
    let bytes = relate::shared_bytes(&s.layout, &s.alloc_shape, elem_bytes).map_err(refused)?;
    let alignment =
        relate::shared_alignment(&s.layout, &s.alloc_shape, elem_bytes).map_err(refused)?;
    let now = moments.start(inst);
    Ok(Block {
        bytes,
        alignment,
        first: now,
        last: now,
        partition: moments.partition(inst),
    })
}

/// The alignment in bytes that each type asks for: worked out once, for many views have one type.
#[derive(Default)]
struct Alignments<'f>(Vec<(&'f SmemType, u32)>);

impl<'f> Alignments<'f> {
    fn of(&mut self, s: &'f SmemType) -> u32 {
        if let Some((_, bytes)) = self.0.iter().find(|(known, _)| *known == s) {
            return *bytes;
        }
        let bytes = relate::shared_alignment(&s.layout, &s.alloc_shape, s.elem.bytes());
        let bytes = bytes.unwrap_or(1);
        self.0.push((s, bytes));
        bytes
    }
}

/// An allocation is aligned for all that it is taken as.
fn align(views: &Views, view: Value, bytes: u32, needs: &mut [Need]) {
    for need in needs {
        if views.allocations(view).contains(&need.inst) {
            need.block.alignment = need.block.alignment.max(bytes);
        }
    }
}

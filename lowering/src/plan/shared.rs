//! `plan-shared`: where in the CTA's shared memory each op has its scratch.
//!
//! An op's scratch is needed while the op runs. It is kept a little longer where there is room: until all threads of the
//! CTA have met again, so that the next op may write its own scratch at once, without a barrier of its own.

use cranelift_entity::SecondaryMap;
use gluon_lang::diag::Diagnostics;
use gluon_lang::entity::{Inst, Region};
use gluon_lang::ir::Func;
use gluon_lang::ops::Scratch;

use super::first_fit::{self, Block};
use super::overflow;
use crate::emit::scratch::{self, Meeting};

/// The most shared memory that a CTA can be launched with on `sm_90` (CUDA C++ guide, compute capability 9.0: 227 KiB).
pub(crate) const MAX_SHARED_BYTES: u32 = 232_448;

/// Shared memory of an SM that its CTAs share, and what the system takes of it for each of them (same place).
const SM_SHARED_BYTES: u32 = 228 * 1024;
const RESERVED_BYTES_PER_CTA: u32 = 1024;
const MAX_THREADS_PER_SM: u32 = 2048;
const MAX_CTAS_PER_SM: u32 = 32;

/// The widest shared access.
const SCRATCH_ALIGNMENT: u32 = 16;

/// Scratch of this size is kept longer even where larger one cannot be.
const SMALL_SCRATCH_BYTES: u32 = 1024;

/// Something that needs shared memory for a while.
pub(super) struct Need {
    /// The op.
    pub inst: Inst,
    /// While the op itself runs.
    pub block: Block,
    /// The last moment if it is kept until all threads have met.
    kept_until: u32,
}

/// Gives every op with scratch its bytes, and the kernel its size.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    let needs = needs(func);
    let (offsets, total) = place(func, &needs);
    if total > MAX_SHARED_BYTES {
        found.push(overflow::report(func, &needs, &offsets, total));
        return;
    }
    for (need, &start) in needs.iter().zip(&offsets) {
        let scratch = Scratch {
            start,
            bytes: need.block.bytes,
        };
        func.op_mut(need.inst).rules_mut().set_scratch(scratch);
    }
    func.shared_bytes = total;
}

/// The first of these that does not cost a CTA on the SM: everything kept, small things kept, nothing kept.
fn place(func: &Func, needs: &[Need]) -> (Vec<u32>, u32) {
    let budget = budget(func);
    let kept_up_to = |limit: u32| {
        let blocks = needs.iter().map(|need| {
            let last = if need.block.bytes <= limit {
                need.kept_until
            } else {
                need.block.last
            };
            Block { last, ..need.block }
        });
        first_fit::place(&blocks.collect::<Vec<_>>())
    };
    let mut tries = [u32::MAX, SMALL_SCRATCH_BYTES].into_iter().map(kept_up_to);
    tries
        .find(|(_, total)| *total <= budget)
        .unwrap_or_else(|| kept_up_to(0))
}

/// Bytes that a CTA can use while as many of them fit an SM as its threads allow.
fn budget(func: &Func) -> u32 {
    let ctas = (MAX_THREADS_PER_SM / func.threads()).clamp(1, MAX_CTAS_PER_SM);
    (SM_SHARED_BYTES / ctas - RESERVED_BYTES_PER_CTA).min(MAX_SHARED_BYTES)
}

fn needs(func: &Func) -> Vec<Need> {
    let mut moments = Moments::of(func);
    let mut needs = Vec::new();
    for (inst, meeting, bytes) in std::mem::take(&mut moments.scratches) {
        let now = moments.of_inst[inst];
        let block = Block {
            bytes,
            alignment: SCRATCH_ALIGNMENT,
            first: now,
            last: now,
        };
        // What only its own warp reads back is still followed by other warps' writes.
        debug_assert!(
            meeting != Meeting::Nobody,
            "an op with scratch hands data to other threads"
        );
        needs.push(Need {
            inst,
            block,
            kept_until: moments.next_meeting(func, inst),
        });
    }
    needs
}

/// The order of the kernel's text as moments in time.
struct Moments {
    of_inst: SecondaryMap<Inst, u32>,
    /// The last moment within an instruction, regions included.
    end_of_inst: SecondaryMap<Inst, u32>,
    meets: cranelift_entity::EntitySet<Inst>,
    scratches: Vec<(Inst, Meeting, u32)>,
    now: u32,
}

impl Moments {
    fn of(func: &Func) -> Moments {
        let mut moments = Moments {
            of_inst: SecondaryMap::with_capacity(func.inst_count()),
            end_of_inst: SecondaryMap::with_capacity(func.inst_count()),
            meets: cranelift_entity::EntitySet::new(),
            scratches: Vec::new(),
            now: 0,
        };
        moments.region(func, func.body);
        moments
    }

    fn region(&mut self, func: &Func, region: Region) {
        for &inst in &func.region(region).insts {
            self.now += 1;
            self.of_inst[inst] = self.now;
            let rules = func.op(inst).rules();
            if rules.effects().is_barrier {
                self.meets.insert(inst);
            }
            if rules.scratch().is_some() {
                let need = scratch::need(func, inst);
                if need.meeting == Meeting::Cta {
                    self.meets.insert(inst);
                }
                if need.bytes > 0 {
                    self.scratches.push((inst, need.meeting, need.bytes));
                }
            }
            for inner in func.op(inst).regions() {
                self.region(func, inner);
            }
            self.end_of_inst[inst] = self.now;
        }
    }

    /// The moment of the next instruction at which all threads meet for certain, going on in the regions around; the
    /// end of the kernel if there is none.
    fn next_meeting(&self, func: &Func, inst: Inst) -> u32 {
        let mut at = inst;
        loop {
            let region = func.parent(at);
            let insts = &func.region(region).insts;
            let after = insts.partition_point(|i| self.of_inst[*i] <= self.of_inst[at]);
            if let Some(next) = insts[after..].iter().find(|i| self.meets.contains(**i)) {
                return self.of_inst[*next];
            }
            match func.region(region).owner.expand() {
                Some(owner) => at = owner,
                None => return self.now,
            }
        }
    }
}

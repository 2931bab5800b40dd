//! Program points: the order of the kernel's text, counted.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::Func;
use ir::entity::{Inst, Region};
use ir::ops::flow;

use crate::analysis::scratch::{BarrierScope, ScratchNeed, Scratches};

/// When each instruction runs, counted along the text, and which are CTA barriers.
pub(super) struct Moments {
    of_inst: SecondaryMap<Inst, u32>,
    /// The last moment within an instruction, regions included.
    end_of_inst: SecondaryMap<Inst, u32>,
    barriers: EntitySet<Inst>,
    partitions: SecondaryMap<Inst, Option<usize>>,
    /// Instructions with scratch, and what they need.
    pub scratches: Vec<(Inst, ScratchNeed)>,
    /// Instructions that allocate.
    pub allocations: Vec<Inst>,
    now: u32,
}

impl Moments {
    pub(super) fn of(func: &Func, scratches: &Scratches) -> Moments {
        let mut moments = Moments {
            of_inst: SecondaryMap::with_capacity(func.inst_count()),
            end_of_inst: SecondaryMap::with_capacity(func.inst_count()),
            barriers: EntitySet::new(),
            partitions: SecondaryMap::new(),
            scratches: Vec::new(),
            allocations: Vec::new(),
            now: 0,
        };
        moments.region(func, scratches, func.body, None);
        moments
    }

    fn region(
        &mut self,
        func: &Func,
        scratches: &Scratches,
        region: Region,
        partition: Option<usize>,
    ) {
        for &inst in &func.region(region).insts {
            self.now += 1;
            self.of_inst[inst] = self.now;
            if partition.is_some() {
                self.partitions[inst] = partition;
            }
            self.inst(func, scratches, inst);
            let op = func.op(inst);
            for (at, inner) in op.regions().into_iter().enumerate() {
                let inner_partition = if flow::has_partitions(op) {
                    Some(at)
                } else {
                    partition
                };
                self.region(func, scratches, inner, inner_partition);
            }
            self.end_of_inst[inst] = self.now;
        }
    }

    fn inst(&mut self, func: &Func, scratches: &Scratches, inst: Inst) {
        let rules = func.op(inst).rules();
        if rules.effects().is_barrier {
            self.barriers.insert(inst);
        }
        if rules.allocation().is_some() {
            self.allocations.push(inst);
        }
        if rules.scratch().is_some() {
            let need = scratches.need(inst);
            if need.scope >= BarrierScope::Cta {
                self.barriers.insert(inst);
            }
            if need.bytes > 0 {
                self.scratches.push((inst, need.clone()));
            }
        }
    }

    /// When an instruction begins.
    pub(super) fn start(&self, inst: Inst) -> u32 {
        self.of_inst[inst]
    }

    /// When it ends, its regions included.
    pub(super) fn end(&self, inst: Inst) -> u32 {
        self.end_of_inst[inst]
    }

    /// The end of the kernel.
    pub(super) fn last(&self) -> u32 {
        self.now
    }

    /// Which partition runs an instruction.
    pub(super) fn partition(&self, inst: Inst) -> Option<usize> {
        self.partitions[inst]
    }

    /// The moment of the next unconditional CTA barrier, going on in the enclosing regions; the end of the kernel if there is none.
    pub(super) fn next_barrier(&self, func: &Func, inst: Inst) -> u32 {
        let mut at = inst;
        loop {
            let region = func.parent(at);
            let insts = &func.region(region).insts;
            let after = insts.partition_point(|i| self.of_inst[*i] <= self.of_inst[at]);
            if let Some(next) = insts[after..].iter().find(|i| self.barriers.contains(**i)) {
                return self.of_inst[*next];
            }
            match func.region(region).owner.expand() {
                Some(owner) => at = owner,
                None => return self.now,
            }
        }
    }

    /// The live range of what `maker` defines and `user` uses. What is defined inside of a loop and used outside of it or in the
    /// next iteration is live as long as the loop runs.
    pub(super) fn span(&self, func: &Func, maker: Inst, user: Inst) -> (u32, u32) {
        let mut from = maker;
        loop {
            let home = func.parent(from);
            let owner = func.region(home).owner.expand();
            match (ancestor_in(func, user, home), owner) {
                (Some(user), _) if self.start(user) >= self.start(from) => {
                    let last = if from == maker {
                        self.end(user)
                    } else {
                        self.end(user).max(self.end(from))
                    };
                    return (self.start(from), last);
                }
                (_, Some(owner)) => from = owner,
                (_, None) => return (self.start(from), self.end(from)),
            }
        }
    }
}

/// The instruction of `region` that `inst` is, or stands within.
fn ancestor_in(func: &Func, inst: Inst, region: Region) -> Option<Inst> {
    let mut at = inst;
    loop {
        let home = func.parent(at);
        if home == region {
            return Some(at);
        }
        at = func.region(home).owner.expand()?;
    }
}

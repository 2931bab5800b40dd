//! Tile IR to protocol programs.
//!
//! Matches on ops: each op that synchronizes, or touches what barriers guard, becomes the step that does the same to the model.

use cranelift_entity::packed_option::PackedOption;
use ir::entity::{Inst, Region, Value};
use ir::ops::arith::BinaryOp;
use ir::ops::control::yielded;
use ir::ops::flow;
use ir::ops::mbarrier::Arrivers;
use ir::ops::{Op, SharedAccess};
use ir::{Func, TensorMapType};
use smallvec::SmallVec;

use crate::classes::Classes;
use crate::places::{self, Places};
use crate::program::{Bytes, LoopId, Moves, Partition, Program, Step, What};
use crate::relevant::{Need, Relevant};
use crate::verdict::Undecided;

/// Makes the programs of all partitions.
pub(crate) fn program(
    func: &Func,
    classes: &Classes,
    places: &Places,
) -> Result<(Program, Relevant), Undecided> {
    let mut extractor = Extractor {
        func,
        classes,
        places,
        relevant: Relevant::default(),
        program: Program::default(),
        steps: Vec::new(),
        loops: Vec::new(),
        around: Vec::new(),
        workers: Vec::new(),
        is_first_one_thread: false,
        is_in_one_thread: false,
    };
    extractor.collect_relevant();
    extractor.region(func.body)?;
    let end = func.region(func.body).insts.last().copied();
    let Some(end) = end else {
        return Ok((Program::default(), Relevant::default()));
    };
    extractor.push(end, What::End);
    extractor.close(func.warps);
    extractor.program.is_first_one_thread = extractor.is_first_one_thread;
    for (region, warps) in std::mem::take(&mut extractor.workers) {
        // The other warps leave at once.
        let warps = if func.suits_one_thread(region) {
            1
        } else {
            warps
        };
        extractor.region(region)?;
        let last = func.region(region).insts.last().copied().unwrap_or(end);
        extractor.push(last, What::End);
        extractor.close(warps);
    }
    extractor.align();
    extractor.program.modulus = extractor.relevant.modulus(func);
    Ok((extractor.program, extractor.relevant))
}

/// The condition under which an op acts.
fn deciding_operand(op: &Op) -> Option<Value> {
    let predicate = match op {
        Op::MbarrierExpect(op) => op.predicate,
        Op::MbarrierArrive(op) => op.predicate,
        Op::MbarrierWait(op) => op.predicate,
        Op::TmaLoad(op) => op.predicate,
        Op::BulkLoad(op) => op.predicate,
        Op::TmaStore(op) => op.predicate,
        Op::BulkStore(op) => op.predicate,
        _ => return None,
    };
    predicate.expand()
}

fn reads(access: SharedAccess) -> bool {
    matches!(
        access,
        SharedAccess::Read | SharedAccess::AsyncRead | SharedAccess::OperandRead
    )
}

fn writes(access: SharedAccess) -> bool {
    matches!(
        access,
        SharedAccess::Write | SharedAccess::Combine(_) | SharedAccess::Copy
    )
}

/// Is what it touches an mbarrier?
fn touches_barrier(access: SharedAccess) -> bool {
    matches!(
        access,
        SharedAccess::Initialise
            | SharedAccess::Atomic
            | SharedAccess::Poll
            | SharedAccess::AsyncAtomic
    )
}

pub(crate) struct Extractor<'f> {
    pub(crate) func: &'f Func,
    pub(crate) classes: &'f Classes,
    pub(crate) places: &'f Places,
    pub(crate) relevant: Relevant,
    pub(crate) program: Program,
    pub(crate) steps: Vec<Step>,
    pub(crate) loops: Vec<LoopId>,
    pub(crate) around: Vec<LoopId>,
    pub(crate) workers: Vec<(Region, u32)>,
    pub(crate) is_first_one_thread: bool,
    is_in_one_thread: bool,
}

impl Extractor<'_> {
    fn close(&mut self, warps: u32) {
        self.program.partitions.push(Partition {
            warps,
            steps: std::mem::take(&mut self.steps),
            loops: std::mem::take(&mut self.loops),
        });
    }

    pub(crate) fn push(&mut self, inst: Inst, what: What) -> usize {
        self.steps.push(Step { what, inst });
        self.steps.len() - 1
    }

    /// The values on which steps depend.
    fn collect_relevant(&mut self) {
        let mut seeds: Vec<(Value, Need)> = Vec::new();
        for inst in self.func.walk() {
            let op = self.func.op(inst);
            if !op.regions().is_empty() {
                if self.has_steps(inst) {
                    let deciding = flow::deciding(self.func, op);
                    seeds.extend(deciding.into_iter().map(|v| (v, Need::Identity)));
                }
                continue;
            }
            if self.is_step(inst) {
                for view in op.operands() {
                    let path = places::path(self.func, view);
                    let indices = path.map(|path| path.indices).unwrap_or_default();
                    seeds.extend(indices.into_iter().map(|v| (v, Need::Number)));
                }
            }
            seeds.extend(deciding_operand(op).map(|v| (v, Need::Identity)));
            if let Op::MbarrierWait(op) = op {
                seeds.push((op.phase, Need::Number));
            }
        }
        self.relevant = Relevant::new(self.func, seeds);
    }

    /// Is anything in the op's regions, or the op itself, a step?
    fn has_steps(&self, inst: Inst) -> bool {
        let regions = self.func.op(inst).regions();
        if regions.is_empty() {
            return self.is_step(inst);
        }
        let mut insts = regions
            .iter()
            .flat_map(|region| self.func.region(*region).insts.iter());
        insts.any(|inner| self.has_steps(*inner))
    }

    fn is_step(&self, inst: Inst) -> bool {
        let op = self.func.op(inst);
        let rules = op.rules();
        flow::partitions(op).is_some()
            || rules.named_barrier().is_some()
            || rules.synchronizes_cluster()
            || rules.shared_accesses().iter().any(|(view, access)| {
                touches_barrier(*access)
                    || (reads(*access) || writes(*access)) && self.is_followed(*view)
            })
    }

    /// Is the view of something that asynchronous copies fill?
    fn is_followed(&self, view: Value) -> bool {
        let path = places::path(self.func, view);
        path.is_some_and(|path| self.places.stage_indices(path.allocation).is_some())
    }

    pub(crate) fn region(&mut self, region: Region) -> Result<(), Undecided> {
        for inst in self.func.region(region).insts.clone() {
            self.inst(inst)?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: Inst) -> Result<(), Undecided> {
        let func = self.func;
        let op = func.op(inst);
        if !self.has_steps(inst) {
            return match op {
                Op::If(_) if self.relevant.has_any(func.results(inst)) => self.branch(inst),
                Op::Barrier(_) => {
                    self.push(inst, What::Sync);
                    Ok(())
                }
                Op::WgmmaWait(wait) => {
                    self.push(inst, What::AwaitProducts(wait.pending));
                    Ok(())
                }
                Op::WgmmaStart(_) => {
                    self.push(inst, What::ReadByProduct(SmallVec::new()));
                    Ok(())
                }
                Op::TmaStore(_) | Op::BulkStore(_) => {
                    self.store(inst);
                    Ok(())
                }
                Op::TmaStoreWait(wait) => {
                    self.push(inst, What::AwaitStores(wait.pending));
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        match op {
            Op::For(_) => self.counted(inst),
            Op::While(_) => self.while_loop(inst),
            Op::If(_) => self.branch(inst),
            Op::WarpSpecialize(op) => {
                self.push(inst, What::Part);
                let regions = op.partitions.0.iter().copied();
                let mut parts = regions.zip(op.warps.iter().copied());
                let own = parts.next();
                self.workers.extend(parts);
                if let Some((own, _)) = own {
                    self.is_first_one_thread = self.func.suits_one_thread(own);
                    self.is_in_one_thread = self.is_first_one_thread;
                    self.region(own)?;
                    self.is_in_one_thread = false;
                }
                self.push(inst, What::Join);
                Ok(())
            }
            _ => self.barrier_op(inst),
        }
    }

    fn undecided(&self, inst: Inst, reason: &str) -> Undecided {
        Undecided {
            at: self.func.place(inst),
            reason: reason.into(),
        }
    }

    fn barrier_op(&mut self, inst: Inst) -> Result<(), Undecided> {
        // All warps meet before one thread arrives for them.
        if let Op::MbarrierArrive(op) = self.func.op(inst)
            && op.by == Arrivers::Partition
            && !self.is_in_one_thread
        {
            self.push(inst, What::Sync);
        }
        let what = match self.func.op(inst) {
            Op::MbarrierInit(op) => What::Init {
                barrier: op.barrier,
                count: op.count,
            },
            Op::MbarrierExpect(op) => What::Expect {
                barrier: op.barrier,
                bytes: self.counted_bytes(i64::from(op.bytes), op.count, 1),
                when: op.predicate.expand(),
            },
            Op::MbarrierArrive(op) if op.cta.is_some() => {
                return Err(self.undecided(inst, "it arrives at an mbarrier of another CTA"));
            }
            Op::MbarrierArrive(op) => What::Arrive {
                barrier: op.barrier,
                count: op.count,
                by: op.by,
                when: op.predicate.expand(),
            },
            Op::MbarrierWait(op) => What::Wait {
                barrier: op.barrier,
                parity: op.phase,
                when: op.predicate.expand(),
            },
            Op::MbarrierTryWait(_) => {
                return Err(self.undecided(inst, "the author's own loop polls an mbarrier here"));
            }
            Op::TmaLoad(op) if op.multicast.is_some() || op.to_copies => {
                return Err(self.undecided(inst, "the copy is multicast to other CTAs"));
            }
            Op::BulkLoad(op) if op.multicast.is_some() || op.to_copies => {
                return Err(self.undecided(inst, "the copy is multicast to other CTAs"));
            }
            Op::TmaLoad(op) => {
                let map = self.func.ty(op.map).as_tensor_map();
                let bytes = map.map_or(0, TensorMapType::block_bytes);
                What::Copy {
                    barrier: op.barrier,
                    view: op.view,
                    bytes: self.counted_bytes(i64::from(bytes), PackedOption::default(), 1),
                    when: op.predicate.expand(),
                }
            }
            Op::BulkLoad(op) => What::Copy {
                barrier: op.barrier,
                view: op.view,
                bytes: self.bulk_bytes(op.view, op.count),
                when: op.predicate.expand(),
            },
            Op::RemoteCopy(_) | Op::RemoteStoreAsync(_) => {
                return Err(self.undecided(inst, "it writes into another CTA"));
            }
            Op::AsyncArrive(op) => What::CopiesArrive {
                barrier: op.barrier,
                is_counted: op.is_counted,
            },
            Op::NamedSync(op) => What::NamedSync {
                number: op.number,
                threads: op.threads,
            },
            Op::NamedArrive(op) => What::NamedArrive {
                number: op.number,
                threads: op.threads,
            },
            op if op.rules().synchronizes_cluster() => return self.cluster_barrier(inst),
            op => {
                let rules = op.rules();
                let accesses = rules.shared_accesses();
                let is_barrier = accesses.iter().any(|(_, access)| touches_barrier(*access));
                if is_barrier || rules.named_barrier().is_some() {
                    return Err(
                        self.undecided(inst, "the model has no step for this barrier operation")
                    );
                }
                self.access(inst);
                return Ok(());
            }
        };
        self.push(inst, what);
        Ok(())
    }

    /// CTAs of a cluster run the same code up to it, which `check-clusters` makes sure of.
    fn cluster_barrier(&mut self, inst: Inst) -> Result<(), Undecided> {
        if self.func.parent(inst) != self.func.body {
            return Err(self.undecided(inst, "the cluster synchronizes within control flow"));
        }
        self.push(inst, What::Sync);
        Ok(())
    }

    fn store(&mut self, inst: Inst) {
        let (view, when) = match self.func.op(inst) {
            Op::TmaStore(op) => (op.view, op.predicate.expand()),
            Op::BulkStore(op) => (op.view, op.predicate.expand()),
            _ => return,
        };
        self.push(inst, What::ReadByStore { view, when });
    }

    fn access(&mut self, inst: Inst) {
        let accesses = self.func.op(inst).rules().shared_accesses();
        let views = accesses
            .iter()
            .filter(|(view, access)| reads(*access) && self.is_followed(*view));
        let views: SmallVec<[Value; 2]> = views.map(|(view, _)| *view).collect();
        for (view, access) in &accesses {
            if writes(*access) && self.is_followed(*view) {
                self.push(inst, What::Write(*view));
            }
        }
        match self.func.op(inst) {
            Op::TmaStore(_) | Op::BulkStore(_) => self.store(inst),
            Op::WgmmaStart(_) => {
                self.push(inst, What::ReadByProduct(views));
            }
            _ => {
                for view in views {
                    self.push(inst, What::Read(view));
                }
            }
        }
    }

    fn bulk_bytes(&self, view: Value, count: PackedOption<Value>) -> Bytes {
        let Some(s) = self.func.ty(view).as_smem() else {
            return self.counted_bytes(0, count, 1);
        };
        let of_element = i64::from(s.elem.bytes());
        match count.expand() {
            Some(_) => self.counted_bytes(0, count, of_element),
            None => self.counted_bytes(s.shape.product() as i64 * of_element, count, 1),
        }
    }

    /// `known` and `scale` times what is counted, which may itself be a multiple of something.
    fn counted_bytes(&self, mut known: i64, count: PackedOption<Value>, mut scale: i64) -> Bytes {
        let mut counted = None;
        let mut at = count.expand();
        while let Some(value) = at {
            counted = Some((self.classes.of(value), scale));
            at = None;
            if let Some(number) = self.func.constant_int(value) {
                known += number as i64 * scale;
                counted = None;
                continue;
            }
            let inst = self.func.def_inst(value);
            if let Some(Op::Binary(op)) = inst.map(|inst| self.func.op(inst)) {
                let factor = match op.op {
                    BinaryOp::Mul => self.func.constant_int(op.rhs),
                    BinaryOp::Shl => self
                        .func
                        .constant_int(op.rhs)
                        .map(|by| 1 << by.clamp(0, 32)),
                    _ => None,
                };
                if let Some(factor) = factor {
                    scale *= factor as i64;
                    at = Some(op.lhs);
                }
            }
        }
        Bytes { known, counted }
    }

    fn branch(&mut self, inst: Inst) -> Result<(), Undecided> {
        let Some(op) = flow::branch(self.func.op(inst)).cloned() else {
            return Ok(());
        };
        let fork = self.push(inst, What::Jump(0));
        self.region(op.then)?;
        self.assign_results(inst, op.then);
        let over = self.push(inst, What::Jump(0));
        self.steps[fork].what = What::Branch {
            condition: op.condition,
            otherwise: self.steps.len(),
        };
        self.region(op.otherwise)?;
        self.assign_results(inst, op.otherwise);
        self.steps[over].what = What::Jump(self.steps.len());
        Ok(())
    }

    fn assign_results(&mut self, inst: Inst, region: Region) {
        let results = self.func.results(inst).iter().copied();
        let moves = results.zip(yielded(self.func, region).iter().copied());
        let moves = self.kept(moves);
        if !moves.is_empty() {
            self.push(inst, What::Assign(moves));
        }
    }

    pub(crate) fn kept(&self, moves: impl Iterator<Item = (Value, Value)>) -> Moves {
        moves.filter(|(to, _)| self.relevant.has(*to)).collect()
    }
}

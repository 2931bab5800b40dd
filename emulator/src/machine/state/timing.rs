//! A model of time: when a warp issues, when what it reads is there, and how long the units of an SM are busy.
//!
//! Each warp has a time. Instructions issue in order, when their operands are there and the quarter of the SM that the warp belongs to is
//! free; waits take the time of what they wait for, if that is later. Each CTA has an SM of its own. [`costs`](super::costs) has the
//! numbers.

use smallvec::SmallVec;

use crate::machine::state::costs::{
    ACCESS_BYTES, COPY_BYTES, COPY_LATENCY, Cost, LEAST_PRODUCT, PRODUCT_BYTES, PRODUCT_LOSS,
    STORE_LATENCY, STORE_READ_LATENCY, cost_of,
};
use crate::program::{Code, NONE, Program, Site};
use ptx::{Inst, Role, Space, Type};

/// What each step of an entry costs.
#[derive(Debug)]
pub(crate) struct Timing {
    steps: Vec<Option<StepCost>>,
}

#[derive(Debug)]
struct StepCost {
    cost: Cost,
    reads: SmallVec<[u32; 6]>,
    writes: SmallVec<[u32; 4]>,
    moves: Moves,
}

/// Bytes that each lane moves between its registers and global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    Nothing,
    Load(u32),
    Store(u32),
}

/// Quarters of an SM, each of which issues the instructions of every fourth warp.
const QUARTERS: usize = 4;

/// Until when the units of a CTA's SM are busy, in cycles from the beginning of the CTA.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Units {
    issue: [u64; QUARTERS],
    tensor: [u64; QUARTERS],
    special: [u64; QUARTERS],
    copies: u64,
    /// Accesses of threads to global memory.
    accesses: u64,
    /// For how long each was busy, and what was moved.
    pub(crate) work: Work,
}

/// Cycles in which the units of a CTA's SM were busy, and the bytes that it moved from and to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    issue: [u64; QUARTERS],
    tensor: [u64; QUARTERS],
    special: [u64; QUARTERS],
    pub(crate) copies: u64,
    pub(crate) accesses: u64,
    pub(crate) loaded_bytes: u64,
    pub(crate) stored_bytes: u64,
}

impl Work {
    /// Of the quarter that issued the most.
    pub(crate) fn issue(&self) -> u64 {
        self.issue.into_iter().max().unwrap_or(0)
    }

    /// Of the quarter with the most special functions.
    pub(crate) fn special(&self) -> u64 {
        self.special.into_iter().max().unwrap_or(0)
    }

    /// Of the quarter whose tensor core had the most to do.
    pub(crate) fn tensor(&self) -> u64 {
        self.tensor.into_iter().max().unwrap_or(0)
    }
}

/// The times of a warp, in cycles from the beginning of its CTA.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarpTime {
    /// When it issues its next instruction.
    pub(crate) now: u64,
    /// Its turn ends when it is later than this, so that units serve warps in order of time; 0 where time is not modelled.
    pub(crate) turn: u64,
    /// When each register can be read.
    ready: Vec<u64>,
    /// Groups of bulk stores: lane, number, when shared memory has been read, when global memory has been written.
    stores: Vec<(u32, u64, u64, u64)>,
    /// When the `cp.async` of each committed group are complete; the open group last.
    pub(crate) copies: Vec<u64>,
}

impl WarpTime {
    /// Is no other warp behind it by more than a turn?
    pub(crate) fn is_in_turn(&self) -> bool {
        self.turn == 0 || self.now <= self.turn
    }

    /// It goes on no earlier.
    pub(crate) fn wait_until(&mut self, time: u64) {
        self.now = self.now.max(time);
    }

    /// Waits for the groups of bulk stores of a lane below a number.
    pub(crate) fn wait_for_stores(&mut self, lane: u32, below: u64, only_read: bool) {
        let due = self.stores.iter().filter(|s| s.0 == lane && s.1 < below);
        let until = due.map(|s| if only_read { s.2 } else { s.3 }).max();
        self.wait_until(until.unwrap_or(0));
        if !only_read {
            self.stores.retain(|s| s.0 != lane || s.1 >= below);
        }
    }

    /// Waits for `cp.async`, but for the last `open` groups.
    pub(crate) fn wait_for_copies(&mut self, open: u32) {
        let count = self.copies.len().saturating_sub(open as usize + 1);
        let until = self.copies[..count].iter().max().copied();
        self.wait_until(until.unwrap_or(0));
    }
}

impl Timing {
    pub(crate) fn of(program: &Program, code: &Code) -> Timing {
        let entry = program.module.entry(&code.name);
        let statements = entry.map(|entry| &entry.body.statements[..]);
        let cost = |site: &Site| {
            let is_own = site.is_lead && site.call == NONE;
            let statement = statements?.get(site.statement as usize)?;
            let instruction = statement.instruction().filter(|_| is_own)?;
            let mut step = StepCost {
                cost: cost_of(&instruction.inst),
                reads: SmallVec::new(),
                writes: SmallVec::new(),
                moves: moves(&instruction.inst),
            };
            step.reads
                .extend(instruction.guard.map(|guard| guard.reg.0));
            // Accumulators belong to the tensor cores until they are waited for.
            let is_product = matches!(instruction.inst, Inst::Wgmma(_));
            instruction.inst.visit_registers(|reg, role| match role {
                Role::Read => step.reads.push(reg.0),
                Role::Write => step.writes.push(reg.0),
                Role::ReadWrite if is_product => {}
                Role::ReadWrite => {
                    step.reads.push(reg.0);
                    step.writes.push(reg.0);
                }
            });
            Some(step)
        };
        Timing {
            steps: code.sites.iter().map(cost).collect(),
        }
    }

    /// A warp issues a step.
    pub(crate) fn issue(
        &self,
        (pc, mask): (u32, u32),
        (warp, time): (u32, &mut WarpTime),
        units: &mut Units,
    ) {
        let Some(step) = &self.steps[pc as usize] else {
            return;
        };
        let runs = mask != 0;
        let quarter = &mut units.issue[warp as usize % QUARTERS];
        let mut start = time.now;
        for &reg in &step.reads {
            start = start.max(time.ready.get(reg as usize).copied().unwrap_or(0));
        }
        let cost = if runs {
            step.cost
        } else {
            Cost {
                issue: step.cost.issue.min(1),
                special: 0,
                latency: 0,
                stall: step.cost.issue.min(1),
            }
        };
        if cost.issue > 0 {
            start = start.max(*quarter);
            if cost.special > 0 {
                let special = &mut units.special[warp as usize % QUARTERS];
                start = start.max(*special);
                *special = start + u64::from(cost.special);
                units.work.special[warp as usize % QUARTERS] += u64::from(cost.special);
            }
            *quarter = start + u64::from(cost.issue);
            time.now = start + u64::from(cost.stall);
            units.work.issue[warp as usize % QUARTERS] += u64::from(cost.issue);
        }
        let moved = units.access(start, step.moves, mask);
        let ready = moved + u64::from(cost.latency);
        for &reg in &step.writes {
            let at = reg as usize;
            if time.ready.len() <= at {
                time.ready.resize(at + 64, 0);
            }
            time.ready[at] = if runs { ready } else { time.ready[at] };
        }
    }
}

impl Units {
    /// The tensor core of a warp's quarter takes a product of `columns` of B and rows of A of `bytes`; gives when it is complete.
    pub(crate) fn product(&mut self, warp: u32, now: u64, columns: usize, bytes: usize) -> u64 {
        let cycles = (columns as u64 * bytes as u64 / PRODUCT_BYTES).max(LEAST_PRODUCT);
        let cycles = cycles + cycles / PRODUCT_LOSS;
        let quarter = warp as usize % QUARTERS;
        self.work.tensor[quarter] += cycles;
        let tensor = &mut self.tensor[quarter];
        *tensor = now.max(*tensor) + cycles;
        *tensor
    }

    /// A copy into shared memory is issued, of which `global_bytes` are read from global memory; gives when its bytes are there.
    pub(crate) fn copy(&mut self, now: u64, bytes: u64, global_bytes: u64) -> u64 {
        self.work.loaded_bytes += global_bytes;
        self.move_by_copy(now, bytes) + COPY_LATENCY
    }

    fn move_by_copy(&mut self, now: u64, bytes: u64) -> u64 {
        let cycles = bytes.div_ceil(COPY_BYTES);
        self.work.copies += cycles;
        self.copies = now.max(self.copies) + cycles;
        self.copies
    }

    /// Lanes of a warp access global memory; gives when the last of their bytes are on the way.
    fn access(&mut self, now: u64, moves: Moves, mask: u32) -> u64 {
        let lanes = u64::from(mask.count_ones());
        let bytes = match moves {
            Moves::Nothing => return now,
            Moves::Load(each) => {
                self.work.loaded_bytes += lanes * u64::from(each);
                lanes * u64::from(each)
            }
            Moves::Store(each) => {
                self.work.stored_bytes += lanes * u64::from(each);
                lanes * u64::from(each)
            }
        };
        let cycles = bytes.div_ceil(ACCESS_BYTES);
        self.work.accesses += cycles;
        self.accesses = now.max(self.accesses) + cycles;
        self.accesses
    }

    /// A bulk store of a lane's group is issued.
    pub(crate) fn store(&mut self, warp: &mut WarpTime, lane: u32, group: u64, bytes: u64) {
        self.work.stored_bytes += bytes;
        let moved = self.move_by_copy(warp.now, bytes);
        let (read, written) = (moved + STORE_READ_LATENCY, moved + STORE_LATENCY);
        warp.stores.push((lane, group, read, written));
    }
}

/// What an instruction moves between the registers of each lane and global memory.
fn moves(inst: &Inst) -> Moves {
    let bytes = |ty: Type, elements: Option<usize>| ty.bytes() * elements.unwrap_or(1) as u32;
    let is_global = |space| matches!(space, None | Some(Space::Global));
    match inst {
        Inst::Ld(load) if is_global(load.space) => {
            Moves::Load(bytes(load.ty, load.vec.as_ref().map(|vec| vec.len())))
        }
        Inst::St(store) if is_global(store.space) => {
            Moves::Store(bytes(store.ty, store.vec.as_ref().map(|vec| vec.len())))
        }
        _ => Moves::Nothing,
    }
}

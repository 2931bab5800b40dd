//! A model of time: when a warp issues, and when what it reads is there.
//!
//! Each warp has a time. Instructions issue in order, when their operands are there and the quarter of the SM that the warp belongs to is
//! free; waits take the time of what they wait for, if that is later. [`units`](super::units) are what instructions and copies wait for,
//! [`costs`](super::costs) has the numbers.

use smallvec::SmallVec;

use crate::machine::state::costs::{Cost, cost_of};
use crate::machine::state::units::Units;
use crate::program::{Code, NONE, Program, Site};
use ptx::{Inst, Role};

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
}

/// The times of a warp, in cycles from the beginning of its CTA.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarpTime {
    /// When it issues its next instruction.
    pub(crate) now: u64,
    /// When it issued the last one.
    pub(crate) issued: u64,
    /// Its turn ends when it is later than this, so that units serve warps in order of time; 0 where time is not modelled.
    pub(crate) turn: u64,
    /// When each register can be read.
    ready: Vec<u64>,
    /// Groups of bulk stores: lane, number, when shared memory has been read, when global memory has been written.
    pub(crate) stores: Vec<(u32, u64, u64, u64)>,
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
        let start = units.issue(warp, start, cost);
        time.issued = start;
        if cost.issue > 0 {
            time.now = start + u64::from(cost.stall);
        }
        if runs {
            self.delay(pc, time, start + u64::from(cost.latency));
        }
    }

    /// What a step writes is there at this time.
    pub(crate) fn delay(&self, pc: u32, time: &mut WarpTime, ready: u64) {
        let Some(step) = &self.steps[pc as usize] else {
            return;
        };
        for &reg in &step.writes {
            let at = reg as usize;
            if time.ready.len() <= at {
                time.ready.resize(at + 64, 0);
            }
            time.ready[at] = ready;
        }
    }
}

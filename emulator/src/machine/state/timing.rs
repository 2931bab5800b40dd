//! A model of time: when a warp issues, and when what it reads is there.
//!
//! Each warp has a time. Instructions issue in order, when their operands are there and the quarter of the SM that the warp belongs to is
//! free; waits take the time of what they wait for, if that is later. [`units`](super::units) are what instructions and copies wait for,
//! [`costs`](super::costs) has the numbers.

use smallvec::SmallVec;

use crate::machine::state::costs::{Cost, cost_of};
use crate::machine::state::units::Units;
use crate::machine::state::warp_time::WarpTime;
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
            start = start.max(time.ready(reg));
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
            time.set_ready(reg, ready);
        }
    }
}

//! Warp specialisation: groups of warps with code of their own.

use smallvec::smallvec;

use super::define::{Regions, answers, define_op};
use super::{OpRules, Types};
use crate::OpError;
use crate::{Effects, Func, Type};
use diag::Code;
use layout::Dims;

define_op! {
    /// Specializes warps: the first region is run by the kernel's own warps, each other by warps of its own, which the CTA
    /// has besides. All see the scalars and the shared memory made before; a tensor is seen by the threads that made it alone. It
    /// stands at the end of the kernel's own body, once.
    pub struct WarpSpecialize = "warp_specialize" {
        /// Warps of each region.
        warps: Dims,
        /// Registers per thread of each region; 0 leaves it to the planner.
        registers: Dims,
        /// The kernel's own warps first.
        partitions: Regions,
    }
}

impl WarpSpecialize {
    /// Warps of the CTA: each partition begins at a whole warpgroup, so that registers can be moved between them.
    pub fn total_warps(&self) -> u32 {
        // Of what is no partition yet, the sum need not fit a number.
        let sum = |warps: &[u32]| warps.iter().fold(0_u32, |sum, n| sum.saturating_add(*n));
        let in_groups = |warps: u32| warps.div_ceil(4).saturating_mul(4);
        let (own, workers) = self.warps.split_at(self.warps.rank().min(1));
        let workers: Dims = workers.iter().map(|&warps| room(warps)).collect();
        in_groups(sum(own)).saturating_add(in_groups(sum(&workers)))
    }

    /// The kernel's own warps, and with them where the workers begin.
    pub fn own_warps(&self) -> u32 {
        self.warps
            .first()
            .map_or(0, |own| own.div_ceil(4).saturating_mul(4))
    }

    /// The first warp of a partition: the kernel's own warps come first, then the workers, larger ones before smaller
    /// ones, so that a worker of whole warpgroups begins with one.
    pub fn first_warp(&self, partition: usize) -> u32 {
        if partition == 0 {
            return 0;
        }
        let own = self.own_warps();
        let size = |at: usize| self.warps.get(at).map_or(0, |&warps| room(warps));
        let comes_before = |at: &usize| {
            let other = size(*at);
            other > size(partition) || other == size(partition) && *at < partition
        };
        let before = (1..self.partitions.0.len()).filter(comes_before);
        own + before.map(size).sum::<u32>()
    }

    /// The barriers that are not the author's to name: one of the whole CTA, and then one of each partition.
    pub fn own_barriers(&self) -> u32 {
        1 + self.partitions.0.len() as u32
    }

    /// The hardware's number of the barrier of a partition's threads.
    pub fn barrier(partition: usize) -> u32 {
        1 + partition as u32
    }

    /// The warps from `first` on, where a worker begins, that change their registers together: those of one large
    /// worker, or of the small ones that share a warpgroup.
    pub fn group_from(&self, first: u32) -> std::ops::Range<u32> {
        let begins = |at: &usize| self.first_warp(*at) == first;
        let worker = (1..self.partitions.0.len()).find(begins);
        let warps = worker.map_or(1, |at| self.warps[at]);
        first..first + warps.next_multiple_of(4)
    }
}

/// Warps that a worker takes: a power of two shares a warpgroup with others, or fills several; what is none fills up its last
/// warpgroup, whose registers change together.
fn room(warps: u32) -> u32 {
    if warps.is_power_of_two() {
        warps
    } else {
        warps.div_ceil(4).saturating_mul(4)
    }
}

impl OpRules for WarpSpecialize {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let count = self.partitions.0.len();
        if count < 2 || self.warps.rank() != count || self.registers.rank() != count {
            return Err(OpError::new(
                Code::BrokenRule,
                format!(
                    "`warp_specialize` of {count} partitions has {} numbers of warps and {} of registers",
                    self.warps.rank(),
                    self.registers.rank()
                ),
            ));
        }
        if self.warps.contains(&0) {
            return Err(
                OpError::new(Code::WrongWarps, "a partition of 0 warps").help("use `Warps(1)`")
            );
        }
        if !self.warps[0].is_multiple_of(4) {
            return Err(OpError::new(
                Code::WrongWarps,
                format!(
                    "the kernel's own warps are whole warpgroups beside workers: a multiple of 4 warps, not {}",
                    self.warps[0]
                ),
            )
            .help("write `#[kernel(warps = 4)]`, 8 or 12"));
        }
        if self.warps[0] != func.warps {
            return Err(OpError::new(
                Code::WrongWarps,
                format!(
                    "the kernel's own partition has {} warps, and the kernel has {}",
                    self.warps[0], func.warps
                ),
            )
            .help(format!(
                "the first partition is run by the kernel's own warps: give it {}",
                func.warps
            )));
        }
        // A single count may overflow the sum.
        let most = func.target.cta.warps();
        if let Some(wrong) = self.warps.iter().find(|w| **w > most) {
            return Err(OpError::new(
                Code::WrongWarps,
                format!("a partition has {wrong} warps, and a CTA has at most {most}"),
            )
            .help("use fewer warps"));
        }
        if self.total_warps() > most {
            return Err(OpError::new(
                Code::WrongWarps,
                format!(
                    "the partitions have {} warps, and a CTA has at most {most}",
                    self.total_warps()
                ),
            )
            .help("use fewer workers, or fewer warps in each"));
        }
        let limits = &func.target.registers;
        let (unit, least, most) = (limits.unit, limits.least_budget, limits.most_budget);
        let is_budget = |r: u32| r.is_multiple_of(unit) && (least..=most).contains(&r);
        if let Some(wrong) = self.registers.iter().find(|&&r| r != 0 && !is_budget(r)) {
            return Err(OpError::new(
                Code::RegisterBudget,
                format!(
                    "a budget is a multiple of {unit} from {least} to {most} registers, not {wrong}"
                ),
            )
            .help(format!(
                "write `.registers({})`",
                (wrong / unit * unit).clamp(least, most)
            )));
        }
        self.check_budget(func)?;
        for &region in &self.partitions.0 {
            if !func.region(region).params.is_empty() {
                return Err(OpError::new(
                    Code::BrokenRule,
                    "a partition takes no parameters: it uses values that are defined before it",
                ));
            }
        }
        Ok(smallvec![])
    }
    answers!(effects(Effects::BARRIER), free_layouts);
}

impl WarpSpecialize {
    /// Registers that every thread of the CTA is launched with: all that it can have, in the unit of `setmaxnreg`.
    pub fn registers_at_launch(&self, func: &Func) -> u32 {
        let most = func.registers_of_thread(self.total_warps() * 32);
        let unit = func.target.registers.unit;
        most / unit * unit
    }

    /// Registers that the partitions share. `setmaxnreg` redistributes what the launch took and nothing else, so that a
    /// partition that asks for more would wait for ever.
    pub fn registers_of_cta(&self, func: &Func) -> u32 {
        self.registers_at_launch(func) * self.total_warps() * 32
    }

    /// The budgets that the author gave must fit what the CTA has together, each warpgroup at its largest.
    fn check_budget(&self, func: &Func) -> Result<(), OpError> {
        if self.registers.contains(&0) {
            return Ok(());
        }
        let main = self.warps[0] * 32 * self.registers[0];
        let mut of_group = [0_u32; 8];
        for partition in 1..self.warps.rank() {
            let first = self.first_warp(partition) / 4;
            let last = (self.first_warp(partition) + self.warps[partition] - 1) / 4;
            for group in first..=last {
                let most = &mut of_group[group as usize];
                *most = (*most).max(self.registers[partition]);
            }
        }
        let workers: u32 = of_group.iter().map(|r| r * 128).sum();
        let all = self.registers_of_cta(func);
        if main + workers <= all {
            return Ok(());
        }
        let several = match func.min_ctas_per_sm {
            Some(ctas @ 2..) => format!(" where {ctas} CTAs fit an SM"),
            _ => String::new(),
        };
        Err(OpError::new(
            Code::RegisterBudget,
            format!(
                "the budgets add up to {} registers ({main} of the kernel's own warps, {workers} of the workers), and the {} warps of the CTA are launched with {all}{several}",
                main + workers,
                self.total_warps()
            ),
        )
        .help(format!(
            "give the {} warpgroups budgets that add up to at most {}",
            self.total_warps() / 4,
            all / 128
        )))
    }
}

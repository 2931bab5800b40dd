//! Which warps run a region: the kernel's own, or those of a partition.

use super::Func;
use crate::Type;
use crate::entity::{Inst, Region, Value};
use crate::ops::warps::WarpSpecialize;
use crate::ops::{Scratch, flow};

impl Func {
    /// Warps that a CTA is launched with: the kernel's own, and those of the workers where it parts.
    pub fn launch_warps(&self) -> u32 {
        let parting = self.regions[self.body]
            .insts
            .iter()
            .find_map(|inst| flow::partitions(self.op(*inst)));
        parting.map_or(self.warps, WarpSpecialize::total_warps)
    }

    /// The warps that run an instruction: the kernel's own, or those of the partition that it stands in.
    pub fn warps_at(&self, inst: Inst) -> u32 {
        self.warps_in(self.parent(inst))
    }

    /// The warps that run a region.
    pub fn warps_in(&self, region: Region) -> u32 {
        self.partition_of(region).unwrap_or(self.warps)
    }

    /// The warps of the partition that a region belongs to; none outside of partitions.
    pub fn partition_of(&self, region: Region) -> Option<u32> {
        let mut region = region;
        while let Some(owner) = self.regions[region].owner.expand() {
            if let Some(w) = flow::partitions(self.op(owner))
                && let Some(at) = w.partitions.0.iter().position(|r| *r == region)
            {
                // A text may name fewer numbers than partitions, which verification reports.
                return w.warps.get(at).copied();
            }
            region = self.parent(owner);
        }
        None
    }

    /// Can one thread run a whole region, since it has no tensors and no barriers? Then the other threads of its partition leave.
    pub fn suits_one_thread(&self, region: Region) -> bool {
        let is_of_one = |&value: &Value| {
            matches!(
                self.ty(value),
                Type::Scalar(_) | Type::Smem(_) | Type::TensorMap(_)
            )
        };
        self.region(region).insts.iter().all(|&inst| {
            let op = self.op(inst);
            let mut regions = op.regions().into_iter();
            op.rules().suits_one_thread()
                && op.rules().scratch().is_none_or(Scratch::is_none)
                && op
                    .operands()
                    .iter()
                    .chain(self.results(inst))
                    .all(is_of_one)
                && regions.all(|inner| self.suits_one_thread(inner))
        })
    }
}

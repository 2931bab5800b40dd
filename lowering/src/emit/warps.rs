//! `warp_specialize`: a branch by the warp's number to the code of its partition, with its register budget (`setmaxnreg`).

use std::ops::Range;

use ir::entity::Inst;
use ir::ops::warps::WarpSpecialize;
use ptx::{Compare, Label, Predicate, SetMaxNRegOp, Type};

use super::partition::Partition;
use super::{Emitted, Emitter, Lower};

impl Lower for WarpSpecialize {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        // All partitions observe what was written before.
        cx.sync_partition();
        let start = cx
            .func
            .max_registers
            .expect("`plan-warps` says what all warps start with");
        let end = cx.code.label("joined");
        let workers = cx.code.label("workers");
        let own_warps = self.own_warps();
        cx.leave_unless_below(own_warps, workers);
        cx.take_registers(start, self.registers[0]);
        cx.partition_code(self, 0, end)?;
        cx.code.branch(None, end, true);
        cx.code.bind(workers);
        let mut first = own_warps;
        while first < self.total_warps() {
            let group = self.group_from(first);
            let next = cx.code.label("group");
            cx.leave_unless_below(group.end, next);
            cx.group(self, &group, start, end)?;
            cx.code.bind(next);
            first = group.end;
        }
        cx.code.bind(end);
        Ok(())
    }
}

impl Emitter<'_> {
    /// Warps from `bound` on go elsewhere.
    fn leave_unless_below(&mut self, bound: u32, target: Label) {
        let warp = self.code.warp_of_cta();
        let is_other = self.code.setp(Compare::Ge, Type::U32, warp, bound);
        self.code
            .branch(Some(Predicate::is(is_other)), target, true);
    }

    /// Warpgroups that change their registers together, then each worker in them goes its way. Warps that only fill up
    /// the last warpgroup are done.
    fn group(
        &mut self,
        op: &WarpSpecialize,
        group: &Range<u32>,
        start: u32,
        end: Label,
    ) -> Emitted {
        let mut members: Vec<usize> = (1..op.partitions.0.len())
            .filter(|&at| group.contains(&op.first_warp(at)))
            .collect();
        members.sort_by_key(|&at| op.first_warp(at));
        let most = members.iter().map(|&at| op.registers[at]).max();
        self.take_registers(start, most.unwrap_or(start));
        for at in members {
            let last = op.first_warp(at) + op.warps[at];
            if last == group.end {
                self.partition_code(op, at, end)?;
                continue;
            }
            let next = self.code.label("next");
            self.leave_unless_below(last, next);
            self.partition_code(op, at, end)?;
            self.code.branch(None, end, true);
            self.code.bind(next);
        }
        self.code.branch(None, end, true);
        Ok(())
    }

    /// Gives registers back, or takes more (PTX ISA, `setmaxnreg`: the whole warpgroup does).
    fn take_registers(&mut self, have: u32, want: u32) {
        let op = match want.cmp(&have) {
            std::cmp::Ordering::Less => SetMaxNRegOp::Dec,
            std::cmp::Ordering::Greater => SetMaxNRegOp::Inc,
            std::cmp::Ordering::Equal => return,
        };
        self.code.push(ptx::SetMaxNReg::new(op, want));
    }

    /// The code of a partition, which ends the kernel at `end`. What one thread can do alone, the first does: the others
    /// leave, so that nothing is said for every thread and guarded for one.
    fn partition_code(&mut self, op: &WarpSpecialize, at: usize, end: Label) -> Emitted {
        let region = op.partitions.0[at];
        let mut partition = Partition {
            first_warp: op.first_warp(at),
            warps: op.warps[at],
            barrier: WarpSpecialize::barrier(at),
            followers: 0,
            is_one_thread: false,
        };
        let is_one_thread = self.func.suits_one_thread(region);
        if is_one_thread {
            let first = self.in_partition(partition, |cx| {
                cx.code.thread_bits_clear(partition.thread_bits())
            });
            self.code.branch(Some(Predicate::not(first)), end, false);
            partition.is_one_thread = true;
        }
        self.in_partition(partition, |cx| {
            cx.begin_recorder(at);
            cx.region(region)?;
            cx.end_recorder();
            Ok(())
        })
    }
}

impl Emitter<'_> {
    /// Runs `make` as the code of one partition.
    pub(super) fn in_partition<T>(
        &mut self,
        partition: Partition,
        make: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = std::mem::replace(&mut self.code.partition, partition);
        self.code.open();
        let result = make(self);
        self.code.close();
        self.code.partition = before;
        result
    }
}

//! Warp specialization.

use super::super::{At, Trace, with};
use diag::Code;
use ir::OpError;
use ir::entity::Region;
use ir::ops::Values;
use ir::ops::control::Yield;
use ir::ops::define::Regions;
use ir::ops::sync::{NamedArrive, NamedBarrier, NamedSync, check_threads};
use ir::ops::warps::WarpSpecialize;

/// `warp_specialize` stands in the kernel's body alone.
#[inline(never)]
pub(crate) fn begin_parting(at: At) {
    with(at, |trace| {
        if trace.partition_warps.is_some() {
            let error = OpError::new(
                Code::MisplacedPartition,
                "`warp_specialize` inside a partition: warps are specialized once",
            );
            trace.fail(error.help("add a worker to the outer one"), at);
        } else if trace.builder.depth() > 1 {
            let error = OpError::new(
                Code::MisplacedPartition,
                "`warp_specialize` inside a loop or branch of the kernel",
            );
            trace.fail(
                error.help("write it at the end of the kernel, and the loop inside each partition"),
                at,
            );
        }
    });
}

/// The warps of the partition being traced, or of the kernel.
#[inline(never)]
pub(crate) fn num_warps(at: At) -> u32 {
    with(at, |trace| {
        let own = trace.builder.func().warps;
        trace.partition_warps.unwrap_or(own)
    })
}

/// Begins a partition: the kernel's own warps, or so many of a worker.
#[inline(never)]
pub(crate) fn open_partition(warps: Option<u32>, at: At) {
    with(at, |trace| {
        let own = trace.builder.func().warps;
        trace.outer_partitions.push(trace.partition_warps);
        trace.partition_warps = Some(warps.unwrap_or(own));
        trace.builder.open(&[]);
        trace.partition_depths.push(trace.builder.depth());
    });
}

/// Ends the partition begun last.
#[inline(never)]
pub(crate) fn close_partition(at: At) -> Region {
    with(at, |trace| {
        if let Some(depth) = trace.partition_depths.pop() {
            trace.close_left(depth, at);
        }
        let values = Values::new();
        trace.push(Yield { values }, &[], at);
        trace.partition_warps = trace.outer_partitions.pop().flatten();
        trace.builder.close()
    })
}

/// There is one `main`.
#[inline(never)]
pub(crate) fn second_main(at: At) {
    with(at, |trace| {
        let message = "`main` is given twice: the kernel's own warps run one partition";
        trace.fail(OpError::new(Code::MisplacedPartition, message), at);
    });
}

/// The warps part: `main` with its registers, and workers as warps, registers and code.
#[inline(never)]
pub(crate) fn part(registers: u32, main: Option<Region>, workers: &[(u32, u32, Region)], at: At) {
    with(at, |trace| {
        if trace.builder.depth() > 1 {
            // Reported where it began.
            return;
        }
        let Some(main) = main.filter(|_| !workers.is_empty()) else {
            incomplete(trace, at);
            return;
        };
        let own = trace.builder.func().warps;
        let op = WarpSpecialize {
            warps: std::iter::once(own)
                .chain(workers.iter().map(|w| w.0))
                .collect(),
            registers: std::iter::once(registers)
                .chain(workers.iter().map(|w| w.1))
                .collect(),
            partitions: Regions(
                std::iter::once(main)
                    .chain(workers.iter().map(|w| w.2))
                    .collect(),
            ),
        };
        trace.push(op, &[], at);
    });
}

fn incomplete(trace: &mut Trace, at: At) {
    let message = "`warp_specialize` needs a `main` partition and at least one worker";
    let error = OpError::new(Code::MisplacedPartition, message);
    trace.fail(
        error.help("write `.main(|| { .. }).worker(Warps(1), || { .. }).run()`"),
        at,
    );
}

/// The partitions were described and dropped.
#[inline(never)]
pub(crate) fn never_run(at: At) {
    with(at, |trace| {
        let message = "the partitions of this `warp_specialize` never run";
        let error = OpError::new(Code::MisplacedPartition, message);
        trace.fail(error.help("end the statement with `.run()`"), at);
    });
}

/// A new barrier that partitions share. One that was reported as wrong counts no threads.
#[inline(never)]
pub(crate) fn name_barrier(threads: u32, at: At) -> NamedBarrier {
    with(at, |trace| {
        let number = trace.named_barriers;
        trace.named_barriers += 1;
        let func = trace.builder.func();
        let most = func.target.cta.barriers;
        let wrong = check_threads(func, threads).err();
        let wrong = wrong.or_else(|| (number + 1 == most).then(|| one_too_many(most)));
        let is_right = wrong.is_none();
        if let Some(error) = wrong {
            trace.fail(error, at);
        }
        NamedBarrier {
            number,
            threads: if is_right { threads } else { 0 },
        }
    })
}

fn one_too_many(barriers: u32) -> OpError {
    let message = format!(
        "this is named barrier {barriers}, and a CTA has {barriers} barriers: one is for all its threads"
    );
    OpError::new(Code::NamedBarrier, message)
        .help("use an `Mbarrier`, whose number only shared memory limits")
}

/// The threads arrive at a named barrier, and wait there or continue.
#[inline(never)]
pub(crate) fn named_barrier_arrive(barrier: NamedBarrier, waits: bool, at: At) {
    with(at, |trace| {
        let NamedBarrier { number, threads } = barrier;
        if threads == 0 {
            // Reported where it was made.
        } else if waits {
            trace.push(NamedSync { number, threads }, &[], at);
        } else {
            trace.push(NamedArrive { number, threads }, &[], at);
        }
    });
}

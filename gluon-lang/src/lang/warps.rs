//! The warps part: what the kernel's own warps and its workers do at the same time.

use crate::entity::Region;

use super::trace::{self, At, here};

/// Lets the warps part, at the end of a kernel's own body. The kernel's own warps run `main`, and each worker runs on warps
/// of its own, which the CTA has besides:
///
/// ```text
/// warp_specialize()
///     .main(|| { .. })
///     .worker(Warps(1).registers(40), || { .. });
/// ```
///
/// All partitions see the scalars, tensor maps and shared memory made before. A tensor is seen only where it was made (TK0079).
/// What they tell each other goes through shared memory, [`Mbarrier`](super::Mbarrier)s and
/// [`NamedBarrier`](super::NamedBarrier)s.
///
/// It is the last thing that a kernel's own body does, once, with one `main` and at least one worker (TK0078). A CTA has 32 warps
/// at most, those of all partitions together, and 65536 registers: budgets that do not fit, and a partition that its budget
/// cannot hold, are errors (TK0075).
#[track_caller]
#[must_use = "say what the partitions do: `.main(..).worker(..)`"]
pub fn warp_specialize() -> WarpSpecialize {
    let at = here();
    trace::begin_parting(at);
    WarpSpecialize {
        at,
        registers: 0,
        main: None,
        workers: Vec::new(),
    }
}

/// Warps that part; they do when all partitions have been said.
pub struct WarpSpecialize {
    at: At,
    registers: u32,
    main: Option<Region>,
    workers: Vec<(Warps, Region)>,
}

/// Warps of one worker, a power of two, and what they get: `Warps(1).registers(40)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warps {
    count: u32,
    registers: u32,
}

/// So many warps.
#[allow(non_snake_case, reason = "it makes a `Warps`")]
pub const fn Warps(count: u32) -> Warps {
    Warps {
        count,
        registers: 0,
    }
}

impl Warps {
    /// Registers of each thread, a multiple of 8 from 24 to 256 (PTX `setmaxnreg`). Warps that share a warpgroup have the largest of theirs.
    /// Without it they keep what all warps start with, an equal share.
    #[must_use]
    pub const fn registers(mut self, registers: u32) -> Self {
        self.registers = registers;
        self
    }
}

impl WarpSpecialize {
    /// Registers of each thread of the kernel's own warps. Without it they get what the workers leave.
    #[must_use]
    pub fn registers(mut self, registers: u32) -> Self {
        self.registers = registers;
        self
    }

    /// What the kernel's own warps do.
    #[must_use]
    #[track_caller]
    pub fn main(mut self, body: impl FnOnce()) -> Self {
        let at = here();
        if self.main.is_some() {
            trace::second_main(at);
        }
        trace::open_partition(None, at);
        body();
        self.main = Some(trace::close_partition(at));
        self
    }

    /// What a worker does.
    #[allow(
        clippy::return_self_not_must_use,
        reason = "the last worker ends the statement"
    )]
    #[track_caller]
    pub fn worker(mut self, warps: Warps, body: impl FnOnce()) -> Self {
        let at = here();
        trace::open_partition(Some(warps.count), at);
        body();
        self.workers.push((warps, trace::close_partition(at)));
        self
    }
}

impl Drop for WarpSpecialize {
    /// Where the statement ends, all partitions are known.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let workers: Vec<_> = self
                .workers
                .iter()
                .map(|(warps, region)| (warps.count, warps.registers, *region))
                .collect();
            trace::part(self.registers, self.main, &workers, self.at);
        }
    }
}

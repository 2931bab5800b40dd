//! Warp specialization: partitions of the kernel's own warps and of worker warps.

use super::HostInt;
use super::trace::{self, At, here};
use ir::entity::Region;

/// Specializes warps, at the end of a kernel's own body. The kernel's own warps run `main`, and each worker runs on additional warps of
/// the CTA:
///
/// ```text
/// warp_specialize()
///     .main(|| { .. })
///     .worker(Warps(1).registers(40), || { .. })
///     .run();
/// ```
///
/// All partitions see the scalars, tensor maps and shared memory made before. A tensor is seen only where it was made (TK0079).
/// They communicate through shared memory, [`Mbarrier`](super::Mbarrier)s and
/// [`NamedBarrier`](super::NamedBarrier)s.
///
/// It is the last thing that a kernel's own body does, once, with one `main` and at least one worker (TK0078). The warps of all
/// partitions together are those of one CTA, whose registers they share: budgets that do not fit, and a partition that its
/// budget cannot hold, are errors (TK0075).
#[track_caller]
pub fn warp_specialize() -> WarpSpecialize {
    let at = here();
    trace::begin_parting(at);
    WarpSpecialize {
        at,
        registers: 0,
        main: None,
        workers: Vec::new(),
        runs: false,
    }
}

/// Partitions being described. They run at [`run`](WarpSpecialize::run); without it the kernel is refused (TK0078).
#[must_use = "the partitions run at `.run()`: end the statement with it"]
pub struct WarpSpecialize {
    at: At,
    registers: u32,
    main: Option<Region>,
    workers: Vec<(u32, u32, Region)>,
    runs: bool,
}

/// The warps that run the code being traced: those of the partition, within [`warp_specialize`], or else the kernel's. A number of
/// the host, for layouts of code that partitions of different sizes share:
/// `Blocked::new([1], [32], [num_warps()], [0])`.
#[track_caller]
pub fn num_warps() -> usize {
    trace::num_warps(here()) as usize
}

/// Warps of one worker and what they get: `Warps(1).registers(40)`. A number that is no power of two fills up its last warpgroup
/// with warps that leave at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warps {
    count: i128,
    registers: u32,
}

/// The warps of a worker.
#[allow(non_snake_case, reason = "it makes a `Warps`")]
pub fn Warps(count: impl HostInt) -> Warps {
    Warps {
        count: count.to_i128(),
        registers: 0,
    }
}

impl Warps {
    /// Registers of each thread, in the range and unit of PTX `setmaxnreg`. Warps that share a warpgroup have the largest of theirs.
    /// Without it they keep what all warps start with, an equal share.
    #[must_use]
    pub const fn registers(mut self, registers: u32) -> Self {
        self.registers = registers;
        self
    }
}

impl WarpSpecialize {
    /// Registers of each thread of the kernel's own warps. Without it they get what the workers leave.
    pub fn registers(mut self, registers: u32) -> Self {
        self.registers = registers;
        self
    }

    /// What the kernel's own warps do.
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
    #[track_caller]
    pub fn worker(mut self, warps: Warps, body: impl FnOnce()) -> Self {
        let at = here();
        let count = trace::count_of(warps.count, "the warps of a worker", at);
        trace::open_partition(Some(count), at);
        body();
        let region = trace::close_partition(at);
        self.workers.push((count, warps.registers, region));
        self
    }

    /// What each of several workers does: `body` gets their numbers, one after the other. `.workers(1..3, Warps(4), multiply)` are
    /// `multiply(1)` and `multiply(2)`, on four warps each.
    #[track_caller]
    pub fn workers(
        mut self,
        numbers: impl IntoIterator<Item = usize>,
        warps: Warps,
        body: impl Fn(usize),
    ) -> Self {
        for number in numbers {
            self = self.worker(warps, || body(number));
        }
        self
    }

    /// Runs the partitions, each on its warps. The kernel ends when all of them have.
    pub fn run(mut self) {
        self.runs = true;
        trace::part(self.registers, self.main, &self.workers, self.at);
    }
}

impl Drop for WarpSpecialize {
    /// Code of partitions that never run is a mistake, and no operation says where it is.
    fn drop(&mut self) {
        if !self.runs && !std::thread::panicking() {
            trace::never_run(self.at);
        }
    }
}

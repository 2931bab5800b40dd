//! Flags between ranks that hold numbers of launches, so that launches need no number of their own from the host and are captured and replayed as they are.

use tilekit::prelude::*;

/// Bits of the arrivals of a launch, which has fewer CTAs than that; the number of the launch is above them.
const ARRIVALS: u32 = 16;

/// The most ranks, each of which has a flag that says which launch it is at.
pub(crate) const MOST_RANKS: usize = 16;

/// Lanes of a warp.
const LANES: usize = 32;

/// The number of this launch, from 1: counts the CTA in `word`. Every CTA of the launch calls it once, with all threads of it or of one partition.
///
/// Of n CTAs the first adds 2¹⁶ - (n - 1) and each other one adds 1, so that the upper part has grown by 1 once all have been counted and not before, and
/// the lower part is 0 again. Launches may differ in their grids, and none needs a number from the host. The number wraps after 2⁴⁸ launches.
#[device]
pub(super) fn launch_number(word: Ptr<u64>) -> Scalar<i64> {
    let rest = (1_u64 << ARRIVALS) + 1 - num_programs(0).cast::<u64>();
    let step = select(program_id(0) == 0, rest, 1_u64);
    let old = word.at(0).relaxed().atomic_add(step).old();
    (old >> ARRIVALS).cast::<i64>() + 1
}

/// What the CTAs of a launch know of the ranks, and their flags: `i64` in memory that every rank has and all access, 0 at first.
///
/// # Numbers of launches
///
/// Launches on these flags are numbered from 1 ([`launch_number`]), on all ranks alike: each is launched on all of them.
///
/// A flag is the number of the last launch that has raised it, and one CTA of one rank raises it in a launch. Numbers only grow, so that nothing is reset,
/// a flag that is raised early is not lost, and a launch of other sizes, which raises other flags, leaves nothing behind that a later one could take for its own.
///
/// # Reuse of memory
///
/// Rank r *has begun* launch e when its flag among the first says so. Then all of its launches before e have ended, and nothing reads what they
/// were sent: a sender waits for that and overwrites it.
///
/// # Limit
///
/// A wait for a flag that is not raised within the limit ends the kernel with a trap, as [`WaitLimit`] has it: the word of the host names the slot, r for rank r that has not begun the launch and
/// [`MOST_RANKS`] + f for flag f, and by how many launches its number is too small. In a partition of one warp no wait takes a barrier.
///
/// # Order
///
/// As for [`Signals`]: raising is `st.release.sys` of one thread behind a barrier of the partition, waiting is a poll by `ld.relaxed.sys` and a `fence.acq_rel.sys`.
/// Bulk stores are complete by `tma_store_wait(0)` before a flag is raised; what is loaded or overwritten by TMA behind a wait takes `fence_async_global`.
#[derive(Clone, Copy, Aggregate)]
pub(crate) struct Mail {
    limit: WaitLimit,
    own: Ptr<i64>,
    of_ranks: PeerMap<i64>,
    /// The number of this launch.
    launch: Scalar<i64>,
    /// This rank, and how many there are.
    pub(crate) rank: Scalar<i32>,
    pub(crate) ranks: Scalar<i32>,
}

/// What a launch passes of the ranks and their flags.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct Mailbox {
    /// Flags of this rank: a number for each rank that there may be, and those of the kernel behind them; and the same of each rank.
    pub(crate) flags: Ptr<i64>,
    pub(crate) flags_of: PeerMap<i64>,
    /// One number of this rank, for all kernels of this module.
    pub(crate) launches: Ptr<u64>,
    pub(crate) limit: WaitLimit,
    /// This rank, and how many there are.
    pub(crate) rank: Scalar<i32>,
    pub(crate) ranks: Scalar<i32>,
}

impl Mail {
    /// Counts the CTA and so learns the number of the launch. Every CTA of the launch calls it once, with all of its threads.
    #[device]
    pub(crate) fn open(of: Mailbox) -> Mail {
        let Mailbox {
            flags,
            flags_of,
            launches,
            limit,
            rank,
            ranks,
        } = of;
        static_assert!(
            is_cooperative(),
            "ranks wait for CTAs of each other, which all need to be resident: write `#[kernel(.., cooperative)]`"
        );
        assume((ranks > 0) & (ranks <= MOST_RANKS as i32));
        assume((rank >= 0) & (rank < ranks));
        Mail {
            limit,
            own: flags,
            of_ranks: flags_of,
            launch: launch_number(launches),
            rank,
            ranks,
        }
    }

    /// Signals all ranks that this one has begun the launch. One warp of each CTA calls it.
    #[device]
    pub(crate) fn announce(self) {
        if program_id(0) == 0 {
            for peer in range(0, self.ranks) {
                self.raise_at(peer, self.rank);
            }
        }
    }

    /// Waits until a rank has begun the launch, so that what it was sent before may be overwritten.
    #[device]
    pub(crate) fn wait_begun(self, rank: Scalar<i32>) {
        self.wait_at(rank);
    }

    /// Waits until all other ranks have begun the launch: what they did before it is done.
    #[device]
    pub(crate) fn wait_all_begun(self) {
        for places in range(1, self.ranks) {
            self.wait_begun(self.before(places));
        }
    }

    /// Waits until the CTAs of this index of all ranks, which have equally many, have called it: what they have stored before is there, and what they have read may be overwritten. There is a flag for each CTA of each rank, and a launch calls it once.
    #[device]
    pub(crate) fn meet(self) {
        let flag = |rank: Scalar<i32>| rank * num_programs(0) + program_id(0);
        for places in range(1, self.ranks) {
            self.raise(self.before(places), flag(self.rank));
        }
        for places in range(1, self.ranks) {
            self.wait(flag(self.before(places)));
        }
    }

    /// Raises a flag of a rank, behind what this partition has stored there.
    #[device]
    pub(crate) fn raise(self, rank: Scalar<i32>, flag: Scalar<i32>) {
        self.raise_at(rank, flag + MOST_RANKS as i32);
    }

    /// Waits for an own flag, in front of loads by TMA.
    #[device]
    pub(crate) fn wait(self, flag: Scalar<i32>) {
        self.wait_at(flag + MOST_RANKS as i32);
    }

    /// Waits for so many own flags that follow each other, in front of loads by TMA. One warp calls it, each lane of which waits for a flag.
    #[device]
    pub(crate) fn wait_all(self, first: Scalar<i32>, count: Scalar<i32>) {
        let lane = arange(0..LANES, Blocked::new([1], [LANES], [1], [0]));
        for before in range(0, count).step(LANES as i32) {
            let (slot, is_flag) = (
                lane + (first + before + MOST_RANKS as i32),
                before + lane < count,
            );
            let flags = self.own.at(slot).mask(is_flag).scope(Scope::Sys).acquire();
            let polled = flags.atomic_poll_within(self.limit.ns, |seen| seen >= self.launch);
            let missing = select(is_flag, self.launch - polled.seen(), 0_i64);
            self.limit
                .check(slot, minimum(missing, i64::from(i32::MAX)).cast::<i32>());
        }
        fence_async_global();
    }

    /// Rests for so many nanoseconds.
    #[device]
    pub(crate) fn rest(self, nanoseconds: Scalar<i32>) {
        if nanoseconds > 0 {
            // Numbers of launches are never below 0.
            let flag = self.own.at(0).relaxed().scope(Scope::Sys);
            flag.atomic_poll_within(nanoseconds.cast::<i64>(), |seen| seen < 0);
        }
    }

    /// The rank so many places before this one, less than there are ranks.
    #[device]
    pub(crate) fn before(self, places: Scalar<i32>) -> Scalar<i32> {
        (self.rank + self.ranks - places) % self.ranks
    }

    /// The rank so many places behind this one.
    #[device]
    pub(crate) fn behind(self, places: Scalar<i32>) -> Scalar<i32> {
        (self.rank + places) % self.ranks
    }

    #[device]
    fn raise_at(self, rank: Scalar<i32>, slot: Scalar<i32>) {
        let place = self.of_ranks.of(rank).at(slot).release();
        place.atomic_store(self.launch);
    }

    #[device]
    fn wait_at(self, slot: Scalar<i32>) {
        let flag = self.own.at(slot).scope(Scope::Sys).acquire();
        let polled = flag.atomic_poll_within(self.limit.ns, |seen| seen >= self.launch);
        let missing = minimum(self.launch - polled.seen(), i64::from(i32::MAX));
        self.limit.check_one(slot, missing.cast::<i32>());
        fence_async_global();
    }
}

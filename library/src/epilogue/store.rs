//! Epilogue buffers from which results are stored by TMA.

use gluon_lang::lang::Coordinates;
use gluon_lang::lang::prelude::*;

use crate::schedule::TileScheduler;

/// Epilogue buffers in shared memory, from which the results of several groups of warps are stored by TMA. Consumers fill a buffer
/// and continue; another warp stores it. With fewer buffers than groups the groups use them in turn and run staggered, so that the tensor
/// cores are busy while one group converts.
///
/// ```text
/// consumers of group g:   turn = epilogue.fill(g, turn, sums.cast::<T>());
/// a warp for group g:     turn = epilogue.store(g, turn, c, [row, column]);
/// ```
///
/// `filled` counts one arrival of each warp of a group, which follows a fence of the async proxy, so that TMA reads what the threads
/// stored. `ready` counts one: of the warp that has waited until the TMA store before has read the buffer.
#[derive(Clone, Copy, Aggregate)]
pub struct EpilogueStore<T> {
    tiles: Smem<T>,
    /// A phase completes when it is the turn of a group.
    ready: Mbarriers,
    /// A phase completes when a group has filled its buffer.
    filled: Mbarriers,
    turns: Turns,
}

/// The groups that share epilogue buffers, and the number of buffers.
#[derive(Clone, Copy, Aggregate)]
pub struct Turns {
    /// Buffers in shared memory: as many as groups, or a divisor of that.
    pub buffers: usize,
    /// Groups of warps, each with its own result.
    pub groups: usize,
    /// Warps per group.
    pub warps: usize,
}

impl Turns {
    /// So many warpgroups, each with a buffer of its own.
    #[must_use]
    pub const fn of_warpgroups(groups: usize) -> Self {
        Turns {
            buffers: groups,
            groups,
            warps: 4,
        }
    }

    /// The same groups with so many buffers between them.
    #[must_use]
    pub const fn with_buffers(self, buffers: usize) -> Self {
        Turns { buffers, ..self }
    }
}

/// The parity of the turns that a group has had. It is moved, so that no turn is used twice.
#[derive(Aggregate, Debug)]
#[must_use = "the next turn needs it"]
pub struct EpilogueTurn {
    parity: Scalar<i32>,
}

impl EpilogueTurn {
    /// The parity of the turns so far: the phase of an mbarrier that completes once per turn, such as that of a fetched operand.
    pub fn parity(&self) -> Scalar<i32> {
        self.parity
    }

    #[track_caller]
    fn next(self) -> Self {
        EpilogueTurn {
            parity: self.parity ^ 1,
        }
    }
}

impl<T: Element> EpilogueStore<T> {
    /// Buffers for blocks of `map`: of rows and columns, behind dimensions of 1 if it has more.
    #[track_caller]
    pub fn alloc(map: TensorMap<T>, turns: Turns) -> Self {
        let Turns {
            buffers,
            groups,
            warps,
        } = turns;
        static_assert!(
            buffers > 0 && groups.is_multiple_of(buffers),
            "{groups} groups cannot keep a buffer each of {buffers}: expected a divisor of the groups"
        );
        EpilogueStore {
            tiles: Smem::alloc(map.block().with_inserted(0, buffers.max(1)), map.layout()),
            ready: Mbarriers::alloc(groups, Arrivals(1)).labelled("ready"),
            filled: Mbarriers::alloc(groups, Arrivals(warps)).labelled("filled"),
            turns,
        }
    }

    /// The first turn of any group.
    #[track_caller]
    pub fn start(self) -> EpilogueTurn {
        EpilogueTurn { parity: scalar(0) }
    }

    /// The turn after turns of that [parity](EpilogueTurn::parity), for a warp that stores for several groups and counts their turns together.
    pub fn turn(self, parity: Scalar<i32>) -> EpilogueTurn {
        EpilogueTurn { parity }
    }

    /// The buffer of `group` when it is its turn, after turns of that [parity](EpilogueTurn::parity). An operand may be loaded there
    /// before it is filled.
    #[track_caller]
    pub fn buffer(self, group: usize, parity: Scalar<i32>) -> Smem<T> {
        // No group passes a buffer on to those that come first.
        let is_first = group < self.turns.buffers;
        let passed_on = if is_first { parity ^ 1 } else { parity };
        self.ready.index(group).wait(passed_on);
        let tile = self.tile(group);
        match *tile.shape() {
            [.., rows, columns] if tile.shape().len() > 2 => tile.reshape([rows, columns]),
            _ => tile,
        }
    }

    /// Fills the buffer of `group` when it is its turn. All warps of the group call it.
    #[track_caller]
    pub fn fill(self, group: usize, turn: EpilogueTurn, result: Tensor<T>) -> EpilogueTurn {
        // No closure: what it records would bear its line and not that of the caller.
        self.buffer(group, turn.parity).store(result);
        self.pass_filled(group, turn)
    }

    /// The same by `store`, which fills the buffer: part by part, where all of a result at once would take too many registers.
    #[track_caller]
    pub fn fill_by(
        self,
        group: usize,
        turn: EpilogueTurn,
        store: impl FnOnce(Smem<T>),
    ) -> EpilogueTurn {
        store(self.buffer(group, turn.parity));
        self.pass_filled(group, turn)
    }

    /// Passes the filled buffer of `group` to the warp that stores it.
    #[track_caller]
    fn pass_filled(self, group: usize, turn: EpilogueTurn) -> EpilogueTurn {
        fence_async_shared();
        let filled = self.filled.index(group).arrival();
        filled.by(Arrivers::Warp).arrive();
        turn.next()
    }

    /// Stores what `group` has filled its buffer with to the block of `map` at `at`, and passes the buffer on. One warp for each group calls
    /// it.
    #[track_caller]
    pub fn store(
        self,
        group: usize,
        turn: EpilogueTurn,
        map: TensorMap<T>,
        at: impl Coordinates,
    ) -> EpilogueTurn {
        self.filled.index(group).wait(turn.parity);
        map.store(at, self.tile(group));
        self.pass_stored(group, turn)
    }

    /// The same by `store`, which issues TMA stores of the buffer, or adds it by TMA.
    #[track_caller]
    pub fn store_by(
        self,
        group: usize,
        turn: EpilogueTurn,
        store: impl FnOnce(Smem<T>),
    ) -> EpilogueTurn {
        self.filled.index(group).wait(turn.parity);
        store(self.tile(group));
        self.pass_stored(group, turn)
    }

    /// Passes the buffer that `group` has stored to the group after it.
    #[track_caller]
    fn pass_stored(self, group: usize, turn: EpilogueTurn) -> EpilogueTurn {
        tma_store_wait_read(0);
        let next = (group + self.turns.buffers) % self.turns.groups;
        self.ready.index(next).arrive();
        turn.next()
    }

    /// What the warp that stores for `group` does in a persistent kernel: [`store`](Self::store) for each tile of this program. A tile has a
    /// block of `map` for each group, one below the other.
    #[device]
    pub fn store_tiles(self, group: usize, tiles: impl TileScheduler, map: TensorMap<T>) {
        let block = map.block();
        let [rows, columns] = [0, 1].map(|dim| block.get(dim).map_or(1, |extent| *extent as usize));
        let mut turn = self.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let row = row * (self.turns.groups * rows) + group * rows;
            turn = self.store(group, turn, map, [row, column * columns]);
        }
    }

    #[track_caller]
    fn tile(self, group: usize) -> Smem<T> {
        self.tiles.index(group % self.turns.buffers)
    }
}

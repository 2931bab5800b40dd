//! The pipeline of matrix products: a ring of stages in shared memory, and the buffers of the epilogue.

use tilekit::prelude::*;

/// Blocks of both factors in shared memory, some stages deep. A stage is full when its TMA loads have completed,
/// and empty when the consumer warpgroups have released it.
#[derive(Clone, Copy, Aggregate)]
pub struct Ring<T> {
    /// Blocks of the left factor, one for each stage.
    pub a: Smem<T>,
    /// Blocks of the right factor.
    pub b: Smem<T>,
    /// Complete a phase when a stage is full.
    pub full: Mbarriers,
    /// Complete a phase when a stage is empty again.
    pub empty: Mbarriers,
}

/// How deep a ring is.
#[derive(Clone, Copy)]
pub struct Stages {
    /// Blocks of each factor.
    pub stages: usize,
    /// Arrivals of consumers that make a stage empty.
    pub releases: usize,
}

impl<T: Element> Ring<T> {
    /// A ring for blocks of `[m, k]` and `[n, k]`.
    #[device]
    pub fn alloc([m, n, k]: [usize; 3], Stages { stages, releases }: Stages) -> Self {
        Ring {
            a: Smem::alloc([stages, m, k], Nvmma::B128),
            b: Smem::alloc([stages, n, k], Nvmma::B128),
            full: Mbarriers::alloc(stages, Arrivals(1)),
            empty: Mbarriers::alloc(stages, Arrivals(releases)),
        }
    }

    /// Waits until a stage is empty, and issues TMA loads of one block of each factor into it: those of block row `row` of A
    /// and `column` of B, at `step` along K.
    #[device]
    pub fn fill(self, stage: Stage, [a, b]: [TensorMap<T>; 2], at: [Scalar<i32>; 3]) {
        let ([row, column, step], [a_block, b_block]) = (at, [a.block(), b.block()]);
        self.empty.index(stage.index).wait(stage.phase ^ 1);
        let full = self.full.index(stage.index);
        full.expect(a.block_bytes() + b.block_bytes());
        let of_a = [row * a_block[0], step * a_block[1]];
        a.load(of_a, self.a.index(stage.index), full);
        let of_b = [column * b_block[0], step * b_block[1]];
        b.load(of_b, self.b.index(stage.index), full);
    }
}

/// A place in a ring, and the parity of the round through it.
#[derive(Clone, Copy, Aggregate)]
pub struct Stage {
    /// Which stage of the ring.
    pub index: Scalar<i32>,
    /// The parity of the round, 0 in the first.
    pub phase: Scalar<i32>,
}

impl Stage {
    /// The first stage in the first round.
    #[device]
    pub fn first() -> Self {
        Stage {
            index: scalar(0),
            phase: scalar(0),
        }
    }

    /// The stage after this one in a ring of `stages`.
    #[device]
    pub fn next(self, stages: usize) -> Self {
        let is_last = self.index == stages - 1;
        Stage {
            index: select(is_last, 0, self.index + 1),
            phase: select(is_last, self.phase ^ 1, self.phase),
        }
    }
}

/// The steps of `depth` along K: at least one, for no tensor map has a dimension of 0.
#[device]
pub fn steps_along(k: Scalar<i32>, depth: usize) -> Scalar<i32> {
    assume((k > 0) & (k <= 1 << 30));
    cdiv(k, depth)
}

/// Epilogue buffers in shared memory, from which the results of several groups of warps are stored by TMA. There may be fewer
/// buffers than groups: then the groups take turns, and lag behind each other by the time of a turn.
#[derive(Clone, Copy, Aggregate)]
pub struct Outbox<T> {
    tiles: Smem<T>,
    /// Complete a phase when it is the turn of a group.
    ready: Mbarriers,
    /// Complete a phase when a group has filled its buffer.
    filled: Mbarriers,
    turns: Turns,
}

/// Who takes turns at the places of an outbox.
#[derive(Clone, Copy, Aggregate)]
pub struct Turns {
    /// Places in shared memory: as many as groups, or a divisor of that.
    pub places: usize,
    /// Groups of warps with a result each.
    pub groups: usize,
    /// Warps of a group.
    pub warps: usize,
}

impl<T: Element> Outbox<T> {
    /// Places for blocks of `map`.
    #[device]
    pub fn alloc(map: TensorMap<T>, turns: Turns) -> Self {
        let Turns {
            places,
            groups,
            warps,
        } = turns;
        static_assert!(
            groups.is_multiple_of(places),
            "groups keep the place they have"
        );
        Outbox {
            tiles: Smem::alloc(map.block().with_inserted(0, places), map.layout()),
            ready: Mbarriers::alloc(groups, Arrivals(1)),
            filled: Mbarriers::alloc(groups, Arrivals(warps)),
            turns,
        }
    }

    /// The place of `group` when it is its turn; `round` is the parity of how many turns it has had.
    #[device]
    pub fn place(self, group: usize, round: Scalar<i32>) -> Smem<T> {
        // No group hands a buffer on to those that come first.
        let is_first = group < self.turns.places;
        let handed_on = if is_first { round ^ 1 } else { round };
        self.ready.index(group).wait(handed_on);
        self.tiles.index(group % self.turns.places)
    }

    /// Fills the place of `group` when it is its turn.
    #[device]
    pub fn fill(self, group: usize, round: Scalar<i32>, result: Tensor<T>) {
        self.place(group, round).store(result);
        fence_async_shared();
        self.filled
            .index(group)
            .arrival()
            .by(Arrivers::Warp)
            .arrive();
    }

    /// Stores what `group` has filled its place with to the block of `map` at `at`, and hands the place on.
    #[device]
    pub fn store(self, group: usize, round: Scalar<i32>, map: TensorMap<T>, at: [Scalar<i32>; 2]) {
        self.filled.index(group).wait(round);
        map.store(at, self.tiles.index(group % self.turns.places));
        tma_store_wait_read(0);
        let next = (group + self.turns.places) % self.turns.groups;
        self.ready.index(next).arrive();
    }
}

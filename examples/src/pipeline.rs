//! What matrix products are made of: a ring of stages in shared memory, and places from which results are stored.

use tilekit::prelude::*;

/// Blocks of both factors in shared memory, some stages deep. A stage is full when its copies have come, and empty when
/// those who multiply are done with it.
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

impl<T: Element> Ring<T> {
    /// A ring for blocks of `[m, k]` and `[n, k]`; `releases` arrivals make a stage empty.
    #[device]
    pub fn alloc([m, n, k]: [usize; 3], stages: usize, releases: usize) -> Self {
        let layout = Nvmma::B128.of(T::DTYPE.bits(), 2);
        Ring {
            a: Smem::alloc([stages, m, k], layout.clone()),
            b: Smem::alloc([stages, n, k], layout),
            full: Mbarriers::alloc(stages, 1),
            empty: Mbarriers::alloc(stages, releases as u32),
        }
    }

    /// Waits until a stage is empty, and lets the copy engine fill it with one block of each factor: those of block row `row`
    /// of A and `column` of B, at `step` along K.
    #[device]
    pub fn fill(self, stage: Stage, [a, b]: [TensorMap<T>; 2], at: [Scalar<i32>; 3]) {
        let ([row, column, step], [a_block, b_block]) = (at, [a.block(), b.block()]);
        self.empty.at(stage.index).wait(stage.phase ^ 1);
        let full = self.full.at(stage.index);
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

/// Places from which the results of several groups of warps leave shared memory. There may be fewer places than groups: then
/// the groups take turns, and come to lag behind each other by what a turn takes.
#[derive(Clone, Copy, Aggregate)]
pub struct Outbox<T> {
    tiles: Smem<T>,
    /// Complete a phase when it is the turn of a group.
    ready: Mbarriers,
    /// Complete a phase when a group has filled its place.
    filled: Mbarriers,
    places: usize,
    groups: usize,
}

impl<T: Element> Outbox<T> {
    /// `places` for blocks of `map` from `groups` groups of `warps` warps: one for each, or a divisor of that.
    #[device]
    pub fn alloc(map: TensorMap<T>, places: usize, groups: usize, warps: usize) -> Self {
        static_assert!(
            groups.is_multiple_of(places),
            "groups keep the place they have"
        );
        let [rows, columns] = [map.block()[0], map.block()[1]];
        Outbox {
            tiles: Smem::alloc([places as u32, rows, columns], map.layout()),
            ready: Mbarriers::alloc(groups, 1),
            filled: Mbarriers::alloc(groups, warps as u32),
            places,
            groups,
        }
    }

    /// The place of `group` when it is its turn; `round` is the parity of how many turns it has had.
    #[device]
    pub fn place(self, group: usize, round: Scalar<i32>) -> Smem<T> {
        // Nobody hands on to those who come first.
        let is_first = group < self.places;
        let handed_on = if is_first { round ^ 1 } else { round };
        self.ready.at(group).wait(handed_on);
        self.tiles.index(group % self.places)
    }

    /// Fills the place of `group` when it is its turn.
    #[device]
    pub fn fill(self, group: usize, round: Scalar<i32>, result: Tensor<T>) {
        self.place(group, round).store(result);
        fence_async_shared();
        self.filled.at(group).arrival().by(Arrivers::Warp).arrive();
    }

    /// Stores what `group` has filled its place with to the block of `map` at `at`, and hands the place on.
    #[device]
    pub fn store(self, group: usize, round: Scalar<i32>, map: TensorMap<T>, at: [Scalar<i32>; 2]) {
        self.filled.at(group).wait(round);
        map.store(at, self.tiles.index(group % self.places));
        tma_store_wait_read(0);
        let next = (group + self.places) % self.groups;
        self.ready.at(next).arrive();
    }
}

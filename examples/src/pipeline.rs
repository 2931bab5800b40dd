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

/// Tiles of a result on their way out of shared memory, one for each group of warps that makes them. A place is ready when
/// the copy engine has read what lay there, and filled when all warps of its group have stored their part.
#[derive(Clone, Copy, Aggregate)]
pub struct Outbox<T> {
    /// The places.
    pub tiles: Smem<T>,
    /// Complete a phase when a place may be filled.
    pub ready: Mbarriers,
    /// Complete a phase when a place is filled.
    pub filled: Mbarriers,
}

impl<T: Element> Outbox<T> {
    /// Places for the blocks of `map`, each filled by `warps` warps.
    #[device]
    pub fn alloc(map: TensorMap<T>, places: usize, warps: usize) -> Self {
        let [rows, columns] = [map.block()[0], map.block()[1]];
        Outbox {
            tiles: Smem::alloc([places as u32, rows, columns], map.layout()),
            ready: Mbarriers::alloc(places, 1),
            filled: Mbarriers::alloc(places, warps as u32),
        }
    }

    /// Fills a place with what `make` gives, which may read what was put there; `round` is the parity of how often that has
    /// been done.
    #[device]
    pub fn fill(self, place: usize, round: Scalar<i32>, make: impl FnOnce(Smem<T>) -> Tensor<T>) {
        let tile = self.tiles.index(place);
        self.ready.at(place).wait(round);
        tile.store(make(tile));
        fence_async_shared();
        self.filled.at(place).arrival().by(Arrivers::Warp).arrive();
    }

    /// Stores what fills a place to the block of `map` at `at`, and waits until the place may be used again.
    #[device]
    pub fn store(self, place: usize, round: Scalar<i32>, map: TensorMap<T>, at: [Scalar<i32>; 2]) {
        self.filled.at(place).wait(round);
        map.store(at, self.tiles.index(place));
        tma_store_wait_read(0);
    }
}

/// One place from which the results of several groups of warps leave shared memory, in turn: first that of group 0, and after
/// the last group's it is the turn of group 0 again.
#[derive(Clone, Copy, Aggregate)]
pub struct Relay<T> {
    tile: Smem<T>,
    /// Complete a phase when it is the turn of a group.
    ready: Mbarriers,
    /// Complete a phase when a group has filled the place.
    filled: Mbarriers,
    groups: usize,
}

impl<T: Element> Relay<T> {
    /// A place for blocks of `map` from `groups` groups of `warps` warps.
    #[device]
    pub fn alloc(map: TensorMap<T>, groups: usize, warps: usize) -> Self {
        Relay {
            tile: Smem::alloc(map.block(), map.layout()),
            ready: Mbarriers::alloc(groups, 1),
            filled: Mbarriers::alloc(groups, warps as u32),
            groups,
        }
    }

    /// Fills the place when it is the turn of `group`; `round` is the parity of how often that has been.
    #[device]
    pub fn fill(self, group: usize, round: Scalar<i32>, result: Tensor<T>) {
        // Nobody hands group 0 its first turn.
        let handed_on = if group == 0 { round ^ 1 } else { round };
        self.ready.at(group).wait(handed_on);
        self.tile.store(result);
        fence_async_shared();
        self.filled.at(group).arrival().by(Arrivers::Warp).arrive();
    }

    /// Stores what `group` fills the place with to the block of `map` at `at`, and hands the place on.
    #[device]
    pub fn store(self, group: usize, round: Scalar<i32>, map: TensorMap<T>, at: [Scalar<i32>; 2]) {
        self.filled.at(group).wait(round);
        map.store(at, self.tile);
        tma_store_wait_read(0);
        self.ready.at((group + 1) % self.groups).arrive();
    }
}

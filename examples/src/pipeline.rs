//! What matrix products are made of: a ring of stages in shared memory, and the order of their tiles.

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

/// The tiles of a product in groups of some rows of tiles: what runs at the same time shares rows of A and columns of B
/// in L2.
#[derive(Clone, Copy, Aggregate)]
pub struct Tiles {
    rows: Scalar<i32>,
    columns: Scalar<i32>,
    group: usize,
}

impl Tiles {
    /// The tiles of `block` elements that cover `m` by `n`.
    #[device]
    pub fn new(m: Scalar<i32>, n: Scalar<i32>, block: [usize; 2], group: usize) -> Self {
        Tiles {
            rows: cdiv(m, block[0]),
            columns: cdiv(n, block[1]),
            group,
        }
    }

    /// How many there are.
    #[device]
    pub fn count(self) -> Scalar<i32> {
        self.rows * self.columns
    }

    /// Those of this program, which takes every `num_programs`-th.
    #[device]
    pub fn of_program(self) -> Range<i32> {
        self.of_cluster(1)
    }

    /// Those of this program's cluster of `ctas`.
    #[device]
    pub fn of_cluster(self, ctas: usize) -> Range<i32> {
        range(program_id(0) / ctas, self.count()).step(num_programs(0) / ctas)
    }

    /// The row and column of tiles of number `tile`.
    #[device]
    pub fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2] {
        let in_group = self.columns * self.group;
        let first = tile / in_group * self.group;
        let rows = minimum(self.rows - first, self.group);
        let within = tile % in_group;
        [first + within % rows, within / rows]
    }
}

//! Tiles in the order in which they are drawn, for tiles that wait for those before them.

use gluon_lang::lang::prelude::*;

use crate::pipeline::{Consumers, Pipeline, PipelineState, Producers};

/// Tiles in the order of a counter: a tile is drawn when a program can begin it. So all tiles before it are those of programs that run, and it may
/// wait for them ([`LookBack`](crate::LookBack)), whatever the grid. [`DynamicTiles`](super::DynamicTiles) draws while the previous tile is
/// computed, and gives each program its first one without a draw: there a tile must not wait for another.
///
/// One partition of one warp draws, and the others receive each number from a slot in shared memory:
///
/// ```text
/// the warp that draws:                        every other partition:
/// let mut at = tiles.start();                 let mut tile = tiles.first();
/// let mut tile = scalar(0);                   while tile.number() < tiles.count() {
/// while tile < tiles.count() {                    ..
///     ..                                          tile = tiles.next(tile);
///     tile = tiles.draw();                    }
///     at = tiles.send(at, tile);
///     if tile < tiles.count() { .. }
/// }
/// ```
///
/// The counter is an i32 in global memory, 0 before each launch. A slot is a stage of a [`Pipeline`]: `send` waits until all receivers have read
/// the number that was there, `first` and `next` wait for theirs. Draws are relaxed atomics, which order no other accesses.
#[derive(Clone, Copy, Aggregate)]
pub struct OrderedTiles {
    counter: Ptr<i32>,
    count: Scalar<i32>,
    slots: Pipeline<Smem<i32>>,
}

/// A tile of a program, and where the next one is received.
#[derive(Aggregate, Debug)]
#[must_use = "the next tile needs it"]
pub struct OrderedTile {
    number: Scalar<i32>,
    state: PipelineState,
}

impl OrderedTile {
    /// Its number, from 0; [`OrderedTiles::count`] or more when there is none left.
    pub fn number(&self) -> Scalar<i32> {
        self.number
    }
}

impl OrderedTiles {
    /// `count` tiles, drawn from `counter`, of which a program has up to `slots` at a time. `receivers` are the warps of all partitions but the one
    /// that draws.
    #[track_caller]
    pub fn new(counter: Ptr<i32>, count: Scalar<i32>, slots: usize, receivers: Consumers) -> Self {
        static_assert!(
            receivers.are_warps(),
            "each warp reads the number of a tile, so that each of them releases its slot: \
             `Consumers::warps` or `Consumers::warpgroups`"
        );
        let numbers = Smem::<i32>::alloc([slots, 1], Swizzled::plain([1, 0]));
        let producers = Producers::Stores { warps: 1 };
        OrderedTiles {
            counter,
            count,
            slots: Pipeline::new(numbers, producers, receivers),
        }
    }

    /// How many tiles there are.
    pub fn count(self) -> Scalar<i32> {
        self.count
    }

    /// Where the first number is sent.
    #[track_caller]
    pub fn start(self) -> PipelineState {
        self.slots.start()
    }

    /// Draws the number of a tile, by one atomic, and waits for it.
    #[track_caller]
    pub fn draw(self) -> Scalar<i32> {
        self.counter.at(0).relaxed().atomic_add(1).old()
    }

    /// Sends a number that was drawn to the other partitions. Waits while the slots are full.
    #[track_caller]
    pub fn send(self, at: PipelineState, number: Scalar<i32>) -> PipelineState {
        let slot = self.slots.producer_acquire(at);
        slot.tiles.store(full([1], number, one_number()));
        self.slots.commit(slot).advance()
    }

    /// The first tile of this program, in any other partition.
    #[track_caller]
    pub fn first(self) -> OrderedTile {
        self.receive(self.slots.start())
    }

    /// The one after `tile`.
    #[track_caller]
    pub fn next(self, tile: OrderedTile) -> OrderedTile {
        self.receive(tile.state)
    }

    #[track_caller]
    fn receive(self, at: PipelineState) -> OrderedTile {
        let slot = self.slots.consumer_wait(at);
        let number = slot.tiles.load(one_number()).sum(0).scalar();
        OrderedTile {
            number,
            state: self.slots.consumer_release(slot).advance(),
        }
    }
}

/// One number that all threads of a partition have.
#[track_caller]
fn one_number() -> Blocked {
    Blocked::new([1], [32], [num_warps()], [0])
}

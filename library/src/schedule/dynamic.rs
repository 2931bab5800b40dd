//! Tiles drawn from a counter in memory.

use gluon_lang::lang::prelude::*;

use crate::pipeline::{Consumers, Pipeline, PipelineState, Producers};

/// Drawn tiles that partitions have not all received yet.
const SLOTS: usize = 2;

/// Tiles drawn from a counter, for tiles that take different times: a program that is done early makes more of them. One partition
/// of one warp draws, and the others read what it has drawn from a slot in shared memory. The first tile of a program is its number, so that no
/// program waits for memory at its start, and a tile is drawn while the one before is made.
///
/// ```text
/// the warp that draws:                        every other partition:
/// let mut tile = tiles.start();               let mut tile = tiles.start();
/// while tile.number() < tiles.count() {       while tile.number() < tiles.count() {
///     let next = tiles.draw();                    ..
///     ..                                          tile = tiles.receive(tile, warps);
///     tile = tiles.send(tile, next);          }
/// }
/// ```
///
/// The counter is an i32 in global memory, 0 before the first launch. Each launch leaves 0 behind: its last draw, which is draw number
/// `count`, resets it. Launches that overlap (programmatic dependent launch) have a counter each.
///
/// A slot is a stage of a [`Pipeline`]: its arrivals are those of the warp that draws, and of all warps that receive.
/// Draws are relaxed; they order nothing but themselves.
#[derive(Clone, Copy, Aggregate)]
pub struct DynamicTiles {
    counter: Ptr<i32>,
    count: Scalar<i32>,
    slots: Pipeline<Smem<i32>>,
}

/// A tile of a program, and where the next one is received.
#[derive(Aggregate, Debug)]
#[must_use = "the next tile needs it"]
pub struct DynamicTile {
    number: Scalar<i32>,
    state: PipelineState,
}

impl DynamicTile {
    /// Its number, from 0; [`DynamicTiles::count`] or more when there is none left.
    pub fn number(&self) -> Scalar<i32> {
        self.number
    }
}

impl DynamicTiles {
    /// `count` tiles, drawn from `counter`. `receivers` are the warps of all partitions but the one that draws.
    #[track_caller]
    pub fn new(counter: Ptr<i32>, count: Scalar<i32>, receivers: Consumers) -> Self {
        let slots = Smem::<i32>::alloc([SLOTS, 1], Swizzled::plain([1, 0]));
        DynamicTiles {
            counter,
            count,
            slots: Pipeline::new(slots, Producers::Stores { warps: 1 }, receivers),
        }
    }

    /// How many tiles there are.
    pub fn count(self) -> Scalar<i32> {
        self.count
    }

    /// The first tile of this program.
    #[track_caller]
    pub fn start(self) -> DynamicTile {
        DynamicTile {
            number: program_id(0),
            state: self.slots.start(),
        }
    }

    /// Draws the number of a tile. The partition continues, and waits where it uses the number. Each program draws once for each tile
    /// that it makes.
    #[device]
    pub fn draw(self) -> Scalar<i32> {
        let drawn = self.counter.at(0).relaxed().atomic_add(1).old();
        if drawn == self.count - 1 {
            self.counter.at(0).relaxed().atomic_store(0);
        }
        drawn + num_programs(0)
    }

    /// Sends the number that was drawn to the other partitions, and continues with it. Waits while the slots are full.
    #[track_caller]
    pub fn send(self, tile: DynamicTile, drawn: Scalar<i32>) -> DynamicTile {
        let slot = self.slots.producer_acquire(tile.state);
        slot.tiles.store(full([1], drawn, one_number(1)));
        DynamicTile {
            number: drawn,
            state: self.slots.commit(slot).advance(),
        }
    }

    /// The next tile of this program, in a partition of `warps` warps.
    #[track_caller]
    pub fn receive(self, tile: DynamicTile, warps: usize) -> DynamicTile {
        let slot = self.slots.consumer_wait(tile.state);
        let number = slot.tiles.load(one_number(warps)).sum(0).scalar();
        DynamicTile {
            number,
            state: self.slots.consumer_release(slot).advance(),
        }
    }
}

/// One number that all threads of so many warps have.
fn one_number(warps: usize) -> Blocked {
    Blocked::new([1], [32], [warps], [0])
}

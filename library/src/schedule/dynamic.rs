//! Tiles drawn from a counter in memory.

use gluon_lang::lang::prelude::*;

use crate::pipeline::{Consumers, Pipeline, PipelineState, Producers};

/// Tiles that are drawn and not yet received by all partitions.
const SLOTS: usize = 2;

/// Tiles drawn from a counter, for tiles of different cost: a program that finishes early computes more of them. One partition
/// of one warp draws, and the others read what it has drawn from a slot in shared memory. The first tile of a program is its number, so
/// that no program waits for memory at its start, and a tile is drawn while the previous one is computed.
///
/// ```text
/// the warp that draws:                        every other partition:
/// let mut tile = tiles.start();               let mut tile = tiles.start();
/// while tile.number() < tiles.count() {       while tile.number() < tiles.count() {
///     let next = tiles.draw();                    ..
///     ..                                          tile = tiles.receive(tile);
///     tile = tiles.send(tile, next);          }
/// }
/// tiles.end(tile);
/// ```
///
/// The counter is an i32 in global memory, 0 before the first launch. Each launch leaves 0 behind: its last draw, which is draw number
/// `count`, resets it. Launches that overlap (programmatic dependent launch) have a counter each.
///
/// # Order
///
/// A slot is a stage of a [`Pipeline`]: `send` waits until all receivers have read the number before the last one, and `receive`
/// waits for the number. Draws are relaxed atomics, which order no other accesses.
///
/// [Clusters](DynamicTiles::of_cluster) make a tile together. Every CTA runs the code above, and the warp of the first CTA alone draws. It
/// sends the number into the slots of all CTAs by `st.async`, whose bytes complete on the mbarrier of each slot:
///
/// 1. In every CTA the warp that draws waits until its slot is free, and then expects the bytes of a number there. Its barrier is in the right
///    phase, for that warp has received all numbers before.
/// 2. In the first CTA it waits besides until the receivers of all CTAs have released the slot, at a barrier of that CTA, and stores.
/// 3. All partitions of all CTAs wait for the bytes in their own shared memory, read the number, and release.
///
/// So no CTA exits before the stores to it complete, for all of them wait for the number that ends their loops. The first CTA must not
/// exit while others release to it: [`end`](DynamicTiles::end) waits for that.
#[derive(Clone, Copy, Aggregate)]
pub struct DynamicTiles {
    counter: Ptr<i32>,
    count: Scalar<i32>,
    slots: Pipeline<Smem<i32>>,
    /// CTAs that compute a tile together.
    ctas: usize,
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
        DynamicTiles::of_cluster(counter, count, receivers, 1)
    }

    /// The same tiles, made by clusters of `ctas` instead of programs, all CTAs of the kernel's cluster; `receivers` are those of
    /// one CTA. The CTAs synchronize after this ([`cluster_barrier_relaxed`]), before the first draw.
    #[track_caller]
    pub fn of_cluster(
        counter: Ptr<i32>,
        count: Scalar<i32>,
        receivers: Consumers,
        ctas: usize,
    ) -> Self {
        static_assert!(
            receivers.are_warps(),
            "each warp reads the number of a tile, so that each of them releases its slot: \
             `Consumers::warps` or `Consumers::warpgroups`"
        );
        static_assert!(
            ctas == 1 || ctas == cluster_size(),
            "a cluster has {} CTAs, and {ctas} make a tile together",
            cluster_size()
        );
        let numbers = Smem::<i32>::alloc([SLOTS, 1], Swizzled::plain([1, 0]));
        let slots = if ctas == 1 {
            Pipeline::new(numbers, Producers::Stores { warps: 1 }, receivers)
        } else {
            // The warp that draws reads what the first CTA sent, as the others do. `st.async` completes bytes, as TMA loads do.
            let slots = Pipeline::new(numbers, Producers::Tma, receivers.and_a_warp());
            slots.loaded_by(|| scalar(0), ctas)
        };
        DynamicTiles {
            counter,
            count,
            slots,
            ctas,
        }
    }

    /// How many tiles there are.
    pub fn count(self) -> Scalar<i32> {
        self.count
    }

    /// The first tile of this program.
    #[device]
    pub fn start(self) -> DynamicTile {
        DynamicTile {
            number: program_id(0) / self.ctas,
            state: self.slots.start(),
        }
    }

    /// Draws the number of a tile, by one atomic, and waits for it: loads issued ahead keep the other partitions busy
    /// meanwhile. Each program draws once for each tile that it makes.
    #[device]
    pub fn draw(self) -> Scalar<i32> {
        let counter = self.counter.at(0).relaxed();
        let drawn = if self.ctas == 1 {
            counter.atomic_add(1).old()
        } else {
            // The other CTAs have -1, which is no draw.
            let is_first = cluster_rank() == 0;
            let drawn = counter.mask(is_first).atomic_add(1).old();
            select(is_first, drawn, -1)
        };
        if drawn == self.count - 1 {
            counter.atomic_store(0);
        }
        drawn + num_programs(0) / self.ctas
    }

    /// Sends the number that was drawn to the other partitions, and continues with it. Waits while the slots are full.
    #[track_caller]
    pub fn send(self, tile: DynamicTile, drawn: Scalar<i32>) -> DynamicTile {
        if self.ctas == 1 {
            let slot = self.slots.producer_acquire(tile.state);
            slot.tiles.store(full([1], drawn, one_number()));
            return DynamicTile {
                number: drawn,
                state: self.slots.commit(slot).advance(),
            };
        }
        let bytes = Scalar::<i32>::of(size_of::<i32>());
        let slot = self.slots.producer_acquire_bytes(tile.state, bytes);
        let number = full([1], drawn, one_number());
        self.send_to_all(slot.tiles, slot.full, number);
        let sent = self.slots.commit(slot);
        let (done, number) = self.slots.consume_filled(sent, number_of);
        DynamicTile {
            number,
            state: done.advance(),
        }
    }

    /// From the first CTA into the slots of all.
    #[device]
    fn send_to_all(self, slot: Smem<i32>, full: Mbarrier, number: Tensor<i32>) {
        if cluster_rank() == 0 {
            for cta in 0..self.ctas {
                slot.in_cta(cta).store_async(number, full);
            }
        }
    }

    /// The next tile of this program, in any other partition.
    #[track_caller]
    pub fn receive(self, tile: DynamicTile) -> DynamicTile {
        let slot = self.slots.consumer_wait(tile.state);
        let number = number_of(slot.tiles);
        DynamicTile {
            number,
            state: self.slots.consumer_release(slot).advance(),
        }
    }

    /// Ends the partition that draws: in a cluster, waits until all CTAs have released to the first one.
    #[track_caller]
    pub fn end(self, last: DynamicTile) {
        if self.ctas > 1 {
            self.slots.producer_tail(last.state);
        }
    }
}

/// The number in a slot.
#[track_caller]
fn number_of(slot: Smem<i32>) -> Scalar<i32> {
    slot.load(one_number()).sum(0).scalar()
}

/// One number that all threads of a partition have.
#[track_caller]
fn one_number() -> Blocked {
    Blocked::new([1], [32], [num_warps()], [0])
}

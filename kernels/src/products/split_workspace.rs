//! The workspace of split-K: programs that share a tile store their parts of its sums in global memory, wait for each other, and each adds a share of all parts.

use tilekit::prelude::*;

use super::factor::INSTRUCTION_ROWS;
use super::split_k::SplitTile;

/// Parts along K of a tile, at most.
pub(super) const MOST_PARTS: usize = 16;

/// Elements of sums that a warpgroup adds at a time: 32 bytes of each part a thread.
pub(super) const ADDED: usize = 1024;

impl SplitTile {
    /// Rows and columns of what is added at a time: 128 bytes of a row of C in 16 bits, whichever way the tile lies, or 32 bytes where its columns are not as many times 64.
    fn added(self) -> [usize; 2] {
        if self.turned || !self.columns.is_multiple_of(64) {
            [64, 16]
        } else {
            [16, 64]
        }
    }
}

/// A word of `counts` counts arrivals below this bit, which changes with the last one.
const ALL_ARRIVED: u32 = 1 << 31;

/// Memory in which the parts of a tile are. Each of the programs that share a tile adds some of its rows or columns when all parts are there.
///
/// # Order of a part
/// Sums lie as threads of `wgmma` have them, 16 bytes of each thread after each other, so that a warp stores whole lines: by rows a warp's store is of 8 lines, of 32 bytes each, and the release that follows waited for
/// them for up to 6 us (`bench/results/products/split_k.md`). What is added at a time follows each other.
#[derive(Clone, Copy)]
pub(super) struct Exchange<S> {
    pub(super) tile: SplitTile,
    pub(super) tiles: Scalar<i32>,
    /// How many parts are loaded at a time, of 8 elements a thread: all of them or half, as registers have room.
    pub(super) loaded: usize,
    /// How many parts a tile has, at most [`MOST_PARTS`].
    pub(super) parts: Scalar<i32>,
    /// One tile for each part, those of all tiles at one place along K after each other.
    pub(super) sums: Ptr<S>,
    /// A word for each warpgroup of each tile: 0 before the first launch, and [`ALL_ARRIVED`] or 0 behind each, whatever tiles and parts it has.
    pub(super) counts: Ptr<u32>,
}

impl<S: Numeric> Exchange<S> {
    /// Elements in front of a part of a tile's warpgroup.
    #[track_caller]
    fn first(self, [tile, part]: [Scalar<i32>; 2], group: usize) -> Scalar<i64> {
        let [rows, columns] = self.tile.shape();
        let number = part * self.tiles + tile;
        let before = group * INSTRUCTION_ROWS * columns;
        number.cast::<i64>() * (rows * columns) as i64 + before as i64
    }

    /// How many times [`ADDED`] elements a warpgroup has.
    fn chunks(self) -> usize {
        INSTRUCTION_ROWS * self.tile.columns / ADDED
    }

    /// Exchanges the sums of a warpgroup's rows with the other programs of a tile, and gives `store` those of some rows and columns over all parts, with the row and column of the tile where
    /// they begin.
    #[device]
    pub(super) fn add_up(
        self,
        [tile, part]: [Scalar<i32>; 2],
        group: usize,
        sums: Tensor<S>,
        store: impl Fn([Scalar<i32>; 2], Tensor<S>),
    ) {
        self.store_part(self.first([tile, part], group), sums);
        self.arrive_and_wait([tile, part], group);
        let before = self.first([tile, scalar(0)], group);
        let store = |chunk, sums| store(self.place(chunk, group), sums);
        // Two chunks at a time take 128 registers, which a warpgroup that is alone has, unless the sums of a wide tile are in as many.
        if self.tile.groups > 1 || self.tile.columns > 128 {
            self.add_chunks(before, 1, part, store);
        } else if self.parts > self.loaded as i32 {
            self.add_chunks(before, 1, part, store);
        } else {
            self.add_chunks(before, 2, part, store);
        }
    }

    /// Adds every `parts`th chunk from the first on, `at_once` of them at a time: several where all parts are loaded at a time.
    #[device]
    fn add_chunks(
        self,
        before: Scalar<i64>,
        at_once: usize,
        part: Scalar<i32>,
        store: impl Fn(Scalar<i32>, Tensor<S>),
    ) {
        let chunks = self.chunks() as i32;
        for first in range(part, chunks).step(self.parts * at_once) {
            let load = |number: usize| {
                let chunk = first + self.parts * number;
                // The first one is.
                let is_there = (number > 0).then(|| chunk < chunks);
                (chunk, is_there, self.load_chunk(before, 0, chunk, is_there))
            };
            for (chunk, is_there, parts) in (0..at_once).map(load).collect::<Vec<_>>() {
                let mut sums = parts.sum(0);
                if at_once == 1 && self.loaded < MOST_PARTS {
                    if self.parts > self.loaded as i32 {
                        let others = self.load_chunk(before, self.loaded, chunk, is_there);
                        sums += others.sum(0);
                    }
                }
                if let Some(is_there) = is_there {
                    if is_there {
                        store(chunk, self.by_rows(sums));
                    }
                } else {
                    store(chunk, self.by_rows(sums));
                }
            }
        }
    }

    /// The row and column of the tile where a chunk of a warpgroup begins.
    #[track_caller]
    fn place(self, chunk: Scalar<i32>, group: usize) -> [Scalar<i32>; 2] {
        let first = (group * INSTRUCTION_ROWS) as i32;
        let [rows, columns] = self.tile.added();
        if rows == INSTRUCTION_ROWS {
            [scalar(first), chunk * columns]
        } else {
            let in_row = self.tile.columns / columns;
            [chunk / in_row * rows + first, chunk % in_row * columns]
        }
    }

    /// Stores the sums of a warpgroup.
    #[track_caller]
    fn store_part(self, before: Scalar<i64>, sums: Tensor<S>) {
        let to = self.sums + before;
        let [rows, width] = self.tile.added();
        static_assert!(
            self.tile.columns.is_multiple_of(width),
            "parts of {} columns are added {width} at a time",
            self.tile.columns
        );
        for piece in 0..self.tile.columns / width {
            let sums = sums.slice(1, piece * width..(piece + 1) * width);
            if rows == INSTRUCTION_ROWS {
                // Warp, half, row, unit of 8 columns, lane of the row, column.
                let sums = sums.reshape([4, 2, 8, 2, 4, 2]).permute([3, 0, 2, 4, 1, 5]);
                let sums = sums.reshape([ADDED]);
                let at = arange(0..ADDED, sums.layout());
                to.at(at + (piece * ADDED) as i32).store(sums);
            } else {
                // Warp, half, row, two dimensions of units of 8 columns, lane of the row, column.
                let sums = sums.reshape([4, 2, 8, 4, 2, 4, 2]);
                let sums = sums.permute([0, 4, 3, 2, 5, 1, 6]).reshape([4, ADDED]);
                let in_row = self.tile.columns / width;
                let warp = rows_of(sums.layout(), scalar(0), 4);
                let at = columns_of(sums.layout(), scalar((piece * ADDED) as i32), ADDED);
                to.at(warp * (in_row * ADDED) as i32 + at).store(sums);
            }
        }
    }

    /// Releases the sums of a warpgroup, and waits until those of all parts are there.
    ///
    /// Of n programs, that of the first part adds 2³¹ - (n - 1) and each other one 1, so that the last of them changes [`ALL_ARRIVED`] and leaves no arrivals, whichever it is. No program
    /// arrives again before all have seen that: the next arrivals are those of the next launch, which waits for this one.
    #[device]
    #[track_caller]
    fn arrive_and_wait(self, [tile, part]: [Scalar<i32>; 2], group: usize) {
        let count = (self.counts + (tile * self.tile.groups + group)).at(0);
        let rest = scalar(ALL_ARRIVED + 1) - self.parts.cast::<u32>();
        let step = select(part == 0, rest, 1_u32);
        let old = count.acq_rel().atomic_add(step).old(); // mutate: equivalent(bar.sync): two stand before it, and either is enough
        let is_last = ((old + step) ^ old) >= ALL_ARRIVED;
        if !is_last {
            count
                .acquire()
                .atomic_poll(|seen| (seen ^ old) >= ALL_ARRIVED);
        }
    }

    /// The parts of a chunk from part `from` on, at once: one load after the other would take as many times as long. Zeros are of parts that are not there, and of a chunk behind the last one.
    #[device]
    #[track_caller]
    fn load_chunk(
        self,
        before: Scalar<i64>,
        from: usize,
        chunk: Scalar<i32>,
        is_there: Option<Scalar<bool>>,
    ) -> Tensor<S> {
        let [of_tile, columns] = self.tile.shape();
        let layout = Blocked::new([self.loaded, 4], [1, 32], [1, 4], [1, 0]);
        let part = arange(from..from + self.loaded, Slice::new(1, layout.clone())).expand_dims(1);
        let at = arange(0..ADDED, Slice::new(0, layout)).expand_dims(0);
        let from_part = self.tiles.cast::<i64>() * (of_tile * columns) as i64;
        let places = part.cast::<i64>() * from_part + (at + chunk * ADDED).cast::<i64>();
        let has_part = part < self.parts;
        let is_there = match is_there {
            Some(is_there) => has_part & is_there,
            None => has_part,
        };
        let sums = self.sums + before;
        sums.at(places).mask(is_there).other(S::ZERO).load()
    }

    /// The sums of a chunk as rows and columns of the tile.
    #[track_caller]
    fn by_rows(self, sums: Tensor<S>) -> Tensor<S> {
        // A thread has 8 neighbours of a row of C, out of those that its warp has.
        let added @ [rows, _] = self.tile.added();
        let (order, layout) = if self.tile.turned {
            let layout = Blocked::new([8, 1], [2, 16], [4, 1], [0, 1]);
            ([1, 4, 2, 0, 3, 5], layout)
        } else if rows == INSTRUCTION_ROWS {
            let layout = Blocked::new([1, 8], [16, 2], [4, 1], [1, 0]);
            ([1, 4, 2, 0, 3, 5], layout)
        } else {
            let layout = Blocked::new([1, 8], [16, 2], [1, 4], [1, 0]);
            ([4, 2, 1, 0, 3, 5], layout)
        };
        let sums = sums.reshape([2, 4, 8, 4, 2, 2]).permute(order);
        sums.reshape(added).convert_layout(layout)
    }
}

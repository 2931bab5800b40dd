//! The warp that sends K and V of this rank to the others.

use tilekit::prelude::*;

use crate::parallel::mail::Mail;
use crate::parallel::pieces::Pieces;

/// Rows of a piece that is sent at a time.
pub(super) const PIECE_ROWS: usize = 32;

/// Pieces in shared memory that are being loaded or sent.
const RING: usize = 2;

/// Pieces that are being loaded while others are sent.
const LAG: usize = 1;

/// The fewest tokens that a flag stands for, unless a chunk has fewer.
pub(super) const LEAST_SEGMENT: usize = 128;

/// The most flags of a chunk of a head of K and V, a few times as many as a warp waits for at a time: about one for each CTA, so that all of them send the same head.
pub(super) const MOST_SEGMENTS: usize = 128;

/// The extents of a row in a piece: one that is no power of two is a dimension of its own.
pub(super) const fn row_of(columns: usize) -> [usize; 2] {
    let run = 1 << columns.trailing_zeros();
    [columns / run, run]
}

/// The layout of pieces in shared memory: rows one after the other, as they lie where they are sent.
pub(super) fn plain<T: Element>(rank: u32) -> Nvmma {
    Nvmma::PLAIN.of(T::DTYPE.bits()).with_rank(rank)
}

/// What each rank sends to the others, and its flags.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    /// Heads of K and V, of all batches.
    pub(super) lines: Scalar<i32>,
    pub(super) chunks: Scalar<i32>,
    /// Tokens of a chunk.
    pub(super) tokens: Scalar<i32>,
    /// Tokens that one flag stands for.
    pub(super) segment: Scalar<i32>,
}

impl Sent {
    /// Flags of a chunk of a head.
    #[device]
    pub(super) fn segments(self) -> Scalar<i32> {
        cdiv(self.tokens, self.segment)
    }

    /// Among the chunks of all other ranks, the index of that of a rank so many places behind the one that is sent it, less one: first chunks are in the order of ranks, in which they
    /// are needed. Second chunks are in the reverse order, so that those which a rank is sent are the last ones: what a tensor map reads behind them is zeros.
    #[device]
    pub(super) fn index(
        self,
        chunk: Scalar<i32>,
        place: Scalar<i32>,
        others: Scalar<i32>,
    ) -> Scalar<i32> {
        select(chunk == 0, place, others - 1 - place)
    }

    /// The number of a chunk among all that a rank is sent: `index` is that among the other ranks.
    #[device]
    pub(super) fn number(
        self,
        [line, chunk, index]: [Scalar<i32>; 3],
        others: Scalar<i32>,
    ) -> Scalar<i32> {
        (line * self.chunks + chunk) * others + index
    }
}

/// K and V of this rank, and where other ranks have room for them.
#[derive(Clone, Copy)]
pub(super) struct Sender<T> {
    pieces: [TensorMap<T>; 2],
    columns: [usize; 2],
    received_of: PeerMap<T>,
    together: Scalar<i32>,
    pause: Scalar<i32>,
    ring: Smem<T>,
    of_ring: Pieces,
}

/// A segment of a head that is sent to a rank.
#[derive(Clone, Copy)]
struct Segment {
    to: Scalar<i32>,
    line: Scalar<i32>,
    chunk: Scalar<i32>,
    /// The number of its chunk among those that the rank is sent.
    number: Scalar<i32>,
    index: Scalar<i32>,
    pause: Scalar<i32>,
}

impl<T: Element> Sender<T> {
    /// Bytes of shared memory, mbarriers aside.
    pub(super) fn bytes(columns: [usize; 2]) -> usize {
        RING * PIECE_ROWS * columns[0].max(columns[1]) * size_of::<T>()
    }

    #[device]
    pub(super) fn alloc(
        pieces: [TensorMap<T>; 2],
        columns: [usize; 2],
        received_of: PeerMap<T>,
        [together, pause]: [Scalar<i32>; 2],
    ) -> Self {
        let [outer, inner] = row_of(columns[0].max(columns[1]));
        let ring = Smem::alloc([RING, PIECE_ROWS, outer, inner], plain::<T>(3));
        Sender {
            pieces,
            columns,
            received_of,
            together,
            pause,
            ring,
            of_ring: Pieces::alloc(RING, LAG),
        }
    }

    /// The elements of a place of the ring, as a piece of K or V.
    #[device]
    fn place(self, slot: Scalar<i32>, side: usize) -> Smem<T> {
        let map = self.pieces[side];
        self.ring.index(slot).reinterpret(map.block(), map.layout())
    }

    /// Stores so many elements of a piece of K or V.
    #[device]
    fn store(self, to: Ptr<T>, count: Scalar<i32>, slot: Scalar<i32>, side: usize) {
        let [outer, run] = row_of(PIECE_ROWS * self.columns[side]);
        let ring = self.ring.index(slot);
        let piece = ring.reinterpret::<T>([outer, run], Swizzled::plain([1, 0]));
        for part in 0..outer {
            let from = piece.slice(0, part..part + 1);
            let left = minimum(count - part * run, run);
            to.bulk(part * run).count(left).store(from);
        }
    }

    /// Sends all that the other ranks need. One warp of each CTA calls it.
    #[device]
    pub(super) fn send(self, mail: Mail, sent: Sent, kv_heads: Scalar<i32>, is_causal: bool) {
        mail.announce();
        let Sent { lines, chunks, .. } = sent;
        let others = mail.ranks - 1;
        let segments = sent.segments();
        let of_line = chunks * segments;
        let of_group = self.together * others * of_line;
        let mut pieces = scalar(0);
        for item in range(program_id(0), lines * others * of_line).step(num_programs(0)) {
            let (first, within) = (item / of_group * self.together, item % of_group);
            let of_place = minimum(lines - first, self.together) * of_line;
            let (place, within) = (within / of_place, within % of_place);
            let (line, within) = (first + within / of_line, within % of_line);
            let (chunk, index) = (within / segments, within % segments);
            let to = mail.before(place + 1);
            let segment = Segment {
                to,
                line,
                chunk,
                number: sent.number([line, chunk, sent.index(chunk, place, others)], others),
                index,
                pause: select(first == 0, 0, self.pause),
            };
            if is_causal {
                // Tokens that lie behind all of that rank are not sent to it.
                let is_before =
                    select(chunks == 1, to > mail.rank, (chunk == 0) | (to < mail.rank));
                if is_before {
                    pieces = self.send_segment(mail, sent, kv_heads, segment, pieces);
                }
            } else {
                pieces = self.send_segment(mail, sent, kv_heads, segment, pieces);
            }
        }
    }

    /// Sends a segment of K and V by turns, behind so many pieces; returns how many there are then.
    #[device]
    fn send_segment(
        self,
        mail: Mail,
        sent: Sent,
        kv_heads: Scalar<i32>,
        segment: Segment,
        before: Scalar<i32>,
    ) -> Scalar<i32> {
        let Segment {
            to, line, chunk, ..
        } = segment;
        let tokens = sent.tokens;
        let first = segment.index * sent.segment;
        let pieces = 2 * cdiv(minimum(tokens - first, sent.segment), PIECE_ROWS);
        mail.wait_begun(to);
        let received = self.received_of.of(to).pointer();
        let keys_of_all = sent.number([sent.lines, scalar(0), scalar(0)], mail.ranks - 1);
        let load = |number: Scalar<i32>, place: Scalar<i32>, full: Mbarrier| {
            let row = first + number / 2 * PIECE_ROWS;
            let (batch, head, zero) = (line / kv_heads, line % kv_heads, scalar(0));
            let at = [batch, head, chunk * tokens + row, zero, zero];
            let load = |side: usize| {
                let map = self.pieces[side];
                full.expect(map.block_bytes());
                map.load(at, self.place(place, side), full);
            };
            if number % 2 == 0 {
                load(0);
            } else {
                load(1);
            }
        };
        let store = |number: Scalar<i32>, place: Scalar<i32>| {
            let row = first + number / 2 * PIECE_ROWS;
            let rows = minimum(tokens - row, PIECE_ROWS);
            let token = segment.number.cast::<i64>() * tokens.cast::<i64>() + row.cast::<i64>();
            let store = |side: usize, base: Scalar<i64>| {
                let columns = self.columns[side];
                let to = received + (base + token * columns as i64);
                self.store(to, rows * columns, place, side);
            };
            if number % 2 == 0 {
                store(0, scalar(0));
            } else {
                let of_keys = keys_of_all.cast::<i64>() * tokens.cast::<i64>();
                store(1, of_keys * self.columns[0] as i64);
            }
        };
        let of_ring = (before, pieces);
        self.of_ring.send(mail, of_ring, segment.pause, load, store);
        mail.raise(to, segment.number * sent.segments() + segment.index);
        before + pieces
    }
}

//! The sum over all ranks of what each has of a tile, in packets: between the mainloop of a product and its epilogue.

use tilekit::prelude::*;

use crate::products::ending::Finish;
use crate::products::epilogue::{Epilogue, Place};
use crate::products::factor::Stored;
use crate::products::output_handles::NoOutputs;

use super::mail::launch_number;
use crate::collectives::arrivals::{Tag, after};

/// Slots that launches take in turns.
pub(super) const SLOTS: usize = 2;

/// Adds what all ranks have of a part of C, and passes it on to the epilogue.
///
/// Each rank rounds its sums to the element type, its own too, and stores them into memory of every other one; then all add them in f32, in the order of ranks. So all ranks have
/// the same bits, in every run.
///
/// # Two steps
///
/// Where there are more than two ranks and columns enough ([`is_in_two_steps`]), each rank adds up a piece of the part, which the others send to it alone, rounds the sum and sends it to the others: of P ranks each
/// sends 2 (P - 1) / P times its sums and not P - 1 times, and reads as much less. That takes the way of a word once more.
///
/// # Packets
///
/// A packet ([`Tag`]) has two elements of 16 bits. That doubles the bytes, and saves a signal.
///
/// # Reuse of memory
///
/// Launches take two slots in turns. A rank that stores for launch e + 1 has ended launch e, for which packets of each other rank have arrived, or in two steps sums that needed them; those had then ended launch e - 1, and the
/// reading of the slot that is overwritten. In two steps, of the packets of a source a rank gets its own piece in the first and the piece of the source in the second: no place is written twice. That holds for launches of other shapes in between too, since slots are as far apart in all of them.
///
/// # Limit
///
/// All waits of a thread have one limit together.
///
/// # Memory
///
/// It is zeros at first, which is the number of no launch. Numbers repeat after 2³² - 1 launches, each of which overwrites what it waits for; a packet that none of them has overwritten would
/// be taken for a new one by that one launch.
#[derive(Clone, Copy)]
pub(super) struct AcrossRanks<E> {
    pub(super) epilogue: E,
    pub(super) ranks: usize,
    pub(super) rank: Scalar<i32>,
    /// Packets that this rank gets, and those of all.
    pub(super) packets: Ptr<u64>,
    pub(super) packets_of: PeerMap<u64>,
    /// Packets from one slot to the next.
    pub(super) slot_packets: Scalar<i64>,
    /// Which part of C this is, and how many there are.
    pub(super) part: [Scalar<i32>; 2],
    pub(super) launches: Ptr<u64>,
    /// The number of the launch, once it is known.
    pub(super) launch: Option<Scalar<i64>>,
    pub(super) limit: WaitLimit,
}

impl<T: Float + Stored<Addend = T>, E: Epilogue<T, Outputs = NoOutputs>> Finish<T>
    for AcrossRanks<E>
{
    type Outputs = NoOutputs;

    /// Counting takes a way to memory and back, which the loads of the mainloop take too.
    fn begun(self) -> Self {
        AcrossRanks {
            launch: Some(launch_number(self.launches)),
            ..self
        }
    }

    #[track_caller]
    fn finish(self, sums: Tensor<f32>, at: Place<T>) -> Tensor<f32> {
        let sums = self.sum::<T>(sums, at);
        self.epilogue.finish(sums, at)
    }

    fn is_plain(&self) -> bool {
        false
    }

    /// Two packets: a store of 16 bytes, to which those of the neighbours are contiguous. Of 32 bytes in two stores each would leave gaps, which the link is slow at.
    fn run(&self) -> usize {
        4
    }
}

/// Nanoseconds of the clock of waits.
fn now() -> Scalar<i64> {
    inline_ptx_with_effects::<Scalar<i64>>("mov.u64 $0, %globaltimer;", ())
}

/// Elements of neighbouring rows.
#[track_caller]
fn pairs<T: Element>(x: Tensor<T>, [rows, columns]: [usize; 2]) -> (Tensor<T>, Tensor<T>) {
    let by_two = x.reshape([rows / 2, 2, columns]);
    by_two.permute([0, 2, 1]).split()
}

/// Pairs of elements as words.
#[track_caller]
fn packed<T: Float>((low, high): (Tensor<T>, Tensor<T>)) -> Tensor<u32> {
    let bits = |x: Tensor<T>| x.bitcast::<u16>().cast::<u32>();
    bits(low) | (bits(high) << 16_u32)
}

/// The elements of a packet.
#[device]
fn elements<T: Float>(packet: Tensor<u32>) -> [Tensor<f32>; 2] {
    [0_u32, 16].map(|shift| {
        let bits = (packet >> shift).cast::<u16>();
        bits.bitcast::<T>().cast::<f32>()
    })
}

/// Columns of a register tile of packets that lanes and warps hold: a piece of fewer would be moved between them.
const LANE_COLUMNS: usize = 8;

/// Whether sums of so many columns pass between so many ranks in two steps.
pub(super) const fn is_in_two_steps(columns: usize, ranks: usize) -> bool {
    ranks > 2 && ranks.is_power_of_two() && columns.is_multiple_of(ranks * LANE_COLUMNS)
}

/// Packets that a rank sends to the others for so many elements.
pub(super) const fn sent_packets(elements: usize, columns: usize, ranks: usize) -> usize {
    if is_in_two_steps(columns, ranks) {
        elements.div_ceil(ranks) * (ranks - 1)
    } else {
        elements / 2 * (ranks - 1)
    }
}

/// The packets of a part of C, one after the other: its own, which of them are inside of C, and where they go.
#[derive(Clone, Copy)]
struct Packets {
    own: Tensor<u32>,
    inside: Tensor<bool>,
    /// The number of each packet of the part.
    lanes: Tensor<i32>,
    tag: Tag,
    slot: Scalar<i64>,
    /// Of a part.
    count: usize,
}

/// A tile column by column.
#[track_caller]
fn flat<T: Element>(x: Tensor<T>) -> Tensor<T> {
    x.permute([1, 0]).ravel()
}

/// Tensors end to end: a power of two of them.
#[track_caller]
fn end_to_end<T: Element>(parts: Vec<Tensor<T>>) -> Tensor<T> {
    let mut parts = parts;
    while parts.len() > 1 {
        let pairs = parts.chunks(2);
        parts = pairs.map(|pair| cat([pair[0], pair[1]], 0)).collect();
    }
    parts[0]
}

/// The piece of a rank, of those of all.
#[device]
fn of_rank<T: Element>(pieces: &[Tensor<T>], rank: Scalar<i32>) -> Tensor<T> {
    let numbered = pieces.iter().enumerate().skip(1);
    numbered.fold(pieces[0], |found, (number, piece)| {
        select(rank == number as i32, *piece, found)
    })
}

/// The sum of packets, in their order.
#[device]
fn added<T: Float>(packets: &[Tensor<u32>]) -> [Tensor<f32>; 2] {
    let all = packets.iter().map(|packet| elements::<T>(*packet));
    let sum = all.reduce(|[of_low, of_high], [low, high]| [of_low + low, of_high + high]);
    sum.expect("a rank takes part at least")
}

impl<E: Copy> AcrossRanks<E> {
    #[device]
    fn sum<T: Float + Stored<Addend = T>>(self, sums: Tensor<f32>, at: Place<T>) -> Tensor<f32> {
        let shape = sums.shape();
        let shape @ [rows, columns] = [shape[0], shape[1]].map(|extent| extent as usize);
        let own = packed::<T>(pairs(sums.cast::<T>(), shape));
        let inside = (at.row < at.size[0]) & (at.column < at.size[1]);
        let inside = inside.broadcast_to(sums.shape());
        // Where the second of a pair is outside, its element goes along.
        let (inside, _) = pairs(inside.convert_layout(sums.layout()), shape);
        let lanes = rows_of(own.layout(), scalar(0), rows / 2)
            + columns_of(own.layout(), scalar(0), columns) * (rows / 2);
        let launch = self
            .launch
            .expect("the mainloop has begun before sums are finished");
        let number = launch.cast::<u64>() % u64::from(u32::MAX) + 1;
        let packets = Packets {
            own: flat(own),
            inside: flat(inside),
            lanes: flat(lanes.convert_layout(own.layout())),
            tag: Tag::of(number.cast::<u32>()),
            slot: (launch & (SLOTS as i64 - 1)) * self.slot_packets,
            count: rows / 2 * columns,
        };
        let sum = if is_in_two_steps(columns, self.ranks) {
            elements::<T>(self.sum_in_two_steps::<T>(packets))
        } else {
            self.sum_at_once::<T>(packets)
        };
        let [low, high] = sum.map(|half| half.reshape([columns, rows / 2]).permute([1, 0]));
        let sum = low.join(high).permute([0, 2, 1]).reshape([rows, columns]);
        sum.convert_layout(sums.layout())
    }

    /// Where packets of a source lie.
    #[device]
    fn place(self, packets: Packets, source: Tensor<i32>, lanes: Tensor<i32>) -> Tensor<i64> {
        let [part, parts] = self.part;
        let of_source = (source * parts + part).cast::<i64>() * packets.count as i64;
        lanes.cast::<i64>() + of_source + packets.slot
    }

    /// The same of this rank, in memory of another.
    #[device]
    fn send(
        self,
        packets: Packets,
        peer: Scalar<i32>,
        (words, lanes, inside): (Tensor<u32>, Tensor<i32>, Tensor<bool>),
    ) {
        let to = self.packets_of.of(peer).pointer();
        let at = self.place(packets, full_like(lanes, self.rank), lanes);
        packets.tag.send(words, to, (at, inside));
    }

    /// Waits for packets of sources, where they come, up to the limit since `began`. Gives them, and of each the rank whose packet has not arrived, or -1.
    #[device]
    fn receive(
        self,
        packets: Packets,
        (source, lanes, inside): (Tensor<i32>, Tensor<i32>, Tensor<bool>),
        began: Option<Scalar<i64>>,
    ) -> (Tensor<u32>, Tensor<i32>) {
        // This rank sends nothing to itself.
        let comes = inside & (source != self.rank);
        let sent = self.packets.at(self.place(packets, source, lanes));
        let sent = sent.mask(comes).scope(Scope::Sys).relaxed();
        let left = began.map_or(self.limit.ns, |began| {
            maximum(self.limit.ns - (now() - began), 1_i64)
        });
        let polled = sent.atomic_poll_within(left, |packet| packets.tag.has_arrived(packet));
        let seen = polled.seen();
        let waited_for = select(comes & packets.tag.is_missing(seen), source, -1);
        (seen.cast::<u32>(), waited_for)
    }

    /// Ends the kernel if a packet has not arrived.
    #[device]
    fn check(self, waited_for: Tensor<i32>) {
        self.limit
            .check(waited_for, (waited_for >= 0).cast::<i32>());
    }

    #[device]
    fn sum_at_once<T: Float>(self, packets: Packets) -> [Tensor<f32>; 2] {
        let Packets {
            own, inside, lanes, ..
        } = packets;
        for distance in 1..self.ranks {
            let peer = after(self.ranks, self.rank, distance);
            self.send(packets, peer, (own, lanes, inside));
        }
        // Between two ranks there is one wait.
        let began = (self.ranks > 2).then(now);
        let mut late = full_like(lanes, -1);
        let mut of_ranks = Vec::new();
        for source in 0..self.ranks {
            let of_source = (full_like(lanes, source as i32), lanes, inside);
            let (seen, waited_for) = self.receive(packets, of_source, began);
            late = maximum(late, waited_for);
            of_ranks.push(select(self.rank == source as i32, own, seen));
        }
        self.check(late);
        added::<T>(&of_ranks)
    }

    #[device]
    fn sum_in_two_steps<T: Float>(self, packets: Packets) -> Tensor<u32> {
        let of_piece = packets.count / self.ranks;
        let range = |rank: usize| rank * of_piece..(rank + 1) * of_piece;
        let pieces = |x: Tensor<u32>| {
            (0..self.ranks)
                .map(|rank| x.slice(0, range(rank)))
                .collect()
        };
        let (own, of_inside): (Vec<Tensor<u32>>, Vec<Tensor<u32>>) =
            (pieces(packets.own), pieces(packets.inside.cast::<u32>()));
        let inside = |rank: Scalar<i32>| of_rank(&of_inside, rank) != 0;
        let lanes = packets.lanes.slice(0, range(0));
        for distance in 1..self.ranks {
            let peer = after(self.ranks, self.rank, distance);
            let words = of_rank(&own, peer);
            self.send(
                packets,
                peer,
                (words, lanes + peer * of_piece, inside(peer)),
            );
        }
        let began = Some(now());
        // Of each rank one piece, end to end.
        let source = packets.lanes / of_piece as i32;
        let (here, own) = (self.rank * of_piece, of_rank(&own, self.rank));
        let inside_here = inside(self.rank);
        let all_inside = end_to_end(vec![inside_here.cast::<u32>(); self.ranks]) != 0;
        let of_ranks = (source, packets.lanes % of_piece as i32 + here, all_inside);
        let (seen, waited_for) = self.receive(packets, of_ranks, began);
        self.check(waited_for);
        let of_ranks = (0..self.ranks).map(|rank| {
            let seen = seen.slice(0, range(rank));
            select(self.rank == rank as i32, own, seen)
        });
        let [low, high] = added::<T>(&of_ranks.collect::<Vec<_>>());
        let sum = packed::<T>((low.cast::<T>(), high.cast::<T>()));
        for distance in 1..self.ranks {
            let peer = after(self.ranks, self.rank, distance);
            self.send(packets, peer, (sum, lanes + here, inside_here));
        }
        let of_ranks = (source, packets.lanes, packets.inside);
        let (seen, waited_for) = self.receive(packets, of_ranks, began);
        self.check(waited_for);
        let sums = (0..self.ranks).map(|rank| {
            let seen = seen.slice(0, range(rank));
            select(self.rank == rank as i32, sum, seen)
        });
        end_to_end(sums.collect())
    }
}

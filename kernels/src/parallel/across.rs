//! The sum over all ranks of what each has of a tile, in packets: between the mainloop of a product and its epilogue.

use tilekit::prelude::*;

use crate::products::ending::Finish;
use crate::products::epilogue::{Epilogue, Place};

use super::mail::launch_number;
use crate::collectives::arrivals::{Tag, after};

/// Slots that launches take in turns.
pub(super) const SLOTS: usize = 2;

/// Adds what all ranks have of a part of C, and passes it on to the epilogue.
///
/// Each rank rounds its sums to the element type, its own too, and stores them into memory of every other one; then all add them in f32, in the order of ranks. So all ranks have
/// the same bits, in every run.
///
/// # Packets
///
/// A packet ([`Tag`]) has two elements of 16 bits. That doubles the bytes, and saves a signal.
///
/// # Reuse of memory
///
/// Launches take two slots in turns. A rank that stores for launch e + 1 has ended launch e, for which packets of each other rank have arrived; those had then ended launch e - 1, and the
/// reading of the slot that is overwritten. That holds for launches of other shapes in between too, since slots are as far apart in all of them.
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

impl<T: Float, E: Epilogue<T>> Finish<T> for AcrossRanks<E> {
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

/// The elements of a packet.
#[device]
fn elements<T: Float>(packet: Tensor<u32>) -> [Tensor<f32>; 2] {
    [0_u32, 16].map(|shift| {
        let bits = (packet >> shift).cast::<u16>();
        bits.bitcast::<T>().cast::<f32>()
    })
}

impl<E: Copy> AcrossRanks<E> {
    #[device]
    fn sum<T: Float>(self, sums: Tensor<f32>, at: Place<T>) -> Tensor<f32> {
        let shape = sums.shape();
        let shape @ [rows, columns] = [shape[0], shape[1]].map(|extent| extent as usize);
        let (low, high) = pairs(sums.cast::<T>(), shape);
        let bits = |x: Tensor<T>| x.bitcast::<u16>().cast::<u32>();
        let own = bits(low) | (bits(high) << 16_u32);
        let inside = (at.row < at.size[0]) & (at.column < at.size[1]);
        let inside = inside.broadcast_to(sums.shape());
        // Where the second of a pair is outside, its element goes along.
        let (inside, _) = pairs(inside.convert_layout(sums.layout()), shape);
        let lanes = rows_of(own.layout(), scalar(0), rows / 2)
            + columns_of(own.layout(), scalar(0), columns) * (rows / 2);
        let lanes = lanes.convert_layout(own.layout());
        let launch = self
            .launch
            .expect("the mainloop has begun before sums are finished");
        let number = launch.cast::<u64>() % u64::from(u32::MAX) + 1;
        let tag = Tag::of(number.cast::<u32>());
        let [part, parts] = self.part;
        let slot = (launch & (SLOTS as i64 - 1)) * self.slot_packets;
        let place = |source: Scalar<i32>| {
            let of_source = (source * parts + part).cast::<i64>() * (rows / 2 * columns) as i64;
            lanes.cast::<i64>() + (slot + of_source)
        };
        for distance in 1..self.ranks {
            let peer = after(self.ranks, self.rank, distance);
            let to = self.packets_of.of(peer).pointer();
            tag.send(own, to, (place(self.rank), inside));
        }
        // Between two ranks there is one wait.
        let began = (self.ranks > 2).then(now);
        // The rank whose packet has not arrived, or -1.
        let mut waited_for = full_like(lanes, -1);
        let mut all: Option<[Tensor<f32>; 2]> = None;
        for source in 0..self.ranks {
            // This rank sends nothing to itself.
            let is_peer = inside & (self.rank != source);
            let of_source = self.packets.at(place(scalar(source as i32))).mask(is_peer);
            let of_source = of_source.scope(Scope::Sys).relaxed();
            let left = began.map_or(self.limit.ns, |began| {
                maximum(self.limit.ns - (now() - began), 1_i64)
            });
            let polled = of_source.atomic_poll_within(left, |packet| tag.has_arrived(packet));
            let packet = polled.seen();
            waited_for = select(is_peer & tag.is_missing(packet), source as i32, waited_for);
            let packet = select(self.rank == source, own, packet.cast::<u32>());
            let [low, high] = elements::<T>(packet);
            all = Some(match all {
                None => [low, high],
                Some([of_low, of_high]) => [of_low + low, of_high + high],
            });
        }
        self.limit
            .check(waited_for, (waited_for >= 0).cast::<i32>());
        let [low, high] = all.expect("a rank takes part at least");
        let sum = low.join(high).permute([0, 2, 1]).reshape([rows, columns]);
        sum.convert_layout(sums.layout())
    }
}

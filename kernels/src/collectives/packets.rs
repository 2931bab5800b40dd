//! All-gather and all-to-all of few bytes: each word travels together with the number of the step, so that no signal follows the data.

use tilekit::prelude::*;

use super::arrivals::{Arrivals, Tag, after, lanes_of};
use super::form::Form;

/// Packets that a CTA has room for, for each source and slot.
pub(super) const PACKETS: usize = 512;

/// Slots that launches take in turns.
pub(super) const PACKET_SLOTS: usize = 2;

/// What the CTAs of all ranks send packets through.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct PacketExchange {
    /// Where packets for this rank arrive, and the same of each rank.
    pub(super) staging: Ptr<u64>,
    pub(super) staging_of: PeerMap<u64>,
    /// Numbers of launches, in memory of this rank.
    pub(super) epochs: Ptr<i32>,
    pub(super) rank: Scalar<i32>,
    pub(super) limit: WaitLimit,
}

/// The pieces of all ranks in their order, as [`one_shot`](super::one_shot::one_shot) has them without `SUMS`, of `words` words of 32 bits whose distances `x_step` and `out_step` are words too.
///
/// A packet (`Tag`) is a word of `x`, and above it the number of the step: no fence waits for the stores to arrive. That doubles the bytes.
///
/// A CTA has room for 512 packets of each rank in each of two slots, which launches take in turns; it sends once in a launch. It has ended a launch when packets of
/// that launch have arrived from every rank, whose launch before has then ended, as has the reading of its slot: the next launch overwrites that one. `epochs` has the number of each CTA's
/// launches, in memory of the rank; it wraps after 2³² of them. CTAs wait only for those of the same index of other ranks, which send before they wait: the launch is no cooperative one, which would take
/// longer to start.
#[kernel(warps = WARPS, min_ctas_per_sm = 4)]
pub fn packets<T: Float, const WARPS: usize>(
    #[fixed] form: Form,
    x: Ptr<T>,
    out: Ptr<T>,
    exchange: PacketExchange,
    words: i32,
    x_step: i32,
    out_step: i32,
) {
    let PacketExchange {
        staging,
        staging_of,
        epochs,
        rank,
        limit,
    } = exchange;
    let epoch = epochs.at(program_id(0)).relaxed().atomic_add(1).old();
    let of_cta = form.packets();
    let lanes = arange(0..of_cta, lanes_of(form));
    let first = program_id(0) * of_cta;
    let inside = first + lanes < words;
    let [x_step, out_step] = [x_step, out_step].map(|step| form.word_step(step));
    let piece = |of: Scalar<i32>| {
        let from = x.cast::<u32>() + (of * x_step + first);
        from.at(lanes).mask(inside).other(0).load()
    };
    // Memory is zeros at first, which is the number of no step.
    let tag = Tag::of((epoch + 1).bitcast::<u32>());
    let slot = program_id(0) * PACKET_SLOTS + (epoch & (PACKET_SLOTS - 1));
    for distance in 1..form.ranks {
        let peer = after(form.ranks, rank, distance);
        let place = (slot * form.ranks + rank) * PACKETS + lanes;
        let to = staging_of.of(peer).pointer();
        tag.send(piece(peer), to, (place.cast::<i64>(), inside));
    }
    let own = piece(rank);
    let arrivals = Arrivals {
        form,
        staging,
        rank,
        limit,
    };
    let place = |source: Tensor<i32>, lane: Tensor<i32>| {
        let place = (slot * form.ranks + source) * PACKETS + lane;
        (place, first + lane < words)
    };
    let received = arrivals.wait(
        place,
        |packet| tag.has_arrived(packet),
        |packet| tag.is_missing(packet),
    );
    let to = out.cast::<u32>() + first;
    for (source, packet) in received.into_iter().enumerate() {
        let word = packet.cast::<u32>().convert_layout(own.layout());
        let word = select(rank == source, own, word);
        let to = to + out_step * source;
        to.at(lanes).mask(inside).store(word);
    }
}

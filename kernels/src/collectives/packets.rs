//! Collectives of few bytes: each word travels together with the number of the step, so that no signal follows the data.

use tilekit::prelude::*;

use super::form::{Form, MOST_RANKS};

/// Packets that a CTA has room for, for each source and slot.
pub(super) const PACKETS: usize = 512;

/// Slots that launches take in turns.
pub(super) const PACKET_SLOTS: usize = 2;

/// What [`one_shot`](super::one_shot::one_shot) computes, of pieces of `words` words of 32 bits whose distances `x_step` and `out_step` are words too. Sums are the same bits
/// on all ranks and in all runs, in f32 in the order of ranks and rounded once.
///
/// A *packet* is a word of `x`, and above it the number of the step. It is stored as one element of 64 bits by a relaxed access of the scope of the
/// system, which is not torn (PTX ISA 8.4), so who reads the number has the word too: nothing else is ordered, and no fence waits for the stores to arrive. That doubles the bytes.
///
/// A CTA has room for 512 packets of each rank in each of two slots, which launches take in turns; it sends once in a launch. It has ended a launch when packets of
/// that launch have arrived from every rank, whose launch before has then ended, as has the reading of its slot: the next launch overwrites that one. `epochs` has the number of each CTA's
/// launches, in memory of the rank; it wraps after 2³² of them.
#[kernel(warps = WARPS, cooperative, min_ctas_per_sm = 4)]
pub fn packets<T: Float, const WARPS: usize, const SUMS: bool>(
    #[fixed] form: Form,
    x: Ptr<T>,
    out: Ptr<T>,
    staging: Ptr<u64>,
    staging_of: PeerMap<u64>,
    epochs: Ptr<i32>,
    limit: i64,
    late: Ptr<i64>,
    rank: i32,
    words: i32,
    x_step: i32,
    out_step: i32,
) {
    let limit = WaitLimit { ns: limit, late };
    let epoch = epochs.at(program_id(0)).relaxed().atomic_add(1).old();
    let layout = Blocked::new([form.accesses], [32], [form.warps], [0]);
    let of_cta = form.packets();
    let lanes = arange(0..of_cta, layout);
    let first = program_id(0) * of_cta;
    let inside = first + lanes < words;
    let [x_step, out_step] = [x_step, out_step].map(|step| form.word_step(step));
    let piece = |of: Scalar<i32>| {
        let from = x.cast::<u32>() + (of * x_step + first);
        from.at(lanes).mask(inside).other(0).load()
    };
    // Memory is zeros at first, which is the number of no step.
    let tag = (epoch + 1).bitcast::<u32>().cast::<u64>() << 32;
    let slot = program_id(0) * PACKET_SLOTS + (epoch & (PACKET_SLOTS - 1));
    let place = |source: Scalar<i32>| (slot * form.ranks + source) * PACKETS + lanes;
    for distance in 1..form.ranks {
        let next = rank + distance;
        let peer = select(next >= form.ranks, next - form.ranks, next);
        let packet = piece(peer).cast::<u64>() | tag;
        let to = staging_of.of(peer).at(place(rank));
        to.mask(inside).volatile().store(packet);
    }
    let own = piece(rank);
    // The rank whose packet has not arrived, or -1.
    let mut waited_for = full_like(lanes, -1);
    let of_ranks: Vec<Tensor<u32>> = (0..form.ranks)
        .map(|source| {
            // This rank sends nothing to itself.
            let is_peer = inside & (rank != source);
            let packets = staging.at(place(scalar(source as i32))).mask(is_peer);
            let packets = packets.scope(Scope::Sys).relaxed();
            let polled = packets.atomic_poll_within(limit.ns, |packet| packet >> 32 == tag >> 32);
            let seen = polled.seen();
            let is_missing = is_peer & (seen >> 32 != tag >> 32);
            waited_for = select(is_missing, source as i32, waited_for);
            select(rank == source, own, seen.cast::<u32>())
        })
        .collect();
    let slot = program_id(0) * MOST_RANKS + waited_for;
    limit.check(slot, (waited_for >= 0).cast::<i32>());
    let to = out.cast::<u32>() + first;
    if SUMS {
        let sum = sum_of_words::<T>(&of_ranks);
        to.at(lanes).mask(inside).store(sum);
    } else {
        for (source, words) in of_ranks.into_iter().enumerate() {
            let to = to + out_step * source;
            to.at(lanes).mask(inside).store(words);
        }
    }
}

/// The sums of the elements in words.
#[device]
fn sum_of_words<T: Float>(of_ranks: &[Tensor<u32>]) -> Tensor<u32> {
    let sum_of = |shift: u32| {
        let terms = of_ranks.iter().map(|word| element::<T>(*word, shift));
        let sum = terms.reduce(|sum, term| sum + term);
        sum.expect("a rank takes part at least").cast::<T>()
    };
    if size_of::<T>() == 4 {
        return sum_of(0).bitcast::<u32>();
    }
    let bits = |shift: u32| sum_of(shift).bitcast::<u16>().cast::<u32>() << shift;
    bits(0) | bits(16)
}

/// The element of a word that begins at this bit.
#[device]
fn element<T: Float>(word: Tensor<u32>, shift: u32) -> Tensor<f32> {
    if size_of::<T>() == 4 {
        return word.bitcast::<T>().cast::<f32>();
    }
    let half = (word >> shift).cast::<u16>();
    half.bitcast::<T>().cast::<f32>()
}

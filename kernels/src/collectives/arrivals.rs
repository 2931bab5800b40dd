//! Polls 64-bit words whose value shows that they have arrived: a sentinel is overwritten, or a launch number is stored beside the data.

use tilekit::prelude::*;

use super::form::{Form, MOST_RANKS};

/// Neighbouring threads have neighbouring words.
pub(super) fn lanes_of(form: Form) -> Blocked {
    Blocked::new([form.accesses], [32], [form.warps], [0])
}

/// The rank that is `distance` further, of so many.
#[device]
pub(crate) fn after(ranks: usize, rank: Scalar<i32>, distance: usize) -> Scalar<i32> {
    let next = rank + distance;
    select(next >= ranks, next - ranks, next)
}

/// The number of a launch, by which packets are told from those of other launches. A *packet* is a word of 32 bits, and above it this number.
#[derive(Clone, Copy, Aggregate)]
pub(crate) struct Tag {
    /// In the upper half; no launch has 0, which memory is at first.
    upper: Scalar<u64>,
}

impl Tag {
    #[device]
    pub(crate) fn of(number: Scalar<u32>) -> Tag {
        Tag {
            upper: number.cast::<u64>() << 32,
        }
    }

    #[device]
    pub(crate) fn has_arrived(self, packet: Scalar<u64>) -> Scalar<bool> {
        packet >> 32 == self.upper >> 32
    }

    #[device]
    pub(crate) fn is_missing(self, packet: Tensor<u64>) -> Tensor<bool> {
        packet >> 32 != self.upper >> 32
    }

    /// Stores words as packets by relaxed accesses of the scope of the system, which are not torn (PTX ISA 8.4): who reads the number has the word too, and nothing else is ordered.
    #[device]
    pub(crate) fn send(
        self,
        word: Tensor<u32>,
        to: Ptr<u64>,
        (at, inside): (Tensor<i64>, Tensor<bool>),
    ) {
        let packet = word.cast::<u64>() | self.upper;
        to.at(at).mask(inside).volatile().store(packet);
    }
}

/// Words that the other ranks store in memory of this one.
#[derive(Clone, Copy)]
pub(super) struct Arrivals {
    pub(super) form: Form,
    pub(super) staging: Ptr<u64>,
    pub(super) rank: Scalar<i32>,
    pub(super) limit: WaitLimit,
}

impl Arrivals {
    /// The words of all ranks, in the order of ranks; the words of this rank are undefined, for it sends nothing to itself. `place` gives the index of each word of each source, and whether it is sent. All words are polled
    /// at once, up to one limit.
    #[device]
    pub(super) fn wait(
        self,
        place: impl FnOnce(Tensor<i32>, Tensor<i32>) -> (Tensor<i32>, Tensor<bool>),
        has_arrived: impl FnOnce(Scalar<u64>) -> Scalar<bool>,
        is_missing: impl FnOnce(Tensor<u64>) -> Tensor<bool>,
    ) -> Vec<Tensor<u64>> {
        let form = self.form;
        let shape @ [ranks, words] = [form.ranks.next_power_of_two(), form.packets()];
        let layout = Blocked::new([ranks, form.accesses], [1, 32], [1, form.warps], [1, 0]);
        let sources = rows_of(layout.clone(), scalar(0), ranks).broadcast_to(shape);
        let places = columns_of(layout, scalar(0), words).broadcast_to(shape);
        let (at, is_sent) = place(sources, places);
        let is_sent = is_sent & (sources != self.rank) & (sources < form.ranks);
        let sent = self.staging.at(at).mask(is_sent);
        let sent = sent.scope(Scope::Sys).relaxed();
        let seen = sent.atomic_poll_within(self.limit.ns, has_arrived).seen();
        let late = select(is_sent & is_missing(seen), sources, -1).max(0);
        let slot = program_id(0) * MOST_RANKS + late;
        self.limit.check(slot, (late >= 0).cast::<i32>());
        let mut rows = rows(seen, shape);
        rows.truncate(form.ranks);
        rows
    }
}

/// The rows of a tile, each thread of which has all rows.
#[track_caller]
fn rows(x: Tensor<u64>, [count, columns]: [usize; 2]) -> Vec<Tensor<u64>> {
    if count == 1 {
        return vec![x.reshape([columns])];
    }
    let by_two = x.reshape([count / 2, 2, columns]);
    let (even, odd) = by_two.permute([0, 2, 1]).split();
    let [even, odd] = [even, odd].map(|half| rows(half, [count / 2, columns]));
    even.into_iter().zip(odd).flat_map(<[_; 2]>::from).collect()
}

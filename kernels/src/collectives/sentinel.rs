//! All-reduce of few bytes through buffers that hold a sentinel (Lamport-style buffers, as in TensorRT-LLM): staging is zero before a launch, and a word that is not 0 has arrived. Data needs neither a flag beside
//! it nor a signal behind it.

use tilekit::prelude::*;

use super::arrivals::{Arrivals, after, lanes_of};
use super::form::Form;
use super::packets::PacketExchange;

/// Words that a CTA has room for, for each source, slot and step.
pub(super) const WORDS: usize = 512;

/// Slots that launches take in turns.
pub(super) const SENTINEL_SLOTS: usize = 4;

/// Steps of a launch: 1, or 2 where sums are sent too.
pub(super) const fn steps(is_two_shot: bool) -> usize {
    1 + is_two_shot as usize
}

/// The sum over ranks of pieces of `words` words of 32 bits, which are `x_step` words apart in `x`; with `TWO_SHOT` each word is summed by one rank, which sends the sum to the others,
/// and `x_step` is 0: for more than two ranks that moves fewer bytes. Sums are f32 in the order of ranks and rounded once: the same bits on all ranks and in all runs. `x` may be the result of an all-reduce.
///
/// # Words
///
/// A rank stores two words at a time, with every bit inverted, by one relaxed 64-bit access at system scope. Accesses of 64 bits are single-copy atomic (PTX ISA, memory consistency model), so a value other than
/// the sentinel 0 is both words: no release, acquire or fence is needed. Only elements whose bits are all ones would be stored as 0. These are NaNs, and are stored as other NaNs: a sum with a NaN is the one that
/// f32 additions give.
///
/// # Reuse of memory
///
/// `staging` is zeros at first, and has for each CTA 4 slots with 512 places for each step and source. `epochs` has the number of launches of each place, in memory of the rank, which says
/// the slot; only the thread that has the place in a launch reads and writes it, so that counting takes no barrier. Numbers wrap.
///
/// A thread that uses a slot writes zeros to the slot of the launch before. Other ranks store to that slot three launches later, after the second launch has received words of all ranks, which each rank sends only after
/// its launch that wrote the zeros has completed.
///
/// CTAs wait only for the CTAs of the same index of other ranks, which store before they wait. So the launch need not be cooperative, which would take longer to start.
#[kernel(warps = WARPS, min_ctas_per_sm = 32 / WARPS)]
pub fn sentinel_sum<T: Float, const WARPS: usize, const TWO_SHOT: bool>(
    #[fixed] form: Form,
    x: Ptr<T>,
    out: Ptr<T>,
    exchange: PacketExchange,
    words: i32,
    x_step: i32,
) {
    let PacketExchange {
        staging,
        staging_of,
        epochs,
        rank,
        limit,
    } = exchange;
    let places = arange(0..form.packets(), lanes_of(form));
    let counted = epochs.at(program_id(0) * WORDS + places);
    let epoch = counted.load();
    let mail = Mail {
        staging,
        staging_of,
        rank,
        epoch,
        steps: steps(TWO_SHOT),
        limit,
    };
    let all = Pieces {
        x,
        out,
        words,
        x_step: form.word_step(x_step),
        of_cta: form.packets() * if TWO_SHOT { form.ranks } else { 1 },
    };
    // Of a CTA's words those that a rank sums.
    let first = |of: Scalar<i32>| {
        if TWO_SHOT {
            of * form.packets()
        } else {
            scalar(0)
        }
    };
    for distance in 1..form.ranks {
        let peer = after(form.ranks, rank, distance);
        let word = all.load(form, peer, first(peer) + places);
        let inside = all.is_inside(first(peer) + places);
        mail.send(form, 0, peer, (places, inside), word);
    }
    let own = all.load(form, rank, first(rank) + places);
    counted.store(epoch + 1);
    mail.clear(form, places);
    let of_step = |of: Tensor<i32>| all.is_inside(of);
    let sent = mail.receive(form, 0, |places, _| of_step(first(rank) + places), own);
    let sum = sum_of::<T>(&sent);
    all.store(form, first(rank) + places, sum);
    if TWO_SHOT {
        let inside = all.is_inside(first(rank) + places);
        for distance in 1..form.ranks {
            mail.send(
                form,
                1,
                after(form.ranks, rank, distance),
                (places, inside),
                sum,
            );
        }
        let inside_of =
            |places: Tensor<i32>, source: Tensor<i32>| of_step(source * form.packets() + places);
        let sums = mail.receive(form, 1, inside_of, sum);
        for (source, sum) in sums.into_iter().enumerate() {
            // The rank has stored its own sum above.
            let source = scalar(source as i32);
            all.store_unless(form, source == rank, first(source) + places, sum);
        }
    }
}

/// The tensors of a rank, of which a CTA has so many words of 64 bits of each piece.
#[derive(Clone, Copy)]
struct Pieces<T> {
    x: Ptr<T>,
    out: Ptr<T>,
    words: Scalar<i32>,
    x_step: Scalar<i32>,
    of_cta: usize,
}

impl<T: Float> Pieces<T> {
    /// The number of a place of the CTA among those of all.
    #[device]
    fn number(self, place: Tensor<i32>) -> Tensor<i32> {
        program_id(0) * self.of_cta + place
    }

    #[device]
    fn is_inside(self, place: Tensor<i32>) -> Tensor<bool> {
        self.number(place) * 2 < self.words
    }

    /// Two words of a piece of `x`, 0 behind its end.
    #[device]
    fn load(self, form: Form, piece: Scalar<i32>, place: Tensor<i32>) -> Tensor<u64> {
        let from = self.x.cast::<u32>() + piece * self.x_step;
        let number = self.number(place);
        if form.is_aligned {
            let words = from.cast::<u64>().at(number);
            return words.mask(self.is_inside(place)).other(0).load();
        }
        let half = |second: i32| {
            let number = number * 2 + second;
            let word = from.at(number).mask(number < self.words).other(0).load();
            word.cast::<u64>()
        };
        half(0) | (half(1) << 32)
    }

    #[device]
    fn store(self, form: Form, place: Tensor<i32>, word: Tensor<u64>) {
        self.store_unless(form, scalar(false), place, word);
    }

    #[device]
    fn store_unless(
        self,
        form: Form,
        is_left_out: Scalar<bool>,
        place: Tensor<i32>,
        word: Tensor<u64>,
    ) {
        let (to, number) = (self.out.cast::<u32>(), self.number(place));
        if form.is_aligned {
            let inside = self.is_inside(place) & !is_left_out;
            return to.cast::<u64>().at(number).mask(inside).store(word);
        }
        for (second, half) in [word.cast::<u32>(), (word >> 32).cast::<u32>()]
            .into_iter()
            .enumerate()
        {
            let number = number * 2 + second as i32;
            let inside = (number < self.words) & !is_left_out;
            to.at(number).mask(inside).store(half);
        }
    }
}

/// The staging of all ranks.
#[derive(Clone, Copy)]
struct Mail {
    staging: Ptr<u64>,
    staging_of: PeerMap<u64>,
    rank: Scalar<i32>,
    epoch: Tensor<i32>,
    steps: usize,
    limit: WaitLimit,
}

impl Mail {
    /// Where words of a source lie.
    #[device]
    fn place(
        self,
        form: Form,
        (slot, step): (Tensor<i32>, usize),
        source: Tensor<i32>,
        place: Tensor<i32>,
    ) -> Tensor<i32> {
        let slot = program_id(0) * SENTINEL_SLOTS + (slot & (SENTINEL_SLOTS as i32 - 1));
        let of_source = (slot * self.steps + step) * form.ranks + source;
        of_source * WORDS + place
    }

    #[device]
    fn send(
        self,
        form: Form,
        step: usize,
        peer: Scalar<i32>,
        (places, inside): (Tensor<i32>, Tensor<bool>),
        word: Tensor<u64>,
    ) {
        let own = full_like(places, self.rank);
        let at = self.place(form, (self.epoch, step), own, places);
        let inverted = !word;
        let sent = select(inverted == 0, 1_u64, inverted);
        let to = self.staging_of.of(peer).at(at).mask(inside);
        to.volatile().store(sent);
    }

    /// Writes the sentinel to the slot of the launch before.
    #[device]
    fn clear(self, form: Form, places: Tensor<i32>) {
        for step in 0..self.steps {
            for distance in 1..form.ranks {
                let source = full_like(places, after(form.ranks, self.rank, distance));
                let at = self.place(form, (self.epoch - 1, step), source, places);
                self.staging.at(at).volatile().store(0_u64);
            }
        }
    }

    /// The words of all ranks, in their order; `own` are those of this rank, which sends nothing to itself. All are waited for at a time, up to one limit.
    #[device]
    fn receive(
        self,
        form: Form,
        step: usize,
        is_inside: impl Fn(Tensor<i32>, Tensor<i32>) -> Tensor<bool>,
        own: Tensor<u64>,
    ) -> Vec<Tensor<u64>> {
        let epoch = |like: Tensor<i32>, layout: Layout| {
            let epoch = self.epoch.convert_layout(Slice::new(0, layout));
            epoch.expand_dims(0).broadcast_to(like.shape())
        };
        let at = |sources: Tensor<i32>, places: Tensor<i32>| {
            let epoch = epoch(sources, sources.layout());
            let at = self.place(form, (epoch, step), sources, places);
            (at, is_inside(places, sources))
        };
        let arrivals = Arrivals {
            form,
            staging: self.staging,
            rank: self.rank,
            limit: self.limit,
        };
        let seen = arrivals.wait(at, |word| word != 0, |word| word == 0);
        let of_rank = |(source, word): (usize, Tensor<u64>)| {
            let word = word.convert_layout(own.layout());
            select(self.rank == source, own, !word)
        };
        seen.into_iter().enumerate().map(of_rank).collect()
    }
}

/// The sums of the elements in words.
#[device]
fn sum_of<T: Float>(of_ranks: &[Tensor<u64>]) -> Tensor<u64> {
    let bits = 8 * size_of::<T>() as u64;
    let element = |word: Tensor<u64>, shift: u64| {
        let shifted = word >> shift;
        let element = if size_of::<T>() == 4 {
            shifted.cast::<u32>().bitcast::<T>()
        } else {
            shifted.cast::<u16>().bitcast::<T>()
        };
        element.cast::<f32>()
    };
    let sum = |shift: u64| {
        let terms = of_ranks.iter().map(|word| element(*word, shift));
        let sum = terms.reduce(|sum, term| sum + term);
        let sum = sum.expect("a rank takes part at least").cast::<T>();
        let bits = if size_of::<T>() == 4 {
            sum.bitcast::<u32>().cast::<u64>()
        } else {
            sum.bitcast::<u16>().cast::<u64>()
        };
        bits << shift
    };
    let sums = (0..64 / bits).map(|part| sum(part * bits));
    let all = sums.reduce(|all, part| all | part);
    all.expect("a word has elements")
}

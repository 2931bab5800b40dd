//! Which kernel computes a collective, in how many CTAs.

use std::fmt;

use super::form::{Form, MOST_RANKS};

/// CTAs that workspaces have room for: two on each multiprocessor of an H100.
pub(super) const MOST_CTAS: usize = 264;

/// The same of launches of packets, whose CTAs are half as large.
pub(super) const MOST_PACKET_CTAS: usize = 2 * MOST_CTAS;

/// What a call computes of the tensors of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The sum of all tensors, on all ranks.
    AllReduce,
    /// The sum of all tensors, of which each rank gets a piece.
    ReduceScatter,
    /// The tensors of all ranks in their order, on all ranks.
    AllGather,
    /// Each rank has a piece for each rank.
    AllToAll,
}

impl Operation {
    /// Its name, as errors have it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::AllReduce => "all_reduce",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::AllGather => "all_gather",
            Operation::AllToAll => "all_to_all",
        }
    }

    /// Whether tensors are added.
    pub(super) fn sums(self) -> bool {
        matches!(self, Operation::AllReduce | Operation::ReduceScatter)
    }

    /// Pieces of the tensor that a rank has, and of its result.
    pub(super) fn pieces(self, ranks: usize) -> [usize; 2] {
        match self {
            Operation::AllReduce => [1, 1],
            Operation::ReduceScatter => [ranks, 1],
            Operation::AllGather => [1, ranks],
            Operation::AllToAll => [ranks, ranks],
        }
    }
}

/// How data and signals travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Each word with the number of its step: twice the bytes, and no signal ([`packets`](super::packets)). No sums.
    Packets,
    /// All that others need in one step ([`one_shot`](super::one_shot)).
    OneShot,
    /// A sum by the rank that a piece belongs to, which sends it to the others ([`two_shot`](super::two_shot)).
    TwoShot,
    /// Words that overwrite a sentinel: the bytes of the data alone, and no signal ([`sentinel`](super::sentinel)). Only sums.
    Sentinel,
    /// The same in two steps, as [`TwoShot`](Variant::TwoShot).
    SentinelTwoShot,
}

/// What a call needs: sizes that decide which kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Need {
    /// What is computed.
    pub operation: Operation,
    /// Ranks that take part.
    pub ranks: usize,
    /// Elements of a piece: of what one rank sends to another.
    pub len: usize,
    /// Bytes of an element: 2 or 4.
    pub element_bytes: usize,
    /// Multiprocessors of the rank that has the fewest.
    pub multiprocessors: usize,
}

/// How a collective is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Which kernel.
    pub variant: Variant,
    /// What it is compiled for.
    pub form: Form,
    /// CTAs on each rank.
    pub ctas: usize,
    /// Bytes that each rank sends.
    pub sent_bytes: usize,
    /// What the model expects, in microseconds.
    pub modelled_us: f64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan {
            variant,
            form,
            ctas,
            sent_bytes,
            modelled_us,
        } = self;
        write!(
            f,
            "{variant:?} {form} in {ctas} CTAs, {sent_bytes} bytes sent by each rank, {modelled_us:.1} us by the model"
        )
    }
}

/// What a launch takes before the first byte, in microseconds, by variant: measured between two H100 and, of sentinels, two H200, launches back to back (`bench/results/several_gpus.md`).
pub(crate) const START_US: [f64; 5] = [2.6, 5.0, 9.0, 2.2, 3.2];

/// Bytes that a rank sends in a microsecond, measured there.
pub(crate) const BYTES_PER_US: f64 = 335e3;

impl Need {
    /// The kernel that the model expects to be the fastest; none if nothing is to be done.
    pub fn plan(&self) -> Option<Plan> {
        if self.len == 0 || self.ranks == 0 || self.ranks > MOST_RANKS {
            return None;
        }
        let few = [self.packets(), self.sentinel(), self.sentinel_two_shot()];
        let many = [Some(self.one_shot()), self.two_shot()];
        let plans = few.into_iter().chain(many).flatten();
        plans.min_by(|a, b| a.modelled_us.total_cmp(&b.modelled_us))
    }

    /// CTAs of a launch at most, which wait for those of other ranks and so all run at a time.
    pub(super) fn most_ctas(&self, variant: Variant) -> usize {
        match variant {
            Variant::Packets | Variant::Sentinel | Variant::SentinelTwoShot => {
                MOST_PACKET_CTAS.min(4 * self.multiprocessors)
            }
            Variant::OneShot | Variant::TwoShot => MOST_CTAS.min(2 * self.multiprocessors),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.len * self.element_bytes
    }

    pub(super) fn form(&self, warps: usize, accesses: usize) -> Form {
        Form {
            ranks: self.ranks,
            warps,
            accesses,
            is_aligned: self.is_aligned(Variant::OneShot),
        }
    }

    /// Whether pieces begin at multiples of 16 bytes. Sums of words of 64 bits also end at one.
    pub(super) fn is_aligned(&self, variant: Variant) -> bool {
        let [of_x, of_result] = self.operation.pieces(self.ranks);
        let is_whole = self.bytes().is_multiple_of(16);
        let ends_anywhere = !matches!(variant, Variant::Sentinel | Variant::SentinelTwoShot);
        is_whole || (ends_anywhere && of_x.max(of_result) == 1)
    }

    fn of(&self, variant: Variant, form: Form, ctas: usize, sent_bytes: usize) -> Plan {
        let start = START_US[variant as usize];
        Plan {
            variant,
            form,
            ctas: ctas.clamp(1, self.most_ctas(variant).max(1)),
            sent_bytes,
            modelled_us: start + sent_bytes as f64 / BYTES_PER_US,
        }
    }

    /// A plan of whole words, so many for each thread, if the CTAs have room for them.
    fn few(&self, variant: Variant, accesses: usize, sent_bytes: usize) -> Option<Plan> {
        let form = Form {
            is_aligned: self.is_aligned(variant),
            ..self.form(8, accesses)
        };
        let ctas = self.few_ctas(variant, form);
        let fits = self.bytes().is_multiple_of(4) && ctas <= self.most_ctas(variant);
        fits.then(|| self.of(variant, form, ctas, sent_bytes))
    }

    /// CTAs of which each sends its words at once.
    pub(super) fn few_ctas(&self, variant: Variant, form: Form) -> usize {
        let (word_bytes, pieces) = match variant {
            Variant::Sentinel => (8, 1),
            Variant::SentinelTwoShot => (8, self.ranks),
            _ => (4, 1),
        };
        self.bytes()
            .div_ceil((word_bytes * pieces * form.packets()).max(1))
    }

    fn packets(&self) -> Option<Plan> {
        let sent = 2 * self.bytes() * (self.ranks - 1);
        let plan = self.few(Variant::Packets, 1, sent)?;
        (!self.operation.sums()).then_some(plan)
    }

    fn sentinel(&self) -> Option<Plan> {
        let sent = self.bytes() * (self.ranks - 1);
        let plan = self.few(Variant::Sentinel, 1, sent)?;
        self.operation.sums().then_some(plan)
    }

    /// Between two ranks it is for what one word for each thread of one step has no room for.
    fn sentinel_two_shot(&self) -> Option<Plan> {
        if self.operation != Operation::AllReduce || self.ranks < 2 {
            return None;
        }
        let sent = 2 * self.bytes() * (self.ranks - 1) / self.ranks;
        let of = |accesses| self.few(Variant::SentinelTwoShot, accesses, sent);
        of(1).or_else(|| of(2))
    }

    fn one_shot(&self) -> Plan {
        let small = self.form(8, 1);
        let form = if self.bytes().div_ceil(4096) <= MOST_CTAS / 2 {
            small
        } else {
            self.form(16, 2)
        };
        let chunks = self.bytes().div_ceil(form.chunk_bytes());
        let sent = self.bytes() * (self.ranks - 1);
        self.of(Variant::OneShot, form, chunks, sent)
    }

    fn two_shot(&self) -> Option<Plan> {
        if self.operation != Operation::AllReduce || self.ranks < 3 {
            return None;
        }
        let form = self.form(16, 2);
        let turns = self.bytes().div_ceil(form.chunk_bytes() * self.ranks);
        let sent = 2 * self.bytes() * (self.ranks - 1) / self.ranks;
        Some(self.of(Variant::TwoShot, form, turns, sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ranks: usize, len: usize) -> Option<Plan> {
        let need = Need {
            operation: Operation::AllReduce,
            ranks,
            len,
            element_bytes: 2,
            multiprocessors: 132,
        };
        need.plan()
    }

    #[test]
    fn few_bytes_go_as_packets_and_many_in_as_few_bytes_as_can_be() {
        let variant = |ranks, len| plan(ranks, len).map(|plan| plan.variant);
        assert_eq!(variant(2, 0), None);
        assert_eq!(variant(2, 4096), Some(Variant::Sentinel));
        assert_eq!(variant(8, 1 << 18), Some(Variant::SentinelTwoShot));
        // No whole words.
        assert_eq!(variant(2, 4097), Some(Variant::OneShot));
        assert_eq!(variant(2, 1 << 21), Some(Variant::SentinelTwoShot));
        assert_eq!(variant(2, 1 << 25), Some(Variant::OneShot));
        assert_eq!(variant(8, 1 << 25), Some(Variant::TwoShot));
        assert_eq!(variant(17, 1024), None);
    }

    #[test]
    fn no_launch_has_more_ctas_than_workspaces_have_room_for() {
        for ranks in 1..=MOST_RANKS {
            for len in (0..28).map(|log2| (1_usize << log2) + 6) {
                let plan = plan(ranks, len).expect("there is something to do");
                let room = match plan.variant {
                    Variant::OneShot | Variant::TwoShot => MOST_CTAS,
                    _ => MOST_PACKET_CTAS,
                };
                assert!((1..=room).contains(&plan.ctas), "{plan}");
            }
        }
    }
}

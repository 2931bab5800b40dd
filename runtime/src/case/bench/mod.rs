//! Timing launches, alone or beside peers that do the same work. Where work takes several launches, such as two passes, all
//! of them one after the other are what is timed.
//!
//! Two questions are asked of each. *Single*: how long does one launch take on a GPU that has rested? *Back to back*: how
//! long does a launch take when one follows the other for a tenth of a second, as in a model that runs? On request a
//! third: *sustained*, the same for a second and more, until power alone sets the clock.
//!
//! - Everything is timed in one process, in rounds that visit every contestant once, in a new random order each round:
//!   clocks and power follow what ran before, so that a fixed order would favour or punish a neighbour.
//! - *Cold*: the case's tensors exist in several copies that launches take in turn, enough that all together are several
//!   times the L2 cache; what a launch reads is then not there from the launch before. *Hot*: one copy.
//! - A single launch comes after a rest of 3 ms and behind a kernel of one thread that spins for 0.3 ms, between two
//!   events: the host has put everything on the stream before the GPU gets to it, so that the cost of launching on the
//!   host's side does not lie between the events.
//! - Back to back, a CUDA graph of at least 1 ms of launches is replayed for a tenth of a second. Launches that overlap
//!   their predecessor do so in the graph, which the driver is asked to confirm.
//! - Of candidates of one peer only the one that was fastest back to back runs on for the sustained time.
//! - What counts is the median; the spread is half of what lies between the quartiles.
//!
//! Work on all ranks of a world is timed on all of them, and the slowest counts. A kernel of one thread on each, behind the rest, has all ranks begin
//! together; back to back, a graph of each rank is replayed.
//!
//! While launches run on, the management library is asked for clocks and power. Hardware counters are read after all times are taken: reading them takes
//! launches of its own.
//!
//! On the emulator the same is done with the host's clock, without rest, spinning and slices: its times say nothing of a
//! GPU.

mod conditions;
mod contest;
mod counters;
mod gate;
mod heats;
mod ranks;
mod spin;
mod stream;
mod track;
mod waits;

use std::time::Duration;

use lowering::trace::TraceOptions;

pub use conditions::Conditions;
pub(super) use contest::{Contest, Contestant};
pub use counters::Counters;
pub(crate) use counters::probe;
pub(super) use counters::{Part, Reloaded};
pub(crate) use heats::Heats;
pub use ranks::RanksContest;
pub use stream::StreamContest;
pub(super) use track::Track;
pub use waits::{WaitLine, Waits};

/// How launches are timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchOptions {
    /// How many single launches are timed of each contestant.
    pub samples: usize,
    /// How many slices back to back.
    pub rounds: usize,
    /// How long a slice back to back is.
    pub slice: Duration,
    /// How long the GPU rests before a single launch.
    pub rest: Duration,
    /// How many bytes the copies of a case's tensors have together at least; 0 for one copy, so that what fits into L2
    /// stays there.
    pub operand_bytes: usize,
    /// How long a sustained run is; zero for none.
    pub sustained: Duration,
    /// Time each launch also as it is compiled to be traced so.
    pub trace: Option<TraceOptions>,
    /// Read hardware counters of each launch, after all times are taken.
    pub counters: bool,
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        BenchOptions {
            samples: 21,
            rounds: 8,
            slice: Duration::from_millis(100),
            rest: Duration::from_millis(3),
            operand_bytes: 240 << 20,
            sustained: Duration::ZERO,
            trace: None,
            counters: false,
        }
    }
}

/// The most copies of a case's tensors.
const MOST_COPIES: usize = 24;

impl BenchOptions {
    /// The same with one copy of a case's tensors.
    #[must_use]
    pub fn hot(self) -> BenchOptions {
        BenchOptions {
            operand_bytes: 0,
            ..self
        }
    }

    /// How many copies there are of tensors of `tensor_bytes` bytes: where there is more than one, at least two, and as
    /// many as fit into half of `free_bytes`.
    pub(super) fn copies(&self, tensor_bytes: usize, free_bytes: usize) -> usize {
        if self.operand_bytes == 0 || tensor_bytes == 0 {
            return 1;
        }
        let wanted = self
            .operand_bytes
            .div_ceil(tensor_bytes)
            .clamp(2, MOST_COPIES);
        wanted.min(free_bytes / 2 / tensor_bytes).max(1)
    }
}

/// What timing a launch, or several that belong together, gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The launches themselves first, then their peers.
    pub entrants: Vec<Entrant>,
    /// Copies of the case's tensors that were taken in turn.
    pub copies: usize,
    /// What could not be timed, and why.
    pub notes: Vec<String>,
}

impl Timing {
    /// What the case is about.
    pub fn ours(&self) -> &Entrant {
        &self.entrants[0]
    }
}

/// One that was timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Entrant {
    /// The kernels with their compile-time parameters, or what the peer is called.
    pub name: String,
    /// Of candidates of one peer only the best counts: the peer's name.
    pub family: Option<String>,
    /// Single launches.
    pub single: Series,
    /// Launches back to back, a slice each.
    pub back_to_back: Series,
    /// Launches that went on for longer; empty where that was not requested.
    pub sustained: Series,
    /// How often the graph that is replayed does the work.
    pub turns: usize,
    /// How many launches of the graph start before the one in front of them has ended.
    pub overlapping: usize,
    /// How its results agree with those of the first, with the norm.
    pub check: Option<String>,
    /// What the GPU was like while it ran back to back and sustained; none on the emulator, and where no management library says.
    pub conditions: Option<Conditions>,
    /// What the hardware counted of each of its launches, if that was requested.
    pub counters: Vec<Counters>,
}

/// Times of one launch, or of one chain of launches, in the order taken: the i-th of every contestant are of one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Milliseconds.
    pub samples_ms: Vec<f32>,
}

impl Series {
    /// The median, in milliseconds.
    pub fn median_ms(&self) -> f32 {
        self.quantile_ms(0.5)
    }

    /// The fastest, in milliseconds.
    pub fn fastest_ms(&self) -> f32 {
        self.samples_ms
            .iter()
            .copied()
            .fold(f32::INFINITY, f32::min)
    }

    /// Half of what lies between the quartiles, as a share of the median.
    pub fn spread(&self) -> f32 {
        (self.quantile_ms(0.75) - self.quantile_ms(0.25)) / 2.0 / self.median_ms()
    }

    /// How many times as long as `ours` this takes: the median of the ratios of the rounds, which share their clocks.
    pub fn ratio_to(&self, ours: &Series) -> f32 {
        let pairs = self.samples_ms.iter().zip(&ours.samples_ms);
        let ratios = Series {
            samples_ms: pairs.map(|(theirs, ours)| theirs / ours).collect(),
        };
        ratios.median_ms()
    }

    /// Between samples it is interpolated.
    fn quantile_ms(&self, share: f32) -> f32 {
        let mut sorted = self.samples_ms.clone();
        sorted.sort_by(f32::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else {
            return f32::NAN;
        };
        let place = share * last as f32;
        let (below, above) = (
            sorted[place.floor() as usize],
            sorted[place.ceil() as usize],
        );
        below + (above - below) * place.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples_ms: &[f32]) -> Series {
        Series {
            samples_ms: samples_ms.to_vec(),
        }
    }

    #[track_caller]
    fn check(is: f32, want: f32) {
        assert!((is - want).abs() < 1e-6, "{is}, wanted {want}");
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        check(series(&[4.0, 1.0, 2.0, 3.0]).median_ms(), 2.5);
        check(series(&[9.0, 1.0, 2.0]).median_ms(), 2.0);
        check(series(&[9.0, 1.0, 2.0]).fastest_ms(), 1.0);
        assert!(series(&[]).median_ms().is_nan());
    }

    #[test]
    fn the_spread_is_half_of_the_middle_half() {
        check(series(&[1.0, 2.0, 3.0, 4.0, 5.0]).spread(), 1.0 / 3.0);
        check(series(&[2.0, 2.0]).spread(), 0.0);
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The clock halves between the rounds, and the ratio stays.
        check(
            series(&[2.0, 4.0, 4.0]).ratio_to(&series(&[1.0, 2.0, 2.0])),
            2.0,
        );
    }

    #[test]
    fn copies_are_enough_to_leave_the_cache_and_fit() {
        let options = BenchOptions::default();
        let free = 100 << 30;
        assert_eq!(options.copies(400 << 20, free), 2);
        assert_eq!(options.copies(100 << 20, free), 3);
        assert_eq!(options.copies(1 << 20, free), 24);
        assert_eq!(options.copies(0, free), 1);
        assert_eq!(options.copies(60 << 30, free), 1, "two would not fit");
        assert_eq!(options.hot().copies(1 << 20, free), 1);
    }
}

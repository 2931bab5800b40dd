//! Heats: rounds over some of the contestants, whose results decide who goes on.

use std::time::Duration;

use super::contest::{Contest, Contestant};
use super::track::Track;
use super::{BenchOptions, Series};
use crate::case::Ready;
use crate::cuda::Watchdog;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// Candidates of one run of a case, all of them right, on one stream.
pub(crate) struct Heats<'a> {
    contest: Contest<'a>,
    /// What launches of each point to.
    ready: Vec<Ready>,
}

/// The times of one contestant in a heat: single launches, and slices back to back.
#[derive(Clone, Debug)]
pub(crate) struct Heat {
    pub(crate) single: Series,
    pub(crate) back_to_back: Series,
}

impl<'a> Heats<'a> {
    /// Between nobody yet.
    pub(crate) fn new(
        stream: &'a Stream,
        options: BenchOptions,
        launch_limit: Duration,
    ) -> Heats<'a> {
        Heats {
            contest: Contest::new(
                Track::One(stream),
                Vec::new(),
                usize::MAX,
                (options, launch_limit),
            ),
            ready: Vec::new(),
        }
    }

    /// Another candidate; gives its number.
    pub(crate) fn add(&mut self, name: &str, mut ready: Ready) -> usize {
        let contest = &mut self.contest;
        contest.copies = contest.copies.min(ready.copies);
        let launch = std::mem::replace(&mut ready.launch, Box::new(|_, _| Ok(())));
        contest.contestants.push(Contestant {
            name: name.to_string(),
            family: None,
            check: None,
            overlapping: ready.overlapping,
            launch,
            parts: Vec::new(),
        });
        self.ready.push(ready);
        self.ready.len() - 1
    }

    /// Times `among` in `rounds` rounds, each in an order of its own that depends on `seed`; slices back to back take `slice`. `begin` hears who is
    /// launched next: a failure, a hang or a crash is that one's.
    ///
    /// # Errors
    /// What the launches of one ended with.
    pub(crate) fn run(
        &mut self,
        among: &[usize],
        (rounds, seed, slice): (usize, u64, Duration),
        begin: &mut dyn FnMut(usize),
    ) -> Result<Vec<Heat>, Error> {
        self.contest.options.slice = slice;
        let contest = &self.contest;
        let mut slices = Vec::new();
        for &at in among {
            begin(at);
            let name = &contest.contestants[at].name;
            let is_on_gpu = contest.is_on_gpu();
            let _watchdog = is_on_gpu.then(|| Watchdog::start(name, contest.launch_limit));
            slices.push(contest.prepare_slice(at)?);
        }
        let slice_of = |at: usize| {
            let place = among.iter().position(|&one| one == at);
            &slices[place.expect("one of those that are timed")]
        };
        let mut sample = contest.single_launches()?;
        let single = contest.rounds_of((rounds, 2 * seed), among, |at| {
            begin(at);
            sample(at)
        })?;
        let back_to_back = contest.rounds_of((rounds, 2 * seed + 1), among, |at| {
            begin(at);
            contest.replay_for(slice_of(at), slice)
        })?;
        let heat = |&at: &usize| Heat {
            single: single[at].clone(),
            back_to_back: back_to_back[at].clone(),
        };
        Ok(among.iter().map(heat).collect())
    }
}

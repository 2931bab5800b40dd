//! Rounds that visit every contestant.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use super::conditions::Sampler;
use super::counters::{Counted, Counters, Part, count};
use super::track::{Recorded, Start, Track};
use super::{BenchOptions, Entrant, Series, Timing};
use crate::case::random::mix;
use crate::cuda::Watchdog;
use crate::error::Result;
use crate::peer::LaunchCopy;

/// Something that can be launched with each copy of the tensors.
pub(in crate::case) struct Contestant<'a> {
    pub(in crate::case) name: String,
    pub(in crate::case) family: Option<String>,
    pub(in crate::case) check: Option<String>,
    /// How many launches of one turn may overlap the one in front.
    pub(in crate::case) overlapping: usize,
    pub(in crate::case) launch: LaunchCopy<'a>,
    /// What is counted by itself; none where all of it is one.
    pub(in crate::case) parts: Vec<Part<'a>>,
}

/// Contestants on one track.
pub(in crate::case) struct Contest<'a> {
    pub(in crate::case) contestants: Vec<Contestant<'a>>,
    pub(in crate::case) track: Track<'a>,
    /// What goes in front of timed launches, once it has been asked for; nothing on the emulator.
    start: OnceCell<Option<Start>>,
    pub(in crate::case) copies: usize,
    pub(in crate::case) options: BenchOptions,
    /// A launch that takes longer has hung.
    pub(in crate::case) launch_limit: Duration,
}

/// How long a graph is at least, milliseconds: its own launch must not show.
const GRAPH_MS: f32 = 1.0;

/// The most turns of a graph.
const MOST_TURNS: f32 = 2000.0;

/// How often each continues for the sustained time.
const SUSTAINED_ROUNDS: usize = 2;

impl<'a> Contest<'a> {
    /// Between these, who take so many copies of the tensors in turn; a launch that takes longer than `launch_limit` has hung.
    pub(in crate::case) fn new(
        track: Track<'a>,
        contestants: Vec<Contestant<'a>>,
        copies: usize,
        (options, launch_limit): (BenchOptions, Duration),
    ) -> Contest<'a> {
        Contest {
            contestants,
            track,
            start: OnceCell::new(),
            copies,
            options,
            launch_limit,
        }
    }
}

impl Contest<'_> {
    /// Times everything.
    ///
    /// # Errors
    /// What a launch ended with, by the name of its contestant where it shows at once.
    pub(in crate::case) fn hold(&self, mut notes: Vec<String>) -> Result<Timing> {
        let all: Vec<usize> = (0..self.contestants.len()).collect();
        let single = self.rounds_of((self.options.samples, 1), &all, self.single_launches()?)?;
        let slices: Result<Vec<Slice>> = all.iter().map(|&at| self.prepare_slice(at)).collect();
        let slices = slices?;
        let device = self.track.stream().device();
        let sampler = device.ordinal().and_then(Sampler::start);
        let watch = |at| sampler.as_ref().map(|sampler| sampler.watch(at));
        let back_to_back = self.rounds_of((self.options.rounds, 2), &all, |at| {
            let _watch = watch(at);
            self.replay_for(&slices[at], self.options.slice)
        })?;
        let finalists = self.finalists(&back_to_back);
        let sustained = if self.options.sustained.is_zero() {
            vec![Series::default(); all.len()]
        } else {
            self.rounds_of((SUSTAINED_ROUNDS, 3), &finalists, |at| {
                let _watch = watch(at);
                self.replay_for(&slices[at], self.options.sustained)
            })?
        };
        notes.extend(self.notes_on_overlap(&slices));
        let unknown = vec![None; all.len()];
        let conditions = sampler.map_or(unknown, |sampler| sampler.end(all.len()));
        let counters = self.counters(&finalists, &mut notes)?;
        let series = single.into_iter().zip(back_to_back).zip(sustained);
        let seen = conditions.into_iter().zip(counters);
        let entrants = self.contestants.iter().zip(&slices).zip(series).zip(seen);
        Ok(Timing {
            entrants: entrants
                .map(
                    |(
                        ((contestant, slice), ((single, back_to_back), sustained)),
                        (conditions, counters),
                    )| Entrant {
                        name: contestant.name.clone(),
                        family: contestant.family.clone(),
                        check: contestant.check.clone(),
                        single,
                        back_to_back,
                        sustained,
                        turns: slice.turns,
                        overlapping: slice.graph.overlapping(),
                        conditions,
                        counters,
                    },
                )
                .collect(),
            copies: self.copies,
            notes,
        })
    }

    /// What the hardware counts of each contestant; of those that are no finalists nothing, as where it was not requested.
    fn counters(&self, finalists: &[usize], notes: &mut Vec<String>) -> Result<Vec<Vec<Counters>>> {
        let mut all = vec![Vec::new(); self.contestants.len()];
        if !self.options.counters || !self.is_on_gpu() {
            return Ok(all);
        }
        let Track::One(stream) = self.track else {
            notes.push("counters of launches on several GPUs are not read".to_string());
            return Ok(all);
        };
        let whole = |at: &usize| {
            let contestant = &self.contestants[*at];
            let parts = contestant.parts.iter();
            let mut parts: Vec<Counted<'_, '_>> = parts
                .map(|part| (part.name.as_str(), &part.launch, part.code.as_ref()))
                .collect();
            if parts.is_empty() {
                parts.push((contestant.name.as_str(), &contestant.launch, None));
            }
            parts
        };
        let (parts, owners): (Vec<_>, Vec<_>) = finalists
            .iter()
            .flat_map(|at| whole(at).into_iter().map(|part| (part, *at)))
            .unzip();
        let counted = count(&parts, stream, (self.copies, self.launch_limit))?;
        for (at, counters) in owners.into_iter().zip(counted) {
            all[at].extend(counters);
        }
        Ok(all)
    }

    /// Those that stand alone, and of each family the fastest back to back.
    fn finalists(&self, back_to_back: &[Series]) -> Vec<usize> {
        let is_final = |at: &usize| {
            let Some(family) = &self.contestants[*at].family else {
                return true;
            };
            let members = (0..self.contestants.len())
                .filter(|&other| self.contestants[other].family.as_ref() == Some(family));
            let median = |at: &usize| back_to_back[*at].median_ms();
            members.min_by(|a, b| median(a).total_cmp(&median(b))) == Some(*at)
        };
        (0..self.contestants.len()).filter(is_final).collect()
    }

    /// Who was meant to overlap, and does not: its times are not those that were requested.
    fn notes_on_overlap(&self, slices: &[Slice]) -> Vec<String> {
        let pairs = self.contestants.iter().zip(slices);
        let missing = pairs.filter_map(|(contestant, slice)| {
            // The first launch of a graph follows nothing.
            let wanted = (contestant.overlapping * slice.turns).saturating_sub(1);
            let found = slice.graph.overlapping();
            (self.is_on_gpu() && found < wanted).then(|| {
                format!(
                    "the driver lets only {found} of {wanted} launches of {} overlap their predecessor",
                    contestant.name
                )
            })
        });
        missing.collect()
    }

    /// Asks `sample` for a time of each of `among` in each round, in random order; the i-th time of all is of round i.
    pub(super) fn rounds_of(
        &self,
        (rounds, seed): (usize, u64),
        among: &[usize],
        mut sample: impl FnMut(usize) -> Result<f32>,
    ) -> Result<Vec<Series>> {
        let mut series = vec![Series::default(); self.contestants.len()];
        let limit = self.launch_limit + self.options.slice + 2 * self.options.sustained;
        for round in 0..rounds {
            for place in shuffled(among.len(), mix(seed << 32 | round as u64)) {
                let at = among[place];
                let _watchdog = self
                    .is_on_gpu()
                    .then(|| Watchdog::start(&self.contestants[at].name, limit));
                series[at].samples_ms.push(sample(at)?);
            }
        }
        Ok(series)
    }

    pub(super) fn is_on_gpu(&self) -> bool {
        self.track.is_on_gpu()
    }

    /// Times single launches, each with the next copy of the tensors.
    pub(super) fn single_launches(&self) -> Result<impl FnMut(usize) -> Result<f32>> {
        let start = self.start()?;
        let mut turns = vec![0; self.contestants.len()];
        Ok(move |at: usize| {
            let copy = turns[at] % self.copies;
            turns[at] += 1;
            let work = || self.launch(at, copy);
            let Some(start) = start else {
                return host_ms(work);
            };
            std::thread::sleep(self.options.rest);
            self.track.single_ms(start, work)
        })
    }

    /// What goes in front of timed launches; nothing on the emulator.
    fn start(&self) -> Result<Option<&Start>> {
        if let Some(start) = self.start.get() {
            return Ok(start.as_ref());
        }
        let start = self.track.start()?;
        Ok(self.start.get_or_init(|| start).as_ref())
    }

    /// Launches a contestant with a copy of the tensors.
    fn launch(&self, at: usize, copy: usize) -> Result<()> {
        (self.contestants[at].launch)(self.track.stream(), copy)
    }

    /// Replays a graph for about `time`; returns the time of one turn.
    pub(super) fn replay_for(&self, slice: &Slice, time: Duration) -> Result<f32> {
        let replay = || self.track.replay(&slice.graph);
        let Some(start) = self.start()? else {
            return Ok(host_ms(replay)? / slice.turns as f32);
        };
        let replays = (time.as_secs_f32() * 1e3 / slice.graph_ms).ceil().max(1.0) as usize;
        // The first replay fills the queue and settles what the contestant before has left.
        replay()?;
        let ms = self
            .track
            .busy_ms(start, || (0..replays).try_for_each(|_| replay()))?;
        Ok(ms / (slice.turns * replays) as f32)
    }

    /// Records turns that take every copy equally often.
    pub(super) fn prepare_slice(&self, at: usize) -> Result<Slice> {
        let start = self.start()?;
        let turns = match start {
            Some(start) => {
                let once_ms = self.rough_ms(at, start)?;
                let wanted = (GRAPH_MS / once_ms).clamp(1.0, MOST_TURNS).ceil() as usize;
                wanted.next_multiple_of(self.copies)
            }
            None => 1,
        };
        let turn = |turn| self.launch(at, turn % self.copies);
        let graph = self.track.capture(|| (0..turns).try_for_each(turn))?;
        let graph_ms = match start {
            Some(start) => self.replay_ms(&graph, start)?,
            None => 1.0,
        };
        Ok(Slice {
            graph,
            turns,
            graph_ms,
        })
    }

    /// A turn's time as far as the size of a graph depends on it.
    fn rough_ms(&self, at: usize, start: &Start) -> Result<f32> {
        const LAUNCHES: usize = 5;
        self.launch(at, 0)?;
        let turn = |turn| self.launch(at, turn % self.copies);
        let ms = self
            .track
            .busy_ms(start, || (0..LAUNCHES).try_for_each(turn))?;
        Ok((ms / LAUNCHES as f32).max(1e-3))
    }

    /// The second replay's time: the first pays for bringing the graph to the GPU.
    fn replay_ms(&self, graph: &Recorded, start: &Start) -> Result<f32> {
        self.track.replay(graph)?;
        let ms = self.track.busy_ms(start, || self.track.replay(graph))?;
        Ok(ms.max(1e-3))
    }
}

/// What is replayed.
pub(super) struct Slice {
    graph: Recorded,
    /// How often the graph does the work.
    turns: usize,
    /// How long a replay takes, milliseconds.
    graph_ms: f32,
}

fn host_ms(work: impl FnOnce() -> Result<()>) -> Result<f32> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f32() * 1e3)
}

/// The numbers below `count` in an order that depends on `seed` (Fisher and Yates).
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for end in (1..count).rev() {
        let pick = mix(seed.wrapping_add(end as u64)) % (end as u64 + 1);
        order.swap(end, pick as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::On;
    use crate::device::Device;
    use crate::stream::Stream;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn an_order_has_everyone_once_and_changes() {
        let orders: Vec<Vec<usize>> = (0..20).map(|seed| shuffled(5, seed)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        let firsts: std::collections::HashSet<usize> =
            orders.iter().map(|order| order[0]).collect();
        assert_eq!(firsts.len(), 5, "everyone comes first at times");
        assert!(shuffled(0, 1).is_empty());
    }

    #[test]
    fn every_round_visits_everyone_with_the_copies_in_turn() {
        let stream = Stream::new(&Device::emulator()).unwrap();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let contestant = |name: &str, at: usize| {
            let seen = Rc::clone(&seen);
            Contestant {
                name: name.to_string(),
                family: None,
                check: None,
                overlapping: 0,
                parts: Vec::new(),
                launch: Box::new(move |_, copy| {
                    seen.borrow_mut().push((at, copy));
                    Ok(())
                }),
            }
        };
        let options = BenchOptions {
            samples: 4,
            rounds: 2,
            ..BenchOptions::default()
        };
        let contestants = vec![contestant("a", 0), contestant("b", 1)];
        let timing = (options, Duration::from_secs(1));
        let contest = Contest::new(Track::One(&stream), contestants, 3, timing);
        let timing = contest.hold(vec!["a note".to_string()]).unwrap();
        let names: Vec<&str> = timing.entrants.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(timing.entrants.iter().all(|entrant| {
            entrant.single.samples_ms.len() == 4 && entrant.back_to_back.samples_ms.len() == 2
        }));
        assert_eq!((timing.copies, timing.notes.len()), (3, 1));
        let singles = seen.borrow()[..8].to_vec();
        for at in 0..2 {
            let copies: Vec<usize> = singles
                .iter()
                .filter(|(who, _)| *who == at)
                .map(|(_, copy)| *copy)
                .collect();
            assert_eq!(copies, [0, 1, 2, 0]);
        }
        for pair in singles.chunks(2) {
            assert_ne!(pair[0].0, pair[1].0, "a round visits everyone once");
        }
    }

    #[test]
    fn of_a_family_only_the_fastest_back_to_back_is_sustained() {
        let stream = Stream::new(&Device::emulator()).unwrap();
        let contestant = |name: &str, family: Option<&str>, ms: u64| Contestant {
            name: name.to_string(),
            family: family.map(str::to_string),
            check: None,
            overlapping: 0,
            parts: Vec::new(),
            launch: Box::new(move |stream, _| match stream.queue() {
                On::Emulator(stream) => stream.run(move || {
                    std::thread::sleep(Duration::from_millis(ms));
                    Ok(())
                }),
                On::Cuda(_) => panic!("the test's device is the emulator"),
            }),
        };
        let options = BenchOptions {
            samples: 1,
            rounds: 1,
            sustained: Duration::from_millis(1),
            ..BenchOptions::default()
        };
        let contestants = vec![
            contestant("alone", None, 1),
            contestant("slow", Some("lt"), 20),
            contestant("fast", Some("lt"), 1),
        ];
        let timing = (options, Duration::from_secs(1));
        let contest = Contest::new(Track::One(&stream), contestants, 1, timing);
        let timing = contest.hold(Vec::new()).unwrap();
        let counts: Vec<usize> = timing
            .entrants
            .iter()
            .map(|entrant| entrant.sustained.samples_ms.len())
            .collect();
        assert_eq!(counts, [2, 0, 2]);
    }
}

//! Runs the model under the schedules that matter, for all answers of the oracle.
//!
//! Waits for a phase are monotonic while no phase is overtaken: what one agent does never keeps another from going on. So which waits
//! return does not depend on the order, and a deadlock shows in every order. That a phase is overtaken, or a stage refilled or read
//! too early, shows where the agent concerned is as slow as can be: one schedule for each warp that differs from others, in which it
//! goes on only when nobody else can; and one for each mbarrier on which copies complete, in which these are as late as can be.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use ir::entity::Inst;
use rustc_hash::FxHashSet;

use crate::classes::Class;
use crate::machine::{Machine, Stop, Warps};
use crate::oracle::{Ask, Node};
use crate::places::Places;
use crate::program::{Program, What};
use crate::report;
use crate::state::{Agent, Barrier, Seen, State, Status};
use crate::step::{Went, land};

/// Decisions in one schedule beyond which nothing is decided.
pub(crate) const MOST_DECISIONS: usize = 20_000;

/// Steps in one schedule beyond which nothing is decided.
const MOST_STEPS: usize = 12_000_000;

/// Who is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slow {
    /// A warp of a partition.
    Warp(usize, Kind),
    /// The copies that complete on a barrier.
    Copies(usize),
}

/// Warps that differ in what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first of the partition, which acts for it.
    First,
    /// The first of another warpgroup.
    Leader,
    Other,
}

/// All schedules.
pub(crate) fn schedules(program: &Program, places: &Places) -> Vec<Slow> {
    let mut all = Vec::new();
    for (at, partition) in program.partitions.iter().enumerate() {
        all.push(Slow::Warp(at, Kind::First));
        if partition.warps > 4 {
            all.push(Slow::Warp(at, Kind::Leader));
        }
        if partition.warps > 1 {
            all.push(Slow::Warp(at, Kind::Other));
        }
    }
    let mut late = BTreeSet::new();
    for step in program.partitions.iter().flat_map(|p| &p.steps) {
        if let What::Copy { barrier, .. } | What::CopiesArrive { barrier, .. } = &step.what
            && let Some(path) = places.path(*barrier)
        {
            late.extend(places.barriers_of(path.allocation));
        }
    }
    all.extend(late.into_iter().map(Slow::Copies));
    all
}

/// The agents of a schedule. The slow one is last.
pub(crate) fn agents(program: &Program, slow: Slow) -> Vec<Warps> {
    let mut all = Vec::new();
    let mut last = None;
    for (partition, code) in program.partitions.iter().enumerate() {
        let whole = Warps {
            partition,
            count: code.warps,
            leads: true,
            leaders: code.warps.div_ceil(4),
        };
        let Slow::Warp(of, kind) = slow else {
            all.push(whole);
            continue;
        };
        if of != partition {
            all.push(whole);
            continue;
        }
        let one = Warps {
            partition,
            count: 1,
            leads: kind == Kind::First,
            leaders: u32::from(kind != Kind::Other),
        };
        last = Some(one);
        if code.warps > 1 {
            all.push(Warps {
                partition,
                count: code.warps - 1,
                leads: !one.leads,
                leaders: whole.leaders - one.leaders,
            });
        }
    }
    all.extend(last);
    all
}

/// What became of one schedule.
pub(crate) struct Explored {
    pub(crate) decisions: usize,
    /// What was decided.
    pub(crate) asked: BTreeSet<Class>,
    pub(crate) stop: Option<Stop>,
}

impl Machine<'_> {
    /// Runs the schedule for all answers.
    pub(crate) fn explore(&self, slow: Slow) -> Explored {
        let mut open = vec![self.start()];
        let mut known: FxHashSet<u64> = FxHashSet::default();
        let mut asked = BTreeSet::new();
        let mut stop = None;
        let mut left = MOST_STEPS;
        while let Some(mut state) = open.pop() {
            match self.run(&mut state, slow, &mut left) {
                Ok(()) => {}
                Err(Stop::Ask(ask @ Ask::First(..))) => {
                    state.oracle.decide(&ask, true);
                    open.push(state);
                }
                Err(Stop::Ask(ask)) => {
                    if known.len() >= MOST_DECISIONS {
                        let reason =
                            format!("more than {MOST_DECISIONS} decisions in one schedule");
                        stop = Some(self.undecided(self.first(), reason));
                        break;
                    }
                    asked.extend(ask.class());
                    if known.insert(fingerprint(&state)) {
                        self.fork(&mut open, state, &ask);
                    }
                }
                Err(found) => {
                    stop = Some(found);
                    break;
                }
            }
        }
        Explored {
            decisions: known.len(),
            asked,
            stop,
        }
    }

    fn first(&self) -> Inst {
        self.program.partitions[0].steps[0].inst
    }

    fn fork(&self, open: &mut Vec<State>, state: State, ask: &Ask) {
        let mut other = state.clone();
        other.oracle.decide(ask, true);
        self.forget_passed(&mut other);
        open.push(other);
        // First the shorter way, for what is found there is easier to follow.
        let mut state = state;
        state.oracle.decide(ask, false);
        self.forget_passed(&mut state);
        open.push(state);
    }

    fn start(&self) -> State {
        let agent = |partition: usize| Agent {
            at: 0,
            status: if partition == 0 {
                Status::Runs
            } else {
                Status::Unborn
            },
            values: Vec::new(),
            frames: Vec::new(),
            runs: Vec::new(),
            seen: vec![Seen::FIRST; self.places.barrier_count],
            knows: 0,
            products: Vec::new(),
            stores: Vec::new(),
        };
        State {
            oracle: Node::default(),
            agents: self.warps.iter().map(|w| agent(w.partition)).collect(),
            barriers: vec![Barrier::default(); self.places.barrier_count],
            named: Vec::new(),
            flights: Vec::new(),
        }
    }

    /// Runs to the end, or to something to be decided.
    fn run(&self, state: &mut State, slow: Slow, left: &mut usize) -> Result<(), Stop> {
        let is_slow = |at: usize| matches!(slow, Slow::Warp(..)) && at + 1 == self.warps.len();
        while *left > state.agents.len() {
            *left -= state.agents.len();
            let mut went = false;
            for at in 0..state.agents.len() {
                if is_slow(at) {
                    went = went || self.step(state, at)? == Went::On;
                    continue;
                }
                while *left > 0 && self.step(state, at)? == Went::On {
                    *left -= 1;
                    went = true;
                }
            }
            if *left == 0 {
                break;
            }
            if went {
                continue;
            }
            if !state.flights.is_empty() {
                let flight = state.flights.remove(0);
                land(state, flight);
                continue;
            }
            if state.agents.iter().all(|a| a.status == Status::Ended) {
                return Ok(());
            }
            return Err(report::deadlock(self, state));
        }
        Err(self.undecided(
            self.first(),
            format!("more than {MOST_STEPS} steps in one schedule"),
        ))
    }
}

/// Two states with one number are taken for equal: of the states of a schedule that is one case in ten thousand million.
fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

//! What steps do to a state.

use ir::entity::{Inst, Value};
use ir::ops::mbarrier::Arrivers;
use smallvec::SmallVec;

use crate::control::set;
use crate::machine::{Machine, Stop};
use crate::program::{Bytes, Step, What};
use crate::report;
use crate::state::{Agent, Flight, Seen, State, Status};

/// How a step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Went {
    /// The agent, or one that waited with it, went on.
    On,
    /// Nothing changed: the agent waits.
    Waits,
}

impl<'p> Machine<'p> {
    pub(crate) fn step_of(&self, state: &State, agent: usize) -> &'p Step {
        let partition = &self.program.partitions[self.warps[agent].partition];
        &partition.steps[state.agents[agent].at]
    }

    /// Takes the next step of an agent. What it asks, it asks before anything changes.
    pub(crate) fn step(&self, state: &mut State, agent: usize) -> Result<Went, Stop> {
        if state.agents[agent].status != Status::Runs {
            return Ok(Went::Waits);
        }
        let step = self.step_of(state, agent);
        let inst = step.inst;
        match &step.what {
            &What::Init { barrier, count } => {
                if self.warps[agent].leads {
                    self.init(state, agent, (barrier, inst), count)?;
                }
            }
            &What::Arrive {
                barrier,
                count,
                by,
                when,
            } => {
                let times = count * self.arrivals(agent, by);
                if times > 0 && self.holds(state, agent, when)? {
                    let at = self.barrier(state, agent, (barrier, inst))?;
                    self.arrive(state, agent, (at, inst), times)?;
                }
            }
            &What::Expect {
                barrier,
                bytes,
                when,
            } => {
                if self.warps[agent].leads && self.holds(state, agent, when)? {
                    let at = self.barrier(state, agent, (barrier, inst))?;
                    expect(state, at, bytes);
                    self.arrive(state, agent, (at, inst), 1)?;
                }
            }
            &What::Copy {
                barrier,
                view,
                bytes,
                when,
            } => {
                if self.warps[agent].leads && self.holds(state, agent, when)? {
                    let at = self.barrier(state, agent, (barrier, inst))?;
                    let stages = self.stages(state, agent, (view, inst))?;
                    self.fill(state, stages, inst)?;
                    let flight = Flight {
                        barrier: at,
                        bytes: bytes.known,
                        counted: bytes.counted,
                        arrivals: 0,
                        stages,
                    };
                    self.take_off(state, flight, inst)?;
                }
            }
            &What::CopiesArrive {
                barrier,
                is_counted,
            } => {
                let at = self.barrier(state, agent, (barrier, inst))?;
                let arrivals = 32 * self.warps[agent].count;
                if !is_counted {
                    state.barriers[at].pending += arrivals;
                }
                let flight = Flight {
                    barrier: at,
                    bytes: 0,
                    counted: None,
                    arrivals,
                    stages: 0,
                };
                self.take_off(state, flight, inst)?;
            }
            &What::Wait {
                barrier,
                parity,
                when,
            } => {
                if self.holds(state, agent, when)?
                    && !self.wait(state, agent, (barrier, inst), parity)?
                {
                    return Ok(Went::Waits);
                }
            }
            What::Sync => return Ok(self.sync(state, agent)),
            &What::NamedSync { number, threads } => {
                return self.named(state, agent, (number, threads, inst), true);
            }
            &What::NamedArrive { number, threads } => {
                return self.named(state, agent, (number, threads, inst), false);
            }
            &What::Read(view) => {
                let stages = self.stages(state, agent, (view, inst))?;
                self.read(state, agent, stages, inst)?;
            }
            &What::Write(view) => {
                let stages = self.stages(state, agent, (view, inst))?;
                self.write(state, agent, stages, inst)?;
            }
            What::ReadByProduct(views) => {
                let mut all = 0;
                for view in views {
                    all |= self.stages(state, agent, (*view, inst))?;
                }
                self.read(state, agent, all, inst)?;
                state.agents[agent].products.push(all);
                trim(&mut state.agents[agent].products, 8);
            }
            &What::AwaitProducts(pending) => trim(&mut state.agents[agent].products, pending),
            &What::ReadByStore { view, when } => {
                if self.warps[agent].leads {
                    let stages = if self.holds(state, agent, when)? {
                        self.stages(state, agent, (view, inst))?
                    } else {
                        0
                    };
                    self.read(state, agent, stages, inst)?;
                    state.agents[agent].stores.push(stages);
                    trim(&mut state.agents[agent].stores, 8);
                }
            }
            &What::AwaitStores(pending) => trim(&mut state.agents[agent].stores, pending),
            &What::Branch {
                condition,
                otherwise,
            } => {
                if !self.truth(state, agent, condition)? {
                    state.agents[agent].at = otherwise;
                    return Ok(Went::On);
                }
            }
            &What::Jump(to) => {
                state.agents[agent].at = to;
                return Ok(Went::On);
            }
            What::Assign(moves) => {
                let values = self.values(state, agent, moves)?;
                set(&mut state.agents[agent], values);
            }
            What::Enter { id, inits } => self.enter(state, agent, *id, inits)?,
            What::Test { id, exit, results } => {
                if !self.is_inside(state, agent, *id)? {
                    return self.leave(state, agent, (*id, *exit), results);
                }
            }
            What::TestWhile {
                id,
                condition,
                exit,
                passed,
                results,
            } => {
                if !self.truth(state, agent, *condition)? {
                    return self.leave(state, agent, (*id, *exit), results);
                }
                let values = self.values(state, agent, passed)?;
                set(&mut state.agents[agent], values);
            }
            What::Next {
                id,
                head,
                exit,
                goes_on,
                next,
                results,
            } => {
                if let Some(goes_on) = goes_on
                    && !self.truth(state, agent, *goes_on)?
                {
                    return self.leave(state, agent, (*id, *exit), results);
                }
                self.next(state, agent, (*id, *head), next)?;
                return Ok(Went::On);
            }
            What::Part => return Ok(self.part(state, agent)),
            What::Join => {
                let is_worker = |at: &usize| self.warps[*at].partition > 0;
                let mut workers = (0..state.agents.len()).filter(is_worker);
                if workers.any(|at| state.agents[at].status != Status::Ended) {
                    return Ok(Went::Waits);
                }
            }
            What::End => {
                state.agents[agent].status = Status::Ended;
                state.agents[agent].values.clear();
                self.forget_passed(state);
                return Ok(Went::On);
            }
        }
        state.agents[agent].at += 1;
        Ok(Went::On)
    }

    fn holds(&self, state: &State, agent: usize, when: Option<Value>) -> Result<bool, Stop> {
        when.map_or(Ok(true), |when| self.truth(state, agent, when))
    }

    /// Arrivals of the warps of an agent.
    fn arrivals(&self, agent: usize, by: Arrivers) -> u32 {
        let warps = &self.warps[agent];
        match by {
            Arrivers::Partition => u32::from(warps.leads),
            Arrivers::Warp => warps.count,
            Arrivers::Warpgroup => warps.leaders,
            Arrivers::Thread => 32 * warps.count,
        }
    }

    fn init(
        &self,
        state: &mut State,
        agent: usize,
        place: (Value, Inst),
        count: u32,
    ) -> Result<(), Stop> {
        let at = self.barrier(state, agent, place)?;
        let barrier = &mut state.barriers[at];
        *barrier = crate::state::Barrier {
            count,
            pending: count,
            ..Default::default()
        };
        for other in &mut state.agents {
            other.seen[at] = Seen::FIRST;
        }
        Ok(())
    }

    fn arrive(
        &self,
        state: &mut State,
        agent: usize,
        (at, inst): (usize, Inst),
        times: u32,
    ) -> Result<(), Stop> {
        let knows = state.agents[agent].knows;
        let barrier = &mut state.barriers[at];
        if barrier.count == 0 {
            return Err(report::uninitialized(self, inst));
        }
        if barrier.pending < times {
            return Err(report::too_many_arrivals(self, inst, barrier, times));
        }
        barrier.pending -= times;
        barrier.gathered |= knows;
        // Who takes part in a phase knows which it is.
        state.agents[agent].seen[at] = Seen {
            parity: barrier.parity ^ 1,
            behind: 0,
        };
        complete(state, at);
        Ok(())
    }

    /// Copies complete at once, or as late as possible.
    fn take_off(&self, state: &mut State, flight: Flight, inst: Inst) -> Result<(), Stop> {
        if state.barriers[flight.barrier].count == 0 {
            return Err(report::uninitialized(self, inst));
        }
        if self.late == Some(flight.barrier) {
            state.flights.push(flight);
        } else {
            land(state, flight);
        }
        Ok(())
    }

    /// A copy begins to write stages.
    fn fill(&self, state: &mut State, stages: u128, inst: Inst) -> Result<(), Stop> {
        for (at, agent) in state.agents.iter().enumerate() {
            let reads = agent.products.iter().chain(&agent.stores);
            if reads.clone().any(|held| held & stages != 0) {
                return Err(report::refilled_while_read(self, state, inst, at));
            }
        }
        let keep = !stages;
        for agent in &mut state.agents {
            agent.knows &= keep;
        }
        for barrier in &mut state.barriers {
            barrier.gathered &= keep;
            barrier.published &= keep;
        }
        for named in &mut state.named {
            named.gathered &= keep;
        }
        Ok(())
    }

    /// Threads write stages, which others may read once they are told. Barriers of the CTA order the threads of one partition.
    fn write(&self, state: &mut State, agent: usize, stages: u128, inst: Inst) -> Result<(), Stop> {
        self.fill(state, stages, inst)?;
        for peer in self.peers(agent) {
            state.agents[peer].knows |= stages;
        }
        Ok(())
    }

    fn read(&self, state: &State, agent: usize, stages: u128, inst: Inst) -> Result<(), Stop> {
        if stages & !state.agents[agent].knows == 0 {
            return Ok(());
        }
        Err(report::read_early(self, state, inst, stages))
    }

    /// Does the wait return?
    fn wait(
        &self,
        state: &mut State,
        agent: usize,
        (barrier, inst): (Value, Inst),
        parity: Value,
    ) -> Result<bool, Stop> {
        let at = self.barrier(state, agent, (barrier, inst))?;
        let known = self.eval(state, agent, parity)?;
        let Some(parity) = known.parity() else {
            return Err(self.undecided(inst, "the parity of the wait follows from no counter"));
        };
        if state.barriers[at].count == 0 {
            return Err(report::uninitialized(self, inst));
        }
        let seen = state.agents[agent].seen[at];
        match (parity == seen.parity, seen.behind) {
            (true, 0) => {}
            (false, 0) => return Ok(false),
            (false, 1) => {
                state.agents[agent].seen[at] = Seen { parity, behind: 0 };
            }
            (true, _) => {
                let reason = "the wait may be for the phase that was waited for before, or for the one after the next";
                return Err(self.undecided(inst, reason));
            }
            (false, _) => return Err(report::overtaken(self, state, inst, at)),
        }
        state.agents[agent].knows |= state.barriers[at].published;
        Ok(true)
    }

    /// Agents of the same partition.
    fn peers(&self, agent: usize) -> SmallVec<[usize; 2]> {
        let own = self.warps[agent].partition;
        let all = self.warps.iter().enumerate();
        all.filter(|(_, w)| w.partition == own)
            .map(|(at, _)| at)
            .collect()
    }

    pub(crate) fn sync(&self, state: &mut State, agent: usize) -> Went {
        let peers = self.peers(agent);
        state.agents[agent].status = Status::Joins;
        let here = state.agents[agent].at;
        let has_come = |at: &usize| {
            let other = &state.agents[*at];
            other.status == Status::Joins && other.at == here
        };
        if !peers.iter().all(has_come) {
            return Went::On;
        }
        let knows = peers
            .iter()
            .fold(0, |all, at| all | state.agents[*at].knows);
        for at in peers {
            let other = &mut state.agents[at];
            other.status = Status::Runs;
            other.at += 1;
            other.knows = knows;
        }
        Went::On
    }

    fn named(
        &self,
        state: &mut State,
        agent: usize,
        (number, threads, inst): (u32, u32, Inst),
        waits: bool,
    ) -> Result<Went, Stop> {
        let knows = state.agents[agent].knows;
        let place = state.named.iter().position(|n| n.number == number);
        let place = place.unwrap_or_else(|| {
            let fresh = crate::state::Named {
                number,
                ..Default::default()
            };
            let at = state.named.partition_point(|n| n.number < number);
            state.named.insert(at, fresh);
            at
        });
        let named = &mut state.named[place];
        if named.who & 1 << agent != 0 {
            return Err(report::named_overtaken(self, inst));
        }
        named.arrived += 32 * self.warps[agent].count;
        named.who |= 1 << agent;
        named.gathered |= knows;
        if named.arrived > threads {
            return Err(report::named_too_many(self, inst, named.arrived, threads));
        }
        let is_complete = named.arrived == threads;
        state.agents[agent].at += 1;
        if waits {
            state.agents[agent].status = Status::JoinsNamed;
        }
        if is_complete {
            let done = state.named.remove(place);
            for (at, other) in state.agents.iter_mut().enumerate() {
                if done.who & 1 << at != 0 && self.joins(at, other) == Some(number) {
                    other.status = Status::Runs;
                    other.knows |= done.gathered;
                }
            }
        }
        Ok(Went::On)
    }
}

impl Machine<'_> {
    /// The named barrier at which an agent waits. It may have arrived at others before, without a wait.
    fn joins(&self, at: usize, agent: &Agent) -> Option<u32> {
        if agent.status != Status::JoinsNamed {
            return None;
        }
        let steps = &self.program.partitions[self.warps[at].partition].steps;
        match steps[agent.at - 1].what {
            What::NamedSync { number, .. } => Some(number),
            _ => None,
        }
    }
}

/// Keeps the last `most` groups.
fn trim(groups: &mut Vec<u128>, most: u32) {
    let over = groups.len().saturating_sub(most as usize);
    groups.drain(..over);
    if groups.iter().all(|group| *group == 0) {
        groups.clear();
    }
}

fn expect(state: &mut State, at: usize, bytes: Bytes) {
    let barrier = &mut state.barriers[at];
    barrier.bytes += bytes.known;
    if let Some(what) = bytes.counted {
        count(&mut barrier.counted, what, 1);
    }
}

fn count(all: &mut Vec<((u32, i64), i32)>, what: (u32, i64), by: i32) {
    match all.binary_search_by_key(&what, |(w, _)| *w) {
        Ok(at) => all[at].1 += by,
        Err(at) => all.insert(at, (what, by)),
    }
    all.retain(|(_, times)| *times != 0);
}

/// A copy completes.
pub(crate) fn land(state: &mut State, flight: Flight) {
    let barrier = &mut state.barriers[flight.barrier];
    barrier.bytes -= flight.bytes;
    if let Some(what) = flight.counted {
        count(&mut barrier.counted, what, -1);
    }
    barrier.pending = barrier.pending.saturating_sub(flight.arrivals);
    barrier.gathered |= flight.stages;
    complete(state, flight.barrier);
}

/// The barrier turns to the next phase if nothing is pending.
fn complete(state: &mut State, at: usize) {
    let barrier = &mut state.barriers[at];
    if barrier.pending > 0 || barrier.bytes != 0 || !barrier.counted.is_empty() {
        return;
    }
    barrier.pending = barrier.count;
    barrier.parity ^= 1;
    barrier.published |= barrier.gathered;
    barrier.gathered = 0;
    for agent in &mut state.agents {
        let seen = &mut agent.seen[at];
        seen.behind = (seen.behind + 1).min(3);
    }
}

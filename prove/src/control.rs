//! What control flow does to an agent: its loops, its values, and the partitions' beginning.

use ir::entity::Value;

use crate::machine::{Machine, Stop};
use crate::program::{LoopId, Moves, What};
use crate::state::{Agent, Frame, State, Status, times};
use crate::step::Went;
use crate::value::Known;

impl Machine<'_> {
    pub(crate) fn values(
        &self,
        state: &State,
        agent: usize,
        moves: &Moves,
    ) -> Result<Vec<(Value, Known)>, Stop> {
        let value = |(to, from): &(Value, Value)| Ok((*to, self.eval(state, agent, *from)?));
        moves.iter().map(value).collect()
    }

    pub(crate) fn enter(
        &self,
        state: &mut State,
        agent: usize,
        id: LoopId,
        inits: &Moves,
    ) -> Result<(), Stop> {
        let l = &self.program.loops[id];
        let values = self.values(state, agent, inits)?;
        let low = l
            .bounds
            .map(|[low, ..]| self.eval(state, agent, low))
            .transpose()?;
        let way = state.agents[agent].way();
        let mut run = None;
        if !l.is_fixed {
            let runs = state.agents[agent].runs_mut();
            let number = times(runs, l.class);
            runs.retain(|(class, _)| *class != l.class);
            runs.push((l.class, number + 1));
            runs.sort_unstable();
            run = Some((l.class, number));
            if l.bounds.is_none()
                && let Some(node) = state.oracle.at_mut(&way)
            {
                let stream = node.stream_mut((l.class, number));
                if stream.nodes.is_empty() {
                    stream.nodes.push(crate::oracle::Node::default());
                }
            }
        }
        let is_counted = l.is_fixed || l.counts;
        let own = &mut state.agents[agent];
        set(own, values);
        own.frames.push(Frame {
            id,
            run,
            at: l.start,
            index: low.filter(|low| is_counted && low.number().is_some()),
            runs: Vec::new(),
        });
        Ok(())
    }

    /// Is the frame's iteration one of the loop's?
    pub(crate) fn is_inside(&self, state: &State, agent: usize, id: LoopId) -> Result<bool, Stop> {
        let frames = &state.agents[agent].frames;
        let place = frames.len() - 1;
        let l = &self.program.loops[id];
        match (l.is_fixed, frames[place].index, l.bounds) {
            (true, Some(Known::Number(index)), Some([_, high, _])) => {
                let high = self.func.constant_int(high).map_or(0, |h| h as i64);
                Ok(index < high)
            }
            _ => self.goes_on(state, agent, place),
        }
    }

    /// What a loop ran up to, where its index is counted and has become that.
    fn reached(&self, state: &State, agent: usize, id: LoopId) -> Option<(Value, Known)> {
        let l = &self.program.loops[id];
        let frame = state.agents[agent].frames.last()?;
        let [low, high, step] = l.bounds?;
        // What is the same in all iterations of all loops around stays true behind it.
        self.scopes.fixed(high)?;
        let first = self.func.constant_int(low).map(|n| Known::Number(n as i64));
        let is_exact = self.func.constant_int(step) == Some(1)
            && matches!(self.step_of(state, agent).what, What::Test { .. });
        let (run, index) = (frame.run?, frame.index?);
        let mut way = state.agents[agent].way();
        way.pop();
        let stream = state.oracle.at(&way).and_then(|node| node.stream(run))?;
        // A loop that did not run says nothing, unless the iteration before its first is known to exist.
        let ran = Some(index) != first || l.start > 0 && stream.nodes.len() >= l.start as usize;
        (is_exact && ran && l.is_from_zero).then_some((high, index))
    }

    pub(crate) fn leave(
        &self,
        state: &mut State,
        agent: usize,
        (id, exit): (LoopId, usize),
        results: &Moves,
    ) -> Result<Went, Stop> {
        let mut values = self.values(state, agent, results)?;
        for (to, known) in &mut values {
            if matches!(known, Known::Index { .. } | Known::Unknown { .. }) {
                *known = Known::Unknown {
                    class: self.class_of(*to),
                    plus: 0,
                };
            }
        }
        let reached = self.reached(state, agent, id);
        let own = &mut state.agents[agent];
        values.extend(reached);
        own.frames.pop();
        own.forget(&self.program.loops[id].inner);
        set(own, values);
        own.at = exit;
        self.forget_passed(state);
        Ok(Went::On)
    }

    pub(crate) fn next(
        &self,
        state: &mut State,
        agent: usize,
        (id, head): (LoopId, usize),
        next: &Moves,
    ) -> Result<(), Stop> {
        let l = &self.program.loops[id];
        let modulus = self.program.modulus;
        let step = l.bounds.and_then(|[.., step]| self.func.constant_int(step));
        let step = step.map(|s| s as i64);
        let mut values = self.values(state, agent, next)?;
        for (to, known) in &mut values {
            let class = Known::Unknown {
                class: self.class_of(*to),
                plus: 0,
            };
            *known = match *known {
                // What the index was, seen from the next iteration.
                Known::Index { id: of, plus } if of == id && plus.abs() < 64 => {
                    step.map_or(class, |step| Known::Index {
                        id,
                        plus: plus - step,
                    })
                }
                Known::Index { id: of, .. } if of != id => *known,
                Known::Number(_) | Known::Residue { .. } if !l.is_fixed => {
                    known.widened(modulus).unwrap_or(class)
                }
                Known::Number(_) | Known::Residue { .. } => *known,
                _ => class,
            };
        }
        let own = &mut state.agents[agent];
        own.forget(&l.inner);
        set(own, values);
        own.at = head;
        let frame = own.frames.last_mut().expect("a loop that runs has a frame");
        let by = Known::Number(step.unwrap_or_default());
        let add = |index| crate::value::binary(ir::ops::arith::BinaryOp::Add, index, by);
        frame.index = frame.index.and_then(add);
        if !l.is_fixed {
            frame.index = frame.index.and_then(|index| index.widened(modulus));
            frame.at += 1;
            frame.runs.clear();
            if l.bounds.is_none() {
                add_iteration(state, agent);
            }
        }
        self.forget_passed(state);
        Ok(())
    }

    pub(crate) fn part(&self, state: &mut State, agent: usize) -> Went {
        self.sync(state, agent);
        if state.agents[agent].status != Status::Runs {
            return Went::On;
        }
        let own = state.agents[agent].clone();
        let steps = &self.program.partitions[0].steps;
        let join = steps.iter().position(|s| matches!(s.what, What::Join));
        for (at, other) in state.agents.iter_mut().enumerate() {
            if self.warps[at].partition == 0
                && !self.warps[at].leads
                && self.program.is_first_one_thread
            {
                other.at = join.unwrap_or(other.at);
            }
            if self.warps[at].partition > 0 {
                other.status = Status::Runs;
                other.values.clone_from(&own.values);
                other.runs.clone_from(&own.runs);
                other.knows = own.knows;
            }
        }
        Went::On
    }
}

pub(crate) fn set(agent: &mut Agent, values: Vec<(Value, Known)>) {
    for (value, known) in values {
        agent.set(value, known);
    }
}

/// The test of a `while` runs in an iteration that need not be followed by a body.
fn add_iteration(state: &mut State, agent: usize) {
    let mut way = state.agents[agent].way();
    let Some((run, at)) = way.pop() else { return };
    if let Some(node) = state.oracle.at_mut(&way) {
        let stream = node.stream_mut(run);
        if stream.nodes.len() <= at as usize {
            stream.nodes.push(crate::oracle::Node::default());
        }
    }
}

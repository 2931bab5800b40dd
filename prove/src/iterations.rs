//! Questions whether iterations follow: those of loops themselves, and comparisons with their bounds.

use ir::ops::arith::{BinaryOp, Compare, CompareOp};

use crate::machine::{Machine, Stop};
use crate::oracle::{Ask, MOST_LEAD, Question, Run, Way};
use crate::program::LoopId;
use crate::state::{State, times};
use crate::value::{self, Known};

/// An answer of the oracle: whether iteration `at` of a run exists.
struct Exists {
    id: LoopId,
    way: Way,
    run: Run,
    at: i64,
}

impl Machine<'_> {
    /// Answers a comparison with the bound of a loop by whether iterations follow.
    pub(crate) fn of_loops(
        &self,
        state: &State,
        agent: usize,
        op: &Compare,
    ) -> Result<Option<bool>, Stop> {
        let mut x = self.eval(state, agent, op.lhs)?;
        let mut y = self.eval(state, agent, op.rhs)?;
        let mut compare = op.op;
        let is_bound = |k: Known| matches!(k, Known::Unknown { .. });
        if is_bound(x) && !is_bound(y) {
            (x, y, compare) = (y, x, compare.mirrored());
        }
        let below = |by: i64| -> Result<Option<bool>, Stop> {
            let Some(x) = value::binary(BinaryOp::Add, x, Known::Number(by)) else {
                return Ok(None);
            };
            match self.below(state, agent, x, y)? {
                Some(exists) => self.exists(state, agent, &exists).map(Some),
                None => Ok(None),
            }
        };
        Ok(match compare {
            CompareOp::Lt => below(0)?,
            CompareOp::Ge => below(0)?.map(|b| !b),
            CompareOp::Le => below(-1)?,
            CompareOp::Gt => below(-1)?.map(|b| !b),
            CompareOp::Eq | CompareOp::Ne => {
                let equal = match (below(-1)?, below(0)?) {
                    (Some(before), Some(at)) => Some(before && !at),
                    _ => None,
                };
                equal.map(|equal| equal == (compare == CompareOp::Eq))
            }
        })
    }

    /// `x < y`, where that is the question whether an iteration exists.
    fn below(
        &self,
        state: &State,
        agent: usize,
        x: Known,
        y: Known,
    ) -> Result<Option<Exists>, Stop> {
        match x {
            Known::Index { id, plus } => self.below_own(state, agent, (id, plus), y),
            Known::Number(n) => self.below_next(state, agent, n, y),
            _ => Ok(None),
        }
    }

    fn below_own(
        &self,
        state: &State,
        agent: usize,
        (id, plus): (LoopId, i64),
        y: Known,
    ) -> Result<Option<Exists>, Stop> {
        let Some([_, high, step]) = self.program.loops[id].bounds else {
            return Ok(None);
        };
        let high = self.eval(state, agent, high)?;
        let step = self.func.constant_int(step).map(|s| s as i64);
        let frames = &state.agents[agent].frames;
        let place = frames.iter().position(|f| f.id == id);
        let (Some(apart), Some(step), Some(place)) = (difference(y, high), step, place) else {
            return Ok(None);
        };
        let Some(run) = frames[place].run.filter(|_| (plus - apart) % step == 0) else {
            return Ok(None);
        };
        let outer = frames[..place].iter();
        Ok(Some(Exists {
            id,
            way: outer.filter_map(|f| Some((f.run?, f.at))).collect(),
            run,
            at: i64::from(frames[place].at) + (plus - apart) / step,
        }))
    }

    /// A loop that comes next in this iteration, from a constant.
    fn below_next(
        &self,
        state: &State,
        agent: usize,
        n: i64,
        y: Known,
    ) -> Result<Option<Exists>, Stop> {
        let way = state.agents[agent].way();
        let partition = &self.program.partitions[self.warps[agent].partition];
        for &id in &partition.loops {
            let l = &self.program.loops[id];
            let Some([low, high, step]) = l.bounds.filter(|_| !l.is_fixed) else {
                continue;
            };
            let is_here = l.around.iter().eq(way.iter().map(|((class, _), _)| class));
            let bounds = [low, step].map(|v| self.func.constant_int(v).map(|n| n as i64));
            let [Some(low), Some(step)] = bounds else {
                continue;
            };
            let high = self.eval(state, agent, high)?;
            let Some(apart) = difference(y, high).filter(|_| is_here) else {
                continue;
            };
            let at = n - apart - low;
            if at >= 0 && at % step == 0 {
                let runs = state.agents[agent].runs_at(way.len());
                let run = (l.class, times(runs, l.class));
                let at = at / step + i64::from(l.start);
                return Ok(Some(Exists { id, way, run, at }));
            }
        }
        Ok(None)
    }

    fn exists(&self, state: &State, agent: usize, exists: &Exists) -> Result<bool, Stop> {
        let Exists { id, way, run, at } = exists;
        let Ok(at) = usize::try_from(*at) else {
            return Ok(true);
        };
        let stream = state.oracle.at(way).and_then(|node| node.stream(*run));
        let (known, is_over) = stream.map_or((0, false), |s| (s.nodes.len(), s.is_over));
        if at < known {
            Ok(true)
        } else if is_over {
            Ok(false)
        } else if known >= MOST_LEAD {
            let reason = format!(
                "one partition may be more than {MOST_LEAD} iterations of this loop ahead of another; if a loop in it runs at least once, promise it by `assume`"
            );
            Err(self.undecided(self.program.loops[*id].inst, reason))
        } else {
            let first = if known == 0 && is_fresh(state, way, *run) {
                self.has_any(state, agent, *id, way)?
            } else {
                None
            };
            let (way, run) = (way.clone(), *run);
            Err(Stop::Ask(match first {
                Some(is_any) => Ask::First(way, run, is_any),
                None => Ask::More(way, run),
            }))
        }
    }

    /// Does the loop run at all, where that is known, or the same in all iterations of the loop around it?
    fn has_any(
        &self,
        state: &State,
        agent: usize,
        id: LoopId,
        way: &Way,
    ) -> Result<Option<bool>, Stop> {
        let l = &self.program.loops[id];
        let Some([low, high, _]) = l.bounds else {
            return Ok(None);
        };
        let has_any = if l.is_from_zero {
            self.ranges.is_positive(high)
        } else {
            self.ranges.is_below(low, high)
        };
        if has_any || self.runs_once {
            return Ok(Some(true));
        }
        let deeper = if self.scopes.depth[low] > self.scopes.depth[high] {
            low
        } else {
            high
        };
        let (scope, fixed) = self.scope(state, agent, deeper);
        if scope.len() >= way.len() {
            return Ok(None);
        }
        // No value has the class of a loop.
        let question: Question = (l.class, fixed);
        let node = state.oracle.at(&scope);
        match node.and_then(|node| node.answer(&question)) {
            Some(answer) => Ok(Some(answer)),
            None => Err(Stop::Ask(Ask::Value(scope, question))),
        }
    }

    /// Does the iteration exist at which a frame is?
    pub(crate) fn goes_on(&self, state: &State, agent: usize, place: usize) -> Result<bool, Stop> {
        let frames = &state.agents[agent].frames;
        let outer = frames[..place].iter();
        let exists = Exists {
            id: frames[place].id,
            way: outer.filter_map(|f| Some((f.run?, f.at))).collect(),
            run: frames[place].run.unwrap_or_default(),
            at: i64::from(frames[place].at),
        };
        self.exists(state, agent, &exists)
    }
}

/// `y - high`, where both are so much beside the same value.
fn difference(y: Known, high: Known) -> Option<i64> {
    match (y, high) {
        (Known::Unknown { class: a, plus: x }, Known::Unknown { class: b, plus: y }) => {
            (a == b).then_some(x - y)
        }
        (Known::Index { id: a, plus: x }, Known::Index { id: b, plus: y }) => {
            (a == b).then_some(x - y)
        }
        _ => None,
    }
}

/// Has no iteration of the run been decided?
fn is_fresh(state: &State, way: &Way, run: Run) -> bool {
    let stream = state.oracle.at(way).and_then(|node| node.stream(run));
    stream.is_none_or(|s| !s.has_begun)
}

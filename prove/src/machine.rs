//! The machine of the model: who runs which code, and how scalars are looked up.
//!
//! Matches on ops: integer operations are computed; the result of every other op is unknown, and a question to the oracle.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::Op;
use ir::ops::arith::{BinaryOp, Compare};
use ir::ops::cast::{Bitcast, Cast};
use ir::{Func, ValueDef};
use smallvec::SmallVec;

use crate::classes::{Class, Classes};
use crate::oracle::{Ask, Question, Way};
use crate::places::Places;
use crate::program::{LoopId, Program};
use crate::ranges::Ranges;
use crate::scopes::Scopes;
use crate::state::State;
use crate::value::{self, Known};
use crate::verdict::Undecided;

/// Why a step cannot be taken now.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// Something has to be decided first.
    Ask(Ask),
    Undecided(Undecided),
    Found(Box<diag::Diagnostic>),
}

/// Warps of one partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warps {
    pub(crate) partition: usize,
    pub(crate) count: u32,
    /// Is the first warp of the partition among them?
    pub(crate) leads: bool,
    /// First warps of a warpgroup among them.
    pub(crate) leaders: u32,
}

/// A kernel and a division of its warps into agents.
pub(crate) struct Machine<'p> {
    pub(crate) func: &'p Func,
    pub(crate) classes: &'p Classes,
    pub(crate) places: &'p Places,
    pub(crate) program: &'p Program,
    pub(crate) scopes: &'p Scopes,
    pub(crate) ranges: &'p Ranges,
    pub(crate) warps: Vec<Warps>,
    /// Copies that complete on this barrier complete only when nothing else can happen.
    pub(crate) late: Option<usize>,
    /// Each counted loop runs at least once.
    pub(crate) runs_once: bool,
}

impl Machine<'_> {
    pub(crate) fn undecided(&self, inst: Inst, reason: impl Into<String>) -> Stop {
        Stop::Undecided(Undecided {
            at: self.func.place(inst),
            reason: reason.into(),
        })
    }

    fn class(&self, value: Value) -> Known {
        Known::Unknown {
            class: self.classes.of(value),
            plus: 0,
        }
    }

    /// What an agent knows of a scalar.
    pub(crate) fn eval(&self, state: &State, agent: usize, value: Value) -> Result<Known, Stop> {
        if let Some(known) = state.agents[agent].get(value) {
            return Ok(known);
        }
        if let Some(known) = self.scopes.fixed(value) {
            return Ok(known);
        }
        let inst = match self.func.def(value) {
            ValueDef::Param(..) => return Ok(self.index(state, agent, value)),
            ValueDef::Result(inst, _) => inst,
        };
        let known = match self.func.op(inst) {
            Op::Binary(op) => {
                let x = self.eval(state, agent, op.lhs)?;
                let y = self.eval(state, agent, op.rhs)?;
                binary(state, agent, op.op, x, y)
            }
            Op::Cast(Cast { operand, .. }) | Op::Bitcast(Bitcast { operand, .. })
                if self.is_integer(*operand) && self.is_integer(value) =>
            {
                let known = self.eval(state, agent, *operand)?;
                let to = self.func.ty(value).elem();
                let converted = to.and_then(|to| known.converted(to));
                let wraps = || self.undecided(inst, "a counter may wrap in a conversion");
                Some(converted.ok_or_else(wraps)?)
            }
            Op::Hint(op) => Some(self.eval(state, agent, op.operand)?),
            Op::Compare(op) => self.compared(state, agent, op)?,
            Op::Select(op) => {
                let yes = self.eval(state, agent, op.yes)?;
                let no = self.eval(state, agent, op.no)?;
                let is_open = |k: Known| matches!(k, Known::Unknown { .. });
                if yes == no {
                    Some(yes)
                } else if is_open(yes) && is_open(no) {
                    None
                } else if self.truth(state, agent, op.condition)? {
                    Some(yes)
                } else {
                    Some(no)
                }
            }
            Op::ClusterRank(_) if !self.func.has_cluster() => Some(Known::Number(0)),
            _ => None,
        };
        Ok(known.unwrap_or_else(|| self.class(value)))
    }

    fn is_integer(&self, value: Value) -> bool {
        self.func.ty(value).elem().is_some_and(Elem::is_int)
    }

    /// A parameter of a loop that no register holds is its index.
    fn index(&self, state: &State, agent: usize, value: Value) -> Known {
        let frames = &state.agents[agent].frames;
        let is_it = |id: LoopId| self.program.loops[id].index == Some(value);
        let Some(frame) = frames.iter().rev().find(|f| is_it(f.id)) else {
            return self.class(value);
        };
        match (frame.run, frame.index) {
            (None, Some(index)) => index,
            _ => Known::Index {
                id: frame.id,
                plus: 0,
            },
        }
    }

    /// A comparison whose outcome needs no decision.
    fn compared(&self, state: &State, agent: usize, op: &Compare) -> Result<Option<Known>, Stop> {
        let x = self.eval(state, agent, op.lhs)?;
        let y = self.eval(state, agent, op.rhs)?;
        let counted = [x, y].map(|k| state.agents[agent].counted(k));
        let [Some(x), Some(y)] = counted else {
            return Ok(None);
        };
        let answer = value::compared(op.op, x, y);
        Ok(answer.map(|answer| Known::Number(answer.into())))
    }

    /// Does a condition hold? Where only the run knows, the oracle says.
    pub(crate) fn truth(&self, state: &State, agent: usize, value: Value) -> Result<bool, Stop> {
        if let Known::Number(n) = self.eval(state, agent, value)? {
            return Ok(n != 0);
        }
        if let Some(inst) = self.func.def_inst(value) {
            match self.func.op(inst) {
                Op::Binary(op) if op.op == BinaryOp::And => {
                    let x = self.truth(state, agent, op.lhs)?;
                    return Ok(x && self.truth(state, agent, op.rhs)?);
                }
                Op::Binary(op) if op.op == BinaryOp::Or => {
                    let x = self.truth(state, agent, op.lhs)?;
                    return Ok(x || self.truth(state, agent, op.rhs)?);
                }
                Op::Binary(op) if op.op == BinaryOp::Xor => {
                    let x = self.truth(state, agent, op.lhs)?;
                    return Ok(x != self.truth(state, agent, op.rhs)?);
                }
                Op::Compare(op) => {
                    if let Some(answer) = self.of_loops(state, agent, op)? {
                        return Ok(answer);
                    }
                }
                _ => {}
            }
        }
        self.ask(state, agent, value)
    }

    fn ask(&self, state: &State, agent: usize, value: Value) -> Result<bool, Stop> {
        let (way, fixed) = self.scope(state, agent, value);
        let question: Question = (self.classes.of(value), fixed);
        let node = state.oracle.at(&way);
        match node.and_then(|node| node.answer(&question)) {
            Some(answer) => Ok(answer),
            None => Err(Stop::Ask(Ask::Value(way, question))),
        }
    }

    /// The iteration that decides a value, and the indices of the fixed loops on the way.
    pub(crate) fn scope(
        &self,
        state: &State,
        agent: usize,
        value: Value,
    ) -> (Way, SmallVec<[i64; 2]>) {
        let mut way = Way::new();
        let mut fixed = SmallVec::new();
        let Some(scope) = self.scopes.of[value].expand() else {
            return (way, fixed);
        };
        let frames = &state.agents[agent].frames;
        let is_scope = |id: LoopId| self.program.loops[id].inst == scope;
        // A loop without steps has no frame: its values are as good as those of the loop around it.
        let last = frames.iter().rposition(|f| is_scope(f.id));
        for frame in &frames[..last.map_or(frames.len(), |at| at + 1)] {
            match (frame.run, frame.index) {
                (Some(run), _) => way.push((run, frame.at)),
                (None, index) => fixed.extend(index.and_then(Known::number)),
            }
        }
        (way, fixed)
    }

    /// The indices of a view.
    fn indices(
        &self,
        state: &State,
        agent: usize,
        (values, inst): (&[Value], Inst),
    ) -> Result<SmallVec<[i64; 2]>, Stop> {
        let mut indices = SmallVec::new();
        for value in values {
            let known = self.eval(state, agent, *value)?;
            let number = state.agents[agent].counted(known).and_then(Known::number);
            let Some(number) = number else {
                let reason = "the index of a stage or an mbarrier follows from no counter";
                return Err(self.undecided(inst, reason));
            };
            indices.push(number);
        }
        Ok(indices)
    }

    /// The number of a barrier.
    pub(crate) fn barrier(
        &self,
        state: &State,
        agent: usize,
        (barrier, inst): (Value, Inst),
    ) -> Result<usize, Stop> {
        let Some(path) = self.places.path(barrier) else {
            return Err(self.undecided(inst, "control flow chooses the mbarrier"));
        };
        let indices = self.indices(state, agent, (&path.indices, inst))?;
        let number = self.places.barrier(path.allocation, &indices);
        number.ok_or_else(|| self.undecided(inst, "no mbarrier is initialized at this index"))
    }

    /// The stages of a view, a bit each; none where it is nothing that copies fill.
    pub(crate) fn stages(
        &self,
        state: &State,
        agent: usize,
        (view, inst): (Value, Inst),
    ) -> Result<u128, Stop> {
        let Some(path) = self.places.path(view) else {
            return Ok(0);
        };
        let Some(wanted) = self.places.stage_indices(path.allocation) else {
            return Ok(0);
        };
        let known = &path.indices[..wanted.min(path.indices.len())];
        let indices = self.indices(state, agent, (known, inst))?;
        let stages = self.places.stages(path.allocation, &indices);
        stages.ok_or_else(|| self.undecided(inst, "the index of a stage is outside of its ring"))
    }

    pub(crate) fn class_of(&self, value: Value) -> Class {
        self.classes.of(value)
    }
}

/// The same of indices that are counted.
fn binary(state: &State, agent: usize, op: BinaryOp, x: Known, y: Known) -> Option<Known> {
    value::binary(op, x, y).or_else(|| {
        let (x, y) = (
            state.agents[agent].counted(x)?,
            state.agents[agent].counted(y)?,
        );
        value::binary(op, x, y)
    })
}

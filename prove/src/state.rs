//! One state of the model.

use ir::entity::Value;
use ir::ops::arith::BinaryOp;

use crate::classes::Class;
use crate::oracle::{Node, Run, Way};
use crate::program::LoopId;
use crate::value::{self, Known};

/// Where all threads, barriers and copies are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) oracle: Node,
    pub(crate) agents: Vec<Agent>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) named: Vec<Named>,
    /// Copies that are late.
    pub(crate) flights: Vec<Flight>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    /// The partitions have not parted.
    Unborn,
    Runs,
    /// Has arrived where its partition synchronizes, and waits there.
    Joins,
    /// Has arrived at a named barrier, which is the step before, and waits there.
    JoinsNamed,
    Ended,
}

/// Warps that go through a partition's code together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Agent {
    pub(crate) at: usize,
    pub(crate) status: Status,
    /// Values of control flow.
    pub(crate) values: Vec<(Value, Known)>,
    pub(crate) frames: Vec<Frame>,
    /// How often loops outside of all loops were entered.
    pub(crate) runs: Vec<(Class, u16)>,
    /// What it has seen of each barrier.
    pub(crate) seen: Vec<Seen>,
    /// Stages whose contents it may read.
    pub(crate) knows: u128,
    /// Stages that products in flight read, oldest first.
    pub(crate) products: Vec<u128>,
    /// The same of bulk stores.
    pub(crate) stores: Vec<u128>,
}

/// A loop that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) id: LoopId,
    /// None for a loop with constant bounds.
    pub(crate) run: Option<Run>,
    /// The iteration, counted from the first that the oracle keeps.
    pub(crate) at: u32,
    pub(crate) index: Option<Known>,
    pub(crate) runs: Vec<(Class, u16)>,
}

/// What an agent has seen of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    /// Parity of the last phase that it knows to be complete.
    pub(crate) parity: u8,
    /// Phases completed since; more than three count as three.
    pub(crate) behind: u8,
}

impl Seen {
    pub(crate) const FIRST: Seen = Seen {
        parity: 1,
        behind: 0,
    };
}

/// An mbarrier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Barrier {
    /// Arrivals of a phase; 0 before it is initialized.
    pub(crate) count: u32,
    pub(crate) pending: u32,
    pub(crate) bytes: i64,
    /// Multiples of values that only the run knows.
    pub(crate) counted: Vec<((Class, i64), i32)>,
    pub(crate) parity: u8,
    /// Stages that are full for whoever sees the phase in progress complete.
    pub(crate) gathered: u128,
    /// The same of the last complete phase.
    pub(crate) published: u128,
}

/// A named barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    pub(crate) number: u32,
    pub(crate) arrived: u32,
    /// Agents that have arrived, a bit each.
    pub(crate) who: u64,
    pub(crate) gathered: u128,
}

/// A copy in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) barrier: usize,
    pub(crate) bytes: i64,
    pub(crate) counted: Option<(Class, i64)>,
    pub(crate) arrivals: u32,
    pub(crate) stages: u128,
}

impl Agent {
    pub(crate) fn set(&mut self, value: Value, known: Known) {
        match self.values.binary_search_by_key(&value, |(v, _)| *v) {
            Ok(at) => self.values[at].1 = known,
            Err(at) => self.values.insert(at, (value, known)),
        }
    }

    pub(crate) fn get(&self, value: Value) -> Option<Known> {
        let at = self.values.binary_search_by_key(&value, |(v, _)| *v).ok()?;
        Some(self.values[at].1)
    }

    pub(crate) fn forget(&mut self, values: &[Value]) {
        self.values.retain(|(v, _)| !values.contains(v));
    }

    /// How often loops were entered in the innermost iteration.
    pub(crate) fn runs_mut(&mut self) -> &mut Vec<(Class, u16)> {
        let frame = self.frames.iter_mut().rev().find(|f| f.run.is_some());
        match frame {
            Some(frame) => &mut frame.runs,
            None => &mut self.runs,
        }
    }

    /// The iterations in which it is.
    pub(crate) fn way(&self) -> Way {
        let frames = self.frames.iter();
        frames.filter_map(|f| Some((f.run?, f.at))).collect()
    }

    /// The number that an index is, where it is counted.
    pub(crate) fn counted(&self, known: Known) -> Option<Known> {
        let Known::Index { id, plus } = known else {
            return Some(known);
        };
        let frame = self.frames.iter().rev().find(|f| f.id == id)?;
        value::binary(BinaryOp::Add, frame.index?, Known::Number(plus))
    }

    pub(crate) fn runs_at(&self, depth: usize) -> &[(Class, u16)] {
        let mut unfixed = self.frames.iter().filter(|f| f.run.is_some());
        match depth.checked_sub(1) {
            None => &self.runs,
            Some(above) => unfixed.nth(above).map_or(&[], |f| &f.runs),
        }
    }
}

/// How often a loop of this class was entered.
pub(crate) fn times(runs: &[(Class, u16)], class: Class) -> u16 {
    let found = runs.iter().find(|(c, _)| *c == class);
    found.map_or(0, |(_, times)| *times)
}

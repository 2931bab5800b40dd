//! The host beside a launch: its clock, and where in its source it accessed memory.

use crate::machine::order::{ActorId, Clocks, Fences, Kind, Lane, Stamp};
use std::panic::Location;

/// The host, whose threads count as one, while a launch is in flight.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) clocks: Clocks,
    pub(crate) fences: Fences,
    epoch: u32,
    /// Of its accesses: their steps are places here.
    lines: Vec<&'static Location<'static>>,
}

/// It acts alone at its place.
const ACTOR: usize = 0;

impl Host {
    pub(crate) fn new() -> Self {
        let mut host = Self::default();
        host.release();
        host
    }

    /// An access from a line of its source.
    pub(crate) fn stamp(&mut self, kind: Kind, line: &'static Location<'static>) -> Stamp {
        let known = self.lines.iter().position(|known| *known == line);
        let step = known.unwrap_or_else(|| {
            self.lines.push(line);
            self.lines.len() - 1
        });
        Stamp {
            actor: ActorId::new(ACTOR),
            epoch: self.epoch,
            step: step as u32,
            kind,
            lane: Lane::UNKNOWN,
        }
    }

    /// The line of an access.
    pub(crate) fn line(&self, stamp: Stamp) -> &'static Location<'static> {
        self.lines[stamp.step as usize]
    }

    /// Begins an epoch: what it does from now on is not part of what it has released.
    pub(crate) fn release(&mut self) {
        self.epoch += 1;
        self.clocks.advance(ActorId::new(ACTOR), self.epoch);
    }
}

//! Where contestants run: on one stream, or on the streams of all ranks of a world.

use super::gate::Gate;
use super::spin::spin;
use crate::case::ranks_end::synchronize;
use crate::code::PreparedLaunch;
use crate::error::Result;
use crate::graph::Graph;
use crate::stream::{Event, Stream};
use crate::world::{World, WorldGraph};

/// Where contestants run.
#[derive(Clone, Copy)]
pub(in crate::case) enum Track<'a> {
    One(&'a Stream),
    /// Of all ranks; the slowest counts.
    All(&'a World),
}

/// What goes in front of a timed launch on GPUs.
pub(super) enum Start {
    One(Box<PreparedLaunch>),
    All(Box<Gate>),
}

/// Recorded launches.
pub(super) enum Recorded {
    One(Graph),
    All(WorldGraph),
}

impl Recorded {
    /// Of all ranks, those of the first.
    pub(super) fn overlapping(&self) -> usize {
        match self {
            Recorded::One(graph) => graph.overlapping(),
            Recorded::All(graph) => graph.overlapping(0),
        }
    }
}

impl Track<'_> {
    /// The stream that a launch is given: of a world, that of rank 0, whose launches find the others by themselves.
    pub(in crate::case) fn stream(&self) -> &Stream {
        match self {
            Track::One(stream) => stream,
            Track::All(world) => world.stream(0),
        }
    }

    pub(in crate::case) fn synchronize(&self) -> Result<()> {
        match self {
            Track::One(stream) => stream.synchronize(),
            Track::All(world) => synchronize(world),
        }
    }

    pub(super) fn is_on_gpu(&self) -> bool {
        self.stream().device().is_cuda()
    }

    /// What goes in front of timed launches; nothing on the emulator.
    pub(super) fn start(&self) -> Result<Option<Start>> {
        if !self.is_on_gpu() {
            return Ok(None);
        }
        Ok(Some(match self {
            Track::One(stream) => Start::One(Box::new(spin(stream.device())?)),
            Track::All(world) => Start::All(Box::new(Gate::new(world)?)),
        }))
    }

    /// Milliseconds of `work` on a GPU, of the slowest rank, behind a start for which the host is ready in time.
    pub(super) fn single_ms(
        &self,
        start: &Start,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<f32> {
        match (self, start) {
            (Track::One(stream), Start::One(spin)) => spin.launch(stream)?,
            (Track::All(world), Start::All(gate)) => gate.after_a_rest(world)?,
            _ => unreachable!("a start is of its track"),
        }
        self.ms(work)
    }

    /// Milliseconds of `work` on a GPU, behind what is on the streams; all ranks begin together.
    pub(super) fn busy_ms(&self, start: &Start, work: impl FnOnce() -> Result<()>) -> Result<f32> {
        if let (Track::All(world), Start::All(gate)) = (self, start) {
            gate.at_once(world)?;
        }
        self.ms(work)
    }

    fn ms(&self, work: impl FnOnce() -> Result<()>) -> Result<f32> {
        let streams = match self {
            Track::One(stream) => std::slice::from_ref(*stream),
            Track::All(world) => world.streams(),
        };
        let record = || {
            streams
                .iter()
                .map(Stream::record)
                .collect::<Result<Vec<Event>>>()
        };
        let starts = record()?;
        work()?;
        let ends = record()?;
        self.synchronize()?;
        let mut slowest = 0.0_f32;
        for (start, end) in starts.iter().zip(&ends) {
            slowest = slowest.max(end.milliseconds_since(start)?);
        }
        Ok(slowest)
    }

    pub(super) fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Recorded> {
        Ok(match self {
            Track::One(stream) => Recorded::One(stream.capture(work)?),
            Track::All(world) => Recorded::All(world.capture(work)?),
        })
    }

    pub(super) fn replay(&self, recorded: &Recorded) -> Result<()> {
        match (self, recorded) {
            (Track::One(stream), Recorded::One(graph)) => stream.replay(graph),
            (Track::All(world), Recorded::All(graph)) => world.replay(graph),
            _ => unreachable!("what was recorded is of its track"),
        }
    }
}

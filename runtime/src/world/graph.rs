//! Work of all devices of a world, recorded once and replayed by one call.

use super::World;
use super::launch::{EmulatedStream, emulated};
use crate::backend::On;
use crate::cuda;
use crate::device::Device;
use crate::error::Result;
use crate::graph::Graph;
use crate::kept;
use crate::stream::Stream;

/// Work that [`World::capture`] recorded.
///
/// On GPUs it is a CUDA graph for each rank. On the emulator it is one list of what was put on the streams of all ranks, done again in order. It keeps the
/// memory of the buffers that its work uses, and the code of its kernels.
pub struct WorldGraph {
    /// By rank; on the emulator only one, with the work of all.
    graphs: Vec<Graph>,
    ranks: usize,
}

/// What is captured, on each stream in turn.
type Work<'w> = Box<dyn FnOnce() -> Result<()> + 'w>;

impl WorldGraph {
    /// How many of the launches of a rank may start before the one in front of them has ended, as [`Graph::overlapping`]. On the emulator the one list of all ranks counts
    /// for rank 0.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn overlapping(&self, rank: usize) -> usize {
        assert!(rank < self.ranks, "rank {rank} of {}", self.ranks);
        self.graphs.get(rank).map_or(0, Graph::overlapping)
    }

    /// How many allocations and kernels it keeps.
    pub fn kept(&self) -> usize {
        self.graphs.iter().map(Graph::kept).sum()
    }
}

impl World {
    /// Records what `work` puts on the streams of all ranks, without running it: launches on all of them, and work of one rank on its
    /// [stream](World::stream). What holds for [`Stream::capture`] holds here.
    ///
    /// A kernel that waits for other ranks can be replayed if it takes the number of calls so far from memory, and not as a parameter, which is recorded.
    ///
    /// # Errors
    /// Those of `work`, and what cannot be recorded, such as waiting.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<WorldGraph> {
        let graphs = match emulated(self.streams()) {
            Some(streams) => vec![self.capture_emulated(&streams, work)?],
            None => self.capture_on_gpus(work)?,
        };
        Ok(WorldGraph {
            graphs,
            ranks: self.ranks(),
        })
    }

    /// One list, in which the streams of all ranks note down what they are given.
    fn capture_emulated(
        &self,
        streams: &[&EmulatedStream],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Graph> {
        let (first, others) = (streams[0], &streams[1..]);
        self.stream(0).capture(|| {
            let mut others = others.iter();
            others.try_for_each(|stream| stream.join_capture_of(first))?;
            apart(&self.streams()[1..], Box::new(work))
        })
    }

    /// A graph of each rank; that of the first keeps what all use.
    fn capture_on_gpus(&self, work: impl FnOnce() -> Result<()>) -> Result<Vec<Graph>> {
        let streams = self.streams().iter().map(Stream::queue);
        let streams = streams.filter_map(|stream| match stream {
            On::Cuda(stream) => Some(stream),
            On::Emulator(_) => None,
        });
        let streams: Vec<_> = streams.collect();
        let mut recorded = Vec::new();
        let record = || {
            recorded = cuda::Graph::capture(&streams, work)?;
            Ok(())
        };
        let (done, kept) = kept::collect(|| apart(self.streams(), Box::new(record)));
        done?;
        let graphs = recorded.into_iter().zip(self.devices());
        let graphs = graphs.map(|(graph, device)| Graph {
            device: device.clone(),
            work: On::Cuda(graph),
            kept: Vec::new(),
        });
        let mut graphs: Vec<Graph> = graphs.collect();
        if let Some(first) = graphs.first_mut() {
            first.kept = kept;
        }
        Ok(graphs)
    }

    /// Puts the work of `graph` on the streams of all ranks.
    ///
    /// # Errors
    /// [`Error::Ranks`](crate::Error::Ranks) for a world of another size; what [`Stream::replay`] ends with.
    pub fn replay(&self, graph: &WorldGraph) -> Result<()> {
        self.expect_ranks(graph.ranks, "a graph")?;
        if graph.graphs.len() < self.ranks() {
            // One list, which begins when the work of all ranks has ended.
            self.devices().iter().try_for_each(Device::synchronize)?;
        }
        let _order = self.order();
        let mut graphs = self.streams().iter().zip(&graph.graphs);
        graphs.try_for_each(|(stream, graph)| stream.replay(graph))
    }
}

/// Does `work`, whose launches on these streams are recorded and not in flight.
fn apart(streams: &[Stream], work: Work<'_>) -> Result<()> {
    match streams.split_first() {
        None => work(),
        Some((first, others)) => first.in_flight().apart(|| apart(others, work)),
    }
}

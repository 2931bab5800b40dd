//! Graphs: launches recorded once and replayed by one call.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::sync::Arc;

use machine::driver::{Driver, GraphEdge, GraphExecHandle, GraphHandle, GraphNodeHandle};

use super::{Context, CudaFailure, Stream};
use crate::error::Error;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`
const THREAD_LOCAL: u32 = 1;

/// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`
const PROGRAMMATIC: u8 = 1;

/// Work that was captured from a stream.
pub(crate) struct Graph {
    context: Arc<Context>,
    raw: GraphExecHandle,
    overlapping: usize,
}

impl Graph {
    /// Records what `work` puts on these streams, of one GPU or several, without running it: a graph for each.
    ///
    /// The captures always end, also when `work` fails; a stream left capturing would be of no more use. All end before the first graph is made ready,
    /// which allocates: the driver refuses that in a thread with a capture.
    pub(crate) fn capture(
        streams: &[&Stream],
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Vec<Graph>, Error> {
        let begun = streams.iter().map(|stream| Capture::begin(stream));
        let begun: Vec<Capture<'_>> = begun.collect::<Result<_, _>>()?;
        let done = work();
        let ended: Vec<_> = begun.into_iter().map(Capture::end).collect();
        done?;
        let captured: Vec<Captured> = ended.into_iter().collect::<Result<_, _>>()?;
        let graphs = captured.iter().map(Captured::instantiate);
        Ok(graphs.collect::<Result<_, _>>()?)
    }

    /// How many launches may start before the one in front of them has ended.
    pub(crate) fn overlapping(&self) -> usize {
        self.overlapping
    }

    /// Puts the recorded work on `stream`.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), CudaFailure> {
        self.context.bind()?;
        let driver = self.context.driver;
        // SAFETY: graph and stream live.
        let code = unsafe { (driver.cuGraphLaunch)(self.raw, stream.raw()) };
        driver.check("cuGraphLaunch", code)
    }
}

/// A capture that goes on.
struct Capture<'s> {
    stream: &'s Stream,
    has_ended: bool,
}

impl<'s> Capture<'s> {
    fn begin(stream: &'s Stream) -> Result<Capture<'s>, CudaFailure> {
        let context = stream.context();
        context.bind()?;
        let driver = context.driver;
        // SAFETY: the stream lives and is not the default stream.
        let code = unsafe { (driver.cuStreamBeginCapture)(stream.raw(), THREAD_LOCAL) };
        driver.check("cuStreamBeginCapture", code)?;
        Ok(Capture {
            stream,
            has_ended: false,
        })
    }

    fn end(mut self) -> Result<Captured, CudaFailure> {
        self.has_ended = true;
        let context = self.stream.context();
        // Work may have been of other GPUs too.
        let bound = context.bind();
        let mut captured = Captured {
            context: Arc::clone(context),
            raw: GraphHandle::NULL,
        };
        let driver = context.driver;
        // SAFETY: ends the capture that was begun on the same thread; writes one handle.
        let code = unsafe { (driver.cuStreamEndCapture)(self.stream.raw(), &raw mut captured.raw) };
        bound.and(driver.check("cuStreamEndCapture", code))?;
        Ok(captured)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            // Another one could not begin, or the work panicked.
            let Capture { stream, .. } = *self;
            let _ = Capture {
                stream,
                has_ended: true,
            }
            .end();
        }
    }
}

/// What was captured, as the driver describes it.
struct Captured {
    context: Arc<Context>,
    raw: GraphHandle,
}

impl Captured {
    fn instantiate(&self) -> Result<Graph, CudaFailure> {
        let driver = self.context.driver;
        self.context.bind()?;
        let overlapping = overlapping(driver, self.raw)?;
        let mut raw = GraphExecHandle::NULL;
        // SAFETY: the graph lives; writes one handle; no flags.
        let code = unsafe { (driver.cuGraphInstantiate)(&raw mut raw, self.raw, 0) };
        driver.check("cuGraphInstantiateWithFlags", code)?;
        Ok(Graph {
            context: Arc::clone(&self.context),
            raw,
            overlapping,
        })
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: captured once, destroyed once; the executable form stands alone.
            let _ = unsafe { (self.context.driver.cuGraphDestroy)(self.raw) };
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.is_abandoned() {
            return;
        }
        // SAFETY: instantiated once, destroyed once; the driver lets a replay in flight end.
        let _ = unsafe { (self.context.driver.cuGraphExecDestroy)(self.raw) };
    }
}

/// Counts the edges that wait for `griddepcontrol` in place of a kernel's end: what the driver makes, from 12.3 on, of a
/// captured launch with programmatic stream serialization (CUDA C++ Programming Guide, "Use in CUDA Graphs").
fn overlapping(driver: &Driver, graph: GraphHandle) -> Result<usize, CudaFailure> {
    let (ends, data) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut count = 0;
    // SAFETY: the graph lives; without places for edges only their number is written.
    let code = unsafe { (driver.cuGraphGetEdges)(graph, ends, ends, data, &raw mut count) };
    driver.check("cuGraphGetEdges", code)?;
    // The graph of one launch has none, and the driver takes no places for none.
    if count == 0 {
        return Ok(0);
    }
    let mut ends = [
        vec![GraphNodeHandle::NULL; count],
        vec![GraphNodeHandle::NULL; count],
    ];
    let mut edges = vec![GraphEdge::default(); count];
    let [from, to] = &mut ends;
    // SAFETY: there are places for as many edges as the graph has.
    let code = unsafe {
        (driver.cuGraphGetEdges)(
            graph,
            from.as_mut_ptr(),
            to.as_mut_ptr(),
            edges.as_mut_ptr(),
            &raw mut count,
        )
    };
    driver.check("cuGraphGetEdges", code)?;
    let found = edges.iter().filter(|edge| edge.kind == PROGRAMMATIC);
    Ok(found.count())
}

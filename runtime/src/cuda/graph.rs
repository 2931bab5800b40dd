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
    /// Records what `work` puts on `stream`, without running it.
    ///
    /// The capture always ends, also when `work` fails; a stream left capturing would be of no more use.
    pub(crate) fn capture(
        stream: &Stream,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        let context = stream.context();
        let driver = context.driver;
        context.bind()?;
        // SAFETY: the stream lives and is not the default stream.
        let code = unsafe { (driver.cuStreamBeginCapture)(stream.raw(), THREAD_LOCAL) };
        driver.check("cuStreamBeginCapture", code)?;
        let done = work();
        // Work may have been of other GPUs too.
        let bound = context.bind();
        let mut graph = GraphHandle::NULL;
        // SAFETY: ends the capture begun above, on the same thread; writes one handle.
        let code = unsafe { (driver.cuStreamEndCapture)(stream.raw(), &raw mut graph) };
        let ended = driver.check("cuStreamEndCapture", code);
        let built = done.and_then(|()| {
            bound.and(ended)?;
            let overlapping = overlapping(driver, graph)?;
            let mut raw = GraphExecHandle::NULL;
            // SAFETY: `graph` was just captured; writes one handle; no flags.
            let code = unsafe { (driver.cuGraphInstantiate)(&raw mut raw, graph, 0) };
            driver.check("cuGraphInstantiateWithFlags", code)?;
            Ok(Graph {
                context: Arc::clone(context),
                raw,
                overlapping,
            })
        });
        if !graph.is_null() {
            // SAFETY: captured once, destroyed once; the executable form stands alone.
            let _ = unsafe { (driver.cuGraphDestroy)(graph) };
        }
        built
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

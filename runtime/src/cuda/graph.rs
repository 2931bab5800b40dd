//! Graphs: launches recorded once and replayed by one call.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::sync::Arc;

use cudarc::driver::sys;

use super::{Context, CudaFailure, Stream};
use crate::error::Error;
use machine::driver::{Driver, Handle};

/// Work that was captured from a stream.
pub(crate) struct Graph {
    context: Arc<Context>,
    raw: Handle<sys::CUgraphExec_st>,
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
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives and is not the default stream.
        let code = unsafe { (driver.cuStreamBeginCapture)(stream.raw(), mode) };
        driver.check("cuStreamBeginCapture", code)?;
        let done = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: ends the capture begun above, on the same thread; writes one handle.
        let code = unsafe { (driver.cuStreamEndCapture)(stream.raw(), &raw mut graph) };
        let ended = driver.check("cuStreamEndCapture", code);
        let built = done.and_then(|()| {
            ended?;
            let overlapping = overlapping(driver, graph)?;
            let mut raw = std::ptr::null_mut();
            // SAFETY: `graph` was just captured; writes one handle; no flags.
            let code = unsafe { (driver.cuGraphInstantiate)(&raw mut raw, graph, 0) };
            driver.check("cuGraphInstantiateWithFlags", code)?;
            Ok(Graph {
                context: Arc::clone(context),
                raw: Handle(raw),
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
        let code = unsafe { (driver.cuGraphLaunch)(self.raw.0, stream.raw()) };
        driver.check("cuGraphLaunch", code)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated once, destroyed once; the driver lets a replay in flight end.
        let _ = unsafe { (self.context.driver.cuGraphExecDestroy)(self.raw.0) };
    }
}

/// Counts the edges that wait for `griddepcontrol` in place of a kernel's end: what the driver makes, from 12.3 on, of a
/// captured launch with programmatic stream serialization (CUDA C++ Programming Guide, "Use in CUDA Graphs").
fn overlapping(driver: &Driver, graph: sys::CUgraph) -> Result<usize, CudaFailure> {
    let none: sys::CUgraphNode = std::ptr::null_mut();
    let (ends, data) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut count = 0;
    // SAFETY: the graph lives; without places for edges only their number is written.
    let code = unsafe { (driver.cuGraphGetEdges)(graph, ends, ends, data, &raw mut count) };
    driver.check("cuGraphGetEdges", code)?;
    // The graph of one launch has none, and the driver takes no places for none.
    if count == 0 {
        return Ok(0);
    }
    let mut ends = [vec![none; count], vec![none; count]];
    let default = sys::CUgraphEdgeData {
        from_port: 0,
        to_port: 0,
        type_: 0,
        reserved: [0; 5],
    };
    let mut edges = vec![default; count];
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
    let programmatic = sys::CUgraphDependencyType_enum::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8;
    let found = edges.iter().filter(|edge| edge.type_ == programmatic);
    Ok(found.count())
}

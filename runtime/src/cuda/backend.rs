//! The driver as a backend.

use std::sync::Arc;

use ptx::{EncodedTensorMap, TensorMap};
use target::Target;

use ::launch::driver::LaunchShape;

use super::{Context, DeviceMemory, Event, Function, Graph, HostMemory, Stream, tensor_map};
use crate::advice::{Advice, Near};
use crate::backend::Backend;
use crate::device::DeviceFacts;
use crate::error::Result;
use crate::launch::{EntryShape, Grid, ParameterBlock};

impl Backend for Context {
    type Memory = DeviceMemory;
    type Mapped = HostMemory;
    type Stream = Stream;
    type Event = Event;
    type Graph = Graph;
    type Function = Function;

    fn facts(&self) -> &DeviceFacts {
        Context::facts(self)
    }

    fn target(&self) -> &'static Target {
        Context::target(self)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(Context::synchronize(self)?)
    }

    fn memory_bytes(&self) -> Result<(usize, usize)> {
        Ok(Context::memory_bytes(self)?)
    }

    fn encode_tensor_map(&self, map: &TensorMap) -> Result<EncodedTensorMap> {
        Ok(tensor_map::encode_tensor_map(self, map)?)
    }

    fn allocate(self: &Arc<Self>, bytes: usize) -> Result<DeviceMemory> {
        DeviceMemory::allocate(self, bytes)
    }

    fn allocate_unified(self: &Arc<Self>, bytes: usize) -> Result<DeviceMemory> {
        DeviceMemory::allocate_unified(self, bytes)
    }

    fn allocate_in_order(self: &Arc<Self>, stream: &Stream, bytes: usize) -> Result<DeviceMemory> {
        DeviceMemory::allocate_in_order(stream, bytes)
    }

    fn prefetch(stream: &Stream, memory: &DeviceMemory, near: Near) -> Result<()> {
        Ok(memory.prefetch(near, stream)?)
    }

    fn advise(memory: &DeviceMemory, advice: Advice) -> Result<()> {
        Ok(memory.advise(advice)?)
    }

    fn allocate_mapped(
        self: &Arc<Self>,
        bytes: usize,
        _element_bytes: usize,
    ) -> Result<HostMemory> {
        Ok(HostMemory::allocate(self, bytes)?)
    }

    fn stream(self: &Arc<Self>) -> Result<Stream> {
        Ok(Stream::new(self)?)
    }

    fn event(self: &Arc<Self>) -> Result<Event> {
        Ok(Event::new(self)?)
    }

    fn synchronize_stream(stream: &Stream) -> Result<()> {
        stream.synchronize()
    }

    fn is_stream_done(stream: &Stream) -> Result<bool> {
        stream.is_done()
    }

    fn fill(stream: &Stream, memory: &DeviceMemory, byte: u8) -> Result<()> {
        Ok(memory.fill(byte, stream)?)
    }

    fn copy(stream: &Stream, source: &DeviceMemory, target: &DeviceMemory) -> Result<()> {
        Ok(target.copy_from(source, stream)?)
    }

    fn upload(stream: &Stream, source: &HostMemory, target: &DeviceMemory) -> Result<()> {
        Ok(target.upload(source, stream)?)
    }

    fn download(stream: &Stream, source: &DeviceMemory, target: &HostMemory) -> Result<()> {
        Ok(source.download(target, stream)?)
    }

    fn record(stream: &Stream, event: &Event) -> Result<()> {
        Ok(event.record(stream)?)
    }

    fn wait(stream: &Stream, event: &Event) -> Result<()> {
        Ok(stream.wait_for(event)?)
    }

    fn milliseconds(start: &Event, end: &Event) -> Result<f32> {
        end.milliseconds_since(start)
    }

    fn capture(stream: &Stream, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let mut graphs = Graph::capture(&[stream], work)?;
        Ok(graphs.pop().expect("a graph for each stream"))
    }

    fn replay(stream: &Stream, graph: &Graph) -> Result<()> {
        Ok(graph.launch(stream)?)
    }

    #[inline]
    fn launch(
        stream: &Stream,
        function: &Function,
        shape: &EntryShape,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<()> {
        let shape = LaunchShape {
            grid: grid.counts(),
            threads: shape.threads,
            cluster: shape.cluster,
            shared_bytes: function.shared_bytes,
            overlaps_previous: shape.overlaps_previous,
            is_cooperative: shape.is_cooperative,
        };
        function.launch(stream, &shape, parameters)
    }
}

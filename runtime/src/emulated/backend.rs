//! The emulator as a backend.

use std::sync::Arc;

use ptx::{EncodedTensorMap, TensorMap};
use target::Target;

use super::mapped::EmulatedMapped;
use super::queue::wait_for_all;
use super::recording::{Step, refuse_while_capturing};
use super::stream::{EmulatedStream, Moment};
use super::{EmulatedDevice, EmulatedEntry, EmulatedMemory};
use crate::advice::{Advice, Near};
use crate::backend::Backend;
use crate::device::DeviceFacts;
use crate::error::{Error, Result};
use crate::launch::{EntryShape, Grid, ParameterBlock};

impl Backend for EmulatedDevice {
    type Memory = EmulatedMemory;
    type Mapped = EmulatedMapped;
    type Stream = EmulatedStream;
    type Event = Moment;
    type Graph = Vec<Step>;
    type Function = EmulatedEntry;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn target(&self) -> &'static Target {
        self.emulator().target()
    }

    fn synchronize(&self) -> Result<()> {
        wait_for_all(&self.busy)
    }

    fn memory_bytes(&self) -> Result<(usize, usize)> {
        Ok(self.free_and_total_bytes())
    }

    fn encode_tensor_map(&self, map: &TensorMap) -> Result<EncodedTensorMap> {
        let encoded = emulator::encode_tensor_map(map, self.target());
        encoded.map_err(|error| Error::TensorMap(error.0))
    }

    fn allocate(self: &Arc<Self>, bytes: usize) -> Result<EmulatedMemory> {
        EmulatedMemory::allocate(self, bytes)
    }

    fn allocate_unified(self: &Arc<Self>, bytes: usize) -> Result<EmulatedMemory> {
        EmulatedMemory::allocate(self, bytes)
    }

    fn allocate_in_order(
        self: &Arc<Self>,
        stream: &EmulatedStream,
        bytes: usize,
    ) -> Result<EmulatedMemory> {
        if stream.is_capturing() {
            return Err(refuse_while_capturing("asked for memory"));
        }
        EmulatedMemory::allocate(self, bytes)
    }

    /// There is one memory, which every side reaches.
    fn prefetch(_stream: &EmulatedStream, _memory: &EmulatedMemory, _near: Near) -> Result<()> {
        Ok(())
    }

    fn advise(_memory: &EmulatedMemory, _advice: Advice) -> Result<()> {
        Ok(())
    }

    fn allocate_mapped(
        self: &Arc<Self>,
        bytes: usize,
        element_bytes: usize,
    ) -> Result<EmulatedMapped> {
        EmulatedMapped::allocate(self, bytes, element_bytes)
    }

    fn stream(self: &Arc<Self>) -> Result<EmulatedStream> {
        Ok(EmulatedStream::new(&self.busy))
    }

    fn event(self: &Arc<Self>) -> Result<Moment> {
        Ok(Moment::default())
    }

    fn synchronize_stream(stream: &EmulatedStream) -> Result<()> {
        if stream.is_capturing() {
            return Err(refuse_while_capturing("waited for"));
        }
        stream.queue().wait()
    }

    fn is_stream_done(stream: &EmulatedStream) -> Result<bool> {
        if stream.is_capturing() {
            return Err(refuse_while_capturing("asked for"));
        }
        stream.queue().is_idle()
    }

    fn fill(stream: &EmulatedStream, memory: &EmulatedMemory, byte: u8) -> Result<()> {
        let room = memory.room();
        stream.run(move || room.fill(byte))
    }

    fn copy(
        stream: &EmulatedStream,
        source: &EmulatedMemory,
        target: &EmulatedMemory,
    ) -> Result<()> {
        let (source, target) = (source.room(), target.room());
        stream.run(move || target.copy_from(&source))
    }

    fn upload(
        stream: &EmulatedStream,
        source: &EmulatedMapped,
        target: &EmulatedMemory,
    ) -> Result<()> {
        let (source, target) = (source.room(), target.room());
        stream.run(move || target.copy_from(&source))
    }

    fn download(
        stream: &EmulatedStream,
        source: &EmulatedMemory,
        target: &EmulatedMapped,
    ) -> Result<()> {
        let (source, target) = (source.room(), target.room());
        stream.run(move || target.copy_from(&source))
    }

    fn record(stream: &EmulatedStream, event: &Moment) -> Result<()> {
        event.record(stream)
    }

    fn wait(stream: &EmulatedStream, event: &Moment) -> Result<()> {
        event.bring_into(stream)
    }

    fn milliseconds(start: &Moment, end: &Moment) -> Result<f32> {
        end.milliseconds_since(start)
    }

    fn capture(stream: &EmulatedStream, work: impl FnOnce() -> Result<()>) -> Result<Vec<Step>> {
        stream.capture(work)
    }

    fn replay(stream: &EmulatedStream, graph: &Vec<Step>) -> Result<()> {
        if stream.is_capturing() {
            return Err(refuse_while_capturing("given a graph"));
        }
        let steps = graph.clone();
        let work = move || steps.iter().try_for_each(Step::run);
        if graph.iter().any(|step| step.is_beside_host) {
            return stream.queue().push(None, work);
        }
        stream.queue().run(work)
    }

    fn launch(
        stream: &EmulatedStream,
        function: &EmulatedEntry,
        shape: &EntryShape,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<()> {
        let is_beside_host = parameters.is_beside_host();
        let recording = stream.recording();
        if recording.is_none()
            && !is_beside_host
            && let Some(_turn) = stream.queue().idle_turn()?
        {
            return function.launch(shape, grid, parameters);
        }
        let (entry, shape, parameters) = (function.clone(), shape.clone(), parameters.clone());
        match recording {
            Some(recording) => {
                let step = Step::new(move || entry.launch(&shape, grid, &parameters));
                recording.push(if is_beside_host {
                    step.beside_host()
                } else {
                    step
                });
                Ok(())
            }
            None if is_beside_host => {
                // Now, so that what the host does from now on is beside it.
                let announced = Arc::new(entry.announce(&shape, grid, &parameters)?);
                let watch = Some(Arc::clone(&announced));
                let work = move || entry.run(&announced, &parameters);
                stream.queue().push(watch, work)
            }
            None => {
                let work = move || entry.launch(&shape, grid, &parameters);
                stream.queue().push(None, work)
            }
        }
    }
}

//! The emulator as a backend.

use std::sync::Arc;

use ptx::{EncodedTensorMap, TensorMap};
use target::Target;

use super::recording::{Step, refuse_while_capturing};
use super::stream::{Immediate, Moment};
use super::{EmulatedDevice, EmulatedEntry, EmulatedMemory};
use crate::backend::Backend;
use crate::code::EntryShape;
use crate::device::DeviceFacts;
use crate::error::{Error, Result};
use crate::launch::{Grid, ParameterBlock};

impl Backend for EmulatedDevice {
    type Memory = EmulatedMemory;
    type Stream = Immediate;
    type Event = Moment;
    type Graph = Vec<Step>;
    type Function = EmulatedEntry;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn target(&self) -> &'static Target {
        self.emulator.target()
    }

    /// Nothing is ever left to wait for.
    fn synchronize(&self) -> Result<()> {
        Ok(())
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

    fn stream(self: &Arc<Self>) -> Result<Immediate> {
        Ok(Immediate::default())
    }

    fn event(self: &Arc<Self>) -> Result<Moment> {
        Ok(Moment::default())
    }

    fn synchronize_stream(stream: &Immediate) -> Result<()> {
        if stream.is_capturing() {
            return Err(refuse_while_capturing("waited for"));
        }
        Ok(())
    }

    fn fill(stream: &Immediate, memory: &EmulatedMemory, byte: u8) -> Result<()> {
        let room = memory.room();
        stream.run(move || room.fill(byte))
    }

    fn copy(stream: &Immediate, source: &EmulatedMemory, target: &EmulatedMemory) -> Result<()> {
        let (source, target) = (source.room(), target.room());
        stream.run(move || target.copy_from(&source))
    }

    fn record(stream: &Immediate, event: &Moment) -> Result<()> {
        event.record(stream);
        Ok(())
    }

    fn wait(stream: &Immediate, event: &Moment) -> Result<()> {
        event.bring_into(stream);
        Ok(())
    }

    fn milliseconds(start: &Moment, end: &Moment) -> Result<f32> {
        end.milliseconds_since(start)
    }

    fn capture(stream: &Immediate, work: impl FnOnce() -> Result<()>) -> Result<Vec<Step>> {
        stream.capture(work)
    }

    fn replay(stream: &Immediate, graph: &Vec<Step>) -> Result<()> {
        if stream.is_capturing() {
            return Err(refuse_while_capturing("given a graph"));
        }
        graph.iter().try_for_each(|step| step())
    }

    fn launch(
        stream: &Immediate,
        function: &EmulatedEntry,
        shape: &EntryShape,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<()> {
        if !stream.is_capturing() {
            return function.launch(shape, grid, parameters);
        }
        let (entry, shape) = (function.clone(), shape.clone());
        let parameters = parameters.clone();
        stream.run(move || entry.launch(&shape, grid, &parameters))
    }
}

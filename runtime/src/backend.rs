//! What stands behind a device: the CUDA driver, or the emulator.
//!
//! Each backend is one type with the types of all that it makes ([`Backend`]). What belongs to a device is kept as [`On`], and an
//! operation on several of those gets them as parts of one backend or not at all.

use std::sync::Arc;

use ptx::{EncodedTensorMap, TensorMap};
use target::Target;

use crate::advice::{Advice, Near};
use crate::cuda;
use crate::device::DeviceFacts;
use crate::emulated::EmulatedDevice;
use crate::error::Result;
use crate::launch::{EntryShape, Grid, ParameterBlock};

/// What runs kernels.
pub(crate) trait Backend: Sized {
    /// An allocation of device memory.
    type Memory;
    /// Memory of the host that kernels access too.
    type Mapped;
    /// A queue of work.
    type Stream;
    /// A moment on a stream.
    type Event;
    /// Work that was captured from a stream.
    type Graph;
    /// A kernel's entry in loaded code.
    type Function;

    /// Facts about the device.
    fn facts(&self) -> &DeviceFacts;
    /// The machine whose limits hold.
    fn target(&self) -> &'static Target;
    /// Waits for everything on the device.
    fn synchronize(&self) -> Result<()>;
    /// Free and total memory, in bytes.
    fn memory_bytes(&self) -> Result<(usize, usize)>;
    /// The bytes of a tensor map whose rules have been checked.
    fn encode_tensor_map(&self, map: &TensorMap) -> Result<EncodedTensorMap>;

    fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Self::Memory>;
    /// Memory whose pages move between host and device.
    fn allocate_unified(self: &Arc<Self>, bytes: usize) -> Result<Self::Memory>;
    /// Memory that is there for work behind this on the stream, and is freed in its order.
    fn allocate_in_order(
        self: &Arc<Self>,
        stream: &Self::Stream,
        bytes: usize,
    ) -> Result<Self::Memory>;
    /// Moves pages of unified memory, in stream order.
    fn prefetch(stream: &Self::Stream, memory: &Self::Memory, near: Near) -> Result<()>;
    /// Says how unified memory will be used.
    fn advise(memory: &Self::Memory, advice: Advice) -> Result<()>;
    /// Zeros, which the host accesses in elements of `element_bytes` bytes.
    fn allocate_mapped(
        self: &Arc<Self>,
        bytes: usize,
        element_bytes: usize,
    ) -> Result<Self::Mapped>;
    fn stream(self: &Arc<Self>) -> Result<Self::Stream>;
    fn event(self: &Arc<Self>) -> Result<Self::Event>;

    /// Waits for everything on the stream.
    fn synchronize_stream(stream: &Self::Stream) -> Result<()>;
    /// Whether everything on the stream has ended.
    fn is_stream_done(stream: &Self::Stream) -> Result<bool>;
    /// Sets every byte of an allocation, in stream order.
    fn fill(stream: &Self::Stream, memory: &Self::Memory, byte: u8) -> Result<()>;
    /// Copies an allocation to one of the same length, in stream order.
    fn copy(stream: &Self::Stream, source: &Self::Memory, target: &Self::Memory) -> Result<()>;
    /// Copies memory of the host to an allocation of the same length, in stream order.
    fn upload(stream: &Self::Stream, source: &Self::Mapped, target: &Self::Memory) -> Result<()>;
    /// Copies an allocation to memory of the host of the same length, in stream order.
    fn download(stream: &Self::Stream, source: &Self::Memory, target: &Self::Mapped) -> Result<()>;
    /// Puts the event behind everything that is on the stream.
    fn record(stream: &Self::Stream, event: &Self::Event) -> Result<()>;
    /// Makes later work of the stream wait for the event.
    fn wait(stream: &Self::Stream, event: &Self::Event) -> Result<()>;
    /// Time from one event to another; waits for the later one.
    fn milliseconds(start: &Self::Event, end: &Self::Event) -> Result<f32>;
    /// Records what `work` puts on the stream.
    fn capture(stream: &Self::Stream, work: impl FnOnce() -> Result<()>) -> Result<Self::Graph>;
    /// Puts recorded work on the stream.
    fn replay(stream: &Self::Stream, graph: &Self::Graph) -> Result<()>;
    /// Puts a launch on the stream, whose grid and parameters fit the entry.
    fn launch(
        stream: &Self::Stream,
        function: &Self::Function,
        shape: &EntryShape,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<()>;
}

/// Something of the driver, or the same of the emulator.
#[derive(Clone, Copy)]
pub(crate) enum On<C, E> {
    Cuda(C),
    Emulator(E),
}

/// The device itself.
pub(crate) type AnyDevice = On<Arc<cuda::Context>, Arc<EmulatedDevice>>;

/// `Backend::Memory` of either backend, and so on.
pub(crate) type AnyMemory =
    On<<cuda::Context as Backend>::Memory, <EmulatedDevice as Backend>::Memory>;
pub(crate) type AnyMapped =
    On<<cuda::Context as Backend>::Mapped, <EmulatedDevice as Backend>::Mapped>;
pub(crate) type AnyStream =
    On<<cuda::Context as Backend>::Stream, <EmulatedDevice as Backend>::Stream>;
pub(crate) type AnyEvent =
    On<<cuda::Context as Backend>::Event, <EmulatedDevice as Backend>::Event>;
pub(crate) type AnyGraph =
    On<<cuda::Context as Backend>::Graph, <EmulatedDevice as Backend>::Graph>;
pub(crate) type AnyFunction =
    On<<cuda::Context as Backend>::Function, <EmulatedDevice as Backend>::Function>;

impl<C, E> On<C, E> {
    #[inline]
    pub(crate) fn as_ref(&self) -> On<&C, &E> {
        match self {
            On::Cuda(part) => On::Cuda(part),
            On::Emulator(part) => On::Emulator(part),
        }
    }

    /// Both, if they are of one backend.
    #[inline]
    pub(crate) fn with<D, F>(self, other: On<D, F>) -> Option<On<(C, D), (E, F)>> {
        match (self, other) {
            (On::Cuda(this), On::Cuda(that)) => Some(On::Cuda((this, that))),
            (On::Emulator(this), On::Emulator(that)) => Some(On::Emulator((this, that))),
            (On::Cuda(_), On::Emulator(_)) | (On::Emulator(_), On::Cuda(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::On;

    #[test]
    fn only_parts_of_one_backend_come_together() {
        let cuda: On<u8, char> = On::Cuda(1);
        let emulator: On<u8, char> = On::Emulator('a');
        assert!(matches!(cuda.with(cuda), Some(On::Cuda((1, 1)))));
        assert!(matches!(
            emulator.with(emulator),
            Some(On::Emulator(('a', 'a')))
        ));
        assert!(cuda.with(emulator).is_none() && emulator.with(cuda).is_none());
    }
}

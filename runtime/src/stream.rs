//! Streams and events.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{AnyEvent, AnyGraph, AnyStream, Backend, On};
use crate::buffer::Buffer;
use crate::cuda::Context;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::emulated::EmulatedDevice;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::in_flight::InFlight;
use crate::kept;
use crate::mapped::MappedBuffer;

/// A queue of work that runs in order, beside the work of other streams.
pub struct Stream {
    turn: Mutex<()>,
    device: Device,
    queue: AnyStream,
    in_flight: InFlight,
    locals: Mutex<Locals>,
}

/// A value of each type.
type Locals = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Stream {
    /// A new stream. It does not order itself after the default stream of CUDA or any other.
    pub fn new(device: &Device) -> Result<Stream> {
        let queue = match device.backend() {
            On::Cuda(context) => On::Cuda(context.stream()?),
            On::Emulator(emulator) => On::Emulator(emulator.stream()?),
        };
        Ok(Stream {
            turn: Mutex::default(),
            device: device.clone(),
            queue,
            in_flight: InFlight::default(),
            locals: Mutex::default(),
        })
    }

    /// The value of type `T` of this stream, made when it is first asked for and dropped with the stream: what each stream needs of its own, such as workspaces, since launches of two streams run at the same time.
    pub fn local<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut locals = self.locals.lock().unwrap_or_else(PoisonError::into_inner);
        let local = locals
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::<T>::default());
        let local = Arc::clone(local).downcast();
        local.expect("a value of its type")
    }

    /// Held while several launches that share a workspace of the stream are put on it, so that another thread that holds it for its own puts them in front or behind.
    /// A single launch needs none. Calls of tuned kernels that use workspaces take it, and a thread that holds it makes none: it would wait for itself.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device that it feeds.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &AnyStream {
        &self.queue
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Waits for everything that was put on it.
    ///
    /// # Errors
    /// [`Error::KernelFailed`] if a kernel ended badly; it names the last one launched. On the emulator
    /// [`Error::Capturing`] inside of [`capture`](Stream::capture), where a GPU gives the driver's own error.
    pub fn synchronize(&self) -> Result<()> {
        match &self.queue {
            On::Cuda(stream) => Context::synchronize_stream(stream)?,
            On::Emulator(stream) => EmulatedDevice::synchronize_stream(stream)?,
        }
        self.in_flight.end();
        Ok(())
    }

    /// Whether everything that was put on it has ended.
    ///
    /// # Errors
    /// As for [`synchronize`](Stream::synchronize).
    pub fn is_done(&self) -> Result<bool> {
        let is_done = match &self.queue {
            On::Cuda(stream) => Context::is_stream_done(stream)?,
            On::Emulator(stream) => EmulatedDevice::is_stream_done(stream)?,
        };
        if is_done {
            self.in_flight.end();
        }
        Ok(is_done)
    }

    /// Sets every byte of `buffer`, after the work before it and before the work behind it.
    pub fn fill_bytes<T: DeviceElement>(&self, buffer: &Buffer<T>, byte: u8) -> Result<()> {
        buffer.note_use();
        match self.with("a buffer", buffer.device(), buffer.memory())? {
            On::Cuda((stream, memory)) => Context::fill(stream, memory, byte)?,
            On::Emulator((stream, memory)) => EmulatedDevice::fill(stream, memory, byte)?,
        }
        // It waits for all launches before it, and the next one waits for it.
        self.in_flight.end();
        Ok(())
    }

    /// Copies `source` to `target`, after the work before it and before the work behind it.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless both are of one length.
    pub fn copy<T: DeviceElement>(&self, source: &Buffer<T>, target: &Buffer<T>) -> Result<()> {
        source.note_use();
        target.note_use();
        let stream_and_source = self.with("a buffer", source.device(), source.memory())?;
        let target_memory = self.with("a buffer", target.device(), target.memory())?;
        if source.len() != target.len() {
            return Err(Error::LengthMismatch {
                buffer: target.len(),
                host: source.len(),
            });
        }
        // Both are parts of this stream's backend.
        match stream_and_source.with(target_memory) {
            Some(On::Cuda(((stream, source), (_, target)))) => {
                Context::copy(stream, source, target)?;
            }
            Some(On::Emulator(((stream, source), (_, target)))) => {
                EmulatedDevice::copy(stream, source, target)?;
            }
            None => return Err(self.mismatch("a buffer", target.device())),
        }
        self.in_flight.end();
        Ok(())
    }

    /// Copies memory of the host to `target`, after the work before it and before the work behind it, and does not wait. The
    /// host leaves `source` as it is until the stream is there: until it is synchronized, or an event behind the copy has been waited for.
    ///
    /// ```
    /// # use tilekit::prelude::*;
    /// # fn main() -> tilekit::Result<()> {
    /// # let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let (pinned, x) = (MappedBuffer::from_slice(&device, &[1i32, 2])?, Buffer::<i32>::new(&device, 2)?);
    /// stream.upload(&pinned, &x)?;
    /// stream.download(&x, &pinned)?; // a launch stands between the two
    /// stream.synchronize()?;
    /// assert_eq!(pinned.read(0..2)?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless both are of one length.
    pub fn upload<T: DeviceElement>(
        &self,
        source: &MappedBuffer<T>,
        target: &Buffer<T>,
    ) -> Result<()> {
        match self.beside_host(source, target)? {
            On::Cuda((stream, (source, target))) => Context::upload(stream, source, target)?,
            On::Emulator((stream, (source, target))) => {
                EmulatedDevice::upload(stream, source, target)?;
            }
        }
        self.in_flight.end();
        Ok(())
    }

    /// Copies `source` to memory of the host, in the same way. The host reads `target` when the stream is there.
    ///
    /// # Errors
    /// As for [`upload`](Stream::upload).
    pub fn download<T: DeviceElement>(
        &self,
        source: &Buffer<T>,
        target: &MappedBuffer<T>,
    ) -> Result<()> {
        match self.beside_host(target, source)? {
            On::Cuda((stream, (target, source))) => Context::download(stream, source, target)?,
            On::Emulator((stream, (target, source))) => {
                EmulatedDevice::download(stream, source, target)?;
            }
        }
        self.in_flight.end();
        Ok(())
    }

    /// The stream with memory of the host and of the device, as parts of one backend.
    fn beside_host<'s, T: DeviceElement>(
        &'s self,
        host: &'s MappedBuffer<T>,
        buffer: &'s Buffer<T>,
    ) -> Result<BesideHost<'s>> {
        host.note_use();
        buffer.note_use();
        let with_host = self.with("a buffer", host.device(), host.memory())?;
        let with_buffer = self.with("a buffer", buffer.device(), buffer.memory())?;
        if host.len() != buffer.len() {
            return Err(Error::LengthMismatch {
                buffer: buffer.len(),
                host: host.len(),
            });
        }
        match with_host.with(with_buffer) {
            Some(On::Cuda(((stream, host), (_, buffer)))) => Ok(On::Cuda((stream, (host, buffer)))),
            Some(On::Emulator(((stream, host), (_, buffer)))) => {
                Ok(On::Emulator((stream, (host, buffer))))
            }
            None => Err(self.mismatch("a buffer", buffer.device())),
        }
    }

    /// An event behind everything that is on the stream now.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(&self.device)?;
        event.record(self)?;
        Ok(event)
    }

    /// Makes later work of this stream wait for `event`.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        match self.with("an event", &event.device, &event.moment)? {
            On::Cuda((stream, event)) => Context::wait(stream, event),
            On::Emulator((stream, event)) => EmulatedDevice::wait(stream, event),
        }
    }

    /// Records what `work` puts on this stream, without running it, as a graph that one call replays. A stream that
    /// waits for an event of this one is recorded with it, until the capture ends.
    ///
    /// The graph keeps the memory of buffers and the code of kernels that this thread's `work` uses: they may be dropped before it is
    /// replayed. Addresses that a kernel is passed as numbers, or as a [`ParameterBlock`](crate::ParameterBlock), must outlive it. Code is loaded
    /// when a kernel is: do that, and what allocates, before.
    ///
    /// ```
    /// # use tilekit::prelude::*;
    /// # fn main() -> tilekit::Result<()> {
    /// # let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let (x, y) = (Buffer::from_slice(&device, &[1i32, 2])?, Buffer::zeros(&device, 2)?);
    /// let graph = stream.capture(|| stream.copy(&x, &y))?;
    /// stream.replay(&graph)?;
    /// assert_eq!(y.to_vec()?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work`, and what cannot be recorded, such as waiting: [`Error::Capturing`] on the emulator, and the
    /// driver's error on a GPU.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let record = || -> Result<AnyGraph> {
            match &self.queue {
                On::Cuda(stream) => Ok(On::Cuda(Context::capture(stream, work)?)),
                On::Emulator(stream) => Ok(On::Emulator(EmulatedDevice::capture(stream, work)?)),
            }
        };
        let (recorded, kept) = kept::collect(|| self.in_flight.apart(record));
        Ok(Graph {
            device: self.device.clone(),
            work: recorded?,
            kept,
        })
    }

    /// Puts the work of `graph` on this stream.
    ///
    /// # Errors
    /// What the driver has against it; on the emulator what the work itself ends with.
    pub fn replay(&self, graph: &Graph) -> Result<()> {
        match self.with("a graph", &graph.device, &graph.work)? {
            On::Cuda((stream, graph)) => Context::replay(stream, graph)?,
            On::Emulator((stream, graph)) => EmulatedDevice::replay(stream, graph)?,
        }
        // A graph begins when all before it is complete, and ends before what follows it begins.
        self.in_flight.end();
        Ok(())
    }

    /// The kernel that was launched last, where the driver will blame it for a failure.
    pub(crate) fn last_launched(&self) -> Option<String> {
        match &self.queue {
            On::Cuda(stream) => stream.last_launched().map(|name| name.to_string()),
            On::Emulator(_) => None,
        }
    }

    /// The driver's handle, for a library that launches on it; none on the emulator.
    pub(crate) fn raw_cuda(&self) -> Option<*mut std::ffi::c_void> {
        match &self.queue {
            On::Cuda(stream) => Some(stream.raw().as_raw()),
            On::Emulator(_) => None,
        }
    }

    /// Makes the device's context the calling thread's, which such a library wants.
    pub(crate) fn bind(&self) -> Result<()> {
        self.device.bind()
    }

    /// The stream and what belongs to `owner`, as parts of one backend.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] unless `owner` is this stream's device.
    #[inline]
    pub(crate) fn with<'s, C, E>(
        &'s self,
        what: &'static str,
        owner: &Device,
        part: &'s On<C, E>,
    ) -> Result<Together<'s, C, E>> {
        if *owner != self.device {
            return Err(self.mismatch(what, owner));
        }
        let both = self.queue.as_ref().with(part.as_ref());
        both.ok_or_else(|| self.mismatch(what, owner))
    }

    #[cold]
    fn mismatch(&self, what: &'static str, owner: &Device) -> Error {
        Error::DeviceMismatch {
            what,
            belongs_to: owner.facts().name.clone(),
            used_on: self.device.facts().name.clone(),
        }
    }
}

/// A stream with memory of the host and of the device.
type BesideHost<'s> = On<
    (
        &'s <Context as Backend>::Stream,
        (
            &'s <Context as Backend>::Mapped,
            &'s <Context as Backend>::Memory,
        ),
    ),
    (
        &'s <EmulatedDevice as Backend>::Stream,
        (
            &'s <EmulatedDevice as Backend>::Mapped,
            &'s <EmulatedDevice as Backend>::Memory,
        ),
    ),
>;

/// A stream with something else of its backend.
pub(crate) type Together<'s, C, E> =
    On<(&'s <Context as Backend>::Stream, &'s C), (&'s <EmulatedDevice as Backend>::Stream, &'s E)>;

/// A moment on a stream.
pub struct Event {
    device: Device,
    moment: AnyEvent,
}

impl Event {
    /// An event that is not yet on a stream.
    pub fn new(device: &Device) -> Result<Event> {
        let moment = match device.backend() {
            On::Cuda(context) => On::Cuda(context.event()?),
            On::Emulator(emulator) => On::Emulator(emulator.event()?),
        };
        Ok(Event {
            device: device.clone(),
            moment,
        })
    }

    /// Moves the event behind everything that is on `stream` now.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        match stream.with("an event", &self.device, &self.moment)? {
            On::Cuda((stream, event)) => Context::record(stream, event),
            On::Emulator((stream, event)) => EmulatedDevice::record(stream, event),
        }
    }

    /// Milliseconds from `start` to this event, by the device's clock (resolution about 0.5 µs); waits for this one. On
    /// the emulator the host's clock is used.
    ///
    /// # Errors
    /// What a kernel in between ended with, or [`Error::EventNotRecorded`].
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        let both = self.moment.as_ref().with(start.moment.as_ref());
        match both.filter(|_| self.device == start.device) {
            Some(On::Cuda((end, start))) => Context::milliseconds(start, end),
            Some(On::Emulator((end, start))) => EmulatedDevice::milliseconds(start, end),
            None => Err(Error::DeviceMismatch {
                what: "an event",
                belongs_to: start.device.facts().name.clone(),
                used_on: self.device.facts().name.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_values_of_its_own_which_go_with_it() -> Result<()> {
        let device = Device::emulator();
        let (stream, other) = (Stream::new(&device)?, Stream::new(&device)?);
        let of = |stream: &Stream| stream.local::<Mutex<Vec<i32>>>();
        of(&stream).lock().unwrap().push(7);
        assert_eq!(*of(&stream).lock().unwrap(), [7]);
        assert!(of(&other).lock().unwrap().is_empty());
        assert_eq!(*stream.local::<i32>(), 0, "of another type");
        let weak = Arc::downgrade(&of(&stream));
        drop(stream);
        assert!(weak.upgrade().is_none());
        Ok(())
    }
}

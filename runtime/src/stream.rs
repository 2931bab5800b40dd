//! Streams and events.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::buffer::{Buffer, Memory};
use crate::cuda;
use crate::device::{Backend, Device};
use crate::element::DeviceElement;
use crate::error::{Error, Result};

/// A queue of work that runs in order, beside the work of other streams.
pub struct Stream {
    device: Device,
    queue: Queue,
}

pub(crate) enum Queue {
    Cuda(cuda::Stream),
    /// The emulator ends each piece of work before the next is given to it.
    Immediate,
}

impl Stream {
    /// A new stream. It does not order itself after the default stream of CUDA or any other.
    pub fn new(device: &Device) -> Result<Stream> {
        let queue = match device.backend() {
            Backend::Cuda(context) => Queue::Cuda(cuda::Stream::new(context)?),
            Backend::Emulator(_) => Queue::Immediate,
        };
        Ok(Stream {
            device: device.clone(),
            queue,
        })
    }

    /// The device that it feeds.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Waits for everything that was put on it.
    ///
    /// # Errors
    /// [`Error::KernelFailed`] if a kernel ended badly; it names the last one launched.
    pub fn synchronize(&self) -> Result<()> {
        match &self.queue {
            Queue::Cuda(stream) => stream.synchronize(),
            Queue::Immediate => Ok(()),
        }
    }

    /// Sets every byte of `buffer`, after the work before it and before the work behind it.
    pub fn fill_bytes<T: DeviceElement>(&self, buffer: &Buffer<T>, byte: u8) -> Result<()> {
        self.expect_own("a buffer", buffer.device())?;
        match (&self.queue, buffer.memory()) {
            (Queue::Cuda(stream), Memory::Cuda(memory)) => Ok(memory.fill(byte, stream)?),
            (Queue::Immediate, Memory::Emulated(memory)) => {
                memory.fill(byte);
                Ok(())
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
    }

    /// Copies `source` to `target`, after the work before it and before the work behind it.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless both are of one length.
    pub fn copy<T: DeviceElement>(&self, source: &Buffer<T>, target: &Buffer<T>) -> Result<()> {
        self.expect_own("a buffer", source.device())?;
        self.expect_own("a buffer", target.device())?;
        if source.len() != target.len() {
            return Err(Error::LengthMismatch {
                buffer: target.len(),
                host: source.len(),
            });
        }
        match (&self.queue, source.memory(), target.memory()) {
            (Queue::Cuda(stream), Memory::Cuda(source), Memory::Cuda(target)) => {
                Ok(target.copy_from(source, stream)?)
            }
            (Queue::Immediate, Memory::Emulated(source), Memory::Emulated(target)) => {
                target.copy_from(source);
                Ok(())
            }
            _ => unreachable!("{ONE_DEVICE}"),
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
        self.expect_own("an event", &event.device)?;
        match (&self.queue, &event.moment) {
            (Queue::Cuda(stream), Moment::Cuda(event)) => Ok(stream.wait_for(event)?),
            (Queue::Immediate, Moment::Host(_)) => Ok(()),
            _ => unreachable!("{ONE_DEVICE}"),
        }
    }

    /// Records what `work` puts on this stream, without running it, as a graph that one call replays.
    ///
    /// The graph keeps addresses, not buffers: buffers used in it must live as long as it is replayed.
    ///
    /// # Errors
    /// Those of `work`, the driver's if it does something that cannot be recorded, such as a host copy, and
    /// [`Error::NotEmulated`] on the emulator.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        match &self.queue {
            Queue::Cuda(stream) => Ok(Graph {
                device: self.device.clone(),
                work: cuda::Graph::capture(stream, work)?,
            }),
            Queue::Immediate => Err(Error::NotEmulated { what: "a graph" }),
        }
    }

    /// Puts the work of `graph` on this stream.
    pub fn replay(&self, graph: &Graph) -> Result<()> {
        self.expect_own("a graph", &graph.device)?;
        match &self.queue {
            Queue::Cuda(stream) => Ok(graph.work.launch(stream)?),
            Queue::Immediate => unreachable!("{ONE_DEVICE}"),
        }
    }

    /// An error unless `owner` is this stream's device.
    pub(crate) fn expect_own(&self, what: &'static str, owner: &Device) -> Result<()> {
        if *owner == self.device {
            return Ok(());
        }
        Err(Error::DeviceMismatch {
            what,
            belongs_to: owner.facts().name.clone(),
            used_on: self.device.facts().name.clone(),
        })
    }
}

/// What [`Stream::expect_own`] has made sure of.
const ONE_DEVICE: &str = "stream, buffers and events belong to one device, so they are of one kind";

/// Work that was recorded by [`Stream::capture`].
pub struct Graph {
    device: Device,
    work: cuda::Graph,
}

/// A moment on a stream.
pub struct Event {
    device: Device,
    moment: Moment,
}

enum Moment {
    Cuda(cuda::Event),
    /// Of the emulator: the host's time when it was recorded, none before.
    Host(Mutex<Option<Instant>>),
}

impl Event {
    /// An event that is not yet on a stream.
    pub fn new(device: &Device) -> Result<Event> {
        let moment = match device.backend() {
            Backend::Cuda(context) => Moment::Cuda(cuda::Event::new(context)?),
            Backend::Emulator(_) => Moment::Host(Mutex::new(None)),
        };
        Ok(Event {
            device: device.clone(),
            moment,
        })
    }

    /// Moves the event behind everything that is on `stream` now.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.expect_own("an event", &self.device)?;
        match (&self.moment, stream.queue()) {
            (Moment::Cuda(event), Queue::Cuda(stream)) => Ok(event.record(stream)?),
            (Moment::Host(moment), Queue::Immediate) => {
                *moment.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                Ok(())
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
    }

    /// Milliseconds from `start` to this event, by the device's clock (resolution about 0.5 µs); waits for this one. On
    /// the emulator the host's clock is used.
    ///
    /// # Errors
    /// What a kernel in between ended with, or [`Error::EventNotRecorded`].
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        if self.device != start.device {
            return Err(Error::DeviceMismatch {
                what: "an event",
                belongs_to: start.device.facts().name.clone(),
                used_on: self.device.facts().name.clone(),
            });
        }
        match (&self.moment, &start.moment) {
            (Moment::Cuda(end), Moment::Cuda(start)) => end.milliseconds_since(start),
            (Moment::Host(end), Moment::Host(start)) => {
                let time = |moment: &Mutex<Option<Instant>>| {
                    *moment.lock().unwrap_or_else(PoisonError::into_inner)
                };
                let (start, end) = time(start).zip(time(end)).ok_or(Error::EventNotRecorded)?;
                Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
    }
}

//! Streams and events.

use crate::buffer::{Buffer, Memory};
use crate::cuda;
use crate::device::{Backend, Device};
use crate::element::Element;
use crate::error::{Error, Result};

/// A queue of work that runs in order, beside the work of other streams.
pub struct Stream {
    device: Device,
    queue: Queue,
}

pub(crate) enum Queue {
    Cuda(cuda::Stream),
}

impl Stream {
    /// A new stream. It does not order itself after the default stream of CUDA or any other.
    pub fn new(device: &Device) -> Result<Stream> {
        let queue = match device.backend() {
            Backend::Cuda(context) => Queue::Cuda(cuda::Stream::new(context)?),
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
        }
    }

    /// Sets every byte of `buffer`, after the work before it and before the work behind it.
    pub fn fill_bytes<T: Element>(&self, buffer: &Buffer<T>, byte: u8) -> Result<()> {
        self.expect_own("a buffer", buffer.device())?;
        match (&self.queue, buffer.memory()) {
            (Queue::Cuda(stream), Memory::Cuda(memory)) => Ok(memory.fill(byte, stream)?),
        }
    }

    /// Copies `source` to `target`, after the work before it and before the work behind it.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless both are of one length.
    pub fn copy<T: Element>(&self, source: &Buffer<T>, target: &Buffer<T>) -> Result<()> {
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
        }
    }

    /// Records what `work` puts on this stream, without running it, as a graph that one call replays.
    ///
    /// The graph keeps addresses, not buffers: buffers used in it must live as long as it is replayed.
    ///
    /// # Errors
    /// Those of `work`, and the driver's if it does something that cannot be recorded, such as a host copy.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        match &self.queue {
            Queue::Cuda(stream) => Ok(Graph {
                device: self.device.clone(),
                work: cuda::Graph::capture(stream, work)?,
            }),
        }
    }

    /// Puts the work of `graph` on this stream.
    pub fn replay(&self, graph: &Graph) -> Result<()> {
        self.expect_own("a graph", &graph.device)?;
        match &self.queue {
            Queue::Cuda(stream) => Ok(graph.work.launch(stream)?),
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
}

impl Event {
    /// An event that is not yet on a stream.
    pub fn new(device: &Device) -> Result<Event> {
        let moment = match device.backend() {
            Backend::Cuda(context) => Moment::Cuda(cuda::Event::new(context)?),
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
        }
    }

    /// Milliseconds from `start` to this event, by the device's clock (resolution about 0.5 µs); waits for this one.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        match (&self.moment, &start.moment) {
            (Moment::Cuda(end), Moment::Cuda(start)) => end.milliseconds_since(start),
        }
    }
}

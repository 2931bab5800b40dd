//! Streams and events.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::buffer::{Buffer, Memory};
use crate::cuda;
use crate::device::{Backend, Device};
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::graph::{Graph, Recording, Work, refuse_while_capturing};
use crate::under_way::UnderWay;

/// A queue of work that runs in order, beside the work of other streams.
pub struct Stream {
    device: Device,
    queue: Queue,
    under_way: UnderWay,
}

pub(crate) enum Queue {
    Cuda(cuda::Stream),
    /// The emulator ends each piece of work before the next is given to it, or notes it down while it is captured.
    Immediate(Immediate),
}

/// The stream of an emulator.
#[derive(Default)]
pub(crate) struct Immediate {
    recording: Mutex<Option<Recording>>,
}

impl Immediate {
    /// What the stream's work is noted in, while it is captured.
    fn recording(&self) -> Option<Recording> {
        self.recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .filter(Recording::is_open)
    }

    fn join(&self, recording: Recording) {
        *self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(recording);
    }

    /// Does `step` now, or later if the stream is captured.
    pub(crate) fn run(&self, step: impl Fn() -> Result<()> + Send + Sync + 'static) -> Result<()> {
        match self.recording() {
            Some(recording) => {
                recording.push(Box::new(step));
                Ok(())
            }
            None => step(),
        }
    }

    /// Whether the stream is captured.
    pub(crate) fn is_capturing(&self) -> bool {
        self.recording().is_some()
    }

    fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Work> {
        if self.is_capturing() {
            return Err(refuse_while_capturing("captured again"));
        }
        let recording = Recording::begin();
        self.join(recording.clone());
        let done = work();
        let steps = recording.end();
        done.map(|()| Work::Emulated(steps))
    }
}

impl Stream {
    /// A new stream. It does not order itself after the default stream of CUDA or any other.
    pub fn new(device: &Device) -> Result<Stream> {
        let queue = match device.backend() {
            Backend::Cuda(context) => Queue::Cuda(cuda::Stream::new(context)?),
            Backend::Emulator(_) => Queue::Immediate(Immediate::default()),
        };
        Ok(Stream {
            device: device.clone(),
            queue,
            under_way: UnderWay::default(),
        })
    }

    /// The device that it feeds.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Waits for everything that was put on it.
    ///
    /// # Errors
    /// [`Error::KernelFailed`] if a kernel ended badly; it names the last one launched. On the emulator
    /// [`Error::Capturing`] inside of [`capture`](Stream::capture), where a GPU gives the driver's own error.
    pub fn synchronize(&self) -> Result<()> {
        match &self.queue {
            Queue::Cuda(stream) => stream.synchronize()?,
            Queue::Immediate(stream) if stream.is_capturing() => {
                return Err(refuse_while_capturing("waited for"));
            }
            Queue::Immediate(_) => {}
        }
        self.under_way.end();
        Ok(())
    }

    /// Sets every byte of `buffer`, after the work before it and before the work behind it.
    pub fn fill_bytes<T: DeviceElement>(&self, buffer: &Buffer<T>, byte: u8) -> Result<()> {
        self.expect_own("a buffer", buffer.device())?;
        match (&self.queue, buffer.memory()) {
            (Queue::Cuda(stream), Memory::Cuda(memory)) => memory.fill(byte, stream)?,
            (Queue::Immediate(stream), Memory::Emulated(memory)) => {
                let room = memory.room();
                stream.run(move || room.fill(byte))?;
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
        // It waits for all launches before it, and the next one waits for it.
        self.under_way.end();
        Ok(())
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
                target.copy_from(source, stream)?;
            }
            (Queue::Immediate(stream), Memory::Emulated(source), Memory::Emulated(target)) => {
                let (source, target) = (source.room(), target.room());
                stream.run(move || target.copy_from(&source))?;
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
        self.under_way.end();
        Ok(())
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
            (Queue::Immediate(stream), Moment::Host(moment)) => {
                let captured = lock(moment).captured.clone();
                if let Some(recording) = captured.filter(Recording::is_open) {
                    stream.join(recording);
                }
                Ok(())
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
    }

    /// Records what `work` puts on this stream, without running it, as a graph that one call replays. A stream that
    /// waits for an event of this one is recorded with it, until the capture ends.
    ///
    /// The graph keeps addresses, not buffers: buffers used in it must live as long as it is replayed. The emulator
    /// refuses a fill or a copy of a buffer that is gone; a kernel's access to one is a fault there.
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
        let recorded = self.under_way.apart(|| match &self.queue {
            Queue::Cuda(stream) => Ok(Work::Cuda(cuda::Graph::capture(stream, work)?)),
            Queue::Immediate(stream) => stream.capture(work),
        });
        let work = recorded?;
        Ok(Graph {
            device: self.device.clone(),
            work,
        })
    }

    /// Puts the work of `graph` on this stream.
    ///
    /// # Errors
    /// What the driver has against it; on the emulator what the work itself ends with.
    pub fn replay(&self, graph: &Graph) -> Result<()> {
        self.expect_own("a graph", &graph.device)?;
        match (&self.queue, &graph.work) {
            (Queue::Cuda(stream), Work::Cuda(graph)) => graph.launch(stream)?,
            (Queue::Immediate(stream), Work::Emulated(_)) if stream.is_capturing() => {
                return Err(refuse_while_capturing("given a graph"));
            }
            (Queue::Immediate(_), Work::Emulated(steps)) => {
                steps.iter().try_for_each(|step| step())?;
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
        // A graph begins when all before it is complete, and ends before what follows it begins.
        self.under_way.end();
        Ok(())
    }

    /// The driver's handle, for a library that launches on it; none on the emulator.
    pub(crate) fn raw_cuda(&self) -> Option<*mut std::ffi::c_void> {
        match &self.queue {
            Queue::Cuda(stream) => Some(stream.raw().cast()),
            Queue::Immediate(_) => None,
        }
    }

    /// Makes the device's context the calling thread's, which such a library wants.
    pub(crate) fn bind(&self) -> Result<()> {
        match &self.queue {
            Queue::Cuda(stream) => Ok(stream.context().bind()?),
            Queue::Immediate(_) => Ok(()),
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

/// A moment on a stream.
pub struct Event {
    device: Device,
    moment: Moment,
}

enum Moment {
    Cuda(cuda::Event),
    Host(Mutex<HostMoment>),
}

/// An event of the emulator.
#[derive(Default)]
struct HostMoment {
    /// The host's time when it was recorded.
    time: Option<Instant>,
    /// What it was recorded in, if its stream was captured then.
    captured: Option<Recording>,
}

fn lock(moment: &Mutex<HostMoment>) -> std::sync::MutexGuard<'_, HostMoment> {
    moment.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    /// An event that is not yet on a stream.
    pub fn new(device: &Device) -> Result<Event> {
        let moment = match device.backend() {
            Backend::Cuda(context) => Moment::Cuda(cuda::Event::new(context)?),
            Backend::Emulator(_) => Moment::Host(Mutex::default()),
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
            (Moment::Host(moment), Queue::Immediate(stream)) => {
                let captured = stream.recording();
                // As on a GPU, a captured event orders the graph and has no time.
                let time = captured.is_none().then(Instant::now);
                *lock(moment) = HostMoment { time, captured };
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
                let (start, end) = (lock(start).time, lock(end).time);
                let (start, end) = start.zip(end).ok_or(Error::EventNotRecorded)?;
                Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
            }
            _ => unreachable!("{ONE_DEVICE}"),
        }
    }
}

//! Streams and events of the emulator.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::queue::{BusyQueues, Queue};
use super::recording::{Recording, Step, refuse_while_capturing};
use crate::error::{Error, Result};

/// A stream of the emulator. It ends each piece of work before the next is given to it, but for launches beside the host and what is
/// given after one of those; while it is captured, it notes work down.
pub(crate) struct EmulatedStream {
    recording: Mutex<Option<Recording>>,
    queue: Arc<Queue>,
}

impl EmulatedStream {
    pub(crate) fn new(busy: &BusyQueues) -> EmulatedStream {
        EmulatedStream {
            recording: Mutex::default(),
            queue: Queue::new(busy),
        }
    }

    /// What does its work.
    pub(super) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// What the stream's work is noted in, while it is captured.
    pub(super) fn recording(&self) -> Option<Recording> {
        self.recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .filter(Recording::is_open)
    }

    pub(super) fn join(&self, recording: Recording) {
        *self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(recording);
    }

    /// Does `work` in stream order, or later if the stream is captured.
    pub(crate) fn run(&self, work: impl Fn() -> Result<()> + Send + Sync + 'static) -> Result<()> {
        match self.recording() {
            Some(recording) => {
                recording.push(Step::new(work));
                Ok(())
            }
            None => self.queue.run(work),
        }
    }

    /// Whether the stream is captured.
    pub(crate) fn is_capturing(&self) -> bool {
        self.recording().is_some()
    }

    /// Whether the stream is captured with `other`, or neither is.
    fn is_captured_with(&self, other: &EmulatedStream) -> bool {
        match (self.recording(), other.recording()) {
            (Some(own), Some(other)) => own.is_same(&other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Notes its work down where `other` does, until that capture ends.
    pub(crate) fn join_capture_of(&self, other: &EmulatedStream) -> Result<()> {
        if self.is_capturing() {
            return Err(refuse_while_capturing("captured again"));
        }
        if let Some(recording) = other.recording() {
            self.join(recording);
        }
        Ok(())
    }

    /// Does `work`, which is of all these streams, or later if they are captured together.
    pub(crate) fn run_on_all(
        streams: &[&EmulatedStream],
        work: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let Some(first) = streams.first() else {
            return Ok(());
        };
        if !streams.iter().all(|stream| stream.is_captured_with(first)) {
            return Err(refuse_while_capturing("given a launch of all ranks"));
        }
        if let Some(recording) = first.recording() {
            recording.push(Step::new(work));
            return Ok(());
        }
        let _turns = Queue::turns(streams.iter().map(|stream| &stream.queue).collect());
        streams.iter().try_for_each(|stream| stream.queue.wait())?;
        work()
    }

    pub(super) fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Vec<Step>> {
        if self.is_capturing() {
            return Err(refuse_while_capturing("captured again"));
        }
        let recording = Recording::begin();
        self.join(recording.clone());
        let done = work();
        let steps = recording.end();
        done.map(|()| steps)
    }
}

/// An event of the emulator.
#[derive(Default)]
pub(crate) struct Moment(Mutex<Recorded>);

/// When an event was recorded, and in what.
#[derive(Clone, Default)]
struct Recorded {
    /// The host's time, once the stream got there.
    time: Arc<Mutex<Option<Instant>>>,
    /// Its place in a stream.
    place: Option<(Arc<Queue>, u64)>,
    /// What was captured from its stream then.
    captured: Option<Recording>,
}

impl Recorded {
    /// Waits for it; when that was.
    fn time(&self) -> Result<Option<Instant>> {
        if let Some((queue, position)) = &self.place {
            queue.wait_for(*position)?;
        }
        Ok(*self.time.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Moment {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the event behind everything that is on the stream. As on a GPU, a captured event orders the graph and has no time.
    pub(super) fn record(&self, stream: &EmulatedStream) -> Result<()> {
        let mut recorded = Recorded {
            captured: stream.recording(),
            ..Recorded::default()
        };
        if recorded.captured.is_none() {
            let time = Arc::clone(&recorded.time);
            stream.queue.run(move || {
                *time.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                Ok(())
            })?;
            recorded.place = Some((Arc::clone(&stream.queue), stream.queue.position()));
        }
        *self.lock() = recorded;
        Ok(())
    }

    /// Later work of the stream waits for the event. A stream that waits for a captured one is captured with it.
    pub(super) fn bring_into(&self, stream: &EmulatedStream) -> Result<()> {
        let recorded = self.lock().clone();
        if let Some(recording) = recorded.captured.filter(Recording::is_open) {
            stream.join(recording);
        }
        match recorded.place {
            Some((queue, position))
                if !Arc::ptr_eq(&queue, &stream.queue) && !queue.is_idle()? =>
            {
                stream.queue.push(None, move || queue.wait_for(position))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn milliseconds_since(&self, start: &Moment) -> Result<f32> {
        let (start, end) = (start.lock().clone(), self.lock().clone());
        let times = start.time()?.zip(end.time()?);
        let (start, end) = times.ok_or(Error::EventNotRecorded)?;
        Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
    }
}

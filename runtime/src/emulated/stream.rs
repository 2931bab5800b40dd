//! Streams and events of the emulator.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::recording::{Recording, Step, refuse_while_capturing};
use crate::error::{Error, Result};

/// A stream of the emulator, which ends each piece of work before the next is given to it, or notes it down while it is
/// captured.
#[derive(Default)]
pub(crate) struct Immediate {
    recording: Mutex<Option<Recording>>,
}

impl Immediate {
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
#[derive(Default)]
struct Recorded {
    /// The host's time.
    time: Option<Instant>,
    /// What was captured from its stream then.
    captured: Option<Recording>,
}

impl Moment {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the event behind everything that is on the stream. As on a GPU, a captured event orders the graph and has no time.
    pub(super) fn record(&self, stream: &Immediate) {
        let captured = stream.recording();
        let time = captured.is_none().then(Instant::now);
        *self.lock() = Recorded { time, captured };
    }

    /// A stream that waits for a captured event is captured with it.
    pub(super) fn bring_into(&self, stream: &Immediate) {
        let captured = self.lock().captured.clone();
        if let Some(recording) = captured.filter(Recording::is_open) {
            stream.join(recording);
        }
    }

    pub(super) fn milliseconds_since(&self, start: &Moment) -> Result<f32> {
        let (start, end) = (start.lock().time, self.lock().time);
        let (start, end) = start.zip(end).ok_or(Error::EventNotRecorded)?;
        Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
    }
}

//! What a captured stream of the emulator notes down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};

/// Something that the emulator does when a graph is replayed.
#[derive(Clone)]
pub(crate) struct Step {
    work: Arc<dyn Fn() -> Result<()> + Send + Sync>,
    /// The host goes on beside it, and it may wait for the host.
    pub(crate) is_beside_host: bool,
}

impl Step {
    pub(crate) fn new(work: impl Fn() -> Result<()> + Send + Sync + 'static) -> Step {
        Step {
            work: Arc::new(work),
            is_beside_host: false,
        }
    }

    /// Work beside which the host goes on.
    pub(crate) fn beside_host(self) -> Step {
        Step {
            is_beside_host: true,
            ..self
        }
    }

    pub(crate) fn run(&self) -> Result<()> {
        (self.work)()
    }
}

/// What an emulated stream notes down instead of doing it.
#[derive(Clone)]
pub(crate) struct Recording(Arc<RecordingState>);

struct RecordingState {
    steps: Mutex<Vec<Step>>,
    is_open: AtomicBool,
}

impl Recording {
    /// One without steps.
    pub(crate) fn begin() -> Recording {
        Recording(Arc::new(RecordingState {
            steps: Mutex::default(),
            is_open: AtomicBool::new(true),
        }))
    }

    /// Whether the stream that began it still records.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::Acquire)
    }

    /// Whether both are one.
    pub(crate) fn is_same(&self, other: &Recording) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn push(&self, step: Step) {
        self.steps().push(step);
    }

    /// Ends it, for every stream that joined it, and gives what was noted.
    pub(crate) fn end(&self) -> Vec<Step> {
        self.0.is_open.store(false, Ordering::Release);
        std::mem::take(&mut self.steps())
    }

    fn steps(&self) -> std::sync::MutexGuard<'_, Vec<Step>> {
        self.0.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is asked of a stream that records, and needs a result at once.
pub(crate) fn refuse_while_capturing(what: &'static str) -> Error {
    Error::Capturing { what }
}

//! Launches without types: a grid, packed parameters, and the entry that they are given to.

use std::sync::Arc;

use super::entry::Entry;
use crate::error::Result;
use crate::kept::{self, Kept};
use crate::launch::{Grid, ParameterBlock};
use crate::stream::Stream;
use crate::trace::TraceBuffer;

/// A launch whose checks are done and whose parameters are packed: putting it on a stream is one call of the driver.
#[derive(Clone)]
pub struct PreparedLaunch {
    entry: Arc<Entry>,
    grid: Grid,
    parameters: ParameterBlock,
    kept: Vec<Kept>,
    /// Where a traced kernel records.
    trace: Option<Arc<TraceBuffer>>,
}

impl PreparedLaunch {
    /// Checks the grid and the parameter bytes once.
    ///
    /// # Errors
    /// [`Error::BadGrid`](crate::Error::BadGrid) or [`Error::ParameterMismatch`](crate::Error::ParameterMismatch).
    pub fn new(
        entry: &Arc<Entry>,
        grid: Grid,
        parameters: ParameterBlock,
    ) -> Result<PreparedLaunch> {
        entry.check(grid, &parameters)?;
        Ok(PreparedLaunch {
            entry: Arc::clone(entry),
            grid,
            parameters,
            kept: Vec::new(),
            trace: None,
        })
    }

    /// The same, which keeps what its parameters point to.
    pub(crate) fn keeping(self, kept: Vec<Kept>) -> PreparedLaunch {
        PreparedLaunch { kept, ..self }
    }

    /// The same, whose last parameter is this buffer.
    pub(crate) fn tracing(self, trace: Arc<TraceBuffer>) -> PreparedLaunch {
        PreparedLaunch {
            trace: Some(trace),
            ..self
        }
    }

    /// Where a traced kernel records.
    pub(crate) fn trace(&self) -> Option<&Arc<TraceBuffer>> {
        self.trace.as_ref()
    }

    /// Puts the launch on `stream`.
    ///
    /// # Errors
    /// What the driver or the emulator has against it. On a GPU a failure of the kernel itself shows later.
    #[inline]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.note_use();
        self.entry
            .launch_checked(stream, self.grid, &self.parameters)
    }

    /// Notes that work of this thread uses what its parameters point to.
    #[inline]
    pub(crate) fn note_use(&self) {
        for thing in &self.kept {
            kept::note(|| Kept::clone(thing));
        }
    }

    /// Its packed parameters.
    pub(crate) fn parameters(&self) -> &ParameterBlock {
        &self.parameters
    }

    /// The same launch of another entry of the same code.
    pub(crate) fn with_entry(&self, entry: &Arc<Entry>) -> PreparedLaunch {
        PreparedLaunch {
            entry: Arc::clone(entry),
            ..self.clone()
        }
    }

    /// The entry that it launches.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// How many CTAs it has.
    pub fn grid(&self) -> Grid {
        self.grid
    }
}

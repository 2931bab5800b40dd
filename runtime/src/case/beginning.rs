//! When a launch of a case begins.

use crate::error::Result;
use crate::stream::Stream;

/// What the host does while a kernel runs.
pub(super) type HostPart<'a> = dyn Fn(&Stream) -> Result<()> + 'a;

/// When a launch begins, and who goes on beside it.
#[derive(Clone, Copy)]
pub(super) enum Beginning<'a> {
    AfterTheLast,
    /// Perhaps before the end of the launch in front of it.
    OverlapsTheLast,
    /// As the first, and the host does this while it runs.
    BesideHost(&'a HostPart<'a>),
}

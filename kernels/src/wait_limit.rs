//! Limits of waits for other ranks, on the host.

use std::time::Duration;

/// How long a wait for other ranks may take, unless the host says otherwise: less than a launch.
pub(crate) const DEFAULT_LIMIT: Duration = Duration::from_secs(5);

/// A limit in nanoseconds, as kernels take it.
pub(crate) fn nanoseconds(limit: Duration) -> i64 {
    i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX)
}

//! Whether this is still the process in which a context was made. Asking the kernel for its number at each launch would cost more
//! than all checks of the launch.

#![allow(unsafe_code, reason = "a foreign function of the C library")]

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often this process is a child of `fork`, counted from the first context on.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, among those that come of it by `fork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    /// The count when this was asked; none where forks are not counted.
    forks: Option<u32>,
}

impl Process {
    /// This one.
    pub(crate) fn this() -> Process {
        let forks = counts_forks().then(|| FORKS.load(Ordering::Relaxed));
        Process {
            id: std::process::id(),
            forks,
        }
    }

    /// Whether it is the one that calls.
    #[inline]
    pub(crate) fn is_this(self) -> bool {
        match self.forks {
            Some(forks) => forks == FORKS.load(Ordering::Relaxed),
            None => self.id == std::process::id(),
        }
    }

    /// Its number.
    pub(crate) fn id(self) -> u32 {
        self.id
    }
}

#[cfg(unix)]
fn counts_forks() -> bool {
    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        /// POSIX: calls handlers around each `fork` of this process.
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    unsafe extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static COUNTED: OnceLock<bool> = OnceLock::new();
    *COUNTED.get_or_init(|| {
        // SAFETY: the handler does what a handler may: it changes a number. This code is never unloaded, as the driver that it has
        // opened is not.
        unsafe { pthread_atfork(None, None, Some(in_child)) == 0 }
    })
}

/// There is no `fork`.
#[cfg(not(unix))]
fn counts_forks() -> bool {
    true
}

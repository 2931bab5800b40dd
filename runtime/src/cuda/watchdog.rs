//! A hung kernel must end the process, not hold it for ever.
//!
//! A wrong `mbarrier` count hangs a kernel for good; nothing but the end of the process gets the GPU back. So whoever
//! waits for a kernel that may be wrong sets a limit.

#![allow(
    unsafe_code,
    reason = "leaving the process without waiting for the driver"
)]

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The exit code of a process that a hung kernel ended.
pub const HANG_EXIT_CODE: i32 = 107;

unsafe extern "C" {
    /// POSIX `_exit`: ends the process without running exit handlers.
    #[link_name = "_exit"]
    safe fn leave(code: i32) -> !;
}

/// Ends the process with [`HANG_EXIT_CODE`] and one line of error unless it is dropped within its limit.
pub struct Watchdog {
    /// Closed when the watchdog is dropped, which wakes the thread.
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    /// Watches over `what` (a kernel's name) for `limit`.
    pub fn start(what: &str, limit: Duration) -> Watchdog {
        Watchdog::saying(what, limit, DEADLOCK)
    }

    /// The same of work that is on no GPU, and what to do where it takes longer.
    pub(crate) fn saying(what: &str, limit: Duration, help: &'static str) -> Watchdog {
        let (alive, ended) = mpsc::channel::<()>();
        let what = what.to_string();
        thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                give_up(&what, limit, help);
            }
        });
        Watchdog { _alive: alive }
    }
}

/// Why a kernel does not end.
const DEADLOCK: &str = "probably a deadlock (a wrong mbarrier count or phase?); run it on the emulator, which names the waiting warps and what they wait for";

fn give_up(what: &str, limit: Duration, help: &str) -> ! {
    leave_saying(&format!(
        "`{what}` did not end within {} s: {help}",
        limit.as_secs_f64()
    ))
}

/// Ends the process with [`HANG_EXIT_CODE`] and this error. Exit handlers of the driver would wait for the kernel, so none are run.
pub(crate) fn leave_saying(error: &str) -> ! {
    let _ = std::io::stderr().write_all(format!("error: {error}\n").as_bytes());
    leave(HANG_EXIT_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    /// Set in the child process that is to hang.
    const CHILD: &str = "TILEKIT_TEST_HANGS";

    #[test]
    fn a_hang_ends_the_process_with_its_code_and_a_line() {
        if std::env::var_os(CHILD).is_some() {
            let _watchdog = Watchdog::start("stuck", Duration::from_millis(20));
            thread::sleep(Duration::from_mins(10));
        }
        let this_test = "cuda::watchdog::tests::a_hang_ends_the_process_with_its_code_and_a_line";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this_test, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.code(), Some(HANG_EXIT_CODE));
        let said = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(
            said.contains("error: `stuck` did not end within 0.02 s"),
            "{said}"
        );
    }

    #[test]
    fn work_that_ends_in_time_is_left_alone() {
        let started = Instant::now();
        drop(Watchdog::start("quick", Duration::from_mins(10)));
        assert!(started.elapsed() < Duration::from_mins(10));
    }
}

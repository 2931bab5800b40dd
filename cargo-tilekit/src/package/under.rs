//! Waiting for a program that starts the harness: a profiler or a debugger, which has the terminal.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Starts a program and waits for its end.
///
/// Ctrl-C reaches every process of the terminal's foreground. A debugger interrupts what it debugs then, and would be left without a terminal
/// if this process ended. So SIGINT and SIGQUIT are passed over here, and SIGTERM, which reaches this process alone, is passed on. The
/// program itself has the handlers of the system: those of this process end where it is started.
///
/// # Errors
/// It cannot be started.
pub(super) fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM])?;
    let signals_end = signals.handle();
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    thread::scope(|scope| {
        let passing = scope.spawn(move || {
            for _ in signals.forever().filter(|signal| *signal == SIGTERM) {
                // One that has ended needs no signal any more.
                let _ = kill_process(pid, Signal::TERM);
            }
        });
        let ended = wait_unreaped(&child);
        signals_end.close();
        // No signal is passed on behind this, and so none to another process that gets the number.
        passing.join().expect("passing signals on does not fail");
        ended
    })?;
    child.wait()
}

/// Waits for the end and leaves the process its number.
fn wait_unreaped(child: &Child) -> io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(child)), options))?;
    Ok(())
}

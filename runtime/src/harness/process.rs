//! What a harness that the tool has started does with its process.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Standard output for requested data alone: what kernels and cases print with `println!` goes to standard error from now on, so that
/// it cannot stand between the lines of a reader.
///
/// # Errors
/// What the operating system says.
pub(super) fn take_stdout() -> io::Result<File> {
    let data = shared_stdout()?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(data)
}

/// Standard output, which everything may write to.
///
/// # Errors
/// What the operating system says.
pub(super) fn shared_stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Ends this process with the one that has started it, which may be killed: nobody would read what it finds out.
pub(super) fn end_with_parent() {
    // Elsewhere than on Linux a harness runs to its end.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
}

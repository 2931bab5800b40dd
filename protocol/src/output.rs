//! Requested data on standard output.

use std::io::{ErrorKind, Write};

use crate::Exit;

/// Ends the program where requested data could not be written: what is missing must not look like success. A reader that
/// has gone away, such as `head`, is no error.
pub fn expect_written(written: std::io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = writeln!(
            std::io::stderr(),
            "error: standard output cannot be written: {error}"
        );
        std::process::exit(Exit::Internal.code().into());
    }
}

//! `snapshot`.

use protocol::Exit;
use protocol::request::{SnapshotMode, Verb};

use crate::cli::{CargoOptions, Snapshot};
use crate::error::Result;
use crate::package::drive;
use crate::terminal::Terminal;

pub(super) fn snapshot(
    arguments: Snapshot,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    let in_ci = std::env::var_os("CI").is_some_and(|value| value != "false" && value != "0");
    let mode = mode(&arguments, in_ci);
    let filters = arguments.selection.kernels;
    drive(Verb::Snapshot { filters, mode }.into(), cargo, terminal)
}

/// CI cannot answer questions: there `--review` is `--check`.
fn mode(arguments: &Snapshot, in_ci: bool) -> SnapshotMode {
    if arguments.accept {
        SnapshotMode::Accept
    } else if arguments.ratchet {
        SnapshotMode::Ratchet
    } else if arguments.review && !in_ci {
        SnapshotMode::Review
    } else {
        SnapshotMode::Check
    }
}

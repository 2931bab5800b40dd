//! A revision of git beside the working tree, for as long as it is compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Exit;
use protocol::Remark;

use crate::cli::CargoOptions;
use crate::error::{Error, Result};
use crate::package::{Metadata, select};
use crate::terminal::Terminal;

/// A work tree of its own, which is removed again.
pub(super) struct Checkout {
    top: PathBuf,
    tree: PathBuf,
    options: CargoOptions,
    _folder: tempfile::TempDir,
}

impl Checkout {
    /// Checks `revision` out. What is built of it goes into a folder of its own below the target folder, and is kept for the next time.
    pub(super) fn of(
        revision: &str,
        cargo: &CargoOptions,
        terminal: &Terminal,
    ) -> Result<Checkout> {
        let metadata = Metadata::read(cargo, terminal.format())?;
        let here = std::env::current_dir().unwrap_or_default();
        let package = select(&metadata, cargo.package.as_deref(), &here)?;
        let root = package.root();
        let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?.trim());
        let within = root.strip_prefix(&top).unwrap_or(Path::new(""));
        let made = |error: std::io::Error| Error::io("made", &std::env::temp_dir(), &error);
        let folder = tempfile::tempdir().map_err(made)?;
        let tree = folder.path().join("tree");
        let place = tree.display().to_string();
        git(
            &top,
            &["worktree", "add", "--quiet", "--detach", &place, revision],
        )?;
        let options = CargoOptions {
            manifest_path: Some(tree.join(within).join("Cargo.toml")),
            target_dir: Some(metadata.target_directory.join("tilekit/revisions")),
            ..cargo.clone()
        };
        Ok(Checkout {
            top,
            tree,
            options,
            _folder: folder,
        })
    }

    /// How its package is built.
    pub(super) fn options(&self) -> &CargoOptions {
        &self.options
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let place = self.tree.display().to_string();
        // What is left is a folder that git's own `worktree prune` forgets.
        let _ = git(&self.top, &["worktree", "remove", "--force", &place]);
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .current_dir(folder)
        .args(arguments)
        .output()
        .map_err(|error| Error::spawn(Exit::Usage, "git", &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("`git {}` failed: {}", arguments.join(" "), said.trim());
    let remark =
        Remark::error(text).with_help("name a revision that `git log` knows, such as git:HEAD~1");
    Err(Error::new(Exit::Usage, remark))
}

//! A revision of git beside the working tree.
//!
//! Its files lie in a folder below the target folder, which is kept: the next revision changes the files that differ, so that cargo
//! builds what they concern and no more. The repository learns nothing of it, since the folder has an index of its own.
//!
//! What is built of it lies beside what is built of the working tree, for most of it, the crates of a registry, is the same. Cargo tells two
//! checkouts of one workspace apart by nothing: their members have equal hashes, and one would be taken for the other. So they are given another
//! profile here, which is part of the hash.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Exit;
use protocol::Remark;

use crate::cli::CargoOptions;
use crate::error::{Error, Result};
use crate::package::{Metadata, Package, select};
use crate::terminal::Terminal;

/// Parts in which rustc compiles a member: a number that nobody chooses, and that has no other effect.
const UNITS: u32 = 253;

/// The files of a revision, which stay those for as long as this lives.
pub(super) struct Checkout {
    options: CargoOptions,
    _lock: File,
}

impl Checkout {
    /// Checks `revision` out. What is built of it is kept beside what is built of the working tree.
    pub(super) fn of(
        revision: &str,
        cargo: &CargoOptions,
        terminal: &Terminal,
    ) -> Result<Checkout> {
        let metadata = Metadata::read(cargo, terminal.format())?;
        let here = std::env::current_dir().unwrap_or_default();
        let package = select(&metadata, cargo.package.as_deref(), &here)?;
        let top = line(&git(package.root(), &["rev-parse", "--show-toplevel"])?);
        let top = PathBuf::from(top);
        let commit = format!("{revision}^{{commit}}");
        let commit = line(&git(&top, &["rev-parse", "--verify", "--quiet", &commit])?);
        let root = package
            .root()
            .canonicalize()
            .map_err(|error| Error::io("read", package.root(), &error))?;
        let within = root.strip_prefix(&top).unwrap_or(Path::new(""));
        let folder = metadata.target_directory.join("tilekit/revisions");
        let folder = folder.join(key(&top));
        let tree = folder.join("tree");
        fs::create_dir_all(&tree).map_err(|error| Error::io("made", &tree, &error))?;
        let lock = locked(&folder.join("lock"))?;
        fill(&top, &folder, &commit)?;
        let mut options = CargoOptions {
            manifest_path: Some(tree.join(within).join("Cargo.toml")),
            target_dir: Some(metadata.target_directory.clone()),
            ..cargo.clone()
        };
        let members = Metadata::read(&options, terminal.format())?.packages;
        let profile = options.named_profile().unwrap_or("dev");
        let setting = |member: &Package| {
            let name = &member.name;
            format!("profile.{profile}.package.\"{name}\".codegen-units={UNITS}")
        };
        options.settings = members.iter().map(setting).collect();
        Ok(Checkout {
            options,
            _lock: lock,
        })
    }

    /// How its package is built.
    pub(super) fn options(&self) -> &CargoOptions {
        &self.options
    }
}

/// The name of the folder of a repository: several may share a target folder.
fn key(top: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    top.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Waits for another comparison in the same repository.
fn locked(path: &Path) -> Result<File> {
    let file = File::create(path).and_then(|file| file.lock().map(|()| file));
    file.map_err(|error| Error::io("locked", path, &error))
}

/// Brings the files of `folder/tree` to those of a commit.
fn fill(top: &Path, folder: &Path, commit: &str) -> Result<()> {
    let mut command = Command::new("git");
    command
        .current_dir(top)
        .env("GIT_INDEX_FILE", folder.join("index"))
        .arg("--work-tree")
        .arg(folder.join("tree"))
        .args(["read-tree", "--reset", "-u", commit]);
    output(command, "read-tree")?;
    Ok(())
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    output(command, &arguments.join(" "))
}

fn output(mut command: Command, what: &str) -> Result<String> {
    let output = command
        .output()
        .map_err(|error| Error::spawn(Exit::Usage, "git", &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = match said.trim() {
        "" => "it knows nothing of that name",
        said => said,
    };
    let remark = Remark::error(format!("`git {what}` failed: {said}"))
        .with_help("name a revision that `git log` knows, such as git:HEAD~1");
    Err(Error::new(Exit::Usage, remark))
}

fn line(said: &str) -> String {
    said.trim_end_matches(['\n', '\r']).to_string()
}

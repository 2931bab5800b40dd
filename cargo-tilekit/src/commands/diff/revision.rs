//! A revision of git beside the working tree.
//!
//! Its files lie in a folder that is kept: the next revision changes the files that differ, so that cargo builds what they concern and no
//! more. The repository learns nothing of it, since the folder has an index of its own. It is in the user's cache: below the working tree,
//! cargo would take a package without a workspace for a member of the working tree's.
//!
//! What is built of it lies beside what is built of the working tree, for most of it, the crates of a registry, is the same. Cargo tells two
//! checkouts of one workspace apart by nothing: their members have equal hashes, and one would be taken for the other. So they are given another
//! profile here, which is part of the hash.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use machine::cache::{CubinCache, digest};
use protocol::Exit;
use protocol::Remark;

use crate::cli::CargoOptions;
use crate::error::{Error, Result};
use crate::package::{Metadata, Package, select};
use crate::terminal::Terminal;

/// Parts in which rustc compiles a member: a number that nobody chooses, and that has no other effect.
const UNITS: u32 = 253;

/// How long the files of a repository are kept that nobody compares with.
const KEPT: Duration = Duration::from_hours(30 * 24);

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
        let kept = kept_folder(&metadata);
        let folder = kept.join(key(&top));
        let tree = folder.join("tree");
        fs::create_dir_all(&tree).map_err(|error| Error::io("made", &tree, &error))?;
        let lock = locked(&folder.join("lock"), || {
            let text = format!(
                "waiting for another comparison of {}, which has the files of its revisions",
                top.display()
            );
            terminal.remark(&Remark::note(text));
        })?;
        // What cannot be removed today is tried again another time.
        let _ = forget_unused(&kept, SystemTime::now());
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

/// Where revisions lie. Without a cache of the user's it is the target folder, which serves packages that have a workspace.
fn kept_folder(metadata: &Metadata) -> PathBuf {
    let cache = CubinCache::of_user();
    let folder = cache.folder().map(|folder| folder.join("revisions"));
    folder.unwrap_or_else(|| metadata.target_directory.join("tilekit/revisions"))
}

/// The name of the folder of a repository: the cache is for all of them.
fn key(top: &Path) -> String {
    let mut key = digest(top.as_os_str().as_encoded_bytes());
    key.truncate(16);
    key
}

/// Waits for another comparison in the same repository, and says so.
fn locked(path: &Path, tell: impl FnOnce()) -> Result<File> {
    let lock = || {
        let file = File::create(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                tell();
                file.lock()?;
            }
            tried => tried?,
        }
        // By which it is known when the files were last used.
        file.set_modified(SystemTime::now())?;
        Ok(file)
    };
    lock().map_err(|error| Error::io("locked", path, &error))
}

/// Removes the files of repositories that nobody has compared with for [`KEPT`].
fn forget_unused(kept: &Path, now: SystemTime) -> std::io::Result<()> {
    for entry in fs::read_dir(kept)? {
        let folder = entry?.path();
        let Ok(lock) = File::open(folder.join("lock")) else {
            continue;
        };
        let used = lock.metadata()?.modified()?;
        let is_old = now.duration_since(used).is_ok_and(|age| age > KEPT);
        if is_old && lock.try_lock().is_ok() {
            fs::remove_dir_all(&folder)?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_repositories_that_nobody_uses_are_removed() {
        let kept = tempfile::tempdir().expect("a folder");
        let of = |name: &str, age: Duration| {
            let folder = kept.path().join(name);
            fs::create_dir_all(folder.join("tree")).expect("a folder");
            let lock = File::create(folder.join("lock")).expect("a file");
            lock.set_modified(SystemTime::now() - age).expect("a time");
            folder
        };
        let (day, month) = (Duration::from_hours(24), KEPT + Duration::from_hours(1));
        let (fresh, old, in_use) = (of("fresh", day), of("old", month), of("in-use", month));
        let user = File::open(in_use.join("lock")).expect("a file");
        user.lock().expect("it is free");
        forget_unused(kept.path(), SystemTime::now()).expect("a folder");
        assert!(fresh.exists() && in_use.exists() && !old.exists());
    }

    #[test]
    fn who_waits_for_another_comparison_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let first = locked(&path, || panic!("nobody has it")).expect("locked");
        let mut first = Some(first);
        let mut is_said = false;
        let second = locked(&path, || {
            is_said = true;
            drop(first.take());
        });
        second.expect("the first one gave it back");
        assert!(is_said);
    }
}

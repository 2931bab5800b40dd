//! Requests of `cargo tilekit` to a harness: a file of JSON, named by an environment variable.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

mod build;
mod inspect;
mod mutate;
mod options;
mod size;
mod trace;
mod tune;
mod verb;

pub use build::{Emit, Language, Replace};
pub use inspect::{Beneath, SourceLine, SourceView, View};
pub use mutate::{Isolation, MutateRequest, TrialMutation, TrialRequest};
pub use options::{ColorChoice, DeviceChoice, OutputOptions};
pub use size::SizeOverride;
pub use trace::{PictureRequest, TraceKeep, TraceLevel, TraceRequest};
pub use tune::{Shard, TuneCandidate, TuneJob, TuneRequest, TuneShare, TuneTask, TuneTimes};
pub use verb::{BenchRequest, Checking, SnapshotMode, Verb};

/// The environment variable that names the file with the [`Request`]. Without it a harness is an ordinary test.
pub const REQUEST_VARIABLE: &str = "TILEKIT_REQUEST";

/// The version of this exchange. The tool and the package that it serves may depend on different releases.
pub const PROTOCOL: u32 = 6;

/// The one field that every version has.
#[derive(Deserialize)]
struct Version {
    protocol: u32,
}

/// A request to a harness, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`] of the asking side.
    pub protocol: u32,
    /// The package that is asked about.
    pub package: PackagePlace,
    /// Format, colours and amount of output.
    pub output: OutputOptions,
    /// The device that the command line names.
    pub device: Option<DeviceChoice>,
    /// `-s name=value`, in order.
    pub sizes: Vec<SizeOverride>,
    /// What to do.
    pub verb: Verb,
}

/// Where a package and its output are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackagePlace {
    /// Its name.
    pub name: String,
    /// The folder of its `Cargo.toml`.
    pub root: PathBuf,
    /// The folder of the workspace's `Cargo.toml`; the compiler names files relative to it.
    pub workspace: PathBuf,
    /// Where artefacts go: `target/tilekit/<profile>/<package>`.
    pub artifacts: PathBuf,
    /// Where kernels edited by hand are kept: `target/tilekit/override/<package>`.
    pub overrides: PathBuf,
}

impl Request {
    /// Reads the request that the environment names; `None` where there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or one of another version.
    pub fn from_environment() -> Option<Result<Request, String>> {
        let path = std::env::var_os(REQUEST_VARIABLE)?;
        Some(Request::read(Path::new(&path)))
    }

    fn read(path: &Path) -> Result<Request, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("the request {} cannot be read: {error}", path.display()))?;
        // That the file is gone tells the asking side that a harness was there to read it.
        fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let found = serde_json::from_str::<Version>(&text).map_or(0, |version| version.protocol);
        if found != PROTOCOL {
            return Err(format!(
                "cargo-tilekit speaks version {found} of the harness protocol and this package's `tilekit` speaks \
                 {PROTOCOL}; install the cargo-tilekit of the same release as the package's `tilekit`"
            ));
        }
        serde_json::from_str(&text)
            .map_err(|error| format!("the request cannot be understood: {error}"))
    }

    /// Writes the request as a file for a harness to read.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_string(self).expect("a request of strings and numbers");
        fs::write(path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            protocol: PROTOCOL,
            package: PackagePlace {
                name: "mine".into(),
                root: "/w/mine".into(),
                workspace: "/w".into(),
                artifacts: "/w/target/tilekit/dev/mine".into(),
                overrides: "/w/target/tilekit/override/mine".into(),
            },
            output: OutputOptions::default(),
            device: Some(DeviceChoice::Emulator),
            sizes: vec!["n=3,5".parse().expect("a size")],
            verb: Verb::Build {
                filters: vec!["add".into()],
                emit: vec![Emit::Ir, Emit::Cubin],
                timings: true,
                replace: Some(Replace::Ptx("a.ptx".into())),
            },
        }
    }

    #[test]
    fn a_request_reads_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("request.json");
        request().write(&path).expect("a file");
        assert_eq!(Request::read(&path), Ok(request()));
        assert!(!path.exists(), "it is taken away");
    }

    #[test]
    fn a_request_of_another_release_says_what_to_install() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("request.json");
        Request {
            protocol: 7,
            ..request()
        }
        .write(&path)
        .expect("a file");
        let error = Request::read(&path).expect_err("another version");
        assert!(
            error.contains("version 7") && error.contains("install"),
            "{error}"
        );
    }
}

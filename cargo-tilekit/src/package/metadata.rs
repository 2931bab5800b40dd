//! What cargo knows of a workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Exit;
use protocol::{MessageFormat, Remark};
use serde::Deserialize;

use crate::cli::CargoOptions;
use crate::error::{Error, Result};
use crate::foreign::run_cargo;

/// A workspace, as `cargo metadata --no-deps` reports it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    /// Its members.
    pub(crate) packages: Vec<Package>,
    /// The folder of its `Cargo.toml`.
    pub(crate) workspace_root: PathBuf,
    /// Where cargo builds.
    pub(crate) target_directory: PathBuf,
    /// `[workspace.metadata]`.
    #[serde(default, rename = "metadata")]
    pub(crate) custom: Option<CustomMetadata>,
}

/// The part of `[workspace.metadata]` that concerns us.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct CustomMetadata {
    #[serde(default)]
    pub(crate) tilekit: Option<WorkspaceConfig>,
}

/// `[workspace.metadata.tilekit]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct WorkspaceConfig {
    /// The package that is meant where no other is.
    pub(crate) default_package: String,
}

/// One member.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its identity, for `cargo build --package`.
    pub(crate) id: String,
    /// Its `Cargo.toml`.
    pub(crate) manifest_path: PathBuf,
    /// What it depends on.
    pub(crate) dependencies: Vec<Dependency>,
    /// What cargo builds of it.
    pub(crate) targets: Vec<Target>,
}

/// A dependency, by the name in the registry.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
}

/// One thing that cargo builds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

/// Name of the test target that runs a package's kernels.
pub(crate) const STUB: &str = "tilekit";

impl Package {
    /// The folder of its `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        self.manifest_path
            .parent()
            .expect("a manifest is in a folder")
    }

    /// The library's name in Rust.
    pub(crate) fn library(&self) -> Option<String> {
        let is_library = |kind: &String| matches!(kind.as_str(), "lib" | "rlib" | "dylib");
        let library = self
            .targets
            .iter()
            .find(|target| target.kind.iter().any(is_library))?;
        Some(library.name.replace('-', "_"))
    }

    /// Has it the test target `tilekit`?
    pub(crate) fn has_stub(&self) -> bool {
        self.targets
            .iter()
            .any(|target| target.name == STUB && target.kind.iter().any(|kind| kind == "test"))
    }

    /// Does it depend on the crate `tilekit`?
    pub(crate) fn uses_tilekit(&self) -> bool {
        self.dependencies
            .iter()
            .any(|dependency| dependency.name == "tilekit")
    }
}

/// The cargo that called us, else the one on the path.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

impl Metadata {
    /// Asks cargo.
    ///
    /// # Errors
    /// [`Exit::MetadataFailed`]; cargo says why, unless a machine listens: then the error does.
    pub(crate) fn read(options: &CargoOptions, format: MessageFormat) -> Result<Metadata> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        if let Some(path) = &options.manifest_path {
            command.arg("--manifest-path").arg(path);
        }
        if options.offline {
            command.arg("--offline");
        }
        let json = run_cargo(&mut command, "cargo metadata", Exit::MetadataFailed, format)?;
        let mut metadata = Metadata::parse(&json)?;
        if let Some(target) = &options.target_dir {
            metadata.target_directory = std::path::absolute(target)
                .map_err(|error| Error::io("used as target folder", target, &error))?;
        }
        Ok(metadata)
    }

    pub(super) fn parse(json: &[u8]) -> Result<Metadata> {
        serde_json::from_slice(json).map_err(|error| {
            let message = format!("what `cargo metadata` says cannot be understood: {error}");
            let help = "check `[workspace.metadata.tilekit]`, whose only key is `default-package`, and cargo's version";
            Error::new(Exit::MetadataFailed, Remark::error(message).with_help(help))
        })
    }
}

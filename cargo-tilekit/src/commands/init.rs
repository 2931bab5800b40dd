//! `init` and `new`: what a package needs so that its kernels are found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Exit;
use protocol::Remark;
use toml::{Table, Value};

use crate::cli::{CargoOptions, New};
use crate::error::{Error, Result};
use crate::foreign::run_cargo;
use crate::package::{Metadata, Package, cargo_program, select};
use crate::terminal::Terminal;

const LIBRARY: &str = include_str!("../../templates/lib.rs");

/// In a `Cargo.toml`, so that `cargo test --test tilekit` runs the harness.
const TEST_TARGET: &str = "\n[[test]]\nname = \"tilekit\"\nharness = false\n";

/// In the workspace's `Cargo.toml`; cargo ignores profiles elsewhere.
const PROFILE: &str = "\n# The emulator runs kernels in every test; unoptimised it is fifty times slower.\n\
                       [profile.dev.package.tilekit-emulator]\nopt-level = 3\n\
                       # References of matrix products.\n\
                       [profile.dev.package.matrixmultiply]\nopt-level = 3\n";

pub(super) fn init(cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let metadata = Metadata::read(cargo, terminal.format())?;
    let here =
        std::env::current_dir().map_err(|error| Error::io("read", Path::new("."), &error))?;
    let folder = cargo
        .manifest_path
        .as_deref()
        .and_then(Path::parent)
        .map_or(here.clone(), |path| here.join(path));
    let package = select(&metadata, cargo.package.as_deref(), &folder)?;
    prepare(&metadata, package, terminal)
}

/// Writes what is missing, and says what.
fn prepare(metadata: &Metadata, package: &Package, terminal: &Terminal) -> Result<Exit> {
    let stub = package.root().join("tests/tilekit.rs");
    let mut written = Vec::new();
    if !stub.exists() {
        let library = package.library().ok_or_else(|| {
            let message = format!(
                "package `{}` has no library whose kernels a harness could run",
                package.name
            );
            Error::new(
                Exit::NothingSelected,
                Remark::error(message).with_help("move the kernels to src/lib.rs"),
            )
        })?;
        let folder = package.root().join("tests");
        fs::create_dir_all(&folder).map_err(|error| Error::io("made", &folder, &error))?;
        let text = format!(
            "//! Runs the kernels of `{library}`: with `cargo test`, and for `cargo tilekit`.\n\ntilekit::harness!({library});\n"
        );
        write(&stub, &text)?;
        written.push(stub);
    }
    if append_unless(&package.manifest_path, TEST_TARGET, has_test_target)? {
        written.push(package.manifest_path.clone());
    }
    let root = metadata.workspace_root.join("Cargo.toml");
    if append_unless(&root, PROFILE, has_profile)? && !written.contains(&root) {
        written.push(root);
    }
    if written.is_empty() {
        terminal.remark(&Remark::note(format!(
            "package `{}` has all it needs",
            package.name
        )));
    }
    for path in written {
        terminal.print(&format!("{}\n", path.display()));
    }
    Ok(Exit::Success)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::io("written", path, &error))
}

/// Adds `section` at the end of a manifest unless it is there: the rest of the file, comments included, stays as it is.
fn append_unless(path: &Path, section: &str, is_there: fn(&Table) -> bool) -> Result<bool> {
    let text = fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
    let table: Table = text.parse().map_err(|error| {
        let message = format!("{} cannot be understood: {error}", path.display());
        Error::new(Exit::MetadataFailed, Remark::error(message))
    })?;
    if is_there(&table) {
        return Ok(false);
    }
    write(path, &format!("{}\n{section}", text.trim_end()))?;
    Ok(true)
}

fn has_test_target(manifest: &Table) -> bool {
    let tests = manifest.get("test").and_then(Value::as_array);
    tests.into_iter().flatten().any(|test| {
        test.get("name").and_then(Value::as_str) == Some("tilekit")
            && test.get("harness").and_then(Value::as_bool) == Some(false)
    })
}

fn has_profile(manifest: &Table) -> bool {
    let dev = manifest
        .get("profile")
        .and_then(|profiles| profiles.get("dev"));
    dev.and_then(|dev| dev.get("package")?.get("tilekit-emulator"))
        .is_some()
}

/// Makes a package with `cargo new`, gives it a kernel with its case, and prepares it.
pub(super) fn new(arguments: &New, terminal: &Terminal) -> Result<Exit> {
    let runtime = runtime_folder(arguments.tilekit.as_deref())?;
    let mut command = Command::new(cargo_program());
    command
        .args(["new", "--lib", "--quiet"])
        .arg(&arguments.path);
    run_cargo(
        &mut command,
        "cargo new",
        Exit::MetadataFailed,
        terminal.format(),
    )?;
    write(&arguments.path.join("src/lib.rs"), LIBRARY)?;
    let manifest = arguments.path.join("Cargo.toml");
    let dependency = format!(
        "tilekit = {{ path = {} }}\n",
        Value::from(runtime.display().to_string())
    );
    let text =
        fs::read_to_string(&manifest).map_err(|error| Error::io("read", &manifest, &error))?;
    write(&manifest, &format!("{}\n{dependency}", text.trim_end()))?;
    let options = CargoOptions {
        manifest_path: Some(manifest.clone()),
        ..CargoOptions::default()
    };
    let metadata = Metadata::read(&options, terminal.format())?;
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let folder = folder
        .canonicalize()
        .map_err(|error| Error::io("read", folder, &error))?;
    let package = select(&metadata, None, &folder)?;
    prepare(&metadata, package, terminal)?;
    let next = format!("next: cd {} && cargo tilekit run", arguments.path.display());
    terminal.remark(&Remark::note(next));
    Ok(Exit::Success)
}

/// Where the crate `tilekit` is: as named, else in the checkout that this tool was built from.
fn runtime_folder(named: Option<&Path>) -> Result<PathBuf> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime");
    let folder = named.unwrap_or(&checkout);
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap_or_default();
    if !text.contains("name = \"tilekit\"") {
        return Err(Error::usage(
            format!("there is no crate `tilekit` in {}", folder.display()),
            "say where it is with --tilekit PATH: the folder `runtime` of a checkout",
        ));
    }
    folder
        .canonicalize()
        .map_err(|error| Error::io("read", folder, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_appended_once_and_the_rest_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("Cargo.toml");
        fs::write(&path, "[package] # mine\nname = \"x\"\n\n\n").expect("a file");
        assert!(append_unless(&path, TEST_TARGET, has_test_target).expect("an edit"));
        assert!(append_unless(&path, PROFILE, has_profile).expect("an edit"));
        assert!(!append_unless(&path, TEST_TARGET, has_test_target).expect("no edit"));
        assert!(!append_unless(&path, PROFILE, has_profile).expect("no edit"));
        let text = fs::read_to_string(&path).expect("a file");
        assert!(
            text.starts_with("[package] # mine\nname = \"x\"\n\n[[test]]\n"),
            "{text}"
        );
    }

    #[test]
    fn a_folder_without_the_crate_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = runtime_folder(Some(folder.path())).expect_err("no crate");
        assert_eq!(error.exit(), Exit::Usage);
    }
}

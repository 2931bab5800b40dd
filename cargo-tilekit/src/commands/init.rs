//! `init` and `new`: what a package needs so that its kernels are found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Exit;
use protocol::Remark;
use serde_json::json;

use super::manifest::Manifest;
use crate::cli::{CargoOptions, New};
use crate::error::{Error, Result};
use crate::foreign::run_cargo;
use crate::package::{Metadata, Package, cargo_program, select};
use crate::terminal::Terminal;

const LIBRARY: &str = include_str!("../../templates/lib.rs");

pub(super) fn init(cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let metadata = Metadata::read(cargo, terminal.format())?;
    let here =
        std::env::current_dir().map_err(|error| Error::io("read", Path::new("."), &error))?;
    let folder = cargo
        .manifest_path
        .as_deref()
        .and_then(Path::parent)
        .map_or(here.clone(), |path| here.join(path));
    let package = chosen(&metadata, cargo.package.as_deref(), &folder)?;
    prepare(&metadata, package, terminal)
}

/// The package that is to have kernels: as named, else that of the folder, which need not depend on `tilekit` yet.
fn chosen<'m>(metadata: &'m Metadata, named: Option<&str>, folder: &Path) -> Result<&'m Package> {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = whole(folder);
    let is_meant = |package: &&Package| match named {
        Some(name) => package.name == name,
        None => folder.starts_with(whole(package.root())),
    };
    let meant = metadata.packages.iter().filter(is_meant);
    match meant.max_by_key(|package| package.root().as_os_str().len()) {
        Some(package) if !package.uses_tilekit() => Ok(package),
        _ => select(metadata, named, &folder),
    }
}

/// Writes what is missing, and says what. Nothing is written unless everything can be.
fn prepare(metadata: &Metadata, package: &Package, terminal: &Terminal) -> Result<Exit> {
    let stub = package.root().join("tests/tilekit.rs");
    let text = stub_text(package, &stub)?;
    let dependency = missing_dependency(package)?;
    let root = metadata.workspace_root.join("Cargo.toml");
    let mut manifests = vec![Manifest::read(&package.manifest_path)?];
    manifests[0].add_test_target()?;
    if let Some(runtime) = dependency {
        manifests[0].add_dependency(&runtime)?;
    }
    if root == package.manifest_path {
        manifests[0].add_profile()?;
    } else {
        manifests.push(Manifest::read(&root)?);
        manifests[1].add_profile()?;
    }
    let mut written = Vec::new();
    if let Some(text) = text {
        let folder = package.root().join("tests");
        fs::create_dir_all(&folder).map_err(|error| Error::io("made", &folder, &error))?;
        write(&stub, &text)?;
        written.push(stub);
    }
    for manifest in manifests {
        written.extend(manifest.write()?);
    }
    if written.is_empty() {
        terminal.remark(&Remark::note(format!(
            "package `{}` has all it needs",
            package.name
        )));
    }
    for path in written {
        terminal.tell(
            &format!("{}\n", path.display()),
            || json!({ "reason": "tilekit-artifact", "kind": "init", "path": path }),
        );
    }
    Ok(Exit::Success)
}

/// The crate `tilekit`, unless the package depends on it.
fn missing_dependency(package: &Package) -> Result<Option<PathBuf>> {
    if package.uses_tilekit() {
        return Ok(None);
    }
    runtime_folder(None).map(Some)
}

/// What belongs into `stub`, unless it is there.
fn stub_text(package: &Package, stub: &Path) -> Result<Option<String>> {
    if stub.exists() {
        let text = fs::read_to_string(stub).map_err(|error| Error::io("read", stub, &error))?;
        if text.contains("harness!") {
            return Ok(None);
        }
        return Err(Error::usage(
            format!("{} is there and is no harness of TileKit", stub.display()),
            "rename that test: the test target `tilekit` is the harness, and runs as a program of its own",
        ));
    }
    let library = package.library().ok_or_else(|| {
        let message = format!(
            "package `{}` has no library whose kernels a harness could run",
            package.name
        );
        let remark = Remark::error(message).with_help("move the kernels to src/lib.rs");
        Error::new(Exit::NothingSelected, remark)
    })?;
    Ok(Some(format!(
        "//! Runs the kernels of `{library}`: with `cargo test`, and for `cargo tilekit`.\n\ntilekit::harness!({library});\n"
    )))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::io("written", path, &error))
}

/// Makes a package with `cargo new`, gives it a kernel with its case, and prepares it.
pub(super) fn new(arguments: &New, terminal: &Terminal) -> Result<Exit> {
    let runtime = runtime_folder(arguments.tilekit.as_deref())?;
    let name = package_name(arguments)?;
    let mut command = Command::new(cargo_program());
    command
        .args(["new", "--lib", "--quiet", "--name", &name])
        .arg(&arguments.path);
    run_cargo(
        &mut command,
        "cargo new",
        Exit::MetadataFailed,
        terminal.format(),
    )?;
    write(&arguments.path.join("src/lib.rs"), LIBRARY)?;
    let manifest = arguments.path.join("Cargo.toml");
    let mut made = Manifest::read(&manifest)?;
    made.add_dependency(&runtime)?;
    made.write()?;
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
    let next = format!(
        "next: {}cd {} && cargo tilekit run",
        installing().unwrap_or_default(),
        shell_word(&arguments.path)
    );
    terminal.remark(&Remark::note(next));
    Ok(Exit::Success)
}

/// What makes `cargo tilekit` a command, unless it is one.
fn installing() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_user = std::env::home_dir().map(|home| home.join(".cargo/bin"));
    let mut folders = std::env::split_paths(&path).chain(of_user);
    let program = format!("cargo-tilekit{}", std::env::consts::EXE_SUFFIX);
    if folders.any(|folder| folder.join(&program).is_file()) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    Some(format!("cargo install --path {} && ", shell_word(source)))
}

/// The name of a new package: as given, else that of its folder.
///
/// # Errors
/// One with other letters than ASCII: the harness names the library as a crate, and rustc takes no other there.
fn package_name(arguments: &New) -> Result<String> {
    const HELP: &str = "give another one with --name, such as --name my-kernels";
    let of_folder = || Some(arguments.path.file_name()?.to_string_lossy().into_owned());
    let Some(name) = arguments.name.clone().or_else(of_folder) else {
        let message = format!("the folder {} has no name", arguments.path.display());
        return Err(Error::usage(message, HELP));
    };
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name == "tilekit" {
        let message = "a package that depends on `tilekit` cannot be called so too";
        return Err(Error::usage(message, HELP));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_letter) {
        let message = format!("`{name}` cannot be the name of a package");
        let why = "it begins with an ASCII letter, and has ASCII letters, digits, `-` and `_`";
        let remark = Remark::error(message).with_note(why).with_help(HELP);
        return Err(Error::new(Exit::Usage, remark));
    }
    Ok(name)
}

/// A path as one word of a shell's line.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+@%:,".contains(c);
    if text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
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
    fn a_folder_without_the_crate_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = runtime_folder(Some(folder.path())).expect_err("no crate");
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn a_package_is_called_as_its_folder_or_as_said() {
        let name = |path: &str, name: Option<&str>| {
            package_name(&New {
                path: path.into(),
                name: name.map(str::to_owned),
                tilekit: None,
            })
            .map_err(|error| error.exit())
        };
        assert_eq!(name("some where/my-kernels", None), Ok("my-kernels".into()));
        assert_eq!(name("très bien", Some("mine")), Ok("mine".into()));
        for wrong in ["kérnels", "my kernels", "3d", "..", "/", "tilekit"] {
            assert_eq!(name(wrong, None), Err(Exit::Usage), "{wrong}");
        }
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (path, word) in [
            ("a/my-kernels", "a/my-kernels"),
            ("très/bien", "très/bien"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(Path::new(path)), word);
        }
    }
}

//! Telling a harness what to do.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use protocol::Exit;
use protocol::config::Config;
use protocol::request::{
    DeviceChoice, OutputOptions, PROTOCOL, PackagePlace, REQUEST_VARIABLE, Request, SizeOverride,
    Verb,
};
use protocol::{MessageFormat, Remark};
use tempfile::NamedTempFile;

use super::{Metadata, Package, build, select, under};
use crate::cli::CargoOptions;
use crate::error::{Error, Result};
use crate::terminal::Terminal;

/// What is wanted of a package's kernels.
pub(crate) struct Order {
    /// What to do.
    pub(crate) verb: Verb,
    /// On which device, if the command line says.
    pub(crate) device: Option<DeviceChoice>,
    /// Sizes of the command line.
    pub(crate) sizes: Vec<SizeOverride>,
    /// The profile unless the command line names one.
    pub(crate) profile: &'static str,
    /// The program, with its arguments, that starts the harness: a profiler or a debugger. Without one the tool does.
    pub(crate) under: Vec<String>,
}

impl From<Verb> for Order {
    fn from(verb: Verb) -> Order {
        Order {
            verb,
            device: None,
            sizes: Vec::new(),
            profile: "dev",
            under: Vec::new(),
        }
    }
}

/// Finds the package, builds its harness and has it execute the request.
///
/// # Errors
/// No package, one without kernels or with a mistake in its configuration, or one that does not compile.
pub(crate) fn drive(order: Order, options: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let output = terminal.for_harness();
    Ok(send(order, options, terminal, output, Stdio::inherit())?.0)
}

/// The same, but what the harness prints comes back, as JSON.
///
/// # Errors
/// As for [`drive`].
pub(crate) fn ask(
    order: Order,
    options: &CargoOptions,
    terminal: &Terminal,
) -> Result<(Exit, String)> {
    let output = OutputOptions {
        format: MessageFormat::Json,
        ..terminal.for_harness()
    };
    send(order, options, terminal, output, Stdio::piped())
}

fn send(
    order: Order,
    options: &CargoOptions,
    terminal: &Terminal,
    output: OutputOptions,
    stdout: Stdio,
) -> Result<(Exit, String)> {
    let metadata = Metadata::read(options, terminal.format())?;
    let package = select(
        &metadata,
        options.package.as_deref(),
        &start_folder(options)?,
    )?;
    // The harness reads it again; a mistake in it need not wait until that is compiled.
    Config::of_package(package.root())?;
    let profile = options.named_profile().unwrap_or(order.profile);
    let harness = build::build(&metadata, package, profile, options, terminal)?;
    let Order {
        verb,
        device,
        sizes,
        under,
        ..
    } = order;
    let request = Request {
        protocol: PROTOCOL,
        package: place(&metadata, package, profile),
        output,
        device,
        sizes,
        verb,
    };
    let file = written(&request)?;
    match &under[..] {
        [] => execute(&harness, file.path(), package, stdout),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&harness);
            let exit = execute_under(program, &mut command, file.path(), terminal)?;
            Ok((exit, String::new()))
        }
    }
}

/// Where the search for a package begins: with its manifest if that is named, else in the current folder.
fn start_folder(options: &CargoOptions) -> Result<std::path::PathBuf> {
    let here = Path::new(".");
    let folder = options.manifest_path.as_deref().and_then(Path::parent);
    let folder = folder
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(here);
    folder
        .canonicalize()
        .map_err(|error| Error::io("read", folder, &error))
}

fn place(metadata: &Metadata, package: &Package, profile: &str) -> PackagePlace {
    let folder = metadata.target_directory.join("tilekit");
    PackagePlace {
        name: package.name.clone(),
        root: package.root().to_path_buf(),
        workspace: metadata.workspace_root.clone(),
        artifacts: folder.join(profile).join(&package.name),
        overrides: folder.join("override").join(&package.name),
    }
}

/// A file and no folder: the harness takes it away, and so nothing is left if both are interrupted.
fn written(request: &Request) -> Result<NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix("tilekit-request-")
        .suffix(".json")
        .tempfile()
        .map_err(|error| Error::io("made", &std::env::temp_dir(), &error))?;
    let written = request.write(file.path());
    written.map_err(|error| Error::io("written", file.path(), &error))?;
    Ok(file)
}

fn execute(
    harness: &Path,
    request: &Path,
    package: &Package,
    stdout: Stdio,
) -> Result<(Exit, String)> {
    let mut command = Command::new(harness);
    let child = command
        .env(REQUEST_VARIABLE, request)
        .stdout(stdout)
        .spawn();
    let ended = child.and_then(std::process::Child::wait_with_output);
    let ended = ended.map_err(|error| Error::spawn(Exit::Internal, harness, &error))?;
    if was_read(request) {
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        return Ok((exit_of(ended.status)?, said));
    }
    Err(deaf(package))
}

/// A harness takes the request away when it has read it.
fn was_read(request: &Path) -> bool {
    !request.exists()
}

/// Has another program start the harness. It has standard output, as the terminal.
fn execute_under(
    program: &str,
    command: &mut Command,
    request: &Path,
    terminal: &Terminal,
) -> Result<Exit> {
    let ended = under::run(command.env(REQUEST_VARIABLE, request));
    let status = ended.map_err(|error| Error::spawn(Exit::Usage, Path::new(program), &error))?;
    let was_read = was_read(request);
    let exit = exit_of_other(program, status, was_read)?;
    if !was_read {
        // A debugger may be left before it has started anything.
        let text = format!("`{program}` ended without running a kernel");
        let help = "a program behind --under starts the one behind its own arguments, as `cuda-gdb --args` does";
        terminal.remark(&Remark::note(text).with_help(help));
    }
    Ok(exit)
}

/// What another program ended with: the harness's own code, if it passes that on.
fn exit_of_other(program: &str, status: ExitStatus, was_read: bool) -> Result<Exit> {
    let is_harness = was_read || status.success();
    let known = status.code().and_then(Exit::of_code);
    known.filter(|_| is_harness).ok_or_else(|| {
        let remark = Remark::error(format!("`{program}` ended with {status}"));
        let exit = if was_read {
            Exit::KernelFailed
        } else {
            Exit::Usage
        };
        Error::new(exit, remark)
    })
}

/// The stub was compiled into something that is no harness of ours.
fn deaf(package: &Package) -> Error {
    let remark = Remark::error(format!("tests/tilekit.rs of package `{}` is no harness of TileKit", package.name))
        .with_note("it was built and started, and did not read what it was asked to do")
        .with_help(
            "Cargo.toml needs `[[test]]` with `name = \"tilekit\"` and `harness = false`, and the file needs \
             `tilekit::harness!(your_crate);`: `cargo tilekit init` writes both",
        );
    Error::new(Exit::Usage, remark)
}

fn exit_of(status: ExitStatus) -> Result<Exit> {
    status.code().and_then(Exit::of_code).ok_or_else(|| {
        let remark = Remark::error(format!("the harness ended unexpectedly: {status}"));
        Error::new(
            Exit::Internal,
            remark.with_help("this is a bug of TileKit, or the machine ran out of memory"),
        )
    })
}

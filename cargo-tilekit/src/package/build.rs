//! Compiling a harness with cargo.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use protocol::Exit;
use protocol::{MessageFormat, Remark};
use serde::Deserialize;

use super::metadata::STUB;
use super::{Metadata, Package, cargo_program, generated};
use crate::cli::CargoOptions;
use crate::error::{Error, Result};
use crate::foreign::cargo_remark;
use crate::terminal::Terminal;

/// Compiles the harness of `package` with `profile` and returns the program.
///
/// # Errors
/// [`Exit::BuildFailed`]; cargo has shown why, or the error says it where a machine listens.
pub(super) fn build(
    metadata: &Metadata,
    package: &Package,
    profile: &str,
    options: &CargoOptions,
    terminal: &Terminal,
) -> Result<PathBuf> {
    let program = cargo_program();
    let mut command = Command::new(&program);
    command.arg("build");
    if package.has_stub() {
        command.arg("--manifest-path").arg(&package.manifest_path);
        command.args(["--package", &package.id, "--test", STUB]);
        add_features(&mut command, options);
    } else {
        command
            .arg("--manifest-path")
            .arg(generated::write(metadata, package, options)?);
    }
    command.args(["--profile", profile]);
    command.arg("--target-dir").arg(&metadata.target_directory);
    let settings = optimised(profile);
    for setting in settings.iter().chain(&options.settings) {
        command.args(["--config", setting]);
    }
    add_output_flags(&mut command, options, terminal);
    if let Some(remark) = first_build(metadata, package, profile) {
        terminal.remark(&remark);
    }
    let ended = run(command, terminal)
        .map_err(|error| Error::spawn(Exit::BuildFailed, &program, &error))?;
    if !ended.status.success() {
        return Err(match ended.said {
            Some(said) => Error::new(Exit::BuildFailed, cargo_remark("cargo build", &said)),
            None => Error::Said(Exit::BuildFailed),
        });
    }
    ended.program.ok_or_else(|| {
        Error::new(
            Exit::Internal,
            Remark::error("cargo built the harness and did not say where the program is"),
        )
    })
}

/// What is said before the first build of a profile, which takes minutes and not a second as those after it.
fn first_build(metadata: &Metadata, package: &Package, profile: &str) -> Option<Remark> {
    let has_tilekit = |profile: &str| {
        let folder = match profile {
            "dev" | "test" => "debug",
            "bench" => "release",
            other => other,
        };
        let folder = metadata.target_directory.join(folder).join("deps");
        let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| {
            file.file_name()
                .to_string_lossy()
                .starts_with("libtilekit-")
        })
    };
    if has_tilekit(profile) {
        return None;
    }
    let remark = Remark::note(format!(
        "compiling TileKit and package `{}` in the profile `{profile}` for the first time, which takes 1 to 4 minutes; later builds \
         take seconds",
        package.name
    ));
    Some(if profile != "dev" && has_tilekit("dev") {
        remark.with_note(format!(
            "what was compiled in `dev` is kept apart: `{profile}` is optimised otherwise"
        ))
    } else {
        remark
    })
}

/// What a build came to.
struct Ended {
    status: ExitStatus,
    /// The program that cargo built.
    program: Option<PathBuf>,
    /// What cargo said on standard error, if it is not shown as it comes.
    said: Option<String>,
}

/// A machine gets an error as JSON, and so what cargo says in its own words is kept until it has ended.
fn run(mut command: Command, terminal: &Terminal) -> std::io::Result<Ended> {
    command.stdout(Stdio::piped());
    if terminal.format() == MessageFormat::Json {
        command.stderr(Stdio::piped());
    }
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().expect("standard output is piped");
    // Both are read at once, since a pipe that is not drained blocks the build.
    let listener = child.stderr.take().map(|stderr| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            BufReader::new(stderr).read_to_end(&mut said).map(|_| said)
        })
    });
    let program = read_messages(BufReader::new(stdout), terminal);
    let status = child.wait()?;
    let said = listener.map(|listener| listener.join().expect("reading does not panic"));
    let said = said.transpose()?;
    Ok(Ended {
        status,
        program,
        said: said.map(|said| String::from_utf8_lossy(&said).into_owned()),
    })
}

fn add_features(command: &mut Command, options: &CargoOptions) {
    for features in &options.features {
        command.args(["--features", features]);
    }
    if options.all_features {
        command.arg("--all-features");
    }
    if options.no_default_features {
        command.arg("--no-default-features");
    }
}

fn add_output_flags(command: &mut Command, options: &CargoOptions, terminal: &Terminal) {
    // Cargo draws its own diagnostics unless a machine wants them; the program's path comes as JSON either way.
    let format = match terminal.format() {
        MessageFormat::Human => "json-render-diagnostics",
        MessageFormat::Short => "json-render-diagnostics,json-diagnostic-short",
        MessageFormat::Json => "json",
    };
    command.args(["--message-format", format, "--color", terminal.color_flag()]);
    let flags = [
        (options.locked, "--locked"),
        (options.offline, "--offline"),
        (terminal.is_quiet(), "--quiet"),
    ];
    command.args(
        flags
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, flag)| flag),
    );
}

/// The emulator and the products of references, unoptimised, are some fifty times slower; release builds optimise them
/// anyway.
fn optimised(profile: &str) -> Vec<String> {
    let is_plain = profile
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if !is_plain || profile == "release" {
        return Vec::new();
    }
    // The profile that `--profile dev` and `--profile test` read is called so in the manifest too.
    ["tilekit-emulator", "matrixmultiply"]
        .map(|package| format!("profile.{profile}.package.{package}.opt-level=3"))
        .into()
}

/// A line of `cargo build --message-format json`.
#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
}

/// The last program that cargo names: the harness is what was requested, and everything else comes before it.
fn read_messages(lines: impl BufRead, terminal: &Terminal) -> Option<PathBuf> {
    let mut found = None;
    for line in lines.lines().map_while(std::io::Result::ok) {
        let Ok(message) = serde_json::from_str::<Message>(&line) else {
            continue;
        };
        if message.reason == "compiler-message" && terminal.format() == MessageFormat::Json {
            terminal.print(&format!("{line}\n"));
        }
        found = message.executable.or(found);
    }
    found
}

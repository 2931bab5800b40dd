//! `doctor`: what is ready, what is not, and how to fix it. It needs no GPU.

use std::path::Path;
use std::process::Command;

use machine::cache::CubinCache;
use machine::driver::{Context, DeviceFacts};
use machine::ptxas::{
    Candidate, Environment, Fetchable, NVDISASM, PTXAS, fetched_folder, find_nvdisasm,
};
use protocol::Exit;
use protocol::MessageFormat;
use protocol::config::Config;

use crate::cli::{CargoOptions, Doctor};
use crate::error::Error;
use crate::package::{Metadata, Package, select};
use crate::terminal::Terminal;

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Ready.
    Good,
    /// Something can be done without it.
    Partial,
    /// Nothing works until it is mended.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    health: Health,
    what: &'static str,
    fact: String,
    fix: Option<String>,
}

impl Finding {
    fn good(what: &'static str, fact: impl Into<String>) -> Finding {
        Finding {
            health: Health::Good,
            what,
            fact: fact.into(),
            fix: None,
        }
    }

    fn partial(what: &'static str, fact: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            health: Health::Partial,
            what,
            fact: fact.into(),
            fix: Some(fix.into()),
        }
    }

    fn broken(what: &'static str, fact: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            health: Health::Broken,
            what,
            fact: fact.into(),
            fix: Some(fix.into()),
        }
    }
}

pub(super) fn doctor(arguments: &Doctor, cargo: &CargoOptions, terminal: &Terminal) -> Exit {
    let gpu = Context::open(0).map(|context| context.facts().clone());
    let driver = gpu.as_ref().ok().and_then(|facts| facts.driver_version);
    let environment = Environment::of_process();
    let mut findings = vec![rust(), graphics(gpu)];
    if arguments.fix {
        findings.extend(fetched(&environment, driver, fetched_folder().as_deref()));
    }
    findings.push(assembler(&environment, driver));
    findings.push(disassembler(&environment));
    findings.push(cublas());
    findings.push(nccl());
    findings.push(counters());
    findings.push(cache(&CubinCache::of_user()));
    findings.extend(package(cargo, terminal.format()));
    for finding in &findings {
        terminal.print(&line(finding, terminal.format()));
    }
    let is_broken = findings
        .iter()
        .any(|finding| finding.health == Health::Broken);
    if is_broken {
        Exit::Usage
    } else {
        Exit::Success
    }
}

fn line(finding: &Finding, format: MessageFormat) -> String {
    let (word, color) = match finding.health {
        Health::Good => ("ok", anstyle::AnsiColor::Green),
        Health::Partial => ("warn", anstyle::AnsiColor::Yellow),
        Health::Broken => ("fail", anstyle::AnsiColor::Red),
    };
    let Finding {
        what, fact, fix, ..
    } = finding;
    if format == MessageFormat::Json {
        let object = serde_json::json!({
            "reason": "tilekit-doctor", "status": word, "what": what, "fact": fact, "fix": fix,
        });
        return format!("{object}\n");
    }
    let style = anstyle::Style::new().bold().fg_color(Some(color.into()));
    let fix = fix
        .as_ref()
        .map_or_else(String::new, |fix| format!("{:20}fix: {fix}\n", ""));
    format!("{style}{word:<4}{style:#}  {what:<12}  {fact}\n{fix}")
}

fn rust() -> Finding {
    const FIX: &str = "install Rust 1.95 or later: `rustup update stable`";
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = match Command::new(program).arg("--version").output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => return Finding::broken("rust", failed_rustc(&output.stderr), FIX),
        Err(error) => {
            let fact = format!("rustc cannot be started: {error}");
            return Finding::broken("rust", fact, FIX);
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    match rust_version(&text) {
        Some(version) if version >= (1, 95) => Finding::good("rust", text),
        Some(_) => Finding::broken("rust", format!("{text} is too old"), FIX),
        None => Finding::broken("rust", format!("`{text}` is no version of rustc"), FIX),
    }
}

/// What rustc, or rustup in its place, has against being asked for its version.
fn failed_rustc(stderr: &[u8]) -> String {
    let said = String::from_utf8_lossy(stderr);
    let first = said.lines().next().unwrap_or_default();
    format!(
        "`rustc --version` failed: {}",
        first.trim_start_matches("error: ")
    )
}

/// Major and minor of `rustc 1.95.0 (...)`.
fn rust_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("rustc ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn graphics(gpu: Result<DeviceFacts, machine::Error>) -> Finding {
    match gpu {
        Ok(facts) => {
            let driver = facts.driver_text().unwrap_or_default();
            let memory_gib = facts.memory_bytes >> 30;
            let text = format!(
                "{}, {} SMs, {memory_gib} GiB, driver for CUDA {driver}",
                facts.name, facts.multiprocessors
            );
            Finding::good("gpu", text)
        }
        Err(error) => {
            // Our errors end with the help, behind a semicolon.
            let text = error.to_string();
            let (fact, _) = text.split_once("; ").unwrap_or((&text, ""));
            let fix = "nothing needs it: `run` uses the emulator; for speed, a machine with an H100 or H200 and its driver";
            Finding::partial("gpu", fact, fix)
        }
    }
}

/// Fetches what is missing. What the user named by `$PTXAS` and cannot be used is his to correct.
fn fetched(environment: &Environment, driver: Option<i32>, folder: Option<&Path>) -> Vec<Finding> {
    let lacks_ptxas = environment.ptxas.is_none() && environment.search(driver).found().is_none();
    let lacks_nvdisasm = find_nvdisasm(environment).is_none();
    let missing = [(PTXAS, lacks_ptxas), (NVDISASM, lacks_nvdisasm)];
    let missing = missing.into_iter().filter(|(_, is_missing)| *is_missing);
    missing.map(|(program, _)| fetch(program, folder)).collect()
}

fn fetch(program: Fetchable, folder: Option<&Path>) -> Finding {
    let Fetchable {
        program: name,
        package,
        version,
        ..
    } = program;
    let Some(folder) = folder else {
        let fix = "unset TILEKIT_CACHE_DIR, or set it to a folder";
        return Finding::broken(
            "fetch",
            format!("{name}: there is no cache to keep it in"),
            fix,
        );
    };
    match program.fetch(folder) {
        Ok(path) => Finding::good(
            "fetch",
            format!("{name} of {package} {version}: {}", path.display()),
        ),
        Err(error) => {
            let (fact, fix) = error.rsplit_once("; ").unwrap_or((&error, "try again"));
            Finding::broken("fetch", format!("{name}: {fact}"), fix)
        }
    }
}

fn assembler(environment: &Environment, driver: Option<i32>) -> Finding {
    const FIX: &str = "`cargo tilekit doctor --fix` fetches it, or set PTXAS or CUDA_HOME; it is needed for cubins, SASS and \
                       register counts, and a GPU's driver compiles PTX without it";
    let search = environment.search(driver);
    if let Some(found) = search.found() {
        let text = format!(
            "{} {} ({})",
            found.version,
            found.path.display(),
            found.origin
        );
        return Finding::good("ptxas", text);
    }
    let rejected = |candidate: &Candidate| {
        let reason = candidate
            .verdict
            .as_ref()
            .err()
            .map_or("usable", String::as_str);
        format!(
            "{} ({}): {reason}",
            candidate.path.display(),
            candidate.origin
        )
    };
    let rejected: Vec<String> = search.candidates.iter().map(rejected).collect();
    if rejected.is_empty() {
        return Finding::partial("ptxas", "not found", FIX);
    }
    // What the user named himself and cannot be used is more than something missing.
    if environment.ptxas.is_some() {
        return Finding::broken(
            "ptxas",
            rejected.join("; "),
            "correct or unset the variable PTXAS",
        );
    }
    Finding::partial("ptxas", rejected.join("; "), FIX)
}

fn disassembler(environment: &Environment) -> Finding {
    const FIX: &str = "`cargo tilekit doctor --fix` fetches nvdisasm; it is needed for machine code in `inspect` only";
    if let Some(path) = find_nvdisasm(environment) {
        return Finding::good("disassembler", path.display().to_string());
    }
    match machine::ptxas::find_disassembler(environment) {
        Some(path) => Finding::partial(
            "disassembler",
            format!("{}, which names no lines", path.display()),
            FIX,
        ),
        None => Finding::partial(
            "disassembler",
            "neither nvdisasm nor cuobjdump was found",
            FIX,
        ),
    }
}

fn cublas() -> Finding {
    match machine::cublas::find() {
        Ok(found) => Finding::good("cublas", found),
        Err(why) => {
            let fact = why.split("; ").next().unwrap_or(&why);
            let fix = "`pip install nvidia-cublas`, or set CUDA_HOME; it is needed for `bench` beside cuBLAS only";
            Finding::partial("cublas", fact, fix)
        }
    }
}

fn nccl() -> Finding {
    match machine::nccl::find() {
        Ok(found) => Finding::good("nccl", found),
        Err(why) => {
            let fact = why.split("; ").next().unwrap_or(&why);
            let fix = "`pip install nvidia-nccl-cu13`, or set LD_LIBRARY_PATH; it is needed for `bench` of several GPUs beside NCCL only";
            Finding::partial("nccl", fact, fix)
        }
    }
}

fn counters() -> Finding {
    match machine::cupti::find() {
        Ok(found) if machine::cupti::is_allowed() == Some(false) => Finding::partial(
            "counters",
            format!("{found}, but the driver lets administrators alone read them"),
            machine::cupti::PERMISSION_HELP,
        ),
        Ok(found) => Finding::good("counters", found),
        Err(why) => {
            let fact = why.split("; ").next().unwrap_or(&why);
            let fix = "`pip install nvidia-cuda-cupti`, or set TILEKIT_LIBCUPTI; it is needed for `bench --counters` only";
            Finding::partial("counters", fact, fix)
        }
    }
}

fn cache(cache: &CubinCache) -> Finding {
    let Some(folder) = cache.folder() else {
        return Finding::partial(
            "cache",
            "off: TILEKIT_CACHE_DIR is empty",
            "unset TILEKIT_CACHE_DIR, or every start assembles again",
        );
    };
    let text = match cache.size() {
        Ok((bytes, cubins)) => {
            let mib = bytes as f64 / f64::from(1 << 20);
            format!("{} ({cubins} cubins, {mib:.1} MiB)", folder.display())
        }
        Err(_) => folder.display().to_string(),
    };
    match std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder)) {
        Ok(_) => Finding::good("cache", text),
        Err(error) => Finding::partial(
            "cache",
            format!("{text} cannot be written: {error}"),
            "make it writable, or set TILEKIT_CACHE_DIR to a folder that is",
        ),
    }
}

/// Cargo has said why, unless a machine listens.
fn unreadable(error: &Error, format: MessageFormat) -> Finding {
    let said = error.render(MessageFormat::Short, false);
    let cause = said.trim_end().trim_start_matches("error: ");
    let help = if format == MessageFormat::Json && !cause.is_empty() {
        cause
    } else {
        "see cargo's message"
    };
    Finding::broken("package", "cargo cannot read it", help)
}

/// The package of this folder, if there is one: that none is here is no illness.
fn package(cargo: &CargoOptions, format: MessageFormat) -> Vec<Finding> {
    let is_named = cargo.package.is_some() || cargo.manifest_path.is_some();
    let here = std::env::current_dir().unwrap_or_default();
    let has_manifest = here
        .ancestors()
        .any(|folder| folder.join("Cargo.toml").is_file());
    if !is_named && !has_manifest {
        return vec![Finding::good("package", "none in this folder")];
    }
    let metadata = match Metadata::read(cargo, format) {
        Ok(metadata) => metadata,
        Err(error) => return vec![unreadable(&error, format)],
    };
    match select(&metadata, cargo.package.as_deref(), &here) {
        Ok(package) => vec![stub(package), config(package)],
        Err(error) => {
            let text = error.render(MessageFormat::Short, false);
            let fact = text.trim_end().trim_start_matches("error: ").to_string();
            let fix = "`cargo tilekit list` reports the error with its help";
            if is_named {
                vec![Finding::broken("package", fact, fix)]
            } else {
                vec![Finding::partial("package", fact, fix)]
            }
        }
    }
}

fn stub(package: &Package) -> Finding {
    let Package { name, .. } = package;
    if package.has_stub() {
        return Finding::good(
            "package",
            format!("`{name}`, with its harness tests/tilekit.rs"),
        );
    }
    Finding::partial(
        "package",
        format!("`{name}` has no tests/tilekit.rs, so `cargo test` does not run its kernels"),
        "`cargo tilekit init` writes it",
    )
}

fn config(package: &Package) -> Finding {
    match Config::of_package(package.root()) {
        Ok(config) if config == Config::default() => Finding::good("config", "all defaults"),
        Ok(_) => Finding::good("config", "valid"),
        Err(error) => {
            let text = error.render(MessageFormat::Human, false);
            let lines: Vec<&str> = text.lines().take(2).map(str::trim).collect();
            let fact = lines.join(" ").replacen("error: ", "", 1);
            Finding::broken(
                "config",
                fact,
                "correct that line; the README of cargo-tilekit lists the keys",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_rust_are_read() {
        assert_eq!(
            rust_version("rustc 1.95.0 (59807616e 2026-04-14)"),
            Some((1, 95))
        );
        assert_eq!(rust_version("rustc 2.0.0-beta.1"), Some((2, 0)));
        assert_eq!(rust_version("rust"), None);
    }

    #[test]
    fn a_rustc_that_fails_is_not_called_too_old() {
        let said = b"error: no default is configured\nhelp: run `rustup default stable`\n";
        assert_eq!(
            failed_rustc(said),
            "`rustc --version` failed: no default is configured"
        );
    }

    #[test]
    fn findings_say_health_fact_and_fix() {
        let finding = Finding::partial("ptxas", "not found", "install it");
        let text = line(&finding, MessageFormat::Human);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            plain,
            "warn  ptxas         not found\n                    fix: install it\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&line(&finding, MessageFormat::Json)).expect("one JSON object");
        assert_eq!(
            (&json["status"], &json["fix"]),
            (&"warn".into(), &"install it".into())
        );
    }

    #[test]
    fn a_ptxas_that_was_named_and_is_not_there_is_an_illness() {
        let environment = Environment {
            ptxas: Some("/nowhere/ptxas".into()),
            ..Environment::default()
        };
        assert_eq!(assembler(&environment, None).health, Health::Broken);
        assert_eq!(
            assembler(&Environment::default(), None).health,
            Health::Partial
        );
    }
}

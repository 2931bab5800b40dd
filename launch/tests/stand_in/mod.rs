//! A stand-in for the driver, which records what it is asked, and processes that run with it: the driver is opened once in a
//! process.

#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each test uses a part of it"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions, of a module if one is given, with their names.
macro_rules! named {
    ($module:ident: $($function:ident),+ $(,)?) => { &[$((stringify!($function), $module::$function)),+] };
    ($($function:ident),+ $(,)?) => { &[$((stringify!($function), $function)),+] };
}
pub(crate) use named;

/// Compiles the stand-in of this source into `folder`, as a library of the source's name. The compiler is the one that Rust links with.
#[track_caller]
pub(crate) fn build(source: &Path, folder: &Path) -> PathBuf {
    let name = source.file_stem().expect("a file").display().to_string();
    build_as(source, folder, &format!("lib{name}.so"))
}

/// The same under this name.
#[track_caller]
pub(crate) fn build_as(source: &Path, folder: &Path, name: &str) -> PathBuf {
    let library = folder.join(name);
    let unfinished = folder.join(format!("{name}.{}", std::process::id()));
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&unfinished, source])
        .output()
        .expect("cc starts, as it does to link Rust");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    std::fs::rename(&unfinished, &library).expect("a library");
    library
}

/// What a program that has ended said, and what it asked the driver, a line a call.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    pub(crate) asked: Vec<String>,
}

impl Ran {
    /// The calls that begin with this word.
    pub(crate) fn calls(&self, word: &str) -> Vec<&str> {
        let calls = self.asked.iter().map(String::as_str);
        calls.filter(|line| line.starts_with(word)).collect()
    }
}

/// Runs a program with the stand-in `library`, which keeps its log in `folder`.
#[track_caller]
pub(crate) fn run(program: &mut Command, library: &Path, folder: &Path) -> Ran {
    let log = tempfile_in(folder);
    let output = program
        .env("TILEKIT_LIBCUDA", library)
        .env("TILEKIT_FAKE_LOG", &log)
        .output()
        .expect("the program starts");
    let asked = std::fs::read_to_string(&log).unwrap_or_default();
    let _ = std::fs::remove_file(&log);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: output.status.code(),
        said: text(&output.stdout) + &text(&output.stderr),
        asked: asked.lines().map(str::to_owned).collect(),
    }
}

/// A file that no other run of this process has.
fn tempfile_in(folder: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("asked-{}-{run}.log", std::process::id()))
}

/// Says which scenario a process is.
const SCENARIO: &str = "TILEKIT_SCENARIO";

/// A test binary of scenarios, each in a process of its own: a process that [`scenario`] starts is one, any other runs the tests.
pub(crate) fn main(scenarios: &[(&str, fn())], tests: &[(&str, fn())]) {
    if let Ok(asked) = std::env::var(SCENARIO) {
        let named = scenarios.iter().find(|(name, _)| asked == *name);
        // Else the tests would start themselves without end.
        let (_, scenario) = named.unwrap_or_else(|| panic!("there is no scenario `{asked}`"));
        return scenario();
    }
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    println!("{} passed, 0 failed", tests.len());
}

/// Runs a scenario of this test binary with the stand-in `library`; a panic fails the test.
#[track_caller]
pub(crate) fn run_scenario(
    name: &str,
    variables: &[(&str, &str)],
    library: &Path,
    folder: &Path,
) -> Ran {
    let ran = run(&mut scenario(name, variables), library, folder);
    assert_eq!(ran.code, Some(0), "{}", ran.said);
    ran
}

/// This test binary, asked for a scenario.
pub(crate) fn scenario(name: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.env(SCENARIO, name);
    command.envs(variables.iter().copied());
    command
}

/// Bytes as the stand-in writes them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// What the stand-in makes of a tiled tensor map: address, element, swizzle, dimensions, strides, box and steps, in hex.
pub(crate) fn tiled_map(
    address: u64,
    numbers: u64,
    dims: [u64; 2],
    stride: u64,
    block: [u32; 2],
) -> String {
    let words = [address, numbers, dims[0], dims[1], 0, 0, 0, stride, 0, 0, 0];
    let halves = [block[0], block[1], 0, 0, 0, 1, 1, 0, 0, 0];
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    let halves = halves.iter().flat_map(|half: &u32| half.to_le_bytes());
    hex(&words.chain(halves).collect::<Vec<u8>>())
}

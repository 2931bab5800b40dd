//! A throwaway package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A package in a temporary folder.
pub(crate) struct Package {
    folder: tempfile::TempDir,
    name: String,
}

/// What a process said and ended with.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A kernel that is right, with its case.
pub(crate) const SCALE: &str = r#"
use tilekit::prelude::*;

/// `out[i] = x[i] * 2` for `i < n`.
#[kernel(warps = 4)]
pub fn scale<const BLOCK: usize>(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    out.at(at).mask(inside).store(x.at(at).mask(inside).load() * 2.0);
}

#[case(sizes(n = [100, 1000]))]
fn scale_case(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.normal::<f32>("x", [n]);
    let out = case.output::<f32>("out", [n]);
    case.launch(scale::<256>, grid(n.div_ceil(256)), (&x, &out, n as i32))?;
    case.expect(&out, |[i]: [usize; 1]| x[i] * 2.0, Exactly)
}
"#;

/// A block through shared memory, behind the launch before, in a cluster of two.
pub(crate) const COPIED: &str = r"
#[kernel(warps = 4, cluster = 2, instances(<128>), signature(
    x: [rows, cols],
    out: [rows, cols],
    grid = 2 * cdiv(rows, 2 * ROWS),
))]
pub fn copied<const ROWS: usize>(
    #[block([ROWS, 128], Nvmma::B128)] x: TensorMap<bf16>,
    #[block([ROWS, 128], Nvmma::B128)] out: TensorMap<bf16>,
) {
    let tile = Smem::<bf16>::alloc(x.block(), x.layout());
    let ready = Mbarrier::alloc(1);
    ready.expect(x.block_bytes());
    launch_wait();
    x.load([program_id(0) * ROWS, scalar(0)], tile, ready);
    ready.wait(0);
    out.store([program_id(0) * ROWS, scalar(0)], tile);
    tma_store_wait(0);
}
";

/// The root of this checkout.
pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the checkout is there")
}

/// The target folder of this workspace: its `tmp` is what cargo gives tests.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a folder above")
        .to_path_buf()
}

/// The dependency on this checkout, and what the tool sets in the profile: with other settings `cargo test` would compile the emulator, and what
/// depends on it, once more.
fn on_tilekit() -> String {
    let runtime = checkout().join("runtime");
    let optimised = ["tilekit-emulator", "matrixmultiply"]
        .map(|name| format!("\n[profile.dev.package.{name}]\nopt-level = 3\n"));
    let dependency = format!("tilekit = {{ path = \"{}\" }}\n", runtime.display());
    dependency + &optimised.concat()
}

impl Package {
    /// A package called `name` with these kernels and the test target that `cargo tilekit init` writes.
    pub(crate) fn new(name: &str, library: &str) -> Package {
        let package = Package::without_stub(name, library);
        package.write(
            "tests/tilekit.rs",
            &format!("tilekit::harness!({});\n", name.replace('-', "_")),
        );
        let manifest = package.read("Cargo.toml");
        package.write(
            "Cargo.toml",
            &format!("{manifest}\n[[test]]\nname = \"tilekit\"\nharness = false\n"),
        );
        package
    }

    /// The same without the test target.
    pub(crate) fn without_stub(name: &str, library: &str) -> Package {
        let package = Package::plain(name, &on_tilekit());
        package.write("src/lib.rs", library);
        package
    }

    /// A package with these dependencies and no code.
    pub(crate) fn plain(name: &str, dependencies: &str) -> Package {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let package = Package {
            folder,
            name: name.to_string(),
        };
        // The profile is that of this workspace, so that crates of the registry are compiled once for both.
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n\n\
             [profile.dev]\ndebug = \"line-tables-only\"\n\n[workspace]\n"
        );
        package.write("Cargo.toml", &manifest);
        let lock = fs::read_to_string(checkout().join("Cargo.lock")).expect("the lock file");
        package.write("Cargo.lock", &lock);
        package
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        fs::write(path, text).expect("a file is written");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).expect("a file is read")
    }

    /// Replaces text in a file, which must be there.
    pub(crate) fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} holds `{from}`");
        self.write(path, &text.replace(from, to));
    }

    /// Runs `cargo-tilekit` in the package.
    pub(crate) fn tilekit(&self, arguments: &str) -> Said {
        self.tilekit_in("", arguments)
    }

    /// The same with arguments behind that may hold spaces.
    pub(crate) fn tilekit_and(&self, arguments: &str, more: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-tilekit"));
        command.arg("tilekit").args(arguments.split_whitespace());
        command.args(more);
        self.finish(command, "")
    }

    /// Runs `cargo-tilekit` in a folder of the package.
    pub(crate) fn tilekit_in(&self, folder: &str, arguments: &str) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-tilekit"));
        command.arg("tilekit").args(arguments.split_whitespace());
        self.finish(command, folder)
    }

    /// Runs `cargo-tilekit` in the package with these variables.
    pub(crate) fn tilekit_with(&self, variables: &[(&str, &str)], arguments: &str) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-tilekit"));
        command.arg("tilekit").args(arguments.split_whitespace());
        command.envs(variables.iter().copied());
        self.finish(command, "")
    }

    /// Runs another program in the package with these variables.
    pub(crate) fn program_with(&self, variables: &[(&str, &str)], program: &str) -> Said {
        let mut command = Command::new(program);
        command.envs(variables.iter().copied());
        self.finish(command, "")
    }

    /// Runs cargo itself in the package.
    pub(crate) fn cargo(&self, arguments: &str) -> Said {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments.split_whitespace());
        self.finish(command, "")
    }

    fn finish(&self, command: Command, folder: &str) -> Said {
        finish(command, &self.root().join(folder))
    }

    /// Where the tool keeps what it builds of the package.
    pub(crate) fn artifacts(&self) -> PathBuf {
        target().join("tilekit/dev").join(&self.name)
    }
}

/// Runs `cargo-tilekit` in this checkout: on kernels that are shipped.
pub(crate) fn shipped(arguments: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-tilekit"));
    command.arg("tilekit").args(arguments.split_whitespace());
    finish(command, &checkout())
}

/// Runs cargo in this checkout with these variables.
pub(crate) fn cargo_in_checkout(variables: &[(&str, &str)], arguments: &str) -> Said {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments.split_whitespace());
    command.envs(variables.iter().copied());
    finish(command, &checkout())
}

fn finish(mut command: Command, folder: &Path) -> Said {
    command.current_dir(folder);
    // The machine's GPU, its tools and this process' own cargo are not what is tested.
    let chosen: Vec<_> = command
        .get_envs()
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in [
        "CI",
        "TILEKIT_DEVICE",
        "TILEKIT_SIZES",
        "CARGO_TERM_COLOR",
        "CLICOLOR_FORCE",
        "RUSTFLAGS",
        "RUST_BACKTRACE",
    ] {
        if !chosen.iter().any(|known| known == name) {
            command.env_remove(name);
        }
    }
    if !chosen.iter().any(|name| name == "CARGO") {
        command.env("CARGO", env!("CARGO"));
    }
    command
        .env("NO_COLOR", "1")
        .env("CARGO_TARGET_DIR", target());
    command.env("CARGO_TERM_QUIET", "true");
    Said::of(&command.output().expect("the program starts"))
}

impl Said {
    fn of(output: &Output) -> Said {
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code; a failure shows everything that was said.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Said {
        let Said { stdout, stderr, .. } = &self;
        assert_eq!(
            self.code,
            Some(code),
            "\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        );
        self
    }

    /// Asserts that all of these were printed as requested data.
    #[track_caller]
    pub(crate) fn prints(self, parts: &[&str]) -> Said {
        for part in parts {
            assert!(
                self.stdout.contains(part),
                "`{part}` is missing in stdout:\n{}\n--- stderr\n{}",
                self.stdout,
                self.stderr
            );
        }
        self
    }

    /// Asserts that all of these were said beside it.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Said {
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "`{part}` is missing in stderr:\n{}\n--- stdout\n{}",
                self.stderr,
                self.stdout
            );
        }
        self
    }

    /// The lines of standard output as JSON.
    #[track_caller]
    pub(crate) fn objects(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

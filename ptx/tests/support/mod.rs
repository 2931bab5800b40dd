//! A kernel around instructions, and the assembler.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot write its files has failed"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const HEADER: &str = "\
.version 8.6
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 smem[];
.global .align 4 .b32 counter = 0;
.const .align 4 .f32 table[2] = {0f3F800000, 0f40000000};

.extern .func (
\t.param .b32 status
) vprintf(
\t.param .b64 format,
\t.param .b64 values
)
;

.visible .entry k(
\t.param .u64 .ptr .global .align 16 pointer,
\t.param .u32 number,
\t.param .align 64 .b8 map[128]
)
.reqntid 128, 1, 1
.minnctapersm 1
{
\t.reg .pred %p<8>;
\t.reg .b16 %rs<8>;
\t.reg .b32 %r<16>;
\t.reg .b64 %rd<8>;
\t.reg .b128 %rq<2>;
\t.reg .f32 %f<128>;
\t.reg .f64 %fd<4>;
\t.shared .align 8 .b64 barrier;
\t.local .align 16 .b8 scratch[64];
\t.param .b64 format;
\t.param .b64 values;
\t.param .b32 status;
";

/// The text of a module with one kernel of these lines.
pub(crate) fn kernel(lines: &str) -> String {
    let mut text = HEADER.to_owned();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let is_label = line.ends_with(':');
        text.push_str(if is_label { "" } else { "\t" });
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("\tret;\n}\n");
    text
}

/// The first ptxas of `$PTXAS`, the search path, a CUDA toolkit and the Python packages of NVIDIA.
fn ptxas() -> Option<PathBuf> {
    let named = std::env::var_os("PTXAS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("ptxas"));
    let toolkit = std::iter::once(PathBuf::from("/usr/local/cuda/bin/ptxas"));
    let packages = [
        "/usr/lib/python3",
        "/usr/local/lib/python3",
        "/usr/local/lib",
    ];
    let packages = packages
        .iter()
        .flat_map(|root| python_packages(Path::new(root)));
    named
        .into_iter()
        .chain(on_path)
        .chain(toolkit)
        .chain(packages)
        .find(|file| file.is_file())
}

/// `<root>/python3.x/site-packages/nvidia/<toolkit>/bin/ptxas`, also under `dist-packages`.
fn python_packages(root: &Path) -> Vec<PathBuf> {
    let folders = |folder: PathBuf| {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    let mut found = Vec::new();
    for python in folders(root.to_path_buf()).chain([root.to_path_buf()]) {
        for packages in ["site-packages", "dist-packages"] {
            found.extend(
                folders(python.join(packages).join("nvidia"))
                    .map(|toolkit| toolkit.join("bin/ptxas")),
            );
        }
    }
    found
}

/// Files written so far, so that tests of one process do not share names.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Runs ptxas on the text; says so when there is none.
pub(crate) fn assemble(name: &str, text: &str) {
    let Some(ptxas) = ptxas() else {
        println!("skipped: no ptxas");
        return;
    };
    let folder = std::env::temp_dir().join(format!("tilekit-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let name = format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let (input, output) = (
        folder.join(format!("{name}.ptx")),
        folder.join(format!("{name}.cubin")),
    );
    std::fs::write(&input, text).unwrap();
    let result = Command::new(ptxas)
        .arg("-arch=sm_90a")
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&result.stderr);
    assert!(
        result.status.success(),
        "ptxas rejects {name}:\n{}",
        with_lines(&messages, text)
    );
    std::fs::remove_file(&input).unwrap();
    std::fs::remove_file(&output).unwrap();
}

/// Messages with the lines that they are about.
fn with_lines(messages: &str, text: &str) -> String {
    let line = |message: &str| {
        let number: usize = message
            .split_once("line ")?
            .1
            .split(';')
            .next()?
            .parse()
            .ok()?;
        text.lines().nth(number - 1)
    };
    let mut out = String::new();
    for message in messages.lines() {
        out.extend([
            message,
            "\n    ",
            line(message).unwrap_or_default().trim(),
            "\n",
        ]);
    }
    out
}

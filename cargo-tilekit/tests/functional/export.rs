//! `export`: packages for Rust and C, which are compiled and launch on a stand-in for the driver. The machine code is a stand-in
//! too, so that these tests need no ptxas.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use crate::Package;
use crate::package::{COPIED, SCALE, Said};
use crate::programs::ptxas_of_heads;
use crate::stand_in::{self, tiled_map};

/// A package with both kernels, one of them with a signature that names its size.
pub(crate) fn kernels(name: &str) -> Package {
    let scale = SCALE.replace(
        "#[kernel(warps = 4)]",
        "#[kernel(warps = 4, signature(x: [n], out: [n], grid = cdiv(n, BLOCK), requires(n <= 5000)))]",
    );
    Package::new(name, &format!("{scale}{COPIED}"))
}

/// Exports with a ptxas that every machine has.
pub(crate) fn export(package: &Package, arguments: &str) -> Said {
    let ptxas = ptxas_of_heads(package);
    let cache = package.root().join("cache").display().to_string();
    let variables = [("PTXAS", &*ptxas), ("TILEKIT_CACHE_DIR", &*cache)];
    package.tilekit_with(&variables, &format!("export {arguments}"))
}

/// Compiles C sources of `folder` with these arguments.
#[track_caller]
fn compile(folder: &Path, arguments: &[&str]) {
    let mut compiler = Command::new("cc");
    compiler
        .current_dir(folder)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    let output = compiler.args(arguments).output().expect("cc starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// What the driver was asked to launch by this program, and what the program said. The sizes of the kernel's parameters are for
/// the stand-in: a driver knows them from the cubin.
fn launched(mut program: Command, folder: &Path, parameters: &str) -> (Vec<String>, String) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../launch/tests/fake_driver.c");
    let library = stand_in::build(&source, folder);
    program.env("TILEKIT_FAKE_PARAMETERS", parameters);
    let ran = stand_in::run(&mut program, &library, folder);
    // The whole cubin is loaded, from where the driver wants it.
    for load in ran.calls("load") {
        assert_eq!(load, "load \u{7f}ELF aligned 1");
    }
    let launches = ran.calls("launch").into_iter().map(str::to_owned);
    (launches.collect(), ran.said)
}

/// `launch` line of `scale<256>` for 1000 elements.
fn scale_launch() -> String {
    let parameters = ["0000010000000000", "0000020000000000", "e8030000"].join(" ");
    format!("launch scale_256 in primary on 0xab grid 4 1 1 threads 128 1 1 shared 0 {parameters}")
}

/// `launch` line of `copied<128>` for 300 rows, so many bytes apart: its maps have address, shape, stride and box of each tensor.
fn copied_launch(shared_bytes: u32, [x, out]: [u64; 2]) -> String {
    let map = |address: u64, stride: u64| {
        let numbers = 9_u64 | 2 << 8 | 3 << 16 | 3 << 24;
        tiled_map(address, numbers, [128, 300], stride, [64, 128])
    };
    format!(
        "launch copied_128 in primary on 0xab grid 4 1 1 threads 128 1 1 shared {shared_bytes} attribute 4 2 1 1 {} {}",
        map(0x10000, x),
        map(0x20000, out)
    )
}

/// A program in C that launches both kernels and then asks for what the signature forbids.
const MAIN: &str = r#"
#include "copied_128.h"
#include "scale_256.h"
#include <stdio.h>

int main(int count, char **arguments) {
  tk_scale_256_module scale;
  tk_copied_128_module copied;
  tk_scale_256_args vectors = {0};
  tk_copied_128_args matrices = {0};
  vectors.x = 0x10000, vectors.out = 0x20000, vectors.n = 1000;
  matrices.x = 0x10000, matrices.out = 0x20000, matrices.rows = 300, matrices.cols = 128;
  if (count == 2 && arguments[1][0] == 'c') {
    if (tk_copied_128_load(&copied, 0)) return printf("%s\n", tk_error_text()), 1;
    if (tk_copied_128_launch(&copied, &matrices, (void *)0xab)) return printf("%s\n", tk_error_text()), 1;
    matrices.x_stride_0 = TK_STRIDE_ZERO;
    if (tk_copied_128_launch(&copied, &matrices, (void *)0xab)) return printf("%s\n", tk_error_text()), 1;
    return tk_copied_128_unload(&copied);
  }
  if (tk_scale_256_load(&scale, 0)) return printf("%s\n", tk_error_text()), 1;
  if (tk_scale_256_launch(&scale, &vectors, (void *)0xab)) return printf("%s\n", tk_error_text()), 1;
  vectors.x = 0x10001;
  if (tk_scale_256_launch(&scale, &vectors, (void *)0xab)) printf("%s\n", tk_error_text());
  vectors.x = 0x10000, vectors.n = 5001;
  if (tk_scale_256_launch(&scale, &vectors, (void *)0xab)) printf("%s\n", tk_error_text());
  return tk_scale_256_unload(&scale);
}
"#;

const SCALE_PARAMETERS: &str = "8,8,4";
const COPIED_PARAMETERS: &str = "128,128";

/// This program, asked for `copied`.
fn of_copied(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("copied");
    command
}

#[test]
fn exported_c_compiles_as_c99_and_launches() {
    let package = kernels("exported-to-c");
    package.write("out/main.c", MAIN);
    export(&package, "--to c --out out").ends_with(0);
    let out = package.root().join("out");
    let sources = ["main.c", "scale_256.c", "copied_128.c", "tilekit.c"];
    compile(&out, &[&sources[..], &["-ldl", "-o", "main"]].concat());

    let (launches, said) = launched(Command::new(out.join("main")), &out, SCALE_PARAMETERS);
    assert_eq!(launches, [scale_launch()], "{said}");
    for refused in [
        "x is at address 0x10001; it must be at a multiple of",
        "scale(x, out): n (x.shape[0]) is 5001; it must be at most 5000: change it, or launch an instance that takes it\n",
    ] {
        assert!(said.contains(refused), "{refused}\n{said}");
    }
    let (launches, said) = launched(of_copied(&out.join("main")), &out, COPIED_PARAMETERS);
    let shared_bytes = shared_bytes(&package.read("out/copied_128.json"));
    let repeated = copied_launch(shared_bytes, [0, 256]);
    assert_eq!(
        launches,
        [copied_launch(shared_bytes, [256; 2]), repeated],
        "{said}"
    );

    let mut blind = Command::new(out.join("main"));
    blind.env("TILEKIT_FAKE_INIT", "100");
    let (_, said) = launched(blind, &out, SCALE_PARAMETERS);
    let expected = "scale(x, out): the NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES\n";
    assert_eq!(said, expected);

    let mut without = Command::new(out.join("main"));
    without.env("TILEKIT_LIBCUDA", "/nowhere/libcuda.so.1");
    let output = without.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains("/nowhere/libcuda.so.1"),
        "{said}"
    );
}

/// The dynamic shared memory that a manifest states, in bytes.
fn shared_bytes(manifest: &str) -> u32 {
    let manifest: serde_json::Value = serde_json::from_str(manifest).expect("JSON");
    let bytes = manifest["shared_bytes"].as_u64().expect("bytes");
    u32::try_from(bytes).expect("less than 4 GiB")
}

/// A program in Rust that launches both kernels.
const USER: &str = include_str!("../../../launch/tests/exported/user.rs");

#[test]
fn exported_rust_compiles_and_launches_as_c_does() {
    let package = kernels("exported-to-rust");
    export(&package, "--to rust --out exported").ends_with(0);
    let launch = Path::new(env!("CARGO_MANIFEST_DIR")).join("../launch");
    let here = format!("tilekit-launch = {{ path = \"{}\" }}", launch.display());
    package.edit("exported/Cargo.toml", "tilekit-launch = \"0.1.0\"", &here);
    // It lies in the folder of a workspace, and is none of its members.
    package
        .cargo(
            "metadata --offline --no-deps --format-version 1 --manifest-path exported/Cargo.toml",
        )
        .ends_with(0);
    let user = Package::plain(
        "exported-user",
        &format!(
            "{here}\nexported-to-rust-exported = {{ path = \"{}\" }}",
            package.root().join("exported").display()
        ),
    );
    user.write("src/main.rs", USER);
    user.cargo("build --offline").ends_with(0);

    let program = crate::package::target().join("debug/exported-user");
    let (launches, said) = launched(Command::new(&program), user.root(), SCALE_PARAMETERS);
    assert_eq!(launches, [scale_launch()], "{said}");
    let (launches, _) = launched(of_copied(&program), user.root(), COPIED_PARAMETERS);
    let manifest = package.read("exported/src/copied_128.json");
    assert_eq!(launches, [copied_launch(shared_bytes(&manifest), [256; 2])]);
}

#[test]
fn two_exports_are_the_same_and_name_no_folder_of_this_machine() {
    let package = kernels("exported-twice");
    for language in ["c", "rust", "python"] {
        let out = |at: u32| format!("{language}{at}");
        for at in [1, 2] {
            export(&package, &format!("--to {language} --out {}", out(at))).ends_with(0);
        }
        let [first, second] = [1, 2].map(|at| files(&package.root().join(out(at))));
        assert!(first.len() > 4 && first == second);
        let folder = package.root().to_string_lossy().into_owned();
        for (path, bytes) in first {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(&folder), "{path} names {folder}");
        }
    }
}

/// All files below a folder, by their paths.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("below it");
            let bytes = std::fs::read(&path).expect("a file");
            found.push((name.display().to_string(), bytes));
        }
    }
    found.sort();
    found
}

/// A kernel whose tensor map is of pixels.
const PIXELS: &str = r"
#[kernel(warps = 1)]
pub fn pixels(#[im2col(4, [8, 4], Nvmma::PLAIN)] x: TensorMap<i32>) {
    let _ = x;
}
";

#[test]
fn what_cannot_be_exported_is_said() {
    let package = kernels("exported-wrongly");
    let scale = package.read("src/lib.rs");
    package.write("src/lib.rs", &format!("{scale}{PIXELS}"));
    export(&package, "--to fortran")
        .ends_with(2)
        .says(&["invalid value 'fortran'", "rust, c, python"]);
    export(&package, "scale").ends_with(2).says(&["--to"]);
    export(&package, "--to c pixels").ends_with(1).says(&[
        "`pixels` cannot be exported: `x` is a tensor map of pixels (`#[im2col]`)",
        "export a kernel that takes a pointer or a tensor map of boxes",
    ]);
    package.write("taken", "a file");
    let said = export(&package, "scale --to c --out taken");
    assert_ne!(said.code, Some(0));
    said.says(&["taken"]);
}

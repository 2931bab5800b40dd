//! `export`: packages for Rust and C, which are compiled and launch on a stand-in for the driver.

use std::path::Path;
use std::process::Command;

use crate::Package;
use crate::package::SCALE;
use crate::stand_in::{self, tiled_map};

/// A block through shared memory, in a cluster of two.
const COPIED: &str = r"
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
    x.load([program_id(0) * ROWS, scalar(0)], tile, ready);
    ready.wait(0);
    out.store([program_id(0) * ROWS, scalar(0)], tile);
    tma_store_wait(0);
}
";

/// A package with both kernels, one of them with a signature that names its size.
fn kernels(name: &str) -> Package {
    let scale = SCALE.replace(
        "#[kernel(warps = 4)]",
        "#[kernel(warps = 4, signature(x: [n], out: [n], grid = cdiv(n, BLOCK)))]",
    );
    Package::new(name, &format!("{scale}{COPIED}"))
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
    let launches = ran.calls("launch").into_iter().map(str::to_owned);
    (launches.collect(), ran.said)
}

/// `launch` line of `scale<256>` for 1000 elements.
fn scale_launch() -> String {
    let parameters = ["0000010000000000", "0000020000000000", "e8030000"].join(" ");
    format!("launch scale_256 in primary on 0xab grid 4 1 1 threads 128 1 1 shared 0 {parameters}")
}

/// `launch` line of `copied<128>` for 300 rows: its maps have address, shape, stride and box of each tensor.
fn copied_launch(shared_bytes: u32) -> String {
    let map = |address: u64| {
        let numbers = 9_u64 | 2 << 8 | 3 << 16 | 3 << 24;
        tiled_map(address, numbers, [128, 300], 256, [64, 128])
    };
    format!(
        "launch copied_128 in primary on 0xab grid 4 1 1 threads 128 1 1 shared {shared_bytes} attribute 4 2 1 1 {} {}",
        map(0x10000),
        map(0x20000)
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
    return tk_copied_128_unload(&copied);
  }
  if (tk_scale_256_load(&scale, 0)) return printf("%s\n", tk_error_text()), 1;
  if (tk_scale_256_launch(&scale, &vectors, (void *)0xab)) return printf("%s\n", tk_error_text()), 1;
  vectors.x = 0x10001;
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
    package.tilekit("export --to c --out out").ends_with(0);
    let out = package.root().join("out");
    let sources = ["main.c", "scale_256.c", "copied_128.c", "tilekit.c"];
    compile(&out, &[&sources[..], &["-ldl", "-o", "main"]].concat());

    let (launches, said) = launched(Command::new(out.join("main")), &out, SCALE_PARAMETERS);
    assert_eq!(launches, [scale_launch()], "{said}");
    assert!(
        said.contains("x is at address 0x10001; it must be at a multiple of"),
        "{said}"
    );
    let (launches, _) = launched(of_copied(&out.join("main")), &out, COPIED_PARAMETERS);
    let shared_bytes = shared_bytes(&package.read("out/copied_128.json"));
    assert_eq!(launches, [copied_launch(shared_bytes)]);

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
    package
        .tilekit("export --to rust --out exported")
        .ends_with(0);
    let launch = Path::new(env!("CARGO_MANIFEST_DIR")).join("../launch");
    let here = format!("tilekit-launch = {{ path = \"{}\" }}", launch.display());
    package.edit("exported/Cargo.toml", "tilekit-launch = \"0.1.0\"", &here);
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
    assert_eq!(launches, [copied_launch(shared_bytes(&manifest))]);
}

#[test]
fn two_exports_are_the_same_and_name_no_folder_of_this_machine() {
    let package = kernels("exported-twice");
    for language in ["c", "rust"] {
        let out = |at: u32| format!("{language}{at}");
        for at in [1, 2] {
            let export = format!("export --to {language} --out {}", out(at));
            package.tilekit(&export).ends_with(0);
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

#[test]
fn what_cannot_be_exported_is_said() {
    let package = kernels("exported-wrongly");
    package
        .tilekit("export --to fortran")
        .ends_with(2)
        .says(&["invalid value 'fortran'", "rust, c"]);
    package.tilekit("export scale").ends_with(2).says(&["--to"]);
    package.write("taken", "a file");
    let said = package.tilekit("export --to c --out taken");
    assert_ne!(said.code, Some(0));
    said.says(&["taken"]);
}

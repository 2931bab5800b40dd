//! `export`: packages for Rust and C, which are compiled and launch on a stand-in for the driver. The machine code is a stand-in
//! too, so that these tests need no ptxas.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use crate::Package;
use crate::package::{COPIED, SCALE, Said};
use crate::programs::ptxas_of_heads;
use crate::stand_in::{self, tiled_map};

/// The pixels under each tap of a filter of 3 by 3, whose padding and stride the caller passes.
const TAPS: &str = r"
#[kernel(warps = 4, instances(<64>), signature(
    image: [images, height, width, 16], out: [9, pixels, 16],
    window(image, [-padding, -padding], [padding - 2, padding - 2]), steps(image, [1, stride, stride, 1]),
    rows = (height + 2 * padding - 3) / stride + 1, cols = (width + 2 * padding - 3) / stride + 1, grid = cdiv(pixels, PIXELS),
    requires(padding >= 0, stride >= 1, pixels == images * ((height + 2 * padding - 3) / stride + 1) * ((width + 2 * padding - 3) / stride + 1)),
))]
pub fn taps<const PIXELS: usize>(
    #[im2col(4, [PIXELS, 16], Nvmma::B32)] image: TensorMap<bf16>,
    #[block([1, PIXELS, 16], Nvmma::new(32, 16).with_rank(3))] out: TensorMap<bf16>,
    rows: i32,
    cols: i32,
    padding: i32,
    stride: i32,
) {
    let tile = Smem::<bf16>::alloc([PIXELS, 16], image.layout());
    let first = program_id(0) * PIXELS;
    let (row, col) = (first / cols % rows, first % cols);
    let full = Mbarrier::alloc(1);
    let at = (first / (rows * cols), row * stride - padding, col * stride - padding, 0);
    for tap in 0..9 {
        full.expect(image.block_bytes());
        image.load_im2col(at, [tap / 3, tap % 3], tile, full);
        full.wait(tap % 2);
        out.store((tap, first, 0), tile.reshape([1, PIXELS, 16]));
        tma_store_wait_read(0);
    }
}
";

/// A package with all kernels, one of them with a signature that names its size.
pub(crate) fn kernels(name: &str) -> Package {
    let scale = SCALE.replace(
        "#[kernel(warps = 4)]",
        "#[kernel(warps = 4, signature(x: [n], out: [n], grid = cdiv(n, BLOCK), requires(n <= 5000)))]",
    );
    Package::new(name, &format!("{scale}{COPIED}{TAPS}"))
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
        let numbers = 9_u64 | 2 << 8 | 3 << 16 | 2 << 24;
        tiled_map(address, numbers, [128, 300], stride, [64, 128])
    };
    format!(
        "launch copied_128 in primary on 0xab grid 4 1 1 threads 128 1 1 shared {shared_bytes} attribute 4 2 1 1 {} {}",
        map(0x10000, x),
        map(0x20000, out)
    )
}

/// `launch` line of `taps<64>` for 2 images of 5 by 7 pixels, with a padding of 1 and a stride of 2: 24 pixels of results.
fn taps_launch(shared_bytes: u32) -> String {
    let map = |words: [u64; 11], halves: [i32; 10]| {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let halves = halves.iter().flat_map(|half| half.to_le_bytes());
        stand_in::hex(&words.chain(halves).collect::<Vec<u8>>())
    };
    let numbers = |rank: u64| 9 | rank << 8 | 1 << 16 | 2 << 24;
    // Dimensions and strides begin with the innermost; corners, pixels, channels and steps stand where a map of boxes has its box.
    let image = map(
        [0x10000, numbers(4), 16, 7, 5, 2, 0, 32, 224, 1120, 0],
        [-1, -1, 0, -1, -1, 0, 16, 64, 0x1221, 0],
    );
    let out = map(
        [0x20000, numbers(3), 16, 24, 9, 0, 0, 32, 768, 0, 0],
        [16, 64, 1, 0, 0, 1, 1, 1, 0, 0],
    );
    format!(
        "launch taps_64 in primary on 0xab grid 1 1 1 threads 128 1 1 shared {shared_bytes} {image} {out} 03000000 04000000 01000000 02000000"
    )
}

/// A program in C that launches the kernels and then asks for what the signature forbids.
const MAIN: &str = r#"
#include "copied_128.h"
#include "scale_256.h"
#include "taps_64.h"
#include <stdio.h>

static int taps(void) {
  tk_taps_64_module module;
  tk_taps_64_args images = {0};
  if (tk_taps_64_load(&module, 0)) return printf("%s\n", tk_error_text()), 1;
  images.image = 0x10000, images.out = 0x20000, images.images = 2, images.height = 5, images.width = 7, images.pixels = 24;
  images.padding = 1, images.stride = 2;
  if (tk_taps_64_launch(&module, &images, (void *)0xab)) printf("%s\n", tk_error_text());
  images.stride = 9, images.pixels = 2;
  if (tk_taps_64_launch(&module, &images, (void *)0xab)) printf("%s\n", tk_error_text());
  images.padding = 130, images.stride = 8, images.pixels = 2 * 33 * 34;
  if (tk_taps_64_launch(&module, &images, (void *)0xab)) printf("%s\n", tk_error_text());
  return tk_taps_64_unload(&module);
}

int main(int count, char **arguments) {
  tk_scale_256_module scale;
  tk_copied_128_module copied;
  tk_scale_256_args vectors = {0};
  tk_copied_128_args matrices = {0};
  vectors.x = 0x10000, vectors.out = 0x20000, vectors.n = 1000;
  matrices.x = 0x10000, matrices.out = 0x20000, matrices.rows = 300, matrices.cols = 128;
  if (count == 2 && arguments[1][0] == 't') return taps();
  if (count == 2 && arguments[1][0] == 'c') {
    if (tk_copied_128_load(&copied, 0)) return printf("%s\n", tk_error_text()), 1;
    matrices.out_stride_0 = TK_STRIDE_ZERO;
    if (tk_copied_128_launch(&copied, &matrices, (void *)0xab)) printf("%s\n", tk_error_text());
    matrices.out_stride_0 = 0;
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

const TAPS_PARAMETERS: &str = "128,128,4,4,4,4";

/// This program, asked for `copied` or `taps`.
fn asked_for(kernel: &str, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(kernel);
    command
}

#[test]
fn exported_c_compiles_as_c99_and_launches() {
    let package = kernels("exported-to-c");
    package.write("out/main.c", MAIN);
    export(&package, "--to c --out out").ends_with(0);
    let out = package.root().join("out");
    let sources = [
        "main.c",
        "scale_256.c",
        "copied_128.c",
        "taps_64.c",
        "tilekit.c",
    ];
    compile(&out, &[&sources[..], &["-ldl", "-o", "main"]].concat());

    let (launches, said) = launched(Command::new(out.join("main")), &out, SCALE_PARAMETERS);
    assert_eq!(launches, [scale_launch()], "{said}");
    for refused in [
        "x is at address 0x10001; it must be at a multiple of",
        "scale(x, out): n (x.shape[0]) is 5001; it must be at most 5000: change it, or launch an instance that takes it\n",
    ] {
        assert!(said.contains(refused), "{refused}\n{said}");
    }
    let (launches, said) = launched(
        asked_for("copied", &out.join("main")),
        &out,
        COPIED_PARAMETERS,
    );
    let shared_bytes = shared_bytes(&package.read("out/copied_128.json"));
    let repeated = copied_launch(shared_bytes, [0, 256]);
    let refused = "copied(x, out): out has elements in the same place: its stride along dimension 0 is 0, and the dimensions of smaller strides";
    assert!(said.contains(refused), "{said}");
    assert_eq!(
        launches,
        [copied_launch(shared_bytes, [256; 2]), repeated],
        "{said}"
    );

    let (launches, said) = launched(asked_for("taps", &out.join("main")), &out, TAPS_PARAMETERS);
    let shared_bytes = self::shared_bytes(&package.read("out/taps_64.json"));
    assert_eq!(launches, [taps_launch(shared_bytes)], "{said}");
    for refused in [
        "taps(image, out, padding, stride): image is taken in steps of 9 along dimension 1; it must be 1 to 8\n",
        "image has a window whose lower corner is off by -130; with 4 dimensions it can be -128 to 127\n",
    ] {
        assert!(said.contains(refused), "{refused}\n{said}");
    }

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

/// A program in Rust that launches the kernels.
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
    let (launches, _) = launched(
        asked_for("copied", &program),
        user.root(),
        COPIED_PARAMETERS,
    );
    let manifest = package.read("exported/src/copied_128.json");
    assert_eq!(launches, [copied_launch(shared_bytes(&manifest), [256; 2])]);
    // A padding that no map has, and then twice the one and once another: the maps of two calls differ by their windows alone.
    let (launches, said) = launched(asked_for("taps", &program), user.root(), TAPS_PARAMETERS);
    let right = taps_launch(shared_bytes(&package.read("exported/src/taps_64.json")));
    assert_eq!(launches.len(), 3, "{said}");
    assert_eq!(launches[..2], [&*right, &*right]);
    assert_ne!(launches[2], right);
    assert!(said.contains("lower corner is off by -130"), "{said}");
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

/// Kernels that are called as files and targets of packages are, one of which promises a number without a sign.
const NAMED_AS_FILES: &str = r"
use ::tilekit::prelude::*;

#[kernel(warps = 1, signature(x: [n], grid = 1, requires(most <= 100)))]
pub fn core(x: Ptr<f32>, most: u64) {
    x.at(0).store(most.cast::<f32>());
}

#[kernel(warps = 1)]
pub fn tilekit(x: Ptr<f32>) {
    x.at(0).store(1.0);
}

#[kernel(warps = 1)]
pub fn lib(x: Ptr<f32>) {
    x.at(0).store(1.0);
}

#[kernel(warps = 1)]
pub fn main(x: Ptr<f32>) {
    x.at(0).store(1.0);
}

#[kernel(warps = 1)]
pub fn r#type(x: Ptr<f32>) {
    x.at(0).store(1.0);
}
";

/// A program in C that launches `core` with a number that is negative as one with a sign.
const CORE: &str = r#"
#include "core_.h"
#include "lib.h"
#include "main.h"
#include "tilekit_.h"
#include <stdio.h>

int main(void) {
  tk_core__module module;
  tk_core__args args = {0};
  if (tk_core__load(&module, 0)) return printf("%s\n", tk_error_text()), 1;
  args.x = 0x10000, args.n = 1, args.most = 100;
  if (tk_core__launch(&module, &args, (void *)0xab)) printf("%s\n", tk_error_text());
  args.most = UINT64_MAX;
  if (tk_core__launch(&module, &args, (void *)0xab)) printf("%s\n", tk_error_text());
  return tk_core__unload(&module);
}
"#;

#[test]
fn kernels_named_as_files_of_a_package_are_apart_from_them() {
    let package = Package::new("exported-names", NAMED_AS_FILES);
    package.write("out/program.c", CORE);
    export(&package, "--to c --out out").ends_with(0);
    let out = package.root().join("out");
    let sources = "program.c core_.c lib.c main.c tilekit_.c type.c tilekit.c -ldl -o program";
    compile(&out, &sources.split(' ').collect::<Vec<_>>());
    let (launches, said) = launched(Command::new(out.join("program")), &out, "8,8");
    assert_eq!(launches.len(), 1, "{said}");
    let refused = "core(x, most): a rule of the signature has no value of 64 bits";
    assert!(said.starts_with(refused), "{said}");

    export(&package, "--to rust --out exported").ends_with(0);
    let launch = Path::new(env!("CARGO_MANIFEST_DIR")).join("../launch");
    let here = format!("tilekit-launch = {{ path = \"{}\" }}", launch.display());
    package.edit("exported/Cargo.toml", "tilekit-launch = \"0.1.0\"", &here);
    package
        .cargo("check --offline --manifest-path exported/Cargo.toml")
        .ends_with(0);
}

#[test]
fn files_that_no_export_wrote_stay() {
    let package = kernels("exported-onto-files");
    let before = files(package.root());
    for (language, file) in [("rust", "Cargo.toml"), ("python", "Cargo.toml")] {
        export(&package, &format!("--to {language} --out . scale"))
            .ends_with(2)
            .says(&[file, "is there, and no export wrote it", "--out"]);
    }
    package.write("out/scale_256.c", "mine");
    export(&package, "--to c --out out scale")
        .ends_with(2)
        .says(&["out/scale_256.c is there, and no export wrote it"]);
    assert_eq!(package.read("out/scale_256.c"), "mine");
    let kept = ["Cargo.toml", "src/lib.rs"];
    for (path, bytes) in before.iter().filter(|(path, _)| kept.contains(&&**path)) {
        assert_eq!(package.read(path).as_bytes(), bytes, "{path}");
    }
    // An export's own files are written anew.
    for _ in 0..2 {
        export(&package, "--to c --out again scale").ends_with(0);
    }
}

/// Kernels whose signatures do not say what their tensor maps are, and one that is called as a variant of another is.
const UNSAID: &str = r"
#[kernel(warps = 1)]
pub fn pixels(#[im2col(4, [8, 4], Nvmma::PLAIN)] x: TensorMap<i32>) {
    let _ = x;
}

#[kernel(warps = 1, signature(x: [m, n, k], grid = 1, window(x, [0], [0])))]
pub fn boxes(#[block([8, 8, 4], Nvmma::new(0, 32).with_rank(3))] x: TensorMap<i32>) {
    let _ = x;
}

#[kernel(warps = 1)]
pub fn scale_256(x: Ptr<f32>) {
    x.at(0).store(1.0);
}
";

#[test]
fn what_cannot_be_exported_is_said() {
    let package = kernels("exported-wrongly");
    let scale = package.read("src/lib.rs");
    package.write("src/lib.rs", &format!("{scale}{UNSAID}"));
    export(&package, "--to fortran")
        .ends_with(2)
        .says(&["invalid value 'fortran'", "rust, c, python"]);
    export(&package, "scale").ends_with(2).says(&["--to"]);
    export(&package, "--to c pixels").ends_with(1).says(&[
        "`pixels` cannot be exported: `x` is a tensor map of pixels (`#[im2col]`), and nothing says from which pixels its copies start",
        "without padding `window(x, [0, 0], [0, 0])`",
    ]);
    export(&package, "--to c boxes").ends_with(1).says(&[
        "`boxes` cannot be exported: the signature gives `x` a window, which only a tensor map of pixels (`#[im2col]`) has",
    ]);
    export(&package, "--to c scale scale_256")
        .ends_with(1)
        .says(&[
            "`scale<256>` and `scale_256` would both be exported as `scale_256`",
            "export them to two folders",
        ]);
    package.write("taken", "a file");
    let said = export(&package, "scale --to c --out taken");
    assert_ne!(said.code, Some(0));
    said.says(&["taken"]);
}

//! `export --to python`: the extension module is compiled, and Python calls its kernels on a stand-in for the driver.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Package;
use crate::export::{export, kernels};
use crate::package::{checkout, target};
use crate::stand_in;

/// Without a signature, so that Python passes numbers and a grid; and it may begin before the launch in front has ended.
const BLEND: &str = r#"
#[kernel(warps = 4, instances(<256>))]
pub fn blend<const BLOCK: usize>(#[readonly] x: Ptr<bf16>, out: Ptr<bf16>, alpha: f32, n: i32) {
    launch_wait();
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    out.at(at).mask(inside).store((x.at(at).mask(inside).load().cast::<f32>() * alpha).cast::<bf16>());
}

/// `factor * x²`, and `2 * factor * x`, which the gradient reads.
#[kernel(warps = 4, instances(<256>), signature(
    x: [n], out: [n], slope: [n], grid = cdiv(n, BLOCK), backward(power_backward),
))]
pub fn power<const BLOCK: usize>(x: Ptr<f32>, out: Ptr<f32>, slope: Ptr<f32>, factor: f32, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let x = x.at(at).mask(inside).load();
    out.at(at).mask(inside).store(x * x * factor);
    slope.at(at).mask(inside).store(x * factor * 2.0);
}

#[kernel(warps = 4, instances(<256>), signature(slope: [n], dout: [n], dx: [n], grid = cdiv(n, BLOCK)))]
pub fn power_backward<const BLOCK: usize>(slope: Ptr<f32>, dout: Ptr<f32>, dx: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    dx.at(at).mask(inside).store(slope.at(at).mask(inside).load() * dout.at(at).mask(inside).load());
}

#[kernel(warps = 1, signature(is: [n], grid = n))]
pub fn pass(is: Ptr<f32>) {
    is.at(program_id(0)).store(1.0_f32);
}

#[kernel(warps = 1)]
pub fn r#type(x: Ptr<f32>) {
    x.at(0).store(1.0_f32);
}

#[kernel(warps = 1)]
pub fn halves(out: Ptr<f32>, x: f16, y: bf16) {
    out.at(0).store(x.cast::<f32>());
    out.at(1).store(y.cast::<f32>());
}

#[kernel(warps = 1)]
pub fn spoken(n: i32) {
    device_print("n", n);
    device_assert(n > 0, "there are some");
}
"#;

/// A Python that can load the module.
fn python() -> Option<&'static str> {
    let is_new = "import sys; sys.exit(sys.version_info < (3, 10))";
    let found = Command::new("python3").args(["-c", is_new]).status();
    found
        .is_ok_and(|status| status.success())
        .then_some("python3")
}

/// The profile of this workspace, but for its own crates: syn and all that Python needs are compiled once.
fn profile() -> String {
    let manifest = std::fs::read_to_string(checkout().join("Cargo.toml")).expect("the manifest");
    let mut manifest: toml::Table = manifest.parse().expect("a manifest");
    let profile = &mut manifest["profile"]["dev"];
    let packages = profile["package"].as_table_mut().expect("packages");
    packages.retain(|name, _| !name.starts_with("tilekit-") && !name.starts_with("gluon-lang"));
    let profile = toml::Table::from_iter([("dev".to_owned(), profile.clone())]);
    toml::Table::from_iter([("profile".to_owned(), profile.into())]).to_string()
}

/// The exported package with its extension module built where Python looks for it.
fn built(package: &Package) -> PathBuf {
    export(package, "--to python --out exported").ends_with(0);
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let dependency = "tilekit-python = \"0.1.0\"";
    // Beside our macros it shares syn with the workspace: alone it takes fewer features.
    let here = format!(
        "tilekit-python = {{ path = \"{}\" }}\ngluon-lang-macros = {{ path = \"{}\" }}",
        core.display(),
        core.join("../gluon-lang/macros").display()
    );
    package.edit("exported/Cargo.toml", dependency, &here);
    let workspace = format!("{}\n[workspace]", profile());
    package.edit("exported/Cargo.toml", "[workspace]", &workspace);
    package.write("exported/Cargo.lock", &package.read("Cargo.lock"));
    package
        .cargo("build --offline --manifest-path exported/Cargo.toml")
        .ends_with(0);
    let folder = package.root().join("exported/python");
    place(
        "kernels_to_python_exported",
        &folder.join("kernels_to_python_exported/_native.abi3.so"),
    );
    folder
}

/// Puts a library that cargo has built where Python looks for it.
fn place(library: &str, module: &Path) {
    let library = target().join(format!("debug/lib{library}.so"));
    std::fs::copy(library, module).expect("the library is there");
}

/// The package `tilekit`, which emulates, built into the same folder.
fn build_emulator(package: &Package, folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/emulate");
    let manifest = source.join("Cargo.toml");
    // Beside our macros, it shares syn and PyO3's macros with the workspace's tests: alone it takes fewer features, and both would be compiled again.
    let packages = "--package tilekit-emulate --package gluon-lang-macros";
    let build = format!(
        "build --offline --manifest-path {} {packages}",
        manifest.display()
    );
    package.cargo(&build).ends_with(0);
    let tilekit = folder.join("tilekit");
    std::fs::create_dir_all(&tilekit).expect("a folder");
    let init = "__init__.py";
    std::fs::copy(source.join("python/tilekit").join(init), tilekit.join(init))
        .expect("the package is there");
    place("tilekit_emulate", &tilekit.join("_emulator.abi3.so"));
}

#[test]
fn exported_python_is_imported_and_launches_as_c_does() {
    let Some(python) = python() else {
        println!("skipped: no python3 of 3.10 or later");
        return;
    };
    let package = kernels("kernels-to-python");
    let source = package.read("src/lib.rs");
    package.write("src/lib.rs", &format!("{source}{BLEND}"));
    let folder = built(&package);
    build_emulator(&package, &folder);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/tests");
    let path = std::env::join_paths([&folder, &tests]).expect("no colon in a path");
    let driver = tests.join("../../launch/tests/fake_driver.c");
    let driver = stand_in::build(&driver, &folder);
    stand_in::build_as(&tests.join("tvm_ffi_stand_in.c"), &folder, "libtvm_ffi.so");
    for script in [
        "calls.py",
        "emulated.py",
        "gradients.py",
        "tvm_ffi_calls.py",
    ] {
        let mut calls = Command::new(python);
        let script = calls.arg("-B").arg(tests.join(script));
        let script = script
            .env("PYTHONPATH", &path)
            .env("LD_LIBRARY_PATH", &folder);
        let ran = stand_in::run(script, &driver, &folder);
        assert_eq!(ran.code, Some(0), "{}", ran.said);
        assert!(ran.said.contains("\nOK"), "{}", ran.said);
    }
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    let forward = "use tilekit::prelude::*;\n#[kernel(warps = 1, signature(x: [n], out: [n], grid = n, backward(halved_backward)))]\n\
         pub fn halved(x: Ptr<f32>, out: Ptr<f32>) { out.at(program_id(0)).store(x.at(program_id(0)).load() * 0.5); }\n";
    let backward = "#[kernel(warps = 1, signature(dout: [n], gradient: [n], grid = n))]\n\
         pub fn halved_backward(dout: Ptr<f32>, gradient: Ptr<f32>) { gradient.at(program_id(0)).store(dout.at(program_id(0)).load() * 0.5); }\n";
    let package = Package::new("gradients-refused", &format!("{forward}{backward}"));
    export(&package, "--to python").ends_with(1).says(&[
        "`halved`: its gradients cannot be exported: `gradient` of `halved_backward` is written, and no `d` before the name",
    ]);
    let source = package.read("src/lib.rs");
    package.write(
        "src/lib.rs",
        &source
            .replace("gradient:", "dx:")
            .replace("gradient.", "dx."),
    );
    export(&package, "--to python").ends_with(0);
    export(&package, "--to python halved").ends_with(0).says(&[
        "`halved` is exported without its gradients",
        "export `halved_backward` too",
    ]);
}

//! The first minutes of somebody who has never used the tool.

use std::path::Path;

use crate::Package;
use crate::package::cargo_in_checkout;
use crate::programs::program;

const LIBRARY: &str = r"
use tilekit::prelude::*;

#[kernel(warps = 4, instances(<256>))]
pub fn doubled<const BLOCK: usize>(x: Ptr<f32>) {
    let at = arange(0..BLOCK, Coalesced);
    x.at(at).store(x.at(at).load() * 2.0);
}
";

#[test]
fn init_adds_the_dependency_itself() {
    let package = Package::plain("old-package", "");
    package.write("src/lib.rs", LIBRARY);
    package.tilekit("list").ends_with(4).says(&[
        "it does not depend on `tilekit`",
        "`cargo tilekit init` adds the dependency",
    ]);
    package
        .tilekit("init")
        .ends_with(0)
        .prints(&["tests/tilekit.rs", "Cargo.toml"]);
    let manifest = package.read("Cargo.toml");
    assert!(manifest.contains("tilekit = { path = \""), "{manifest}");
    package
        .tilekit("list")
        .ends_with(0)
        .prints(&["doubled<256>"]);
    package
        .tilekit("init")
        .ends_with(0)
        .says(&["has all it needs"]);
    std::fs::remove_file(package.root().join("tests/tilekit.rs")).expect("it is there");
    let written = package.tilekit("init --message-format json").ends_with(0);
    let written = written.objects();
    let path = written[0]["path"].as_str().expect("a path");
    assert!(written.len() == 1 && path.ends_with("tests/tilekit.rs"));
}

/// Cargo warns where an alias has the name of an installed program, and is to refuse it.
#[test]
fn the_alias_of_a_clone_shadows_no_installed_program() {
    let folder = Package::plain("aliased", "");
    let installed = folder.root().join("bin");
    std::fs::create_dir_all(&installed).expect("a folder");
    let program = installed.join("cargo-tilekit");
    std::fs::copy(env!("CARGO_BIN_EXE_cargo-tilekit"), &program).expect("it is copied");
    let path = std::env::var("PATH").unwrap_or_default();
    let variables = [("PATH", &*format!("{}:{path}", installed.display()))];
    let said = cargo_in_checkout(&variables, "tilekit --version")
        .ends_with(0)
        .prints(&["cargo-tilekit "]);
    assert!(!said.stderr.contains("shadow"), "{}", said.stderr);
    let listed = cargo_in_checkout(&variables, "--list").ends_with(0);
    listed.prints(&["tile ", "alias: run --quiet --package cargo-tilekit --"]);
}

/// The program is installed first, unless it is.
#[test]
fn new_prints_a_command_that_works_here() {
    let folder = Package::plain("folder", "");
    folder.write("src/lib.rs", "");
    let cargo = Path::new(env!("CARGO"))
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    let home = folder.root().display().to_string();
    let plain = [
        ("PATH", format!("{cargo}:/usr/bin:/bin")),
        ("HOME", home.clone()),
    ];
    let variables =
        |list: &[(&'static str, String)]| -> Vec<(&'static str, String)> { list.to_vec() };
    let run = |list: &[(&'static str, String)], name: &str| {
        let list = variables(list);
        let list: Vec<(&str, &str)> = list
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        folder
            .tilekit_with(&list, &format!("new {name}"))
            .ends_with(0)
    };
    let said = run(&plain, "first");
    said.says(&[
        "next: cargo install --path ",
        "cargo-tilekit && cd first && cargo tilekit run",
    ]);
    program(&folder, "bin/cargo-tilekit", "exit 1");
    let installed = [
        ("PATH", format!("{home}/bin:{cargo}:/usr/bin:/bin")),
        ("HOME", home.clone()),
    ];
    let said = run(&installed, "second");
    said.says(&["next: cd second && cargo tilekit run"]);
}

/// Bytes of so many elements overflowed in the case, which panicked.
#[test]
fn the_first_kernel_refuses_sizes_without_room() {
    let template = include_str!("../../templates/lib.rs");
    let package = Package::new("first-kernels", template);
    for n in ["18446744073709551615", "1<<63", "1<<48"] {
        package
            .tilekit(&format!("run --device emulator -s n={n}"))
            .ends_with(2)
            .says(&["case `vector_add_case` at n=", "is the most here"]);
    }
    package
        .tilekit("run --device emulator -s n=0")
        .ends_with(100)
        .says(&["0 CTAs along x; there can be 1 to "]);
}

/// Minutes are announced, with what they are for.
#[test]
fn the_first_build_of_a_profile_is_announced() {
    let package = Package::new("slow-package", LIBRARY);
    let real = env!("CARGO");
    let cargo = program(
        &package,
        "cargo",
        &format!("[ $1 = build ] && exit 101\nexec {real} \"$@\""),
    );
    let variables = [("CARGO", cargo.as_str())];
    let first = "the first time, which takes 1 to 4 minutes";
    package
        .tilekit_with(&variables, "run --target-dir fresh")
        .ends_with(101)
        .says(&["package `slow-package` in the profile `dev`", first]);
    package.write("fresh/debug/deps/libtilekit-0.rlib", "");
    let said = package
        .tilekit_with(&variables, "run --target-dir fresh")
        .ends_with(101);
    assert!(!said.stderr.contains(first), "{}", said.stderr);
    package
        .tilekit_with(&variables, "bench --target-dir fresh")
        .ends_with(101)
        .says(&[
            "in the profile `release`",
            first,
            "what was compiled in `dev` is kept apart",
        ]);
}

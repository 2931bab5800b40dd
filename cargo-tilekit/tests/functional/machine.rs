//! Programs and files of the machine that are not what they should be.
#![cfg(unix)]

use std::fs;

use crate::Package;
use crate::package::SCALE;
use crate::programs::{program, ptxas};

#[test]
fn a_ptxas_that_cannot_be_used_is_named_with_a_help() {
    let package = Package::new("ptxas-kernels", SCALE);
    package.write("text", "no program");
    let text = package.root().join("text").display().to_string();
    // It stays the same process, so that nothing is left when it is stopped.
    let hangs = program(&package, "hangs", "exec sleep 1000");
    let garbage = program(&package, "garbage", "head -c 2000 /dev/urandom");
    let old = program(&package, "old", "echo 'release 11.8, V11.8.89'");
    for (path, why) in [
        (&text, "denied"),
        (&hangs, "did not answer --version within 10 s"),
        (&garbage, "did not answer --version as ptxas does"),
        (&old, "11.8.89 is older than 12.3"),
    ] {
        let said = package.tilekit_with(&[("PTXAS", path)], "build --emit cubin");
        let named = format!("$PTXAS names {path}, which cannot be used: ");
        said.ends_with(105)
            .says(&[&named, why, "correct or unset it"]);
    }
    // It is not as if there were none, which would be no error.
    for verb in ["inspect scale", "snapshot --check"] {
        let said = package.tilekit_with(&[("PTXAS", &text)], verb);
        said.ends_with(105).says(&["correct or unset it"]);
    }
    let said = package.tilekit_with(&[("PTXAS", &garbage)], "doctor");
    said.ends_with(2)
        .prints(&["fail  ptxas", "correct or unset"]);
}

/// What needs no ptxas is shown although it fails, and that it failed is seen in the exit.
#[test]
fn a_ptxas_that_fails_is_an_error_everywhere() {
    let package = Package::new("crash-kernels", SCALE);
    let cache = package.root().join("cache").display().to_string();
    let crashes = ptxas(&package, "crashes", "kill -SEGV $$");
    let writes_nothing = ptxas(&package, "nothing", "exit 0");
    let run = |path: &str, arguments: &str| {
        let variables = [("PTXAS", path), ("TILEKIT_CACHE_DIR", &cache)];
        package.tilekit_with(&variables, arguments).ends_with(105)
    };
    for verb in ["build --emit cubin", "inspect scale", "snapshot --check"] {
        let said = run(&crashes, verb);
        said.says(&[&crashes, "SIGSEGV", "try another release"]);
        run(&writes_nothing, verb).says(&[&writes_nothing, "wrote no cubin"]);
    }
    run(&crashes, "inspect scale").prints(&["// kernel: scale<256>", ".visible .entry"]);
    assert!(!package.root().join("snapshots").exists());
}

#[test]
fn an_edit_whose_kernel_is_gone_is_not_said_to_be_used() {
    let package = Package::new("gone-kernels", SCALE);
    package.tilekit("build").ends_with(0);
    let ptx = package.artifacts().join("scale-256.ptx");
    let edit = format!("build --from-ptx {}", ptx.display());
    package.tilekit(&edit).ends_with(0);
    package
        .tilekit("run --device emulator")
        .ends_with(0)
        .prints(&["(edited by hand)"])
        .says(&["`scale_256` is used as edited by hand"]);
    package.edit("src/lib.rs", "scale", "double");
    let said = package
        .tilekit("run --device emulator")
        .ends_with(0)
        .says(&[
            "warning: `scale_256` was edited by hand",
            "no kernel has this entry any more",
            "--reset",
        ]);
    assert!(!said.stdout.contains("edited by hand"), "{}", said.stdout);
    // What cannot be removed is named.
    let kept = package.artifacts().join("../../override/gone-kernels");
    let kept = kept.canonicalize().expect("a folder").join("scale_256.ptx");
    fs::remove_file(&kept).expect("removed");
    fs::create_dir(&kept).expect("a folder in its place");
    let said = package.tilekit("build --reset").ends_with(1);
    said.says(&[&format!("{} cannot be removed: ", kept.display())]);
    fs::remove_dir(&kept).expect("removed");
    package
        .tilekit("build --reset")
        .ends_with(0)
        .says(&["no kernel was edited"]);
    let said = package.tilekit("build --from-ptx .").ends_with(2);
    said.says(&["cannot be read: ", "name a file"]);
}

#[test]
fn nothing_is_left_among_temporary_files() {
    let package = Package::new("tidy-kernels", SCALE);
    let folder = package.root().join("temporary");
    fs::create_dir(&folder).expect("a folder");
    let variables = [("TMPDIR", folder.to_str().expect("a plain path"))];
    package.tilekit_with(&variables, "list").ends_with(0);
    package
        .tilekit_with(&variables, "run --device emulator")
        .ends_with(0);
    let left = fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(left, 0);
    let there: Vec<_> = fs::read_dir(package.root()).expect("the package").collect();
    assert_eq!(
        there.len(),
        5,
        "src, tests, Cargo.toml, Cargo.lock: {there:?}"
    );
}

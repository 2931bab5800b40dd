//! `list`, `check`, `run`, `test` and `cargo test` on a package that is right.

use crate::Package;
use crate::package::SCALE;

#[test]
fn a_package_outside_the_workspace_is_listed_checked_and_run() {
    let package = Package::new("plain-kernels", SCALE);
    package.tilekit("list").ends_with(0).prints(&[
        "scale  src/lib.rs:6\n",
        "  scale<256>  warps=4  (x: ptr<f32>, out: ptr<f32>, n: i32)  cases: scale_case\n",
    ]);
    package
        .tilekit("check")
        .ends_with(0)
        .says(&["checked 1 variant of 1 kernel"]);
    let said = package
        .tilekit("run --device emulator")
        .ends_with(0)
        .says(&["2 passed, 0 failed, 0 skipped"]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("device: emulator on "), "{lines:?}");
    assert!(
        lines[1].starts_with("ok    scale<256>  n=100 ") && lines[1].contains("`out` exact"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with("ok    scale<256>  n=1000") && lines[2].ends_with(" ms"),
        "{lines:?}"
    );
    package
        .tilekit("run scale -s n=7 --device emulator")
        .ends_with(0)
        .prints(&["n=7 "]);
    package
        .tilekit_in("src", "test --device emulator")
        .ends_with(0);
}

#[test]
fn the_test_target_is_an_ordinary_test() {
    let package = Package::new("test-kernels", SCALE);
    let said = package.cargo("test -q --test tilekit").ends_with(0);
    let said = said.prints(&[
        "running 2 tests",
        "test test_kernels::scale_case/n=100 ... ok",
        "2 passed; 0 failed",
    ]);
    assert!(
        said.stdout.find("n=100 ") < said.stdout.find("n=1000 "),
        "in order: {}",
        said.stdout
    );
    let one = package
        .cargo("test -q --test tilekit -- --exact test_kernels::scale_case/n=100")
        .ends_with(0);
    one.prints(&["1 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out"]);
    let list = package
        .cargo("test -q --test tilekit -- --list --format terse")
        .ends_with(0);
    assert_eq!(
        list.stdout,
        "test_kernels::scale_case/n=100: test\ntest_kernels::scale_case/n=1000: test\n"
    );
}

#[test]
fn machines_read_one_object_a_line() {
    let package = Package::new("json-kernels", SCALE);
    let said = package
        .tilekit("run --device emulator --message-format json -s n=5")
        .ends_with(0);
    let objects = said.objects();
    let case = objects
        .iter()
        .find(|object| object["reason"] == "tilekit-case")
        .expect("a case");
    assert_eq!(
        (&case["status"], &case["kernels"][0], &case["sizes"]["n"]),
        (&"passed".into(), &"scale<256>".into(), &5.into())
    );
    let said = package.tilekit("list --message-format json").ends_with(0);
    let reasons: Vec<_> = said
        .objects()
        .iter()
        .map(|object| object["reason"].clone())
        .collect();
    assert_eq!(reasons, ["tilekit-kernel", "tilekit-variant"]);
}

#[test]
fn sizes_and_the_device_come_from_the_configuration_too() {
    let package = Package::new("config-kernels", SCALE);
    package.write(
        "tilekit.toml",
        "device = \"emulator\"\n[cases.scale_case]\nsizes.n = 9\n",
    );
    package
        .tilekit("run")
        .ends_with(0)
        .prints(&["(as asked)", "n=9 "]);
    package
        .tilekit("run -s n=11")
        .ends_with(0)
        .prints(&["n=11 "]);
    package
        .tilekit("run -s m=11")
        .ends_with(2)
        .says(&["no case has a size `m`", "there are n"]);
    package.write("tilekit.toml", "devize = \"emulator\"\n");
    package
        .tilekit("run")
        .ends_with(2)
        .says(&["unknown field `devize`", "tilekit.toml:1:1"]);
}

#[test]
fn without_a_gpu_the_emulator_is_used_and_the_reason_said() {
    if machine::driver::Context::open(0).is_ok() {
        return;
    }
    let package = Package::new("auto-kernels", SCALE);
    let said = package.tilekit("run -s n=3").ends_with(0);
    let first = said.stdout.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("device: emulator on ") && first.contains("(no NVIDIA driver"),
        "{first}"
    );
    package
        .tilekit("run --device cuda")
        .ends_with(106)
        .says(&["error: no NVIDIA driver"]);
}

#[test]
fn another_program_starts_what_runs_the_kernels() {
    let package = Package::new("watched-kernels", SCALE);
    let run =
        |under: &str| package.tilekit(&format!("run --device emulator -s n=7 --under {under}"));
    // It starts what it is given.
    run("env").ends_with(0).prints(&["ok    scale<256>  n=7"]);
    run("/nowhere/ncu")
        .ends_with(2)
        .says(&["`/nowhere/ncu` cannot be started"]);
    // A debugger that is left before it has started anything.
    run("true")
        .ends_with(0)
        .says(&["note: `true` ended without running a kernel"]);
    run("false")
        .ends_with(2)
        .says(&["`false` ended with exit status: 1"]);
    signals_are_for_the_other_program(&package);
}

/// Ctrl-C is meant for a debugger, and does not take the tool away from above it; what ends the tool ends the debugger.
fn signals_are_for_the_other_program(package: &Package) {
    let run = |script: &str| {
        package.write("under it.sh", script);
        let under = ["--under", "sh 'under it.sh'"];
        package.tilekit_and("run --device emulator -s n=7", &under)
    };
    run("kill -INT $PPID; kill -QUIT $PPID; exec \"$@\"\n")
        .ends_with(0)
        .prints(&["ok    scale<256>  n=7"]);
    // It ends by itself if it is not told to.
    let waits = "trap 'exit 7' TERM\nkill -TERM $PPID\nfor i in $(seq 100); do sleep 0.1; done\n";
    run(waits)
        .ends_with(2)
        .says(&["`sh` ended with exit status: 7"]);
}

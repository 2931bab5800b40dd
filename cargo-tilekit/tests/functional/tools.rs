//! `doctor`, `explain`, `new` and `completions`.

use crate::Package;
use crate::package::SCALE;

#[test]
fn doctor_needs_no_gpu_and_finds_what_is_broken() {
    let package = Package::new("healthy-kernels", SCALE);
    let said = package.tilekit("doctor").ends_with(0);
    said.prints(&[
        "ok    rust",
        "gpu",
        "ptxas",
        "cache",
        "`healthy-kernels`, with its harness",
        "ok    config",
    ]);
    package.write("tilekit.toml", "sizes = 3\n");
    package
        .tilekit("doctor")
        .ends_with(2)
        .prints(&["fail  config"]);
    let said = package.tilekit("doctor --message-format json").ends_with(2);
    assert!(
        said.objects()
            .iter()
            .all(|object| object["reason"] == "tilekit-doctor")
    );
}

#[test]
fn codes_are_explained() {
    let package = Package::plain("any", "");
    package
        .tilekit("explain TK0001")
        .ends_with(0)
        .prints(&["TK0001 layout-mismatch", "convert_layout"]);
    package
        .tilekit("explain layout-mismatch")
        .ends_with(0)
        .prints(&["TK0001"]);
    package
        .tilekit("explain C7510")
        .ends_with(0)
        .prints(&["wgmma"]);
    let note = package.tilekit("explain C7510 --message-format json");
    assert_eq!(note.objects()[0]["code"], "C7510");
    package
        .tilekit("explain TK9999")
        .ends_with(2)
        .says(&["`TK9999` is no code"]);
    package.tilekit("explain").ends_with(0).prints(&["TK0002"]);
}

#[test]
fn completions_are_a_script() {
    Package::plain("any", "")
        .tilekit("completions bash")
        .ends_with(0)
        .prints(&["cargo__tilekit", "snapshot"]);
}

#[test]
fn a_new_package_runs() {
    let folder = Package::plain("around", "");
    // The folder is a workspace, of which the new package becomes a member, and which hands down lints.
    folder.write("src/lib.rs", "");
    let manifest = folder.read("Cargo.toml");
    folder.write(
        "Cargo.toml",
        &format!("{manifest}\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n"),
    );
    folder
        .tilekit("new fresh-kernels")
        .ends_with(0)
        .prints(&["tests/tilekit.rs"])
        .says(&["next: ", "cd fresh-kernels && cargo tilekit run"]);
    let said = folder
        .tilekit_in("fresh-kernels", "run --device emulator")
        .ends_with(0);
    said.prints(&["ok    vector_add<1024>  n=1000"]);
    folder
        .tilekit("new kérnels")
        .ends_with(2)
        .says(&["`kérnels` cannot be the name of a package", "--name"]);
    assert!(!folder.root().join("kérnels").exists());
    folder
        .tilekit("new kérnels+1,2;3 --name other-kernels")
        .ends_with(0)
        .says(&["next: ", "cd 'kérnels+1,2;3' &&"]);
    assert!(
        folder
            .read("kérnels+1,2;3/tests/tilekit.rs")
            .contains("other_kernels")
    );
}

#[test]
fn a_layout_is_an_object_for_machines() {
    let package = Package::plain("any", "");
    let said = package
        .tilekit("layout Blocked([1],[32],[1],[0]) --shape 32 --message-format json")
        .ends_with(0);
    let objects = said.objects();
    assert_eq!(objects.len(), 1, "{}", said.stdout);
    assert_eq!(objects[0]["reason"], "tilekit-layout");
    assert_eq!(objects[0]["layout"], "Blocked([1], [32], [1], [0])");
    let picture = objects[0]["picture"].as_str().expect("a text");
    assert!(
        picture.contains("T31") && !picture.contains('\u{1b}'),
        "no styles: {picture}"
    );
}

/// What the disk had no room for must not look like success; a reader that has gone away is no error.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let tool = env!("CARGO_BIN_EXE_cargo-tilekit");
    for arguments in [
        "completions bash",
        "explain",
        "--help",
        "run --help",
        "layout Blocked([1],[32],[1],[0]) --shape 32",
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let run = |stdout: std::process::Stdio| {
            let mut command = std::process::Command::new(tool);
            command
                .arg("tilekit")
                .args(arguments.split(' '))
                .stdout(stdout);
            command.stderr(std::process::Stdio::piped());
            command.spawn().expect("the tool runs")
        };
        let ended = run(full.expect("Linux has it").into()).wait_with_output();
        let ended = ended.expect("the tool ends");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{arguments}: {told}");
        assert!(
            told.contains("cannot be written") && !told.contains("panicked"),
            "{told}"
        );
        let mut gone = run(std::process::Stdio::piped());
        drop(gone.stdout.take());
        let ended = gone.wait_with_output().expect("the tool ends");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(
            (ended.status.code(), told.as_str()),
            (Some(0), ""),
            "{arguments}"
        );
    }
}

/// A manifest that cargo could not read any more would be lost work.
#[test]
fn init_changes_nothing_that_it_cannot_finish() {
    let package = Package::without_stub("stub-kernels", SCALE);
    let manifest = package.read("Cargo.toml");
    let check = |prefix: &str, suffix: &str, wanted: &[&str]| {
        let text = format!("{prefix}{manifest}{suffix}");
        package.write("Cargo.toml", &text);
        package.tilekit("init").ends_with(2).says(wanted);
        assert_eq!(package.read("Cargo.toml"), text);
    };
    check("test = []\n", "", &["Cargo.toml", "[[test]]"]);
    assert!(!package.root().join("tests").exists());
    check(
        "",
        "\n[[test]]\nname = \"tilekit\"\npath = \"src/lib.rs\"\n",
        &["lacks `harness = false`"],
    );
    package.write("tests/tilekit.rs", "#[test]\nfn mine() {}\n");
    check("", "", &["is no harness of TileKit", "rename that test"]);
    std::fs::remove_file(package.root().join("tests/tilekit.rs")).expect("removed");
    package
        .tilekit("init")
        .ends_with(0)
        .prints(&["tests/tilekit.rs", "Cargo.toml"]);
    package
        .tilekit("init")
        .ends_with(0)
        .says(&["has all it needs"]);
}

//! `inspect --diff` of two variants, and of two revisions.

use serde_json::Value;

use crate::Package;
use crate::package::{SCALE, Said};

fn compared(said: &Said) -> Value {
    let mut objects = said.objects().into_iter();
    objects
        .find(|object| object["reason"] == "tilekit-diff")
        .expect("a comparison")
}

/// Old and new of a figure of the whole; none where they are the same.
fn figure(comparison: &Value, name: &str) -> Option<(u64, u64)> {
    let totals = comparison["totals"].as_array().expect("figures");
    let found = totals.iter().find(|figure| figure["name"] == name)?;
    Some((found["old"].as_u64()?, found["new"].as_u64()?))
}

#[test]
fn two_variants_are_compared_line_by_line() {
    let library = SCALE.replace(
        "#[kernel(warps = 4)]",
        "#[kernel(warps = 4, instances(<256>, <2048>))]",
    );
    let package = Package::new("paired-kernels", &library);
    let said = package
        .tilekit("inspect scale<2048> --diff scale<256>")
        .ends_with(0);
    said.prints(&[
        "old  scale<256>\nnew  scale<2048>\n",
        "PTX instructions",
        "PTX: ld.global.16B",
        "src/lib.rs\n",
        ".store(x.at(at).mask(inside).load() * 2.0);",
    ]);
    let line = "inspect scale<2048> --diff scale<256> --message-format json";
    let comparison = compared(&package.tilekit(line).ends_with(0));
    assert_eq!(figure(&comparison, "PTX: ld.global.16B"), Some((0, 4)));
    assert_eq!(figure(&comparison, "PTX: ld.global.8B"), Some((1, 0)));
    assert_eq!(figure(&comparison, "threads"), None);
    // A warp moves eight times as much at the line that loads and stores.
    let lines = comparison["lines"].as_array().expect("lines");
    let line = lines.iter().find(|line| line["new_line"] == 9);
    let line = line.unwrap_or_else(|| panic!("{lines:?}"));
    let bytes = |side: &str| line[side]["global_bytes"].as_u64();
    assert_eq!(
        (bytes("old"), bytes("new")),
        (Some(512), Some(4096)),
        "{line}"
    );

    package
        .tilekit("inspect scale<256> --diff scale<256>")
        .ends_with(0)
        .prints(&["no cost differs"]);
    package
        .tilekit("inspect scale<256> --diff scale")
        .ends_with(2)
        .says(&["error: `scale` can mean 2 variants"]);
    package
        .tilekit("layout nothing --value x")
        .ends_with(4)
        .says(&["error: nothing is called `nothing`"]);
    let line = "inspect scale<256> --diff scale --message-format json";
    let said = package.tilekit(line).ends_with(2);
    assert_eq!(said.objects()[0]["level"], "error");
    package
        .tilekit("inspect scale<256> --diff kept.json")
        .ends_with(1)
        .says(&["kept.json cannot be read"]);
}

fn git(package: &Package, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    command.current_dir(package.root());
    command.args([
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "init.defaultBranch=main",
    ]);
    let output = command.args(arguments).output().expect("git starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_revision_is_built_beside_the_working_tree() {
    let package = Package::new("revised-kernels", SCALE);
    let cache = tempfile::tempdir().expect("a folder");
    let cache = cache.path().to_str().expect("a path in Unicode");
    let tilekit = |line: &str| package.tilekit_with(&[("TILEKIT_CACHE_DIR", cache)], line);
    git(&package, &["init", "--quiet"]);
    git(&package, &["add", "."]);
    // Without a workspace of its own, as most packages are. (The target folder of these tests is below another workspace.)
    let manifest = package.read("Cargo.toml");
    package.edit("Cargo.toml", "\n[workspace]\n", "");
    git(&package, &["add", "."]);
    git(&package, &["commit", "--quiet", "-m", "one"]);
    package.write("Cargo.toml", &manifest);
    git(&package, &["commit", "--quiet", "-am", "a workspace"]);
    let line = "inspect scale --diff git:HEAD~1 --message-format json";
    let same = compared(&tilekit(line).ends_with(0));
    assert_eq!(same["lines"], serde_json::json!([]));
    let line = "inspect scale --diff git:HEAD --message-format json";
    let same = compared(&tilekit(line).ends_with(0));
    assert_eq!(same["lines"], serde_json::json!([]));

    // A line more, and work more in the line that was there.
    package.edit(
        "src/lib.rs",
        "    let inside",
        "    // Ours.\n    let inside",
    );
    package.edit("src/lib.rs", "load() * 2.0", "load() * 2.0 + 1.0");
    git(&package, &["commit", "--quiet", "-am", "two"]);
    let same = compared(&tilekit(line).ends_with(0));
    assert_eq!(
        same["lines"],
        serde_json::json!([]),
        "nothing is left of the first"
    );
    let said = tilekit("inspect scale --diff git:HEAD~1").ends_with(0);
    said.prints(&[
        "old  scale<256> of git:HEAD~1\nnew  scale<256>\n",
        "PTX instructions",
        "load() * 2.0 + 1.0",
    ]);
    let line = "inspect scale --diff git:HEAD~1 --message-format json";
    let changed = compared(&tilekit(line).ends_with(0));
    let (old, new) = figure(&changed, "PTX instructions").expect("it grew");
    assert!(new > old, "{changed}");

    // The repository and the working tree are as they were.
    assert_eq!(git(&package, &["status", "--porcelain"]), "");
    assert_eq!(git(&package, &["worktree", "list"]).lines().count(), 1);
    tilekit("inspect scale --diff git:HEAD~7")
        .ends_with(2)
        .says(&["git rev-parse", "name a revision that `git log` knows"]);
    // A kernel that is not there yet.
    let more = format!(
        "{}\n#[kernel(warps = 1)]\npub fn late(out: Ptr<i32>) {{\n    out.at(0).store(1);\n}}\n",
        package.read("src/lib.rs")
    );
    package.write("src/lib.rs", &more);
    tilekit("inspect late --diff git:HEAD")
        .ends_with(4)
        .says(&["error: nothing is called `late`"]);
}

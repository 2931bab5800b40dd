//! `snapshot`.

use crate::Package;
use crate::package::SCALE;

#[test]
fn what_was_accepted_is_compared() {
    let package = Package::new("golden-kernels", SCALE);
    package
        .tilekit("snapshot")
        .ends_with(104)
        .prints(&["scale-256.ptx.snap (new)"])
        .says(&["2 new"]);
    package
        .tilekit("snapshot --accept")
        .ends_with(0)
        .prints(&["snapshots/scale-256.ir.snap\n"]);
    package
        .tilekit("snapshot --check")
        .ends_with(0)
        .says(&["as accepted"]);
    package
        .cargo("test -q --test tilekit snapshots")
        .ends_with(0)
        .prints(&["test snapshots ... ok"]);
    let text = package.read("snapshots/scale-256.ptx.snap");
    assert!(
        text.starts_with("// kernel: scale<256>\n// launch: 128 threads"),
        "{text}"
    );
    assert!(
        !text.contains("src/lib.rs") && !text.contains(".loc"),
        "no places: {text}"
    );

    // An added comment moves lines and changes no snapshot.
    package.edit("src/lib.rs", "#[kernel", "// A remark.\n#[kernel");
    package.tilekit("snapshot --check").ends_with(0);

    package.edit("src/lib.rs", "load() * 2.0", "load() * 4.0");
    let said = package.tilekit("snapshot --check").ends_with(104);
    said.prints(&["(accepted)", "(changed)", "\n-", "\n+"])
        .says(&["2 changed"]);
    package
        .cargo("test -q --test tilekit snapshots")
        .ends_with(100)
        .prints(&["cargo tilekit snapshot"]);
    package
        .tilekit("snapshot --review")
        .ends_with(2)
        .says(&["standard input is no terminal"]);

    package.edit("src/lib.rs", "load() * 4.0", "load() * 2.0");
    package.edit("src/lib.rs", "scale::<256>", "scale::<512>");
    let said = package.tilekit("snapshot --check").ends_with(104);
    said.says(&["0 changed, 2 new, 2 orphaned"]);
    package.tilekit("snapshot --accept").ends_with(0);
    package.tilekit("snapshot --check").ends_with(0);
    assert!(!package.root().join("snapshots/scale-256.ir.snap").exists());
}

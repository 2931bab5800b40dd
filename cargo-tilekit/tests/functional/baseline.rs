//! `bench --save` and `--against`.

use crate::Package;
use crate::package::SCALE;

/// Figures are kept, compared with on the same machine, and a loss is an exit code.
#[test]
fn figures_are_kept_and_compared_with() {
    let package = Package::new("baseline-kernels", SCALE);
    let kept = package.artifacts().join("baselines/before.jsonl");
    let _ = std::fs::remove_file(&kept);
    let bench = |more: &str| {
        package.tilekit(&format!(
            "bench --profile dev --device emulator --samples 3 -s n=100 {more}"
        ))
    };
    bench("--against before")
        .ends_with(2)
        .says(&["there is no baseline `before`", "`--save before` keeps one"]);
    bench("--save a/b")
        .ends_with(2)
        .says(&["write letters, digits and `-_.`"]);
    bench("--save before")
        .ends_with(0)
        .says(&["1 run kept in "]);
    let said = bench("--against before --most-loss 1000").ends_with(0);
    said.prints(&["x of `before`"])
        .says(&["0 of 1 run slower than the baseline `before` by more than 1000 %"]);

    // As if the kernel had been a thousand times faster then.
    let text = std::fs::read_to_string(&kept).expect("it is kept");
    let mut entry: serde_json::Value = serde_json::from_str(&text).expect("an object");
    let milliseconds = entry["median_ms"].as_f64().expect("a time") / 1000.0;
    entry["median_ms"] = milliseconds.into();
    std::fs::write(&kept, format!("{entry}\n")).expect("written");
    let said = bench("--against before").ends_with(109);
    said.prints(&["SLOWER "])
        .says(&["1 of 1 run slower than the baseline `before` by more than 5 %"]);
    let said = bench("--against before --message-format json").ends_with(109);
    let objects = said.objects();
    let change = objects
        .iter()
        .find(|object| object["reason"] == "tilekit-bench-change");
    assert_eq!(change.expect("a comparison")["slower"], true);

    entry["machine"]["host"] = "elsewhere".into();
    std::fs::write(&kept, format!("{entry}\n")).expect("written");
    let said = bench("--against before").ends_with(2);
    let said = said.says(&[
        "`before` was measured on another machine",
        "host `elsewhere`",
    ]);
    assert!(
        !said.stdout.contains("scale<256>"),
        "nothing was timed: {}",
        said.stdout
    );
    // What the other machine was measured at stays beside it.
    bench("--save before")
        .ends_with(0)
        .says(&["2 runs kept in "]);
    let lines = std::fs::read_to_string(&kept).expect("it is kept");
    assert_eq!(lines.matches("\"host\":\"elsewhere\"").count(), 1);
    bench("--against before --most-loss 1000").ends_with(0);
    bench("--save before")
        .ends_with(0)
        .says(&["2 runs kept in "]);

    // A line that is cut off is no reason to lose the others.
    std::fs::write(&kept, format!("{lines}{{\"case\":")).expect("written");
    bench("--save before").ends_with(2).says(&[
        "the baseline `before` cannot be added to: ",
        "before.jsonl:3: ",
        "delete the file",
    ]);
    assert!(
        std::fs::read_to_string(&kept)
            .expect("it is kept")
            .starts_with(&lines)
    );
}

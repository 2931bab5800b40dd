//! `tune`: on the emulator, and on a stand-in for a GPU, which executes nothing and says that everything takes half a millisecond.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::package::{Said, target};
use crate::{Package, stand_in};

/// A case whose candidates are right, wrong, illegal, or end the process; one that a GPU passes which executes nothing; one without a legal
/// candidate at a size; one without a space.
const TUNED: &str = r#"
use tilekit::case::{Point, Space};
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn scale<const BLOCK: usize>(x: Ptr<f32>, out: Ptr<f32>, end: Ptr<f32>, n: i32, factor: f32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let zero = end.at(arange(0..BLOCK, Coalesced) * 0).load();
    out.at(at).mask(inside).store(x.at(at).mask(inside).load() * factor + zero);
}

/// Ends the process of a candidate that the environment names, when it is launched.
fn end(case: &mut Case, candidate: &Point) -> Input<f32> {
    let is = |variable: &str| std::env::var(variable).is_ok_and(|name| name == candidate.to_string());
    let (aborts, hangs, kills) = (is("CASE_ABORTS"), is("CASE_HANGS"), is("CASE_KILLS"));
    case.input("end", [1], move |_| {
        if aborts { std::process::abort() }
        if hangs { std::thread::sleep(std::time::Duration::from_secs(600)) }
        if kills {
            let parent = std::os::unix::process::parent_id().to_string();
            std::process::Command::new("kill").args(["-KILL", &parent]).status().unwrap();
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        0.0
    })
}

fn launch(case: &mut Case, space: Space<Point>, written: usize) -> Result<(Input<f32>, Output<f32>), tilekit::Error> {
    let n = case.size("n");
    let at = case.tune(space)?;
    let (x, out, end) = (case.normal::<f32>("x", [n]), case.output::<f32>("out", [n]), end(case, &at));
    let factor = 2.0 + at.get("wrong") as f32;
    tilekit::smallest_instance!(BLOCK >= at.get("block"), in [128, 256, 512] {
        case.launch(scale::<BLOCK>, grid(n.div_ceil(BLOCK)), (&x, &out, &end, written as i32, factor))
    })?;
    Ok((x, out))
}

#[case(sizes(n = [100, 1000]))]
fn scale_some(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let space = Space::axes(&[("block", &[128, 256, 512]), ("wrong", &[0, 1])])
        .legal(|at| if at.get("block") == 512 && at.get("wrong") == 1 { Err("not both".to_string()) } else { Ok(()) })
        .predict(move |at| (at.get("block") + n) as f64);
    let (x, out) = launch(case, space, n)?;
    case.expect(&out, |[i]: [usize; 1]| x[i] * 2.0, Exactly)
}

#[case(sizes(n = [64, 96, 128]))]
fn scale_none(case: &mut Case) -> CaseResult {
    let space = Space::axes(&[("block", &[128, 256]), ("wrong", &[0])]).predict(|at| 1000.0 - at.get("block") as f64);
    let (_, out) = launch(case, space, 0)?;
    case.expect_part(&out, [0], Vec::<f32>::new, Exactly)
}

#[case(sizes(n = [32]))]
fn scale_level(case: &mut Case) -> CaseResult {
    let space = Space::axes(&[("block", &[512, 128, 256]), ("wrong", &[0])]);
    let (_, out) = launch(case, space, 0)?;
    case.expect_part(&out, [0], Vec::<f32>::new, Exactly)
}

#[case(sizes(n = [16, 48]))]
fn scale_refused(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let space = Space::axes(&[("block", &[256]), ("wrong", &[0])]).legal(move |_| if n < 32 { Err("too few".to_string()) } else { Ok(()) });
    let (x, out) = launch(case, space, n)?;
    case.expect(&out, |[i]: [usize; 1]| x[i] * 2.0, Exactly)
}

#[case(sizes(n = [100]))]
fn scale_plain(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let (x, out, end) = (case.normal::<f32>("x", [n]), case.output::<f32>("out", [n]), case.input::<f32>("end", [1], |_| 0.0));
    case.launch(scale::<256>, grid(1u32), (&x, &out, &end, n as i32, 2.0f32))?;
    case.expect(&out, |[i]: [usize; 1]| x[i] * 2.0, Exactly)
}
"#;

const TUNE: &str = "tune --profile dev --device emulator";

fn records(package: &Package) -> String {
    fs::read_to_string(package.artifacts().join("tune.jsonl")).unwrap_or_default()
}

fn of(said: &Said, reason: &str) -> Vec<Value> {
    let objects = said.objects().into_iter();
    objects
        .filter(|object| object["reason"] == reason)
        .collect()
}

#[test]
fn the_emulator_checks_every_legal_candidate_and_times_none() {
    let package = Package::new("tuned-kernels", TUNED);
    let _ = fs::remove_file(package.artifacts().join("tune.jsonl"));
    package
        .tilekit(&format!("{TUNE} scale_some"))
        .ends_with(100)
        .prints(&[
            "case `scale_some` at n=100: 5 of 6 candidates legal, 5 tried, 3 right, none timed\n  block=128 wrong=0  model 228.0 us\n",
            "case `scale_some` at n=1000: 5 of 6 candidates legal",
        ])
        .says(&[
            "none is timed: its times say nothing of a GPU",
            "case `scale_some` at n=100: candidate `block=128 wrong=1` is wrong: ",
        ]);
    assert_eq!(records(&package).lines().count(), 10);
    // What is known is not run again: a candidate that would end its process now does not.
    let ends = [("CASE_ABORTS", "block=256 wrong=0")];
    let again = format!("{TUNE} scale_some --message-format json");
    let said = package.tilekit_with(&ends, &again).ends_with(100);
    let tuned = of(&said, "tilekit-tuned");
    assert_eq!(tuned.len(), 2);
    assert_eq!(tuned[0]["refused"][0]["reason"], "not both");
    assert_eq!(tuned[0]["failed"].as_array().map(Vec::len), Some(2));
    assert_eq!(tuned[0]["right"].as_array().map(Vec::len), Some(3));
    assert_eq!(tuned[0]["fastest"], Value::Null);
    assert_eq!(records(&package).lines().count(), 10);
    // An ordinary run takes the model's best.
    package
        .tilekit("run scale_some --device emulator")
        .ends_with(0)
        .prints(&["scale<128>"]);
    let file = package.root().join("best.jsonl").display().to_string();
    package
        .tilekit(&format!("tune --profile dev --export {file}"))
        .ends_with(4)
        .says(&["no records of timed candidates"]);
    mistakes(&package);
    one_size_has_no_legal_candidate(&package);
    one_candidate_ends_its_process(&package);
    a_search_that_was_killed_goes_on(&package);
}

fn mistakes(package: &Package) {
    package
        .tilekit(&format!("{TUNE} scale_plain"))
        .ends_with(4)
        .says(&[
            "case `scale_plain` declares no space",
            "case.tune(Space::of(..))",
        ]);
    package
        .tilekit(&format!("{TUNE} scole"))
        .ends_with(4)
        .says(&["nothing is called `scole`"]);
    package
        .tilekit(&format!("{TUNE} scale_some -s m=3"))
        .ends_with(2)
        .says(&["has a size `m`"]);
    package
        .tilekit(&format!("{TUNE} --shard 3/2"))
        .ends_with(2)
        .says(&["write I/N with I from 1 to N"]);
    package
        .tilekit(&format!("{TUNE} --shard -1/2"))
        .ends_with(2)
        .says(&["write I/N with I from 1 to N"]);
    for [option, value] in [["--seed <N>", "-1"], ["--most <N>", "-1"]] {
        let name = option.trim_end_matches(" <N>");
        package
            .tilekit(&format!("{TUNE} {name} {value}"))
            .ends_with(2)
            .says(&[&format!("invalid value '{value}' for '{option}'")]);
    }
    package
        .tilekit(&format!("{TUNE} --exhaustive --most 3"))
        .ends_with(2)
        .says(&["cannot be used with", "--exhaustive", "--most <N>"]);
    // What only a search obeys.
    for option in [
        "--device <DEVICE> emulator",
        "--shard <I/N> 1/2",
        "--exhaustive",
        "--most <N> 3",
        "--seed <N> 0",
        "--time-limit <SECONDS> 5",
        "--fresh",
    ] {
        let words: Vec<&str> = option.split(' ').collect();
        let (name, value) = (words[0], words.get(2).unwrap_or(&""));
        let shown = words[..words.len().min(2)].join(" ");
        for [task, called] in [["--show", "--show"], ["--export x", "--export <FILE>"]] {
            package
                .tilekit(&format!("tune --profile dev {task} {name} {value}"))
                .ends_with(2)
                .says(&["cannot be used with", called, &shown]);
        }
    }
    let file = package.artifacts().join("tune.jsonl");
    let before = records(package);
    package
        .tilekit(&format!("tune --profile dev --export {}", file.display()))
        .ends_with(2)
        .says(&["is the file of records", "export to another"]);
    assert_eq!(records(package), before);
    package
        .tilekit("tune --profile dev --device cuda")
        .ends_with(106);
    package
        .tilekit(&format!("{TUNE} scale_none -s n=64 --records src"))
        .ends_with(2)
        .says(&["src cannot be read"]);
}

fn one_size_has_no_legal_candidate(package: &Package) {
    let why = [
        "error: case `scale_refused` at n=16: ",
        "none of the 1 candidates of its space is legal; of the first: too few",
    ];
    let tuned = "case `scale_refused` at n=48: 1 of 1 candidate legal, 1 tried, 1 right";
    let said = package.tilekit(&format!("{TUNE} scale_refused"));
    said.ends_with(100).prints(&[tuned]).says(&why);
    let said = package.tilekit(&format!("{TUNE} scale_refused -s n=16"));
    said.ends_with(100).says(&why);
    // A share of the runs without any says so too.
    let said = package.tilekit(&format!("{TUNE} scale_refused --shard 2/2"));
    said.ends_with(100)
        .says(&why)
        .says(&["share 2 of 2 has no runs"]);
}

fn one_candidate_ends_its_process(package: &Package) {
    for (variable, limit, why) in [
        (
            "CASE_ABORTS",
            60,
            "failed: the process ended: signal: 6 (SIGABRT)",
        ),
        (
            "CASE_HANGS",
            2,
            "did not end within 2 s: `--time-limit` gives it longer on the emulator",
        ),
    ] {
        let arguments = format!("{TUNE} scale_none -s n=64 --fresh --time-limit {limit}");
        package
            .tilekit_with(&[(variable, "block=256 wrong=0")], &arguments)
            .ends_with(100)
            .prints(&["2 of 2 candidates legal, 2 tried, 1 right, none timed\n  block=128 wrong=0"])
            .says(&["candidate `block=256 wrong=0` failed: ", why]);
    }
    // With no right candidate left the run cannot be tuned.
    package
        .tilekit_with(
            &[
                ("CASE_ABORTS", "block=256 wrong=0"),
                ("CASE_HANGS", "block=128 wrong=0"),
            ],
            &format!("{TUNE} scale_none -s n=64 --fresh --time-limit 2"),
        )
        .ends_with(110)
        .says(&["no candidate gave right results"]);
    package
        .tilekit(&format!("{TUNE} scale_none -s n=64 --fresh"))
        .ends_with(0)
        .prints(&["2 right"]);
    package
        .tilekit(&format!("{TUNE} scale_none -s n=64"))
        .ends_with(0)
        .prints(&["2 right"]);
}

fn a_search_that_was_killed_goes_on(package: &Package) {
    let file = package.root().join("killed.jsonl");
    let arguments = format!("{TUNE} scale_some -s n=100 --records {}", file.display());
    package
        .tilekit_with(&[("CASE_KILLS", "block=256 wrong=0")], &arguments)
        .ends_with(1);
    let before = fs::read_to_string(&file).expect("what came before is recorded");
    assert_eq!(before.lines().count(), 2, "{before}");
    // As if it had been stopped amid a line.
    fs::write(&file, format!("{before}{{\"format\":1,\"case")).expect("written");
    package
        .tilekit_with(&[("CASE_ABORTS", "block=128 wrong=0")], &arguments)
        .ends_with(100)
        .prints(&["5 tried, 3 right"])
        .says(&["1 line of", "is no record of this release"]);
    let after = fs::read_to_string(&file).expect("records");
    assert!(after.starts_with(&before));
    assert_eq!(after.lines().count(), 6, "{after}");
}

/// Runs the tool with a GPU that executes nothing.
fn on_gpu(package: &Package, library: &Path, variables: &[(&str, &str)], arguments: &str) -> Said {
    let library = library.display().to_string();
    let mut all = vec![
        ("TILEKIT_LIBCUDA", library.as_str()),
        ("TILEKIT_FAKE_PARAMETERS", "8,8,8,4,4"),
    ];
    all.extend(variables);
    package.tilekit_with(&all, arguments)
}

#[test]
fn a_gpu_times_what_is_right_and_shares_of_the_work_add_up() {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/driver/fake_driver.c");
    let folder = target().join("tmp/tune-driver");
    fs::create_dir_all(&folder).expect("a folder");
    let library = stand_in::build(&source, &folder);
    let package = Package::new("timed-kernels", TUNED);
    let file = |name: &str| package.root().join(name).display().to_string();
    let tune = |variables: &[(&str, &str)], arguments: &str| {
        on_gpu(
            &package,
            &library,
            variables,
            &format!("tune --profile dev {arguments}"),
        )
    };
    let whole = file("whole.jsonl");
    let search = format!("scale_none --device cuda --records {whole}");
    tune(&[], &search).ends_with(0).prints(&[
        "case `scale_none` at n=64: 2 of 2 candidates legal, 2 tried, 2 right, 2 timed in ",
        "  block=256 wrong=0  single   500.00 us  back to back",
        "model 744.0 us",
    ]);
    let text = fs::read_to_string(&whole).expect("records");
    assert_eq!(text.matches("\"outcome\":\"right\"").count(), 6);
    assert_eq!(text.matches("\"heat\":0").count(), 6);
    let gpu = r#""machine":{"gpu":"NVIDIA Fake","multiprocessors":132,"power_limit_watts":null,"driver":"13.0"}"#;
    assert!(text.lines().all(|line| line.contains(gpu)), "{text}");
    // All is known: nothing is launched.
    tune(&[("CASE_ABORTS", "block=256 wrong=0")], &search)
        .ends_with(0)
        .prints(&["2 timed before"]);
    assert_eq!(fs::read_to_string(&whole).expect("records"), text);
    // What executes nothing gives wrong results where some are expected, and a candidate that crashes is one of two.
    let wrong = format!("scale_some --device cuda --records {}", file("wrong.jsonl"));
    tune(&[], &wrong)
        .ends_with(110)
        .says(&["is wrong: ", "no candidate gave right results"]);
    let crash = format!(
        "scale_none --device cuda -s n=64 --records {}",
        file("crash.jsonl")
    );
    tune(&[("CASE_ABORTS", "block=256 wrong=0")], &crash)
        .ends_with(0)
        .prints(&["1 right, 1 timed"])
        .says(&["candidate `block=256 wrong=0` failed: the process ended: signal: 6"]);
    // Shares.
    for share in ["1/2", "2/2"] {
        let name = file(&format!("{}.jsonl", share.replace('/', "of")));
        let said = tune(
            &[],
            &format!("scale_none --device cuda --shard {share} --records {name}"),
        );
        let runs = if share == "1/2" {
            "at n=128"
        } else {
            "at n=96"
        };
        said.ends_with(0).prints(&[runs]);
    }
    let parts = ["2of2.jsonl", "1of2.jsonl"].map(|name| package.read(name));
    package.write("merged.jsonl", &parts.concat());
    let show = |name: &str| {
        tune(&[], &format!("--show --records {}", file(name)))
            .ends_with(0)
            .stdout
    };
    assert_eq!(show("merged.jsonl"), show("whole.jsonl"));
    assert_eq!(show("merged.jsonl").lines().count(), 3);
    // A kernel stands for its cases here too.
    let selected = |filter: &str| {
        let said = tune(&[], &format!("--show {filter} --records {whole}"));
        (said.code, said.stdout.lines().count())
    };
    assert_eq!(selected("scale<256>"), (Some(0), 3));
    assert_eq!(selected("timed_kernels::scale_none"), (Some(0), 3));
    assert_eq!(selected("scale_some"), (Some(4), 0));
    // So do sizes choose runs.
    assert_eq!(selected("scale_none -s n=96"), (Some(0), 1));
    assert_eq!(selected("-s n=128,64"), (Some(0), 2));
    assert_eq!(selected("scale_none -s n=5"), (Some(4), 0));
    assert_eq!(selected("-s m=5"), (Some(2), 0));
    // All are level, and there is no model: the first one that is declared.
    let level = file("level.jsonl");
    tune(&[], &format!("scale_level --device cuda --records {level}"))
        .ends_with(0)
        .prints(&["3 timed in ", "\n  block=512 wrong=0  single"]);
    assert!(show("level.jsonl").contains(": block=512 wrong=0  single"));
    let best = file("best.jsonl");
    tune(&[], &format!("--export {best} --records {whole}"))
        .ends_with(0)
        .says(&["3 runs written to"]);
    let tuned = package.read("best.jsonl");
    let one = file("one.jsonl");
    tune(&[], &format!("--export {one} -s n=96 --records {whole}"))
        .ends_with(0)
        .says(&["1 run written to"]);
    assert!(package.read("one.jsonl").contains(r#""sizes":{"n":96}"#));
    assert!(tuned.contains(r#""case":"timed_kernels::scale_none","sizes":{"n":128},"candidate":"block=256 wrong=0""#), "{tuned}");
    tune(
        &[],
        &format!("scale_none --device cuda --shard 5/5 --records {whole}"),
    )
    .ends_with(0)
    .says(&["share 5 of 5 has no runs"]);
    // Other code is measured again, and said to be.
    package.edit("src/lib.rs", "* factor + zero", "* (factor + zero)");
    tune(&[], &format!("--show --records {whole}"))
        .ends_with(0)
        .prints(&["STALE: its kernels have changed"]);
    tune(&[], &format!("--export {best} --records {whole}"))
        .ends_with(4)
        .says(&["is stale, and left out"]);
    tune(&[], &search)
        .ends_with(0)
        .prints(&["2 timed in "])
        .says(&["2 records are stale, and measured again"]);
    assert_eq!(show("whole.jsonl").matches("STALE").count(), 0);
    // What has gone from the space is still recorded, and as fast.
    package.edit(
        "src/lib.rs",
        "&[128, 256]), (\"wrong\", &[0])",
        "&[128]), (\"wrong\", &[0])",
    );
    assert_eq!(
        show("whole.jsonl").matches(": block=128 wrong=0 ").count(),
        3
    );
    tune(&[], &format!("--export {best} --records {whole}"))
        .ends_with(0)
        .says(&["3 runs written to"]);
    // The code of before has its records.
    package.edit("src/lib.rs", "* (factor + zero)", "* factor + zero");
    tune(&[], &search).ends_with(0).prints(&["1 timed before"]);
    assert_eq!(show("whole.jsonl").matches("STALE").count(), 0);
}

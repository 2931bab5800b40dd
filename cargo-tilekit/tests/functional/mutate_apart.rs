//! `mutate` with a process for each mutant, as on a GPU; here the emulator is the device of these processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::Package;
use crate::mutate::REVERSE;

const APART: &str = "mutate --profile dev --seeds 2 --isolate";

#[test]
fn each_mutant_runs_in_a_process_and_stands_beside_the_emulators_verdict() {
    let package = Package::new("apart-kernels", REVERSE);
    let said = package
        .tilekit(&format!("{APART} --message-format json"))
        .ends_with(0);
    let objects = said.objects();
    let of = |reason: &str| -> Vec<_> {
        let all = objects.iter();
        all.filter(|object| object["reason"] == reason)
            .cloned()
            .collect()
    };
    let mutants = of("tilekit-device-mutant");
    let verdicts: Vec<String> = mutants
        .iter()
        .map(|mutant| {
            let (device, emulator) = (&mutant["device"]["outcome"], &mutant["emulator"]["status"]);
            format!("{}: {device}, {emulator}", mutant["kind"])
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            r#""griddepcontrol.wait": "passed", "survived""#,
            r#""bar.sync": "reported", "found""#
        ]
    );
    let table = &of("tilekit-device-mutants")[0];
    assert_eq!(table["all"]["device"]["reported"], 1);
    assert_eq!(table["all"]["device_alone"], 0);
    package
        .tilekit(APART)
        .ends_with(0)
        .prints(&["\nbar.sync                           1        0"])
        .says(&[
            "2 of 2 mutants are known from an earlier run",
            "1 of 2 mutants fail on emulator, the emulator finds 1",
        ]);
    package
        .tilekit(&format!("{APART} --limit 1"))
        .ends_with(0)
        .says(&["of 1 mutant fail"]);
    package
        .tilekit("mutate --profile dev --device cuda")
        .ends_with(106);
}

#[test]
fn a_process_that_aborts_is_a_verdict_and_contradicts_an_emulator_that_finds_nothing() {
    let ends = r#"case.expect(&out, |[i]: [usize; 1]| {
        if std::env::var_os("CASE_ABORTS").is_some() { std::process::abort() }
        x[127 - i]
    }, Exactly)"#;
    let case = "case.expect(&out, |[i]: [usize; 1]| x[127 - i], Exactly)";
    let package = Package::new("abort-kernels", &REVERSE.replace(case, ends));
    package.tilekit(APART).ends_with(0);
    // The heading and the result of the unchanged kernel are kept; results of mutants are dropped.
    let path = package.artifacts().join("mutate-apart.jsonl");
    let text = fs::read_to_string(&path).expect("results are recorded");
    let kept = text
        .lines()
        .filter(|line| line.contains("\"harness\"") || line.contains("\"kind\":\"unchanged\""));
    let kept: Vec<&str> = kept.collect();
    assert_eq!((text.lines().count(), kept.len()), (4, 2), "{text}");
    fs::write(&path, kept.join("\n") + "\n").expect("a file");
    package
        .tilekit_with(&[("CASE_ABORTS", "1")], APART)
        .ends_with(108)
        .prints(&[
            "fails on the device, survived on the emulator: griddepcontrol.wait at src/lib.rs:7:5",
            "the process ended: signal: 6 (SIGABRT)",
        ])
        .says(&["1 mutant failed on emulator and survived on the emulator"]);
    let text = fs::read_to_string(&path).expect("results are recorded");
    assert!(
        text.lines()
            .any(|line| line.contains("\"died\"") && line.contains("\"is_alone\":true")),
        "it is confirmed with no other process beside it:\n{text}"
    );
    // With nothing known, the kernel as it is fails, and nothing is said of its mutants.
    package
        .tilekit_with(&[("CASE_ABORTS", "1")], &format!("{APART} --fresh"))
        .ends_with(100);
}

/// Reports whatever is a mutant, and says nothing of a kernel as it is.
const SANITIZER: &str = r#"#!/bin/sh
while [ "$1" != "--log-file" ]; do shift; done
log=$2; shift 2
if grep -q '"mutation":null' "$TILEKIT_REQUEST"; then errors=0; else errors=1; fi
"$@"
status=$?
echo "========= COMPUTE-SANITIZER" >"$log"
if [ $errors = 1 ]; then echo "========= Error: Race reported between a and b" >>"$log"; fi
echo "========= RACECHECK SUMMARY: $errors hazards displayed ($errors errors, 0 warnings)" >>"$log"
exit $status
"#;

#[test]
fn what_the_device_passes_runs_under_the_tools_of_the_sanitizer() {
    let package = Package::new("sanitized-kernels", REVERSE);
    package.write("toolkit/bin/compute-sanitizer", SANITIZER);
    let program = package.root().join("toolkit/bin/compute-sanitizer");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    let toolkit = package.root().join("toolkit");
    let variables = [("CUDA_HOME", toolkit.to_str().expect("a name"))];
    let sanitized = format!("{APART} --sanitize racecheck");
    package
        .tilekit_with(&variables, &sanitized)
        .ends_with(0)
        .prints(&["racecheck: 1 mutants run, 1 reported, 0 without an answer"]);
    let text = fs::read_to_string(package.artifacts().join("mutate-apart.jsonl"));
    let said = r#""said":"reported","count":1,"message":"Error: Race reported between a and b""#;
    assert!(text.expect("results").contains(said));
    package
        .tilekit_with(&variables, &format!("{sanitized} --sanitize-all"))
        .ends_with(0)
        .prints(&["racecheck: 2 mutants run, 2 reported"]);
    // One that says something of the kernel as it is says nothing of its mutants.
    package.edit("toolkit/bin/compute-sanitizer", "errors=0", "errors=3");
    package
        .tilekit_with(&variables, &format!("{sanitized} --fresh"))
        .ends_with(0)
        .says(&["racecheck of sanitized_kernels::reverse unchanged: it reports 3"]);
    package
        .tilekit(&format!("{APART} --sanitize leakcheck"))
        .ends_with(2)
        .says(&["`leakcheck` is no tool; there are memcheck, racecheck"]);
}

//! `bench` on stand-ins for a GPU's driver, its management library and CUPTI: clocks and power, hardware counters, baselines of a GPU, pictures.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::package::{SCALE, Said, target};
use crate::programs::ptxas_of_heads;
use crate::{Package, stand_in};

/// Two launches that are one piece of work.
const TWICE: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn scale<const BLOCK: usize>(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    out.at(at).mask(inside).store(x.at(at).mask(inside).load() * 2.0);
}

#[case(sizes(n = [1000]))]
fn twice(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    case.does_flops(2 * n);
    case.moves_bytes(16 * n);
    let (x, y, out) = (case.normal::<f32>("x", [n]), case.output::<f32>("y", [n]), case.output::<f32>("out", [n]));
    case.launch(scale::<256>, grid(n.div_ceil(256)), (&x, &y, n as i32))?;
    case.launch(scale::<128>, grid(n.div_ceil(128)), (&y, &out, n as i32))?;
    case.expect(&out, |[i]: [usize; 1]| x[i] * 4.0, Exactly)
}
"#;

/// The stand-ins, compiled, each by the name that it is looked for.
struct StandIns {
    driver: String,
    cupti: String,
    /// Of the management library.
    folder: String,
}

impl StandIns {
    fn new(name: &str) -> StandIns {
        let folder = target().join("tmp").join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functional");
        let built = |source: PathBuf, name: &str| {
            let library = stand_in::build_as(&source, &folder, name);
            library.display().to_string()
        };
        built(tests.join("fake_nvml.c"), "libnvidia-ml.so.1");
        StandIns {
            driver: built(
                tests.join("../../../runtime/tests/driver/fake_driver.c"),
                "libfake_driver.so",
            ),
            cupti: built(tests.join("fake_cupti.c"), "libcupti.so.13"),
            folder: folder.display().to_string(),
        }
    }

    fn bench(&self, package: &Package, variables: &[(&str, &str)], arguments: &str) -> Said {
        let mut all = vec![
            ("TILEKIT_LIBCUDA", self.driver.as_str()),
            ("TILEKIT_LIBCUPTI", self.cupti.as_str()),
            ("LD_LIBRARY_PATH", self.folder.as_str()),
            ("TILEKIT_FAKE_PARAMETERS", "8,8,4"),
            ("TILEKIT_FAKE_CLOCKS", "1"),
        ];
        all.extend(variables);
        let arguments = format!("bench --profile dev --device cuda --samples 2 {arguments}");
        package.tilekit_with(&all, &arguments)
    }
}

#[test]
fn counters_are_read_launch_by_launch_and_stand_beside_the_model() {
    let package = Package::new("counted-kernels", TWICE);
    let stand_ins = StandIns::new("counters");
    let bench = |variables: &[(&str, &str)], arguments: &str| {
        stand_ins.bench(&package, variables, arguments)
    };
    // Long enough for clocks to be asked for.
    let busy = [("TILEKIT_FAKE_BUSY", "30")];
    bench(&busy, "--counters").ends_with(0).prints(&[
        "SMs at 1755 MHz, memory at 2619 MHz, 612 of 700 W, 54 °C; held back by the power limit (100 % of ",
        "counters of `scale<256>`, 2 passes",
        "modelled (H200)",
        "DRAM: both                           3.00 MB",
        "counters of `scale<128>`, 2 passes",
        "DRAM: both                          30.00 MB",
        "warps wait for: 50 % wgmma (gmma)",
        "not counted: dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ]);
    let said = bench(&busy, "--counters --message-format json").ends_with(0);
    let objects = said.objects();
    let is_bench = |object: &&Value| object["reason"] == "tilekit-bench";
    let figures = objects.iter().find(is_bench).expect("figures");
    let ours = &figures["chains"][0]["entrants"][0];
    let counters = &ours["counters"];
    assert_eq!(counters[0]["values"]["dram_read_bytes"], 1e6);
    assert_eq!(counters[1]["values"]["dram_read_bytes"], 1e7);
    assert_eq!(counters[0]["values"]["stall_percent"]["gmma"], 50.0);
    assert_eq!(counters[0]["values"].get("dram_busy_percent"), None);
    assert_eq!(figures["modelled"].as_array().map(Vec::len), Some(2));
    assert_eq!(ours["conditions"]["sm_mhz"][1], 1755);
    // Without the flag there are none.
    let said = bench(&[], "--message-format json").ends_with(0);
    let objects = said.objects();
    let figures = objects.iter().find(is_bench).expect("figures");
    let ours = &figures["chains"][0]["entrants"][0];
    assert_eq!(ours["counters"].as_array().map(Vec::len), Some(0));
}

/// Machine code is what has lines: of what the driver compiles there are none.
#[test]
fn lines_at_which_warps_wait_are_told_where_ptxas_made_the_code() {
    let package = Package::new("sampled-kernels", SCALE);
    let stand_ins = StandIns::new("sampled");
    let ptxas = ptxas_of_heads(&package);
    let cache = package.root().join("cache").display().to_string();
    let assembled = [
        ("PTXAS", ptxas.as_str()),
        ("TILEKIT_CACHE_DIR", cache.as_str()),
    ];
    let bench = |arguments: &str| stand_ins.bench(&package, &assembled, arguments);
    bench("-s n=100 --counters").ends_with(0).prints(&[
        "    where warps wait, 8 samples\n",
        "        75 %  src/lib.rs:7  (gmma)\n",
        "              let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced)\n",
        "        25 %  src/lib.rs:6  (wait)\n",
    ]);
    let said = bench("-s n=100 --counters --message-format json").ends_with(0);
    let objects = said.objects();
    let is_bench = |object: &&Value| object["reason"] == "tilekit-bench";
    let figures = objects.iter().find(is_bench).expect("figures");
    let waits = &figures["chains"][0]["entrants"][0]["counters"][0]["waits"];
    assert_eq!(waits["lines"][0]["reasons"]["gmma"], 6, "{waits}");
}

#[test]
fn what_keeps_from_counting_is_said_before_anything_is_timed() {
    let package = Package::new("refused-kernels", SCALE);
    let stand_ins = StandIns::new("refused-counters");
    let refused = stand_ins.bench(
        &package,
        &[("TILEKIT_FAKE_REFUSE", "1")],
        "-s n=100 --counters",
    );
    let refused = refused.ends_with(105).says(&[
        "the driver lets administrators alone read hardware counters",
        "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)",
        "root",
        "CAP_SYS_ADMIN",
        "NVreg_RestrictProfilingToAdminUsers=0",
    ]);
    assert!(!refused.stdout.contains("median"), "{}", refused.stdout);
    let none = [("TILEKIT_LIBCUPTI", "/nowhere/libcupti.so.13")];
    stand_ins
        .bench(&package, &none, "-s n=100 --counters")
        .ends_with(105)
        .says(&["$TILEKIT_LIBCUPTI names /nowhere/libcupti.so.13"]);
    let on = |device: &str| {
        let missing = [("TILEKIT_LIBCUDA", "/nowhere/libcuda.so.1")];
        let arguments = format!("bench --profile dev --device {device} -s n=100 --counters");
        package.tilekit_with(&missing, &arguments)
    };
    on("emulator").ends_with(2).says(&[
        "--counters reads counters of a GPU",
        "without a GPU `bench` models times",
    ]);
    on("auto").ends_with(106).says(&[
        "--counters reads counters of a GPU",
        "/nowhere/libcuda.so.1",
    ]);
}

#[test]
fn a_gpu_without_a_management_library_is_timed_and_that_is_said() {
    let package = Package::new("unmanaged-kernels", SCALE);
    let stand_ins = StandIns::new("unmanaged");
    let nowhere = [("LD_LIBRARY_PATH", "/nowhere")];
    let said = stand_ins.bench(&package, &nowhere, "-s n=100").ends_with(0);
    let said = said.says(&["clocks and power are not known: there is no libnvidia-ml.so.1: "]);
    assert!(!said.stdout.contains("MHz"), "{}", said.stdout);
}

#[test]
fn baselines_of_another_power_limit_are_refused() {
    let package = Package::new("limited-kernels", SCALE);
    let stand_ins = StandIns::new("limited");
    let kept = package.artifacts().join("baselines/cool.jsonl");
    let _ = fs::remove_file(&kept);
    let bench = |watts: &str, arguments: &str| {
        stand_ins.bench(
            &package,
            &[("TILEKIT_FAKE_WATTS", watts)],
            &format!("-s n=100 {arguments}"),
        )
    };
    bench("700", "--save cool").ends_with(0);
    // The stand-in says that everything takes half a millisecond.
    bench("700", "--against cool --most-loss 0").ends_with(0);
    bench("500", "--against cool").ends_with(2).says(&[
        "the baseline `cool` was measured on another machine",
        "then: NVIDIA Fake (132 multiprocessors, 700 W, driver 580.159.04) of host",
        "now: NVIDIA Fake (132 multiprocessors, 500 W, driver 580.159.04) of host",
    ]);
}

#[test]
fn times_and_rooflines_are_drawn() {
    let package = Package::new("drawn-kernels", TWICE);
    let stand_ins = StandIns::new("drawn");
    let file = |name: &str| package.root().join(name).display().to_string();
    let (chart, roofline) = (file("chart.svg"), file("roofline.svg"));
    let draw = format!("--counters --chart {chart} --roofline {roofline}");
    stand_ins.bench(&package, &[], &draw).ends_with(0).prints(&[
        "twice n=1000",
        "Roofline of NVIDIA Fake: memory 3.35 TB/s, FP32 cores 67 TFLOP/s",
        "at 0.125 FLOP/B, ",
        " FLOP/B by the DRAM bytes counted, ",
    ]);
    for (path, title) in [
        (&chart, "Times on NVIDIA Fake"),
        (&roofline, "Roofline of NVIDIA Fake"),
    ] {
        let svg = fs::read_to_string(path).expect("a picture");
        assert!(svg.starts_with("<svg ") && svg.contains(title), "{svg}");
        assert!(svg.contains("scale&lt;256&gt; + scale&lt;128&gt;"), "{svg}");
    }
    // A model of an H200 is drawn as well, and says so.
    let modelled = file("modelled.svg");
    let arguments = format!("bench --profile dev --device emulator --roofline {modelled}");
    package
        .tilekit(&arguments)
        .ends_with(0)
        .prints(&["Roofline of an H200 as modelled"]);
    package
        .tilekit("bench --profile dev --device emulator --roofline twice")
        .ends_with(2)
        .says(&["write the name of an SVG file"]);
}

#[test]
fn a_case_that_says_no_work_has_no_roofline() {
    let package = Package::new("silent-kernels", SCALE);
    let path = package.root().join("roofline.svg");
    let arguments = format!(
        "bench --profile dev --device emulator -s n=100 --roofline {}",
        path.display()
    );
    package
        .tilekit(&arguments)
        .ends_with(0)
        .says(&["no roofline: no run says both", "case.does_flops"]);
    assert!(!path.exists());
}

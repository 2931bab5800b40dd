//! `trace`: timelines of kernels on the emulator.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Package;
use crate::package::{Said, shipped};

/// Sums of columns by rings of one stage and of three; and a kernel that has no register left.
const RING: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn sums<const STAGES: usize>(#[block([64, 64], Nvmma::PLAIN)] x: TensorMap<f32>, out: Ptr<f32>, rows: i32) {
    let ring = Pipeline::tma(x, STAGES, Consumers::warpgroups(1));
    let steps = cdiv(rows, 64);
    let add = || {
        let layout = Blocked::new([16, 1], [1, 32], [1, 4], [1, 0]);
        let mut sums = zeros::<f32>([64], Slice::new(0, layout.clone()));
        let mut at = ring.start();
        for step in range(0, steps) {
            let stage = ring.consumer_wait(at);
            mark_with("got", step);
            sums += stage.tiles.load(layout.clone()).sum(0);
            at = ring.consumer_release(stage).advance();
        }
        out.at(arange(0..64, Slice::new(0, layout))).store(sums);
    };
    let copy = || {
        let mut at = ring.start();
        for step in range(0, steps) {
            let stage = ring.producer_acquire(at);
            x.load((step * 64, 0), stage.tiles, stage.full);
            at = ring.commit(stage).advance();
        }
    };
    warp_specialize().main(add).worker(Warps(1).registers(40), copy).run();
}

fn case_of<const STAGES: usize>(case: &mut Case) -> CaseResult {
    let rows = case.size("rows");
    let x = case.integers::<f32>("x", [rows, 64], -4..5);
    let out = case.output::<f32>("out", [64]);
    case.launch(sums::<STAGES>, grid(1), (x.view(), &out, rows as i32))?;
    case.expect(&out, |[c]: [usize; 1]| (0..rows).map(|r| x[r * 64 + c]).sum::<f32>(), Exactly)
}

#[case(sizes(rows = [1600]))]
fn deep(case: &mut Case) -> CaseResult {
    case_of::<3>(case)
}

#[case(sizes(rows = [1600]))]
fn flat(case: &mut Case) -> CaseResult {
    case_of::<1>(case)
}
"#;

fn traced(said: &Said) -> Value {
    let mut objects = said.objects().into_iter();
    objects
        .find(|object| object["reason"] == "tilekit-trace")
        .expect("a trace")
}

fn partition<'t>(trace: &'t Value, name: &str) -> &'t Value {
    let partitions = trace["summary"]["partitions"].as_array().expect("a list");
    let found = partitions.iter().find(|p| p["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is among {partitions:?}"))
}

/// `X` events of one thread nest; ids of async events and arrows pair; arrows lead forwards, to the end of a wait.
fn check_perfetto(text: &str) -> usize {
    let file: Value = serde_json::from_str(text).expect("JSON");
    let events = file["traceEvents"].as_array().expect("a list");
    let of = |phase: &'static str| events.iter().filter(move |e| e["ph"] == phase);
    let number = |e: &Value, key: &str| (e[key].as_f64().expect("a number") * 1e3).round() as i64;
    let mut threads: BTreeMap<(i64, i64), Vec<(i64, i64)>> = BTreeMap::new();
    for e in of("X") {
        let whole = |key: &str| e[key].as_i64().expect("a number");
        let thread = (whole("pid"), whole("tid"));
        let begin = number(e, "ts");
        let spans = threads.entry(thread).or_default();
        spans.push((begin, begin + number(e, "dur")));
    }
    for spans in threads.values_mut() {
        spans.sort_by_key(|(begin, end)| (*begin, -end));
        let mut open: Vec<i64> = Vec::new();
        for &(begin, end) in &*spans {
            open.retain(|until| *until > begin);
            assert!(open.last().is_none_or(|until| end <= *until), "{spans:?}");
            open.push(end);
        }
    }
    let mut arrows = 0;
    for (first, second) in [("b", "e"), ("s", "f")] {
        for e in of(first) {
            let mut ends = of(second).filter(|other| other["id"] == e["id"]);
            let end = ends.next().expect("each has its end");
            assert!(ends.next().is_none() && number(end, "ts") > number(e, "ts"));
            arrows += usize::from(first == "s");
        }
        assert_eq!(of(first).count(), of(second).count());
    }
    arrows
}

#[test]
fn a_ring_is_traced_and_one_stage_is_seen_to_wait() {
    let package = Package::new("trace-kernels", RING);
    let said = package.tilekit("trace deep --device emulator").ends_with(0);
    said.prints(&[
        "modelled: the order of events is real",
        "0 dropped",
        "ring.full",
        "ring.empty",
        "load x of 16 KiB: 25 issued, 25 waited for",
        "page: ",
    ]);
    let trace = |line: &str| {
        let line = format!("trace {line} --device emulator --message-format json");
        traced(&package.tilekit(&line).ends_with(0))
    };
    let deep = trace("deep --perfetto deep.json --html deep.html");
    let flat = trace("flat --html flat.html");
    let waiting = |trace: &Value| {
        partition(trace, "add")["waiting"]
            .as_f64()
            .expect("a share")
    };
    assert!(
        waiting(&flat) > waiting(&deep) + 0.1,
        "one stage: {}, three: {}",
        waiting(&flat),
        waiting(&deep)
    );
    assert_eq!(check_perfetto(&package.read("deep.json")), 25);
    let events = &partition(&deep, "add")["events"];
    assert_eq!((&events["wait"], &events["mark"]), (&25.into(), &25.into()));
    let page = package.read("deep.html");
    assert!(page.len() < 2_000_000 && page.contains("ring.full"));
    for outside in ["http://", "https://", "src=", "@import"] {
        assert!(!page.contains(outside), "the page asks for {outside}");
    }
    package
        .tilekit("trace deep --device emulator --level tiles")
        .ends_with(0)
        .prints(&["inside of loops over steps are not recorded"]);
    let small = trace("deep --records 16 --keep last");
    let made = small["summary"]["dropped"].as_u64().expect("a count");
    let all = trace("deep --records 1024");
    assert_eq!(all["summary"]["dropped"], 0);
    // 25 steps: of the consumer 2 of its wait, 1 of its mark and those of the sums; of the producer 3.
    assert!(made >= 25 * 6 - 2 * 16, "{made} dropped");
}

#[test]
fn a_part_of_a_timeline_is_drawn() {
    let package = Package::new("trace-pictures", RING);
    let draw = |case: &str, options: &str| {
        let line = format!("trace {case} --device emulator --svg {case}.svg {options}");
        package.tilekit(&line)
    };
    draw("deep", "")
        .ends_with(0)
        .prints(&["picture: ", "deep.svg\n"]);
    draw("flat", "").ends_with(0);
    let (deep, flat) = (package.read("deep.svg"), package.read("flat.svg"));
    for part in [
        "<svg xmlns=",
        ">sums&lt;3&gt;</text>",
        ">CTA 0, lengths are modelled</text>",
        ">add</text>",
        ">copy</text>",
        ">load x</text>",
        ">copy in flight</text>",
        ">waits for an mbarrier</text>",
    ] {
        assert!(deep.contains(part), "`{part}` is missing:\n{deep}");
    }
    assert!(
        deep.len() < 60_000 && deep.ends_with("</svg>\n"),
        "{}",
        deep.len()
    );
    // Copies of one stage follow each other; those of three overlap, on lines of their own.
    let lines = |svg: &str| {
        let bars = svg
            .lines()
            .filter(|line| line.contains("#2a9d8f") && line.contains("height=\"9\""));
        let y = |bar: &str| {
            bar.split(" y=\"")
                .nth(1)?
                .split('"')
                .next()
                .map(str::to_owned)
        };
        bars.filter_map(y)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    assert_eq!((lines(&deep), lines(&flat)), (3, 1));
    draw("deep", "--between 1000..2000").ends_with(0);
    assert!(package.read("deep.svg").len() < deep.len());
    draw("deep", "--cta 1")
        .ends_with(2)
        .says(&["CTA 1 has recorded nothing", "CTAs that have: 0"]);
    draw("deep", "--between 1000000000000000000..1000000000000000001")
        .ends_with(2)
        .says(&["nothing lies between these times", "CTA 0 ran from "]);
    draw("deep", "--between 5..3")
        .ends_with(2)
        .says(&["write two numbers of ns, such as 2000..6000"]);
    package
        .tilekit("trace deep --cta 1")
        .ends_with(2)
        .says(&["--svg"]);
}

#[test]
fn what_cannot_be_traced_is_refused_with_a_help() {
    let package = Package::new("trace-wrong", RING);
    for (line, code, wanted) in [
        ("trace", 2, "which case is to be traced?"),
        (
            "trace deep --level all",
            2,
            "[possible values: partitions, tiles, steps]",
        ),
        (
            "trace deep --records 100",
            2,
            "a power of two from 8 to 1048576",
        ),
        (
            "trace deep --keep none",
            2,
            "[possible values: first, last]",
        ),
        (
            "trace deep --html t.html --perfetto ./t.html",
            2,
            "--html and --perfetto both name ",
        ),
        ("trace nothing", 4, "nothing is called `nothing`"),
        ("trace e --device emulator", 2, "can mean 2 cases"),
        (
            "trace deep --device emulator --perfetto /proc/nowhere/x.json",
            2,
            "cannot be written",
        ),
    ] {
        package.tilekit(line).ends_with(code).says(&[wanted]);
    }
}

#[test]
fn a_kernel_that_spills_only_with_records_is_refused() {
    let package = Package::new("trace-spills", RING);
    // As ptxas counts: the kernel with records spills, that without does not.
    let script = r#"for output; do :; done
printf '\177ELF' > "$output"
bytes=0; grep -q clock64 "$3" && bytes=48
echo "ptxas info    : Compiling entry function 'sums_3' for 'sm_90a'" >&2
echo "ptxas info    : Function properties for sums_3" >&2
echo "    $bytes bytes stack frame, $bytes bytes spill stores, $bytes bytes spill loads" >&2
echo "ptxas info    : Used 248 registers" >&2
exit 0"#;
    let ptxas = crate::programs::ptxas(&package, "spills", script);
    let variables = [("PTXAS", ptxas.as_str())];
    let said = package.tilekit_with(&variables, "trace deep --device emulator");
    said.ends_with(105).says(&[
        "spills 96 bytes with records and 0 without",
        "--level tiles",
    ]);
    let line = "trace deep --device emulator --level partitions";
    let said = package.tilekit_with(&variables, line).ends_with(105);
    let said = said.says(&["takes three registers", "`bench --counters`"]);
    assert!(!said.stderr.contains("--level"), "{}", said.stderr);
}

#[test]
fn shipped_kernels_are_traced_with_every_copy_and_wait() {
    for (case, copies) in [
        ("matmul_warp_specialized_bf16", 120),
        ("attention_forward_bf16", 0),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("trace.json");
        let line = format!(
            "trace {case} -p examples --device emulator --message-format json --perfetto {} --html {}",
            file.display(),
            folder.path().join("trace.html").display()
        );
        let trace = traced(&shipped(&line).ends_with(0));
        assert_eq!(trace["summary"]["dropped"], 0, "{case}");
        let listed = trace["summary"]["copies"].as_array().expect("a list");
        let sum = |key: &str| {
            listed
                .iter()
                .map(|c| c[key].as_u64().expect("a count"))
                .sum::<u64>()
        };
        assert!(
            sum("count") > 0 && sum("count") == sum("landed"),
            "{case}: {listed:?}"
        );
        assert!(copies == 0 || sum("count") == copies, "{case}: {listed:?}");
        let arrows = check_perfetto(&std::fs::read_to_string(&file).expect("a file"));
        assert_eq!(arrows as u64, sum("count"), "{case}");
    }
}

//! The runtime's way to the GPU on a stand-in for the driver, which executes nothing: what it is asked, and which errors its
//! answers become.
#![cfg(unix)]

mod scenarios;
#[path = "../../../launch/tests/stand_in/mod.rs"]
mod stand_in;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use stand_in::{Ran, hex, named, tiled_map};

const SCENARIOS: &[(&str, fn())] = named![scenarios: run_world, run_world_graph, run_add, run_double_behind, run_maps, run_open, run_moves, run_ranges];

const TESTS: &[(&str, fn())] = named![
    a_world_launches_on_each_gpu_and_waits_up_to_its_limit,
    a_world_is_captured_and_replayed_by_rank,
    a_launch_says_grid_threads_and_parameters,
    overlapping_launches_say_so_and_are_counted_in_graphs,
    clusters_and_both_kinds_of_tensor_maps_are_said,
    answers_of_the_driver_become_errors_that_name_the_kernel,
    a_machine_without_a_gpu_is_named,
    memory_streams_and_events,
    launches_are_in_ranges_on_both_devices,
];

fn main() {
    stand_in::main(SCENARIOS, TESTS);
}

/// The stand-in, compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver/fake_driver.c");
        stand_in::build(&source, Path::new(env!("CARGO_TARGET_TMPDIR")))
    })
}

#[track_caller]
fn run(scenario: &str, variables: &[(&str, &str)]) -> Ran {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    stand_in::run_scenario(scenario, variables, library(), folder)
}

/// The addresses that a scenario printed.
fn addresses(ran: &Ran) -> Vec<u64> {
    let of_line = |line: &str| line.strip_prefix("at ")?.parse().ok();
    ran.said.lines().filter_map(of_line).collect()
}

const ADD: (&str, &str) = ("TILEKIT_FAKE_PARAMETERS", "8,8,8,4");

fn a_launch_says_grid_threads_and_parameters() {
    let ran = run("run_add", &[ADD]);
    let pointers = addresses(&ran).into_iter().map(|at| hex(&at.to_le_bytes()));
    let parameters: Vec<String> = pointers.chain([hex(&1000_i32.to_le_bytes())]).collect();
    let stream = ran.calls("launch")[0].split(' ').nth(5).expect("a stream");
    let launch = format!(
        "launch add_256 in primary on {stream} grid 4 1 1 threads 128 1 1 shared 0 {}",
        parameters.join(" ")
    );
    // One by its arguments, one prepared.
    assert_eq!(ran.calls("launch"), [&launch, &launch]);
    assert_eq!(ran.calls("retain").len(), 1);
    let loads = ran.calls("load");
    assert!(
        loads.len() == 1 && loads[0].ends_with("aligned 1"),
        "{loads:?}"
    );
    assert_eq!(ran.calls("unload").len(), 1, "with its last user");
    assert_eq!(ran.calls("free").len(), 3);
    assert_eq!(ran.asked.last().map(String::as_str), Some("release"));
}

fn a_world_launches_on_each_gpu_and_waits_up_to_its_limit() {
    let of_two = [
        ("TILEKIT_FAKE_DEVICES", "2"),
        ("TILEKIT_FAKE_PARAMETERS", "8,8,4"),
    ];
    let ran = run("run_world", &of_two);
    assert_eq!(
        ran.calls("peer").len(),
        4,
        "each has the other's memory, in both worlds"
    );
    let launches = ran.calls("launch");
    let parts = addresses(&ran);
    assert_eq!(launches.len(), 2, "{}", ran.said);
    for (rank, launch) in launches.iter().enumerate() {
        let own = hex(&parts[rank].to_le_bytes());
        let peer = hex(&(1 - rank as i32).to_le_bytes());
        assert!(launch.contains(&own) && launch.ends_with(&peer), "{launch}");
    }
    // CUDA_ERROR_NOT_READY
    let late = run(
        "run_world",
        &[of_two[0], of_two[1], ("TILEKIT_FAKE_SYNCHRONIZE", "600")],
    );
    let expected = "`from_peer` did not end within 0.02 s on 2 of 2 ranks: [0, 1]";
    assert!(late.said.contains(expected), "{}", late.said);
    // Freeing would wait for the kernels, and another world for their GPUs.
    for call in ["free", "unload", "release"] {
        assert_eq!((call, late.calls(call)), (call, vec![]));
    }
    assert!(!ran.calls("free").is_empty() && ran.said.contains("another world"));
    let gone = "GPU 0 still runs a kernel of this process";
    assert!(late.said.contains(gone), "{}", late.said);
    // CUDA_ERROR_LAUNCH_FAILED
    let failed = run(
        "run_world",
        &[of_two[0], of_two[1], ("TILEKIT_FAKE_SYNCHRONIZE", "719")],
    );
    let expected = "rank 0: `from_peer` failed on the GPU: cuStreamQuery";
    assert!(failed.said.contains(expected), "{}", failed.said);
    let apart = run("run_world", &[of_two[0], ("TILEKIT_FAKE_PEERS", "0")]);
    let expected = "GPU 0 cannot access the memory of GPU 1";
    assert!(apart.said.contains(expected), "{}", apart.said);
    let one = run("run_world", &[]);
    assert!(
        one.calls("peer").is_empty() && one.said.contains("GPU"),
        "{}",
        one.said
    );
}

fn a_world_is_captured_and_replayed_by_rank() {
    let of_two = [
        ("TILEKIT_FAKE_DEVICES", "2"),
        ("TILEKIT_FAKE_PARAMETERS", "8,8,4"),
    ];
    let ran = run("run_world_graph", &of_two);
    let order = ["capture", "launch", "captured", "instantiate", "replay"];
    let seen = ran.asked.iter().filter(|line| {
        let word = line.split(' ').next();
        word.is_some_and(|word| order.contains(&word))
    });
    let short = seen.map(|line| line.split(" in ").next().unwrap_or_default());
    let launches = ["launch from_peer"; 4];
    let mut wanted = vec!["capture on 0", "capture on 1"];
    wanted.extend(launches);
    wanted.extend(["captured on 0", "captured on 1"]);
    // Both captures have ended before a graph is made ready, which the driver refuses beside a capture.
    wanted.extend(["instantiate", "instantiate", "replay on 0", "replay on 1"]);
    assert_eq!(short.collect::<Vec<_>>(), wanted);
    // Two parts and access to them, two tables of addresses, the code of two contexts.
    assert!(ran.said.contains("keeps 7"), "{}", ran.said);
    let last = ran
        .asked
        .iter()
        .rposition(|line| line.starts_with("replay"));
    let free = ran.asked.iter().position(|line| line.starts_with("free"));
    assert!(free > last, "freed with the graph");
}

fn overlapping_launches_say_so_and_are_counted_in_graphs() {
    let ran = run("run_double_behind", &[("TILEKIT_FAKE_PARAMETERS", "8")]);
    let launches = ran.calls("launch");
    assert_eq!(launches.len(), 3);
    assert!(!launches[0].contains("attribute"), "{}", launches[0]);
    for overlapping in &launches[1..] {
        assert!(overlapping.contains(" attribute 6 1 0 0 "), "{overlapping}");
    }
    assert!(ran.said.contains("overlapping 1"), "{}", ran.said);
    let order = ["capture", "launch", "captured", "replay"];
    let words = ran.asked.iter().filter_map(|line| line.split(' ').next());
    let seen: Vec<&str> = words.filter(|word| order.contains(word)).collect();
    assert!(seen.ends_with(&order), "{seen:?}");
}

fn clusters_and_both_kinds_of_tensor_maps_are_said() {
    let ran = run("run_maps", &[("TILEKIT_FAKE_PARAMETERS", "128,128,8")]);
    let addresses = addresses(&ran);
    // CU_TENSOR_MAP_DATA_TYPE_INT32, dimensions, no swizzle, promotion to 256 and 128 bytes.
    let tiled = tiled_map(addresses[0], 3 | 2 << 8 | 3 << 24, [13, 6], 64, [8, 4]);
    let words = [
        addresses[1],
        3 | 4 << 8 | 2 << 24,
        4,
        6,
        5,
        2,
        0,
        16,
        96,
        480,
        0,
    ];
    // Corners, channels, pixels and steps.
    let corners = [-1, -1, 0, -1, -1, 0, 4, 8, 0x1111_i32];
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    let corners = corners.iter().flat_map(|corner| corner.to_le_bytes());
    let mut pixels: Vec<u8> = words.chain(corners).collect();
    pixels.resize(128, 0);
    let launch = ran.calls("launch")[0];
    let said = format!(
        " grid 2 1 1 threads 32 1 1 shared 0 attribute 4 2 1 1 {tiled} {} {}",
        hex(&pixels),
        hex(&addresses[2].to_le_bytes())
    );
    assert!(launch.ends_with(&said), "{launch}\n{said}");
}

fn answers_of_the_driver_become_errors_that_name_the_kernel() {
    for (variables, said) in [
        (
            &[ADD, ("TILEKIT_FAKE_LAUNCH", "1")][..],
            "launch of `add_256`: cuLaunchKernelEx: unknown error (CUDA_ERROR_1)",
        ),
        (
            &[ADD, ("TILEKIT_FAKE_LAUNCH", "700")],
            "work on the GPU failed: cuLaunchKernelEx: an illegal memory access was encountered",
        ),
        (
            &[ADD, ("TILEKIT_FAKE_SYNCHRONIZE", "700")],
            "`add_256` failed on the GPU: cuStreamSynchronize: an illegal memory access was encountered",
        ),
        (
            &[ADD, ("TILEKIT_FAKE_LOAD", "218")],
            "ptxas application ptx input, line 7; error : no such thing",
        ),
        (
            &[("TILEKIT_FAKE_PARAMETERS", "8,8,8")],
            "the arguments have [8, 8, 8, 4] bytes, and its parameters [8, 8, 8]",
        ),
    ] {
        let ran = run("run_add", variables);
        assert!(ran.said.contains(said), "{said}\n{}", ran.said);
    }
    let ran = run(
        "run_maps",
        &[
            ("TILEKIT_FAKE_PARAMETERS", "128,128,8"),
            ("TILEKIT_FAKE_CLUSTERS", "0"),
        ],
    );
    assert!(ran.said.contains("cluster"), "{}", ran.said);
    assert!(ran.calls("launch").is_empty(), "{:?}", ran.asked);
}

fn a_machine_without_a_gpu_is_named() {
    for (variable, said) in [
        (
            ("TILEKIT_FAKE_VERSION", "12070"),
            "the NVIDIA driver supports CUDA 12.7, and 12.8 or later is needed; update the driver, or use the emulator",
        ),
        (
            ("TILEKIT_FAKE_INIT", "100"),
            "the NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES, or use the emulator",
        ),
        (
            ("TILEKIT_FAKE_CAPABILITY", "80"),
            "NVIDIA Fake has compute capability 8.0, and sm_90a code runs on 9.0 (H100, H200) only; use the emulator",
        ),
        (
            ("ORDINAL", "3"),
            "there is no GPU 3; the driver sees 1, counted from 0",
        ),
    ] {
        let ran = run("run_open", &[variable]);
        assert_eq!(ran.said.trim_end(), said);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (library, said) in [
        (
            PathBuf::from("libnothing_of_this_name.so"),
            "no NVIDIA driver: libnothing_of_this_name.so could not be loaded (",
        ),
        (
            launching_alone(folder),
            "the NVIDIA driver library has no `cuDeviceTotalMem_v2`; reinstall the driver (CUDA 12.8 or later), or use the emulator",
        ),
    ] {
        let ran = stand_in::run(&mut stand_in::scenario("run_open", &[]), &library, folder);
        assert!(ran.said.contains(said), "{said}\n{}", ran.said);
        assert!(ran.said.trim_end().ends_with(", or use the emulator"));
    }
}

/// The stand-in of `tilekit-launch`, which has only what exported kernels call.
fn launching_alone(folder: &Path) -> PathBuf {
    let folder = folder.join("launching");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../launch/tests/fake_driver.c");
    stand_in::build(&source, &folder)
}

fn memory_streams_and_events() {
    let ran = run("run_moves", &[]);
    let said = "filled [257, 257, 257, 257]\ncopied [1, 2, 3, 4]\nmilliseconds 0.5\nmapped [5, 6]\nin order [0, 0, 0, 0, 0]\n";
    assert!(ran.said.starts_with(said), "{}", ran.said);
    assert!(ran.said.contains("2147483648"), "free bytes: {}", ran.said);
    let moves = |line: &&String| {
        ["prefetch", "advise", "free in order"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let asked: Vec<&String> = ran.asked.iter().filter(moves).collect();
    let wanted = [
        "advise 12 1 0",
        "advise 12 3 -1",
        "advise 12 5 0",
        "prefetch 12 to 0",
        "prefetch 12 to -1",
        "free in order",
    ];
    assert_eq!(asked, wanted);
}

fn launches_are_in_ranges_on_both_devices() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../launch/tests/fake_profiler.c");
    let profiler = stand_in::build(&source, Path::new(env!("CARGO_TARGET_TMPDIR")));
    let profiler = profiler.display().to_string();
    let variables = [
        ("TILEKIT_FAKE_PARAMETERS", "8"),
        ("NVTX_INJECTION64_PATH", profiler.as_str()),
    ];
    let ran = run("run_ranges", &variables);
    let words = ["push", "pop", "launch"];
    let shown = |line: &&String| words.iter().any(|word| line.starts_with(word));
    let of_line = |line: &String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let calls: Vec<String> = ran.asked.iter().filter(shown).map(of_line).collect();
    let expected = [
        "push step",
        "push double_behind",
        "launch double_behind",
        "pop",
        "push double_behind",
        "pop",
        "pop",
    ];
    assert_eq!(calls, expected, "{}", ran.said);
}

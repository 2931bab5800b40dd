//! Launches on a stand-in for the driver, which records what it is asked: each scenario is a process of its own, for the
//! driver is opened once in a process.
#![cfg(unix)]
#![allow(
    unsafe_code,
    reason = "addresses and handles are the word of who gives them"
)]

mod stand_in;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use stand_in::{hex, named, tiled_map};
use tilekit_launch::{Aligned, Argument, Bf16, Context, DevMut, DevRef, Kind, Program, Queue};

/// What the tests start, each in a process of its own.
const SCENARIOS: &[(&str, fn())] =
    named![scenarios: softmax_twice, matmul_twice, softmax_fails, matmul_fails, captured, ranges];

/// The tests; a panic fails them.
const TESTS: &[(&str, fn())] = named![
    a_launch_restores_the_context_and_loads_once,
    tensor_maps_are_made_once_and_clusters_said,
    what_stops_a_launch_is_named,
    nothing_is_loaded_while_a_stream_is_captured,
    launches_are_in_ranges_of_a_profiler,
    a_profiler_that_takes_nothing_is_left_alone,
];

fn main() {
    stand_in::main(SCENARIOS, TESTS);
}

static SOFTMAX_CODE: &Aligned<[u8]> = &Aligned(*b"\x7fELF softmax");
static MATMUL_CODE: &Aligned<[u8]> = &Aligned(*b"\x7fELF matmul");
static SOFTMAX: Program = Program::new(include_str!("manifests/softmax.json"), SOFTMAX_CODE);
static MATMUL: Program = Program::new(include_str!("manifests/matmul.json"), MATMUL_CODE);

/// The stand-in, compiled once.
fn fake() -> &'static Path {
    static FAKE: OnceLock<PathBuf> = OnceLock::new();
    FAKE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_driver.c");
        stand_in::build(&source, Path::new(env!("CARGO_TARGET_TMPDIR")))
    })
}

/// Runs a scenario in a process; gives what it printed and what the driver was asked.
#[track_caller]
fn run(scenario: &str, library: &Path, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ran = stand_in::run_scenario(scenario, variables, library, folder);
    (ran.said, ran.asked)
}

fn a_launch_restores_the_context_and_loads_once() {
    let (_, asked) = run(
        "softmax_twice",
        fake(),
        &[("TILEKIT_FAKE_PARAMETERS", "8,8,8,4,4")],
    );
    let parameters = [
        hex(&0x10000_u64.to_le_bytes()),
        hex(&0x20000_u64.to_le_bytes()),
        hex(&4096_i64.to_le_bytes()),
        hex(&7_i32.to_le_bytes()),
        hex(&4000_i32.to_le_bytes()),
    ]
    .join(" ");
    let launch = |attribute: &str| {
        format!(
            "launch softmax_bf16_4096_8 in primary on 0xab grid 4 1 1 threads 256 1 1 shared 0{attribute} {parameters}"
        )
    };
    let expected = [
        "retain",
        "current primary",
        "load \u{7f}ELF aligned 1",
        "function softmax_bf16_4096_8",
        &launch(""),
        "current none",
        "current primary",
        &launch(" attribute 6 1 0 0"),
        "current none",
    ];
    assert_eq!(asked, expected);
}

fn tensor_maps_are_made_once_and_clusters_said() {
    let (_, asked) = run(
        "matmul_twice",
        fake(),
        &[("TILEKIT_FAKE_PARAMETERS", "128,128,128,4,4")],
    );
    let encoded = |address, dims, stride, block| {
        let numbers = 9 | 2 << 8 | 3 << 16 | 2 << 24;
        tiled_map(address, numbers, dims, stride, block)
    };
    let parameters = [
        encoded(0x10000, [72, 300], 160, [64, 128]),
        encoded(0x20000, [72, 512], 144, [64, 256]),
        encoded(0x30000, [512, 300], 1024, [64, 64]),
        hex(&72_i32.to_le_bytes()),
        hex(&0.5_f32.to_le_bytes()),
    ]
    .join(" ");
    let launch = format!(
        "launch matmul_bf16 in primary on (nil) grid 12 1 1 threads 384 1 1 shared 200000 attribute 4 2 1 1 {parameters}"
    );
    let launches: Vec<&String> = asked
        .iter()
        .filter(|line| line.starts_with("launch"))
        .collect();
    assert_eq!(launches, [&launch, &launch]);
    let encodes = asked.iter().filter(|line| *line == "encode").count();
    assert_eq!(encodes, 3, "three maps, for both launches: {asked:?}");
    assert!(
        asked.contains(&"attribute 8 = 200000".to_owned()),
        "{asked:?}"
    );
}

fn what_stops_a_launch_is_named() {
    let none = Path::new("libnothing_of_this_name.so");
    let plain = ("TILEKIT_FAKE_PARAMETERS", "");
    for (library, variable, said) in [
        (
            none,
            plain,
            "no NVIDIA driver: libnothing_of_this_name.so could not be loaded",
        ),
        (
            fake(),
            ("TILEKIT_FAKE_VERSION", "12070"),
            "the NVIDIA driver supports CUDA 12.7, and 12.8 or later is needed",
        ),
        (
            fake(),
            ("TILEKIT_FAKE_INIT", "100"),
            "the NVIDIA driver sees no GPU; check CUDA_VISIBLE_DEVICES",
        ),
        (
            fake(),
            ("TILEKIT_FAKE_CAPABILITY", "80"),
            "softmax(x, out): NVIDIA Fake has compute capability 8.0; sm_90a code runs on 9.0 only",
        ),
        (
            fake(),
            ("TILEKIT_FAKE_LAUNCH", "700"),
            "softmax(x, out): cuLaunchKernelEx: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)",
        ),
        (
            fake(),
            ("TILEKIT_FAKE_LAUNCH", "999"),
            "cuLaunchKernelEx: unknown error (CUDA_ERROR_999)",
        ),
    ] {
        let (printed, _) = run("softmax_fails", library, &[variable, ("CASE", said)]);
        assert!(printed.contains(said), "{said}\n{printed}");
    }
    let (printed, _) = run("matmul_fails", fake(), &[("TILEKIT_FAKE_CLUSTERS", "0")]);
    assert!(
        printed.contains("cannot hold a cluster of 2x1x1 CTAs of 384 threads"),
        "{printed}"
    );
}

fn nothing_is_loaded_while_a_stream_is_captured() {
    let (printed, asked) = run("captured", fake(), &[]);
    assert!(
        printed.contains("call `warm` before the capture"),
        "{printed}"
    );
    let launches = asked
        .iter()
        .filter(|line| line.starts_with("launch"))
        .count();
    assert_eq!(launches, 1, "after `warm` it is launched: {asked:?}");
}

/// The calls that a profiler gets while the scenario of ranges runs.
fn profiled(library: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let parameters = ("TILEKIT_FAKE_PARAMETERS", "8,8,8,4,4");
    let mut given = vec![parameters, ("NVTX_INJECTION64_PATH", library)];
    given.extend(variables);
    let (printed, mut asked) = run("ranges", fake(), &given);
    let shown = ["domain", "push", "pop", "mark", "launch"];
    asked.retain(|line| shown.iter().any(|word| line.starts_with(word)));
    for line in &mut asked {
        if line.starts_with("launch") {
            line.truncate("launch softmax_bf16_4096_8".len());
        }
    }
    (printed, asked)
}

fn launches_are_in_ranges_of_a_profiler() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_profiler.c");
    let profiler = stand_in::build(&source, Path::new(env!("CARGO_TARGET_TMPDIR")));
    let profiler = profiler.display().to_string();
    let (printed, asked) = profiled(&profiler, &[]);
    assert_eq!(printed.trim(), "true");
    let expected = [
        "domain tilekit",
        "push layer 0",
        "mark début",
        "push softmax_bf16_4096_8",
        "launch softmax_bf16_4096_8",
        "pop",
        "push inner",
        "pop",
        "pop",
        "push softmax_bf16_4096_8",
        "launch softmax_bf16_4096_8",
        "pop",
    ];
    assert_eq!(asked, expected);
    let (_, asked) = profiled(&profiler, &[("TILEKIT_FAKE_NVTX", "marks")]);
    let launch = "launch softmax_bf16_4096_8";
    assert_eq!(asked, ["domain tilekit", "mark début", launch, launch]);
    let (printed, asked) = profiled(&profiler, &[("TILEKIT_FAKE_NVTX", "refuse")]);
    assert_eq!(printed.trim(), "false");
    assert_eq!(asked, [launch, launch]);
}

fn a_profiler_that_takes_nothing_is_left_alone() {
    let driver = fake().display().to_string();
    for library in ["", "libnothing_of_this_name.so", &driver] {
        let (printed, asked) = profiled(library, &[]);
        assert_eq!(printed.trim(), "false", "{library}");
        assert_eq!(asked.len(), 2, "{library}: {asked:?}");
    }
}

/// What runs in a process of its own.
mod scenarios {
    use super::{Argument, Bf16, Context, DevMut, DevRef, Kind, MATMUL, Queue, SOFTMAX};
    use tilekit_launch::nvtx;

    pub(super) fn ranges() {
        println!("{}", nvtx::is_listening());
        let queue = queue(0xab).expect("the stand-in takes it");
        let layer = nvtx::range("layer 0");
        nvtx::mark("début\0 and what is behind a NUL");
        softmax(&queue).expect("the stand-in takes it");
        drop(nvtx::range("inner"));
        drop(layer);
        softmax(&queue).expect("the stand-in takes it");
    }

    fn queue(stream: usize) -> Result<Queue<'static>, tilekit_launch::Error> {
        let context = Context::primary(0)?;
        // SAFETY: the driver is a stand-in, which never looks at a stream.
        Ok(unsafe { Queue::new(context, std::ptr::without_provenance_mut(stream)) })
    }

    fn memory<'m>(address: u64) -> (DevRef<'m, Bf16>, DevMut<'m, Bf16>) {
        // SAFETY: the driver is a stand-in, and no kernel accesses the memory.
        unsafe {
            (
                DevRef::from_raw(address, 1 << 20),
                DevMut::from_raw(address + 0x10000, 1 << 20),
            )
        }
    }

    fn softmax(queue: &Queue<'_>) -> Result<(), tilekit_launch::Error> {
        let (x, out) = memory(0x10000);
        let x = x.view([7, 4000]).with_strides([4096, 1]);
        let out = out.view([7, 4000]).with_strides([4096, 1]);
        SOFTMAX.launch(
            queue,
            None,
            &[Argument::Tensor(x.tensor()), Argument::Tensor(out.tensor())],
        )
    }

    fn matmul(queue: &Queue<'_>) -> Result<(), tilekit_launch::Error> {
        let ((a, mut b), (_, c)) = (memory(0x10000), memory(0x20000));
        let (a, c) = (a.view([300, 72]).with_strides([80, 1]), c.view([300, 512]));
        let b = b.reborrow().view([512, 72]);
        let tensors = [a.tensor(), b.tensor(), c.tensor()].map(Argument::Tensor);
        let [a, b, c] = tensors;
        MATMUL.launch(queue, None, &[a, b, c, Argument::scalar(0.5_f32)])
    }

    pub(super) fn softmax_twice() {
        let queue = queue(0xab).expect("the stand-in takes it");
        softmax(&queue).expect("the stand-in takes it");
        softmax(&queue.overlapping()).expect("the stand-in takes it");
        // An empty grid is no launch.
        let (x, out) = memory(0x10000);
        let (x, out) = (x.view([0, 64]), out.view([0, 64]));
        let arguments = [Argument::Tensor(x.tensor()), Argument::Tensor(out.tensor())];
        SOFTMAX
            .launch(&queue, None, &arguments)
            .expect("the stand-in takes it");
    }

    pub(super) fn matmul_twice() {
        let queue = queue(0).expect("the stand-in takes it");
        matmul(&queue).expect("the stand-in takes it");
        matmul(&queue).expect("the stand-in takes it");
        let error = matmul(&queue.overlapping()).expect_err("this is refused");
        assert_eq!(error.kind(), Kind::Value);
        assert!(
            error.to_string().contains("the kernel does not wait"),
            "{error}"
        );
    }

    pub(super) fn softmax_fails() {
        let error = queue(0)
            .and_then(|queue| softmax(&queue))
            .expect_err("this is refused");
        assert_eq!(error.kind(), Kind::Runtime);
        println!("{error}");
    }

    pub(super) fn matmul_fails() {
        println!(
            "{}",
            matmul(&queue(0).expect("the stand-in takes it")).expect_err("this is refused")
        );
    }

    pub(super) fn captured() {
        let queue = queue(0xca).expect("the stand-in takes it");
        println!("{}", softmax(&queue).expect_err("this is refused"));
        SOFTMAX
            .warm(queue.context())
            .expect("the stand-in takes it");
        softmax(&queue).expect("the stand-in takes it");
    }
}

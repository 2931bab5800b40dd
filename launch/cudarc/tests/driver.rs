//! Launches on slices of cudarc, on a stand-in for the driver, which records what it is asked: each scenario is a process of its own, for the driver is
//! opened once in a process.
#![cfg(unix)]
#![forbid(unsafe_code)]

#[path = "../../tests/stand_in/mod.rs"]
mod stand_in;

use std::path::Path;

use stand_in::{Ran, hex, named};
use tilekit_launch::{Aligned, Program};

/// What the tests start, each in a process of its own.
const SCENARIOS: &[(&str, fn())] = named![scenarios: ordered, refused, other_contexts];

/// The tests; a panic fails them.
const TESTS: &[(&str, fn())] = named![
    other_streams_are_ordered_around_a_launch,
    what_does_not_fit_is_named_and_nothing_is_launched,
    contexts_of_their_own_are_refused,
];

fn main() {
    stand_in::main(SCENARIOS, TESTS);
}

static CODE: &Aligned<[u8]> = &Aligned(*b"\x7fELF softmax");
static SOFTMAX: Program = Program::new(include_str!("softmax.json"), CODE);

/// Runs a scenario with the stand-in, where both cudarc and the launcher find it.
#[track_caller]
fn run(scenario: &str) -> Ran {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver_of_cudarc");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_driver.c");
    let built = stand_in::build(&source, &folder);
    // cudarc looks for this name.
    let library = folder.join("libcuda.so");
    std::fs::rename(built, &library).expect("a library");
    let path = folder.to_str().expect("a path in Unicode");
    let variables = [
        ("TILEKIT_FAKE_PARAMETERS", "8,8,8,4,4"),
        ("LD_LIBRARY_PATH", path),
    ];
    stand_in::run_scenario(scenario, &variables, &library, &folder)
}

fn other_streams_are_ordered_around_a_launch() {
    let ran = run("ordered");
    let is_of_order = |line: &&String| {
        let call = line.split(' ').next().unwrap_or_default();
        ["wait", "launch", "record"].contains(&call)
    };
    let asked: Vec<&String> = ran.asked.iter().filter(is_of_order).collect();
    let at = asked.iter().position(|line| line.starts_with("launch"));
    let at = at.expect("a launch");
    let [rows, cols] = [hex(&7_i32.to_le_bytes()), hex(&4000_i32.to_le_bytes())];
    let launched = asked[at];
    assert!(
        launched.contains("softmax_f32_4096_8 in primary on 0x51 grid 4 1 1"),
        "{launched}"
    );
    assert!(launched.ends_with(&format!("{rows} {cols}")), "{launched}");
    // Of `x`, filled on the first stream, event 0xe0 is when it was read and 0xe1 when it was written; 0xe2 and 0xe3 are those of `out`.
    let before = [
        "wait 0xe1 on 0x51",
        "wait 0xe2 on 0x51",
        "wait 0xe3 on 0x51",
    ];
    assert_eq!(asked[at - 3..at], before);
    let behind = ["record 0xe0 on 0x51", "record 0xe3 on 0x51"];
    assert_eq!(asked[at + 1..at + 3], behind);
    assert!(
        ran.said.contains("3 and R"),
        "what the closure gave: {}",
        ran.said
    );
}

fn what_does_not_fit_is_named_and_nothing_is_launched() {
    let ran = run("refused");
    assert!(
        ran.said
            .contains("x ends after element 28000 and its memory has 100"),
        "{}",
        ran.said
    );
    assert!(
        ran.said
            .contains("out has elements of u32; it must have f32"),
        "{}",
        ran.said
    );
    assert!(ran.calls("launch").is_empty(), "{:?}", ran.asked);
}

fn contexts_of_their_own_are_refused() {
    let ran = run("other_contexts");
    for said in [
        "the stream's context is not the primary one of GPU 0, which kernels are loaded in; make it by `CudaContext::new(0)`",
        "slice 1 is of a context on GPU 0 and the stream of another on GPU 0; copy the slice to the stream's context",
    ] {
        assert!(ran.said.contains(said), "{said}\n{}", ran.said);
    }
    assert!(ran.calls("launch").is_empty(), "{:?}", ran.asked);
}

/// What runs in a process of its own.
mod scenarios {
    use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
    use tilekit_cudarc::{Error, Held, launch};
    use tilekit_launch::Argument;

    use super::SOFTMAX;

    /// The softmax of 7 rows of 4000.
    fn softmax<T: Held>(
        stream: &CudaStream,
        x: &CudaSlice<f32>,
        out: &mut CudaSlice<T>,
    ) -> Result<(i32, char), Error> {
        launch(stream, (x, out), |queue, (x, out)| {
            let (x, out) = (x.view([7, 4000]), out.view([7, 4000]));
            let arguments = [Argument::Tensor(x.tensor()), Argument::Tensor(out.tensor())];
            SOFTMAX.launch(queue, None, &arguments)?;
            Ok((3, 'R'))
        })
    }

    pub(super) fn ordered() {
        let context = CudaContext::new(0).expect("the stand-in has one");
        let [first, second] = [(); 2].map(|()| context.new_stream().expect("a stream"));
        let x = first.clone_htod(&vec![1.0_f32; 7 * 4000]).expect("a slice");
        let mut out = first.alloc_zeros::<f32>(7 * 4000).expect("a slice");
        let (number, letter) = softmax(&second, &x, &mut out).expect("it is launched");
        println!("{number} and {letter}");
    }

    pub(super) fn refused() {
        let context = CudaContext::new(0).expect("the stand-in has one");
        let stream = context.new_stream().expect("a stream");
        let short = stream.alloc_zeros::<f32>(100).expect("a slice");
        let mut out = stream.alloc_zeros::<f32>(7 * 4000).expect("a slice");
        println!(
            "{}",
            softmax(&stream, &short, &mut out).expect_err("too short")
        );
        let x = stream.alloc_zeros::<f32>(7 * 4000).expect("a slice");
        let mut wide = stream.alloc_zeros::<u32>(7 * 4000).expect("a slice");
        println!("{}", softmax(&stream, &x, &mut wide).expect_err("u32"));
    }

    pub(super) fn other_contexts() {
        let context = CudaContext::new(0).expect("the stand-in has one");
        let stream = context.new_stream().expect("a stream");
        let x = stream.alloc_zeros::<f32>(7 * 4000).expect("a slice");
        let other = CudaContext::new_non_primary(0, 0).expect("the stand-in has one");
        let of_other = other.new_stream().expect("a stream");
        let mut out = of_other.alloc_zeros::<f32>(7 * 4000).expect("a slice");
        println!(
            "{}",
            softmax(&of_other, &x, &mut out).expect_err("its context")
        );
        println!(
            "{}",
            softmax(&stream, &x, &mut out).expect_err("its context")
        );
    }
}

//! From a kernel function to a checked result, as an application and as a case do it, on every device of this machine.

use std::time::Duration;

use tilekit::case::{Bed, BenchOptions, CaseEntry, CaseOutcome, Mode, SizeList};
use tilekit::prelude::*;
use tilekit::{Error, Instance};

/// `out[i] = x[i] + y[i]` for `i < n`.
#[kernel(warps = 4)]
fn add<const BLOCK: usize>(x: Ptr<f32>, y: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let sum = x.at(at).mask(inside).load() + y.at(at).mask(inside).load();
    out.at(at).mask(inside).store(sum);
}

/// `out[r, c] = 2 · x[r, c]`, one row per program.
#[kernel(warps = 1)]
fn double_rows(x: Ptr<i32>, out: Ptr<i32>, #[multiple_of(4)] stride: i64, cols: i32) {
    let row = program_id(0).cast::<i64>() * stride;
    let col = arange(0..64, Coalesced);
    let inside = col < cols;
    let at = row + col.cast::<i64>();
    let v = x.at(at).mask(inside).load();
    out.at(at).mask(inside).store(v + v);
}

/// The emulator, and a GPU where there is one.
fn devices() -> Vec<Device> {
    [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn an_application_compiles_loads_and_launches() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let n = 1000;
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let (x_there, y_there) = (
            Buffer::from_slice(&device, &x)?,
            Buffer::from_slice(&device, &x)?,
        );
        let out = Buffer::<f32>::zeros(&device, n)?;
        let kernel = add::<256>.compile(&Compiler::default())?.load(&device)?;
        kernel.launch(
            &stream,
            grid(n.div_ceil(256)),
            (&x_there, &y_there, &out, n as i32),
        )?;
        stream.synchronize()?;
        assert_eq!(out.to_vec()?, x.iter().map(|x| x + x).collect::<Vec<f32>>());

        let again = kernel.prepare(grid(1u32), (&out, &out, &out, 10))?;
        again.launch(&stream)?;
        again.launch(&stream)?;
        stream.synchronize()?;
        assert_eq!(out.to_vec()?[9..11], [72.0, 20.0]);
    }
    Ok(())
}

#[test]
fn promises_grid_and_device_are_checked_at_the_launch() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::<i32>::zeros(&device, 256)?;
        let kernel = double_rows.compile(&Compiler::default())?.load(&device)?;
        kernel.launch(&stream, grid(4u32), (&x, &x, 64, 64))?;
        let odd = kernel.launch(&stream, grid(4u32), (&x, &x, 63, 63));
        assert!(
            matches!(
                odd,
                Err(Error::NotMultiple {
                    value: 63,
                    divisor: 4,
                    ..
                })
            ),
            "{odd:?}"
        );
        let none = kernel.launch(&stream, grid(0u32), (&x, &x, 64, 64));
        assert!(
            matches!(
                none,
                Err(Error::BadGrid {
                    axis: "x",
                    count: 0,
                    ..
                })
            ),
            "{none:?}"
        );
        let elsewhere = Buffer::<i32>::zeros(&Device::emulator(), 256)?;
        let foreign = kernel.launch(&stream, grid(1u32), (&elsewhere, &x, 64, 64));
        assert!(
            matches!(foreign, Err(Error::DeviceMismatch { .. })),
            "{foreign:?}"
        );
    }
    Ok(())
}

#[test]
fn hand_edited_ptx_takes_the_kernels_place() -> tilekit::Result<()> {
    let plain = Compiler::default().compile(&Instance::of(double_rows))?;
    let edited = plain.ptx().replace("add.s32", "sub.s32");
    assert_ne!(edited, plain.ptx(), "the kernel adds:\n{}", plain.ptx());
    let name = plain.info().entry.to_string();
    let compiler =
        Compiler::default().replacing(move |entry| (entry == name).then(|| edited.clone()));
    let kernel = double_rows.compile(&compiler)?;
    assert!(kernel.compiled().is_replaced() && !plain.is_replaced());
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &[7i32; 64])?;
        kernel
            .clone()
            .load(&device)?
            .launch(&stream, grid(1u32), (&x, &x, 64, 64))?;
        assert_eq!(
            x.to_vec()?,
            [0; 64],
            "7 - 7, where the kernel itself would give 14"
        );
    }
    Ok(())
}

fn check(device: &Device) -> Mode {
    Mode::Check(Bed::new(device))
}

fn run(function: fn(&mut Case) -> CaseResult, mode: &Mode) -> CaseOutcome {
    let sizes = &[SizeList {
        name: "n",
        values: &[1000],
    }];
    let case = CaseEntry {
        name: "the_case",
        module: "launch",
        file: file!(),
        line: line!(),
        sizes,
        function,
    };
    case.run(&case.runs(&[]).expect("its own sizes fit")[0], mode)
}

fn good(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let (x, y) = (case.normal::<f32>("x", [n]), case.normal::<f32>("y", [n]));
    let out = case.output::<f32>("out", [n]);
    case.launch(add::<256>, grid(n.div_ceil(256)), (&x, &y, &out, n as i32))?;
    case.expect(&out, |[i]| f64::from(x[i]) + f64::from(y[i]), Exactly)?;
    case.expect_all(&out, || (0..n).map(|i| x[i] + y[i]).collect(), Exactly)?;
    case.moves_bytes(3 * 4 * n);
    Ok(())
}

#[test]
fn a_right_kernel_passes_its_case_everywhere() {
    for device in devices() {
        let CaseOutcome { report, result } = run(good, &check(&device));
        result.unwrap_or_else(|error| panic!("{device:?}: {error}"));
        assert_eq!(
            (report.agreements.len(), report.moved_bytes),
            (2, Some(12_000))
        );
        let launch = &report.launches[0];
        assert_eq!(
            launch.compiled.as_ref().expect("it was compiled").display(),
            "add<256>"
        );
        assert!(launch.wall.is_some());
    }
}

#[test]
fn a_described_case_launches_nothing_and_names_its_kernel() {
    let CaseOutcome { report, result } = run(good, &Mode::Describe);
    result.expect("describing needs no device");
    let launch = &report.launches[0];
    assert_eq!(launch.grid, grid(4u32));
    assert_eq!(
        &*launch.instance.trace().expect("it traces").display,
        "add<256>"
    );
    assert!(report.agreements.is_empty() && launch.wall.is_none());
}

#[test]
fn a_benchmarked_case_has_times() {
    for device in devices() {
        let CaseOutcome { report, result } = run(good, &Mode::Bench(Bed::new(&device), quick()));
        result.expect("the kernel runs");
        let timing = report.launches[0].timing.as_ref().expect("it was timed");
        let ours = timing.ours();
        assert_eq!(ours.name, "add<256>");
        let counts = (
            ours.single.samples_ms.len(),
            ours.back_to_back.samples_ms.len(),
        );
        assert_eq!(
            (timing.entrants.len(), counts, timing.copies),
            (1, (3, 2), 24)
        );
        for series in [&ours.single, &ours.back_to_back] {
            assert!(series.median_ms() > 0.0 && series.fastest_ms() <= series.median_ms());
        }
    }
}

/// The same work by the same kernel, and by one that is wrong by one unless `FAR` is allowed.
fn beside<const FAR: bool>(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let out = case.output::<i32>("out", [10, 64]);
    case.rival(
        "again",
        Exactly,
        double_rows,
        grid(10u32),
        (&x, &out, 64, 64),
    )?;
    let tolerance = if FAR { Absolute(1.0) } else { Exactly };
    case.rival(
        "double and one",
        tolerance,
        double_and_one,
        grid(10u32),
        (&x, &out),
    )?;
    case.launch(double_rows, grid(10u32), (&x, &out, 64, 64))?;
    case.expect(&out, |[r, c]| 2 * x[[r, c]], Exactly)
}

/// The same with rows of which the last quarter is never written.
fn padded(case: &mut Case) -> CaseResult {
    let x = case.normal::<f32>("x", [3, 64]);
    let out = case.output::<f32>("out", [3, 64]);
    let arguments = (&x, &out, 48);
    case.rival("again", Exactly, copy_rows, grid(3u32), arguments)?;
    case.rival(
        "more",
        Exactly,
        copy_rows,
        grid(3u32),
        (&x, &out, case.size("columns") as i32),
    )?;
    case.launch(copy_rows, grid(3u32), arguments)?;
    let want = || (0..3 * 48).map(|at| x[[at / 48, at % 48]]).collect();
    case.expect_part(&out, [3, 48], want, Exactly)
}

/// The first `columns` of rows of 64.
#[kernel(warps = 1)]
fn copy_rows(x: Ptr<f32>, out: Ptr<f32>, columns: i32) {
    let column = arange(0..64, Coalesced);
    let at = program_id(0) * 64 + column;
    let inside = column < columns;
    out.at(at).mask(inside).store(x.at(at).mask(inside).load());
}

const COLUMNS: &[SizeList] = &[SizeList {
    name: "columns",
    values: &[48, 49],
}];

#[test]
fn what_neither_writes_agrees_and_what_one_writes_does_not() {
    for device in devices() {
        let entry = CaseEntry {
            name: "padded",
            module: "launch",
            file: file!(),
            line: line!(),
            sizes: COLUMNS,
            function: padded,
        };
        let runs = entry.runs(&[]).expect("its own sizes");
        let mode = Mode::Bench(Bed::new(&device), quick());
        entry
            .run(&runs[0], &mode)
            .result
            .expect("both write 48 columns");
        let more = entry.run(&runs[1], &mode).result;
        let line = more.expect_err("one writes 49 columns").to_string();
        assert!(
            line.contains("3 of 192 elements") && line.contains("out[0, 48]"),
            "{line}"
        );
    }
}

/// `out[r, c] = 2 · x[r, c] + 1` for rows of 64.
#[kernel(warps = 1)]
fn double_and_one(x: Ptr<i32>, out: Ptr<i32>) {
    let at = program_id(0) * 64 + arange(0..64, Coalesced);
    out.at(at).store(x.at(at).load() * 2 + 1);
}

fn quick() -> BenchOptions {
    BenchOptions {
        samples: 3,
        rounds: 2,
        slice: Duration::from_millis(1),
        ..BenchOptions::default()
    }
}

#[test]
fn rivals_are_checked_and_timed_beside_the_launch() {
    for device in devices() {
        let CaseOutcome { report, result } =
            run(beside::<true>, &Mode::Bench(Bed::new(&device), quick()));
        result.expect("both rivals agree");
        assert_eq!(report.peers, ["again", "double and one"]);
        let timing = report.launches[0].timing.as_ref().expect("it was timed");
        let seen: Vec<(&str, Option<&str>, usize)> = timing
            .entrants
            .iter()
            .map(|entrant| {
                let samples = entrant.single.samples_ms.len();
                (entrant.name.as_str(), entrant.check.as_deref(), samples)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("double_rows", None, 3),
                ("again", Some("`out` exact"), 3),
                (
                    "double and one",
                    Some("`out` max absolute error ≤ 1e0 (is 1e0)"),
                    3
                ),
            ]
        );
    }
}

#[test]
fn a_rival_that_disagrees_is_named_and_nothing_is_timed() {
    for device in devices() {
        let CaseOutcome { report, result } =
            run(beside::<false>, &Mode::Bench(Bed::new(&device), quick()));
        let line = result.expect_err("one rival is wrong").to_string();
        assert!(
            line.starts_with("double and one and the kernel do not agree"),
            "{line}"
        );
        assert!(report.launches.is_empty());
    }
}

#[test]
fn rivals_are_left_out_of_a_check() {
    for device in devices() {
        let CaseOutcome { report, result } = run(beside::<false>, &check(&device));
        result.expect("the launch itself is right");
        assert_eq!(report.launches.len(), 1);
    }
}

/// A product that the emulator cannot have cuBLAS for.
fn with_cublas(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let out = case.output::<i32>("out", [10, 64]);
    case.peer(Peer::Cublas(Gemm::new(&x, &x, &out)));
    case.launch(double_rows, grid(10u32), (&x, &out, 64, 64))?;
    case.expect(&out, |[r, c]| 2 * x[[r, c]], Exactly)
}

#[test]
fn a_peer_that_cannot_be_is_noted_and_the_launch_timed_alone() {
    for device in devices() {
        let outcome = run(with_cublas, &Mode::Bench(Bed::new(&device), quick()));
        outcome.result.expect("the launch itself is right");
        let timing = outcome.report.launches[0].timing.as_ref();
        let timing = timing.expect("it was timed");
        assert_eq!(timing.entrants.len(), 1);
        assert!(
            timing.notes[0].starts_with("cublasGemmEx is not timed: "),
            "{:?}",
            timing.notes
        );
    }
}

fn wrong_reference(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let out = case.output::<i32>("out", [10, 64]);
    case.launch(double_rows, grid(10u32), (&x, &out, 64, 64))?;
    case.expect(
        &out,
        |[r, c]| 2 * x[[r, c]] + i32::from(r == 3 && c == 5),
        Exactly,
    )
}

#[test]
fn a_wrong_element_is_named() {
    for device in devices() {
        match run(wrong_reference, &check(&device)).result {
            Err(Error::WrongResult(mismatch)) => {
                assert_eq!(
                    (mismatch.wrong, &mismatch.examples[0].index[..]),
                    (1, &[3, 5][..])
                );
            }
            other => panic!("{device:?}: one element is wrong, not {other:?}"),
        }
    }
}

fn writes_too_little(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.normal::<f32>("x", [n]);
    let out = case.output::<f32>("out", [n]);
    case.launch(add::<256>, grid(3u32), (&x, &x, &out, n as i32))?;
    case.expect(&out, |[i]| 2.0 * f64::from(x[i]), Frobenius(1e9))
}

#[test]
fn elements_that_were_never_written_are_found_whatever_the_tolerance() {
    for device in devices() {
        match run(writes_too_little, &check(&device)).result {
            Err(Error::WrongResult(mismatch)) => assert_eq!(mismatch.untouched, 1000 - 3 * 256),
            other => panic!("{device:?}: the fourth block is missing, not {other:?}"),
        }
    }
}

fn reads_beyond(case: &mut Case) -> CaseResult {
    let x = case.normal::<f32>("x", [100]);
    let out = case.output::<f32>("out", [1000]);
    case.launch(add::<256>, grid(4u32), (&x, &x, &out, 1000))
}

#[test]
fn the_emulator_says_which_line_reads_beyond_an_input() {
    let outcome = run(reads_beyond, &check(&Device::emulator()));
    match outcome.result {
        Err(Error::Fault(fault)) => {
            let place = fault
                .place
                .as_ref()
                .expect("the kernel's PTX has its lines");
            assert!(place.file.ends_with("tests/launch.rs"), "{fault}");
        }
        other => panic!("x is too short, got {other:?}"),
    }
}

fn panics(case: &mut Case) -> CaseResult {
    let m = case.size("m");
    let out = case.output::<f32>("out", [m]);
    case.launch(add::<256>, grid(1u32), (&out, &out, &out, 0))
}

#[test]
fn a_case_that_panics_is_an_error_with_its_name() {
    let line = run(panics, &Mode::Describe)
        .result
        .expect_err("it panics")
        .to_string();
    assert!(
        line.contains("`the_case`") && line.contains("declares no size `m`; it declares n"),
        "{line}"
    );
}

#[test]
fn a_case_beyond_its_limit_says_the_numbers_before_data_is_made() {
    let mut bed = Bed::new(&Device::emulator());
    bed.tensor_limit_bytes = Some(11_999);
    match run(good, &Mode::Check(bed)).result {
        Err(Error::CaseTooLarge {
            bytes: 12_000,
            limit_bytes: 11_999,
            ..
        }) => {}
        other => panic!("12 000 bytes are too many, got {other:?}"),
    }
}

#[test]
fn a_kernel_that_never_waits_cannot_overlap() -> tilekit::Result<()> {
    for device in devices() {
        let kernel = add::<256>.compile(&Compiler::default())?.load(&device)?;
        let refused = kernel.programmatic().map(drop);
        let line = refused.expect_err("`add` has no wait").to_string();
        assert!(
            line.contains("`add<256>`") && line.contains("launch_wait"),
            "{line}"
        );
    }
    Ok(())
}

/// `x[i] += x[i]`, behind whatever launch comes before.
#[kernel(warps = 1)]
fn double_behind(x: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    launch_wait();
    x.at(at).store(x.at(at).load() * 2);
    launch_dependents();
}

#[test]
fn overlapping_launches_of_a_chain_follow_each_other() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &[1i32; 32])?;
        let kernel = double_behind.compile(&Compiler::default())?.load(&device)?;
        let kernel = kernel.programmatic()?;
        for _ in 0..5 {
            kernel.launch(&stream, grid(1u32), (&x,))?;
        }
        stream.synchronize()?;
        assert_eq!(x.to_vec()?, [32; 32]);
        let prepared = kernel.prepare(grid(1u32), (&x,))?;
        let graph = stream.capture(|| (0..4).try_for_each(|_| prepared.launch(&stream)))?;
        stream.replay(&graph)?;
        stream.replay(&graph)?;
        stream.synchronize()?;
        assert_eq!(x.to_vec()?, [32 << 8; 32]);
    }
    Ok(())
}

fn chain(case: &mut Case) -> CaseResult {
    let x = case.output::<i32>("x", [32]);
    case.launch(ones, grid(1u32), (&x,))?;
    case.launch_programmatic(double_behind, grid(1u32), (&x,))?;
    case.launch_programmatic(double_behind, grid(1u32), (&x,))?;
    case.expect(&x, |[_]| 4, Exactly)
}

/// `x[i] = 1`.
#[kernel(warps = 1)]
fn ones(x: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    let one: Tensor<i32> = full([32], 1, Coalesced);
    x.at(at).store(one);
}

fn early(case: &mut Case) -> CaseResult {
    let x = case.output::<i32>("x", [32]);
    case.launch_programmatic(ones, grid(1u32), (&x,))?;
    case.expect(&x, |[_]| 1, Exactly)
}

#[test]
fn a_case_overlaps_kernels_that_wait_and_no_others() {
    for device in devices() {
        run(chain, &check(&device))
            .result
            .expect("each waits for the one before");
        let refused = run(early, &check(&device)).result;
        assert!(
            matches!(refused, Err(Error::NeverWaits { .. })),
            "{refused:?}"
        );
    }
}

/// The rank of the CTA in its cluster of two and a hundred for each cluster before, plus the place.
#[kernel(warps = 1, cluster = [2])]
fn ranks(out: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    let value = cluster_rank() + 100 * (program_id(0) / 2);
    out.at(program_id(0) * 32 + at).store(at + value);
}

#[test]
fn a_kernels_cluster_is_its_launchs() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let out = Buffer::<i32>::zeros(&device, 4 * 32)?;
        let kernel = ranks.compile(&Compiler::default())?.load(&device)?;
        assert_eq!(kernel.entry().shape().cluster, [2, 1, 1]);
        kernel.launch(&stream, grid(4u32), (&out,))?;
        stream.synchronize()?;
        let firsts: Vec<i32> = out.to_vec()?.chunks(32).map(|cta| cta[0]).collect();
        assert_eq!(firsts, [0, 1, 100, 101]);
        let refused = kernel.launch(&stream, grid(3u32), (&out,));
        assert!(matches!(
            refused,
            Err(Error::ClusterGrid {
                count: 3,
                cluster: 2,
                ..
            })
        ));
        if device.is_cuda() {
            assert!(kernel.entry().max_active_clusters()? > 0);
        }
    }
    Ok(())
}

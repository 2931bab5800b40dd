//! From a kernel function to a checked result, as an application and as a case do it, on every device of this machine.

mod on_devices;

use on_devices::{check, devices, run};
use tilekit::case::{Bed, CaseOutcome, Mode};
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

/// Launches that threads put on one stream run one after the other, whoever is first.
#[test]
fn threads_share_a_stream() -> tilekit::Result<()> {
    for device in devices() {
        let kernel = add::<512>.compile(&Compiler::default())?.load(&device)?;
        let stream = Stream::new(&device)?;
        let ones = Buffer::from_slice(&device, &[1.0_f32; 512])?;
        let total = Buffer::<f32>::zeros(&device, 512)?;
        let launch = || {
            let arguments = (&total, &ones, &total, 512);
            (0..50).try_for_each(|_| kernel.launch(&stream, grid(1u32), arguments))
        };
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(launch));
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("no launch panics"))
        })?;
        stream.synchronize()?;
        assert_eq!(total.to_vec()?, [200.0; 512]);
    }
    Ok(())
}

#[test]
fn the_emulator_counts_what_the_last_launch_did() -> tilekit::Result<()> {
    let device = Device::emulator();
    assert!(device.emulator_stats().is_none());
    let x = Buffer::<i32>::zeros(&device, 256)?;
    let kernel = double_rows.compile(&Compiler::default())?.load(&device)?;
    kernel.launch(&Stream::new(&device)?, grid(4u32), (&x, &x, 64, 64))?;
    let stats = device.emulator_stats().expect("a kernel was launched");
    assert_eq!(stats.ctas, 4);
    let stored_bytes: u64 = stats.stored_bytes.values().sum();
    assert_eq!(stored_bytes, 4 * 64 * 4);
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

fn tallies(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let out = case.output::<f32>("out", [usize::MAX / 1000 * n]);
    case.launch(add::<256>, grid(1u32), (&out, &out, &out, 0))?;
    unreachable!("a case whose sizes overflow goes on")
}

/// What follows computes bytes of the sizes, which overflow: that was a panic in the case.
#[test]
fn a_case_that_no_machine_has_room_for_is_refused_where_it_is_described() {
    let outcome = run(tallies, &Mode::Describe);
    assert_eq!(outcome.report.launches.len(), 1);
    let error = outcome.result.expect_err("it is too large").to_string();
    assert!(
        error.ends_with(
            "is the most here; choose smaller sizes with -s, or a machine with more memory"
        ),
        "{error}"
    );
}

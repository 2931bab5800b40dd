//! Host time of a launch: the raw driver call, a prepared launch, and a typed launch that packs and checks each time.
//!
//! The three launch one kernel, a vector add of no elements, in one process and interleaved. On a machine with a GPU
//! `cargo bench -p tilekit --bench launch_overhead` prints the table of `bench/results/launch_overhead.md`: five runs.

#![allow(unsafe_code, reason = "the raw driver call is what is compared with")]

use std::ffi::{CString, c_void};
use std::time::Instant;

use launch::driver::{FunctionHandle, JitLog, LaunchConfig, StreamHandle};
use machine::driver::Driver;
use tilekit::prelude::*;

/// `out[i] = x[i] + y[i]` for `i < n`.
#[kernel(warps = 4)]
fn add<const BLOCK: usize>(x: Ptr<f32>, y: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let sum = x.at(at).mask(inside).load() + y.at(at).mask(inside).load();
    out.at(at).mask(inside).store(sum);
}

/// Launches between two synchronisations: few enough that the driver's queue is never full.
const LAUNCHES: usize = 100;
const ROUNDS: usize = 1001;
const RUNS: usize = 5;

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("launch_overhead measures a GPU: {error}"),
    };
    if let Err(error) = measure(&device) {
        println!("error: {error}");
        std::process::exit(1);
    }
}

fn measure(device: &Device) -> tilekit::Result<()> {
    let compiled = add::<1024>.compile(&Compiler::default())?;
    let kernel = compiled.load(device)?;
    let stream = Stream::new(device)?;
    let [x, y, out] = [(); 3].map(|()| Buffer::<f32>::zeros(device, 1024));
    let (x, y, out) = (x?, y?, out?);
    let info = kernel.compiled().info();
    let raw = Raw::new(kernel.compiled().ptx(), &info.entry, info.threads);
    let prepared = kernel.prepare(grid(1u32), (&x, &y, &out, 0))?;
    let typed = || kernel.launch(&stream, grid(1u32), (&x, &y, &out, 0));
    println!(
        "{}, {LAUNCHES} launches a round, {ROUNDS} rounds a run",
        device.facts().name
    );
    println!("\n| run | raw | `PreparedLaunch` | typed launch |\n|---|---|---|---|");
    for run in 1..=RUNS {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push([
                nanoseconds(|| {
                    raw.launch([x.address(), y.address(), out.address()]);
                }),
                nanoseconds(|| {
                    prepared.launch(&stream).expect("the kernel launches");
                }),
                nanoseconds(|| typed().expect("the kernel launches")),
            ]);
        }
        println!("{}", row(run, &rounds));
    }
    Ok(())
}

/// Medians of each way, with the median of each round's difference to the raw call.
fn row(run: usize, rounds: &[[f64; 3]]) -> String {
    let time = |way: usize| median(rounds.iter().map(|round| round[way]));
    let beyond = |way: usize| median(rounds.iter().map(|round| round[way] - round[0]));
    format!(
        "| {run} | {:.0} | {:.0} ({:+.0}) | {:.0} ({:+.0}) |",
        time(0),
        time(1),
        beyond(1),
        time(2),
        beyond(2)
    )
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn nanoseconds(mut launch: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        launch();
    }
    let elapsed = start.elapsed().as_nanos() as f64 / LAUNCHES as f64;
    // SAFETY: a context is current, because the kernels were launched by this thread.
    let code = unsafe { (driver().cuCtxSynchronize)() };
    driver()
        .check("cuCtxSynchronize", code)
        .expect("the kernels end");
    elapsed
}

fn driver() -> &'static Driver {
    Driver::get().expect("a device was opened")
}

/// The same kernel by the driver's bare functions.
struct Raw {
    function: FunctionHandle,
    stream: StreamHandle,
    threads: u32,
}

impl Raw {
    fn new(ptx: &str, entry: &str, threads: u32) -> Raw {
        let image = CString::new(ptx).expect("PTX is text");
        let entry = CString::new(entry).expect("a name is text");
        let (launcher, mut stream) = (driver().launcher, StreamHandle::NULL);
        // SAFETY: buffers were made, so a context is current; image and name end with a null; the last call writes one handle.
        let (function, code) = unsafe {
            let module = launcher
                .load_module(image.as_bytes_with_nul(), Some(&mut JitLog::new()))
                .expect("the kernel loads");
            let function = launcher.function(module, &entry);
            let code = (driver().cuStreamCreate)(&raw mut stream, 1);
            (function.expect("the entry is there"), code)
        };
        driver()
            .check("cuStreamCreate", code)
            .expect("a stream is made");
        Raw {
            function,
            stream,
            threads,
        }
    }

    fn launch(&self, mut pointers: [u64; 3]) {
        let mut n = 0i32;
        let [x, y, out] = &mut pointers;
        let mut parameters: [*mut c_void; 4] = [
            std::ptr::from_mut(x).cast(),
            std::ptr::from_mut(y).cast(),
            std::ptr::from_mut(out).cast(),
            (&raw mut n).cast(),
        ];
        let config = LaunchConfig {
            grid: [1; 3],
            threads: [self.threads, 1, 1],
            shared_bytes: 0,
            stream: self.stream,
            attributes: std::ptr::null_mut(),
            attribute_count: 0,
        };
        // SAFETY: function and stream live; the parameters are four, of the sizes that the entry declares.
        let code = unsafe {
            (driver().launcher.functions().cuLaunchKernelEx)(
                &raw const config,
                self.function,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        assert_eq!(code, 0, "the kernel launches");
    }
}

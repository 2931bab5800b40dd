//! Host time of a launch: the raw driver call, a prepared launch, and a launch that packs its parameters each time.
//!
//! The three are measured in one process, interleaved, on an empty kernel with four parameters, as `vector_add` has. Run
//! it on a machine with a GPU: `cargo bench -p tilekit --bench launch_overhead`.

#![allow(unsafe_code, reason = "the raw driver call is what is compared with")]

use std::ffi::c_void;
use std::time::Instant;

use cudarc::driver::sys;
use tilekit::{Device, Entry, EntryShape, Image, ParameterBlock, PreparedLaunch, Stream, grid};

const EMPTY: &str = "
.version 8.0
.target sm_90a
.address_size 64
.visible .entry empty(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n)
.reqntid 128, 1, 1
{
    ret;
}
";

/// Launches between two synchronisations: few enough that the driver's queue is never full.
const LAUNCHES: usize = 500;
const ROUNDS: usize = 200;

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
    let code = device.load(&Image::Ptx(EMPTY.to_string()))?;
    let entry = code.entry(EntryShape {
        name: "empty".to_string(),
        threads: [128, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
        overlaps_previous: false,
    })?;
    let stream = Stream::new(device)?;
    let prepared = PreparedLaunch::new(&entry, grid(1u32), block())?;
    let raw = Raw::new();
    let mut best = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        let times = [
            nanoseconds(|| raw.launch()),
            nanoseconds(|| prepared.launch(&stream).expect("the kernel launches")),
            nanoseconds(|| pack_and_launch(&entry, &stream)),
        ];
        device.synchronize()?;
        for (best, time) in best.iter_mut().zip(times) {
            *best = best.min(time);
        }
    }
    println!(
        "{}: nanoseconds of host time per launch, best of {ROUNDS} rounds of {LAUNCHES}",
        device.facts().name
    );
    for (what, time) in ["raw cuLaunchKernelEx", "PreparedLaunch", "packed each time"]
        .iter()
        .zip(best)
    {
        println!("{what:>22}: {time:7.0} ({:+.0})", time - best[0]);
    }
    Ok(())
}

fn block() -> ParameterBlock {
    let mut block = ParameterBlock::new();
    for pointer in 0..3u64 {
        block.push(&pointer.to_le_bytes(), 8);
    }
    block.push(&7i32.to_le_bytes(), 4);
    block
}

fn pack_and_launch(entry: &Entry, stream: &Stream) {
    entry
        .launch(stream, grid(1u32), &block())
        .expect("the kernel launches");
}

fn nanoseconds(mut launch: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        launch();
    }
    let elapsed = start.elapsed().as_nanos() as f64 / LAUNCHES as f64;
    // SAFETY: the driver is loaded and a context current, because the kernels were launched by this thread.
    unsafe { sys::cuCtxSynchronize() };
    elapsed
}

/// The same kernel through cudarc's bare bindings.
struct Raw {
    function: sys::CUfunction,
    stream: sys::CUstream,
}

impl Raw {
    fn new() -> Raw {
        let image = format!("{EMPTY}\0");
        let (mut module, mut function, mut stream) = (
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        // SAFETY: the driver is loaded and a context current; each call writes one handle; the names end with a null.
        unsafe {
            succeed(sys::cuModuleLoadData(
                &raw mut module,
                image.as_ptr().cast(),
            ));
            succeed(sys::cuModuleGetFunction(
                &raw mut function,
                module,
                c"empty".as_ptr(),
            ));
            succeed(sys::cuStreamCreate(&raw mut stream, 1));
        }
        Raw { function, stream }
    }

    fn launch(&self) {
        let (mut pointers, mut n) = ([0u64, 1, 2], 7i32);
        let [x, y, out] = &mut pointers;
        let mut parameters: [*mut c_void; 4] = [
            std::ptr::from_mut(x).cast(),
            std::ptr::from_mut(y).cast(),
            std::ptr::from_mut(out).cast(),
            (&raw mut n).cast(),
        ];
        let config = sys::CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 128,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: self.stream,
            attrs: std::ptr::null_mut(),
            numAttrs: 0,
        };
        // SAFETY: function and stream live; the parameters are four, of the sizes that the entry declares.
        unsafe {
            succeed(sys::cuLaunchKernelEx(
                &raw const config,
                self.function,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            ));
        }
    }
}

fn succeed(code: sys::CUresult) {
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
}

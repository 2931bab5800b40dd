//! A kernel of TileKit on memory and streams of cudarc, beside a reference on the CPU. Ends with 0, with 1 where they differ, with 106 without a GPU.
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use examples_exported::softmax_f32_1024_8 as softmax;

/// Puts the softmax of each row of `x` into `out`, behind what is on the stream.
fn softmax_rows(
    stream: &CudaStream,
    shape: [usize; 2],
    x: &CudaSlice<f32>,
    out: &mut CudaSlice<f32>,
) -> Result<(), tilekit_cudarc::Error> {
    tilekit_cudarc::launch(stream, (x, out), |queue, (x, out)| {
        softmax::launch(queue, &x.view(shape), &mut out.view(shape))
    })
}

fn reference(x: &[f32]) -> Vec<f32> {
    let most = x.iter().copied().fold(f32::MIN, f32::max);
    let e: Vec<f32> = x.iter().map(|v| (v - most).exp()).collect();
    let sum: f32 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}

fn run(context: &Arc<CudaContext>) -> Result<bool, Box<dyn Error>> {
    let (rows, cols) = (1000, 776);
    let stream = context.new_stream()?;
    let host: Vec<f32> = (0..rows * cols).map(|at| (at * 7919 % 1000) as f32 * 0.01).collect();
    let x = stream.clone_htod(&host)?;
    let mut out = stream.alloc_zeros::<f32>(rows * cols)?;
    softmax_rows(&stream, [rows, cols], &x, &mut out)?;
    let found = stream.clone_dtoh(&out)?;
    let wanted: Vec<f32> = host.chunks(cols).flat_map(reference).collect();
    let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 + 1e-5 * b.abs();
    Ok(found.iter().zip(&wanted).all(is_close))
}

fn main() -> ExitCode {
    // cudarc panics where it finds no library of the driver.
    let Ok(Ok(context)) = std::panic::catch_unwind(|| CudaContext::new(0)) else {
        eprintln!("no NVIDIA driver, or no GPU");
        return ExitCode::from(106);
    };
    match run(&context) {
        Ok(true) => {
            println!("pass");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            eprintln!("the results differ from the reference");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

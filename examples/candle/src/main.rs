//! A decoder block of candle by its own operations and by kernels of TileKit. `candle-program` compares both on the CPU, and the GPU with the CPU where there is one;
//! `candle-program time` times both on a GPU. Ends with 0, with 1 where results differ, with 106 without a GPU to time on.
#![forbid(unsafe_code)]

mod block;
#[cfg(feature = "flash-attn")]
mod flash;
#[cfg(feature = "cuda")]
mod gpu;
mod operations;
mod reference;
mod tilekit;
#[cfg(feature = "cuda")]
mod time;

use std::process::ExitCode;

use candle_core::{DType, Device, Result, Tensor};

use crate::block::{Block, Sizes, normal};
use crate::operations::Candle;
use crate::tilekit::TileKit;

/// Sizes that wrap no tile: 300 tokens, two and a half tiles of queries; 8 heads of Q share 2 of K and V.
const SMALL: Sizes = Sizes {
    tokens: 300,
    hidden: 512,
    heads: 8,
    kv_heads: 2,
    depth: 128,
    between: 776,
};

/// The root of the mean squares of the difference, over that of what is expected.
fn difference(found: &Tensor, expected: &Tensor) -> Result<f32> {
    let to = |x: &Tensor| x.to_device(&Device::Cpu)?.to_dtype(DType::F32);
    let (found, expected) = (to(found)?, to(expected)?);
    let norm = |x: &Tensor| x.sqr()?.mean_all()?.to_scalar::<f32>();
    Ok((norm(&(found - &expected)?)? / norm(&expected)?).sqrt())
}

/// Prints a difference, and whether it is one of rounding: results of bf16 operations differ by some of its 2^-9.
fn is_close(name: &str, found: &Tensor, expected: &Tensor) -> Result<bool> {
    let difference = difference(found, expected)?;
    let is_close = difference < 0.01;
    println!(
        "{name}: relative difference {difference:.5}, {}",
        if is_close { "pass" } else { "FAIL" }
    );
    Ok(is_close)
}

/// Compares the operations on the CPU, and the GPU's with them.
fn compare(gpu: Option<&Device>) -> Result<bool> {
    let block = Block::random(SMALL, &Device::Cpu)?;
    let x = (normal(&[SMALL.tokens, SMALL.hidden], &Device::Cpu)? * (SMALL.hidden as f64).sqrt())?;
    let ours = block.forward(&x, &TileKit)?;
    let wide = x.to_dtype(DType::F32)?;
    let candle = Candle::new(&wide, SMALL.tokens)?;
    let of_candle = block
        .to(DType::F32, &Device::Cpu)?
        .forward(&wide, &candle)?;
    let mut all_close = is_close("reference and candle, on the CPU", &ours, &of_candle)?;
    if let Some(gpu) = gpu {
        let (block, x) = (block.to(DType::BF16, gpu)?, x.to_device(gpu)?);
        all_close &= is_close(
            "TileKit on the GPU and the reference",
            &block.forward(&x, &TileKit)?,
            &ours,
        )?;
        let candle = Candle::new(&x, SMALL.tokens)?;
        all_close &= is_close(
            "candle on the GPU and the reference",
            &block.forward(&x, &candle)?,
            &ours,
        )?;
        #[cfg(feature = "flash-attn")]
        {
            let flash = block.forward(&x, &flash::CandleFlash(&candle))?;
            all_close &= is_close("candle-flash-attn and the reference", &flash, &ours)?;
        }
    }
    Ok(all_close)
}

#[cfg(feature = "cuda")]
fn run() -> Result<bool> {
    // candle fails, or cudarc panics, where there is no driver or no GPU.
    let gpu = std::panic::catch_unwind(|| Device::new_cuda(0))
        .ok()
        .and_then(Result::ok);
    let is_timed = std::env::args().nth(1).as_deref() == Some("time");
    match &gpu {
        Some(gpu) if is_timed => time::time(gpu).map(|()| true),
        None if is_timed => {
            eprintln!("no NVIDIA driver, or no GPU");
            std::process::exit(106)
        }
        gpu => compare(gpu.as_ref()),
    }
}

#[cfg(not(feature = "cuda"))]
fn run() -> Result<bool> {
    compare(None)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

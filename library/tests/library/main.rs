//! Parts of the library on the emulator, for participants and sizes that no example has.

mod epilogue;
mod grid_barrier;
mod host_flag;
mod operands;
mod pipeline;
mod rows;
mod schedule;
mod signals;
mod softmax;
mod turns;

use tilekit::prelude::*;
use tilekit::{Arguments, Error, Grid};

/// Launches a kernel on the emulator and waits for it.
pub(crate) fn launch<H>(
    device: &Device,
    kernel: impl Kernel<H>,
    programs: impl Into<Grid>,
    arguments: impl Arguments<H>,
) -> tilekit::Result<()> {
    let kernel = kernel.compile(&Compiler::default())?.load(device)?;
    let stream = Stream::new(device)?;
    kernel.launch(&stream, programs, arguments)?;
    stream.synchronize()
}

/// The codes and messages of what is wrong with a kernel.
pub(crate) fn mistakes<H>(kernel: impl Kernel<H>) -> String {
    match kernel.compile(&Compiler::default()) {
        Ok(_) => String::new(),
        Err(Error::Kernel(diagnostics)) => format!("{diagnostics:?}"),
        Err(other) => other.to_string(),
    }
}

/// Small whole numbers that repeat only after many: their sums are exact in f32.
pub(crate) fn numbers(len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| ((i * 37 + i / 11) % 9) as f32 - 4.0)
        .collect()
}

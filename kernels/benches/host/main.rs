//! Times host functions of the crate on a GPU, as a program calls them.
//!
//! `cargo bench -p tilekit-kernels --bench host [-- FILTER]` prints one line a call: device time of a graph of the call, single and back to back,
//! over sets of buffers that together exceed L2; the time that the calling thread spends in a call; the rate. Rows whose name does
//! not contain FILTER are left out. Each row is checked once against f64.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here ends the program at its line, and figures are what it prints"
)]

mod attention;
mod blocks;
mod convolutions;
mod decode;
mod latent;
mod normal;
mod outputs;
mod products;
mod timing;

use tilekit::prelude::*;

fn main() {
    // Cargo passes `--bench` as well.
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let filter = filter.unwrap_or_default();
    let device = Device::cuda(0).unwrap();
    println!("{}", device.facts().name);
    decode::run(&device, &filter);
    blocks::run(&device, &filter);
    latent::run(&device, &filter);
    attention::run(&device, &filter);
    products::run(&device, &filter);
    outputs::run(&device, &filter);
    convolutions::run(&device, &filter);
}

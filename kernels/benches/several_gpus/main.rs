//! Products fused with collectives on the GPUs of one host, checked and timed beside the product alone, and beside cuBLAS and NCCL one after the other.
//!
//! ```sh
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 check time     # so many GPUs
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here ends the benchmark at its line, and it prints its results"
)]

mod layers;
mod numbers;

use std::time::Duration;

use tilekit::{Nccl, World};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ranks = arguments.iter().find_map(|argument| argument.parse().ok());
    let asked = |name: &str| arguments.iter().any(|argument| argument == name);
    let Ok(world) = World::cuda(ranks.unwrap_or(2)) else {
        println!("left out: the driver does not see so many GPUs that access each other's memory");
        return;
    };
    let world = world.with_limit(Duration::from_secs(20));
    let facts = world.devices()[0].facts();
    let nccl = Nccl::new(&world).unwrap();
    println!(
        "{} x {}, NCCL {}",
        world.ranks(),
        facts.name,
        nccl.version()
    );
    for layer in layers::LAYERS {
        layers::run(&world, &nccl, &layer, [asked("check"), asked("time")]);
    }
}

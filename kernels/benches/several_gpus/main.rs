//! Products fused with collectives on the GPUs of one host, checked and timed beside the product alone, and beside cuBLAS and NCCL one after the other; ring attention beside attention on one
//! GPU and beside NCCL.
//!
//! ```sh
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 check time [NAME]    # so many GPUs, layers whose names contain this
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 ring time      # ring attention
//! ```
//!
//! It prints µs of the slower rank and ratios to the fused kernel (median, second lowest, second highest of the samples): single launches, which both ranks begin together, then back to back by graphs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here ends the benchmark at its line, and it prints its results"
)]

mod layers;
mod numbers;
mod ring;

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
    if asked("ring") {
        for sequence in ring::SMALL.iter().filter(|_| !asked("brief")) {
            ring::run(&world, &nccl, sequence, 13, false);
        }
        let is_timed = |sequence: &&ring::Sequence| {
            let [heads, kv_heads, tokens, _] = sequence.size;
            let is_brief = heads == kv_heads && heads * tokens <= 1 << 20;
            asked("time") && (!asked("brief") || is_brief)
        };
        for sequence in ring::LONG.iter().filter(is_timed) {
            ring::run(&world, &nccl, sequence, 199_999, true);
        }
        return;
    }
    let is_word = |word: &&String| {
        word.parse::<usize>().is_err()
            && !word.starts_with('-')
            && !["check", "time"].contains(&word.as_str())
    };
    let name = arguments.iter().find(is_word).map_or("", String::as_str);
    for layer in layers::LAYERS
        .iter()
        .filter(|layer| layer.name.contains(name))
    {
        layers::run(&world, &nccl, layer, [asked("check"), asked("time")]);
    }
}

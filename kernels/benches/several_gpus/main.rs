//! What runs on the GPUs of one host, checked and timed: products fused with collectives beside the product alone, and beside cuBLAS and NCCL one after the other; ring attention beside
//! attention on one GPU and beside NCCL; collectives beside NCCL.
//!
//! ```sh
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 check time [NAME]    # so many GPUs, layers whose names contain this
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 ring time            # ring attention; with `brief` fewer sequences, with `causal` those under a causal mask
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 gathered             # ring attention whose keys are gathered first, and gradients; with `backward` these alone
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 collectives [NAME]   # operations whose names contain this; with `tune` other plans besides
//! cargo bench -p tilekit-kernels --bench several_gpus -- 2 parts                # launches of kernels that do a part of an all-reduce
//! ```
//!
//! It prints µs of the slowest rank and ratios to the fused kernel (median, second lowest, second highest of the samples): single launches, which all ranks begin together, then back to back by graphs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here ends the benchmark at its line, and it prints its results"
)]

mod collectives;
mod layers;
#[path = "../host/normal.rs"]
mod normal;
mod numbers;
mod parts;
mod ring;
mod ring_backward;

use std::sync::Arc;
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
    let world = Arc::new(world.with_limit(Duration::from_secs(20)));
    let facts = world.devices()[0].facts();
    let nccl = Nccl::new(&world).unwrap();
    println!(
        "{} x {}, NCCL {}",
        world.ranks(),
        facts.name,
        nccl.version()
    );
    let is_word = |word: &&String| {
        let words = [
            "check",
            "time",
            "ring",
            "brief",
            "gathered",
            "backward",
            "causal",
            "collectives",
            "tune",
        ];
        word.parse::<usize>().is_err() && !word.starts_with('-') && !words.contains(&word.as_str())
    };
    let name = arguments.iter().find(is_word).map_or("", String::as_str);
    if asked("parts") {
        return parts::run(&world);
    }
    if asked("collectives") {
        return collectives::run(&world, &nccl, name, asked("tune"));
    }
    if asked("gathered") {
        for sequence in ring::GATHERED.iter().filter(|_| !asked("backward")) {
            ring::run(&world, &nccl, sequence, 199_999, true);
        }
        for sequence in &ring::DIFFERENTIATED {
            ring_backward::run(&world, &nccl, sequence);
        }
        return;
    }
    if asked("ring") {
        for sequence in ring::SMALL.iter().filter(|_| !asked("brief")) {
            let sequence = ring::longer(sequence, world.ranks());
            ring::run(&world, &nccl, &sequence, 13, false);
        }
        let is_timed = |sequence: &&ring::Sequence| {
            let [heads, kv_heads, tokens, _] = sequence.size;
            let is_brief = heads != 4 * kv_heads && kv_heads * tokens <= 1 << 20;
            let is_asked = !asked("causal") || sequence.causal;
            asked("time") && is_asked && (!asked("brief") || is_brief)
        };
        for sequence in ring::LONG.iter().filter(is_timed) {
            ring::run(&world, &nccl, sequence, 199_999, true);
        }
        return;
    }
    for layer in layers::LAYERS
        .iter()
        .filter(|layer| layer.name.contains(name))
    {
        layers::run(&world, &nccl, layer, [asked("check"), asked("time")]);
    }
}

//! Layers of Llama 70B, divided among the ranks.

use tilekit::prelude::*;
use tilekit::{Buffer, CublasHandle, Event, Nccl, TensorView, World, WorldGraph};
use tilekit_kernels::parallel::Parallel;
use tilekit_kernels::products::Products;

use crate::numbers::normal;

/// What is fused with a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fused {
    Gather,
    Scatter,
    Reduce,
}

/// A layer before it is divided: columns of the weight for an all-gather in front, K for a reduce-scatter behind.
pub(crate) struct Layer {
    name: &'static str,
    fused: Fused,
    size: [usize; 3],
}

const fn layer(name: &'static str, fused: Fused, size: [usize; 3]) -> Layer {
    Layer { name, fused, size }
}

pub(crate) const LAYERS: [Layer; 9] = [
    layer("all-gather + ragged", Fused::Gather, [2000, 2320, 1096]),
    layer(
        "ragged + reduce-scatter",
        Fused::Scatter,
        [2000, 1160, 2192],
    ),
    layer("all-gather + qkv", Fused::Gather, [8192, 10240, 8192]),
    layer("all-gather + up", Fused::Gather, [8192, 57344, 8192]),
    layer("down + reduce-scatter", Fused::Scatter, [8192, 8192, 28672]),
    layer("o + reduce-scatter", Fused::Scatter, [8192, 8192, 8192]),
    layer("ragged + all-reduce", Fused::Reduce, [2000, 1160, 2192]),
    layer("down + all-reduce", Fused::Reduce, [8192, 8192, 28672]),
    layer("o + all-reduce", Fused::Reduce, [8192, 8192, 8192]),
];

/// Calls of one measurement, and measurements.
const CALLS: usize = 4;
const ROUNDS: usize = 9;

/// The matrices of all ranks.
struct Matrices {
    fused: Fused,
    ranks: usize,
    /// M of all ranks, N and K of one.
    size: [usize; 3],
    host: [Vec<Vec<bf16>>; 2],
    a: Vec<Buffer<bf16>>,
    b: Vec<Buffer<bf16>>,
    c: Vec<Buffer<bf16>>,
}

type Views<'a> = Vec<TensorView<'a, bf16>>;

impl Matrices {
    fn new(world: &World, layer: &Layer) -> Matrices {
        let ranks = world.ranks();
        let [m, n, k] = layer.size;
        let (size, of_a, of_c) = match layer.fused {
            Fused::Gather => ([m, n / ranks, k], m / ranks, m),
            Fused::Scatter => ([m, n, k / ranks], m, m / ranks),
            Fused::Reduce => ([m, n, k / ranks], m, m),
        };
        let [_, n, k] = size;
        let drawn = |len: usize, seed: usize| -> Vec<Vec<bf16>> {
            (0..ranks)
                .map(|rank| normal(len, seed + 2 * rank))
                .collect()
        };
        let host = [drawn(of_a * k, 1), drawn(n * k, 2)];
        let put = |host: &[Vec<bf16>]| -> Vec<Buffer<bf16>> {
            let devices = world.devices().iter().zip(host);
            devices
                .map(|(device, host)| Buffer::from_slice(device, host).unwrap())
                .collect()
        };
        let nan = bf16::from_f32(f32::NAN);
        let poison = vec![vec![nan; of_c * n]; ranks];
        Matrices {
            fused: layer.fused,
            ranks,
            size,
            a: put(&host[0]),
            b: put(&host[1]),
            c: put(&poison),
            host,
        }
    }

    fn views(&self) -> [Views<'_>; 3] {
        let [m, n, k] = self.size;
        let (of_a, of_c) = match self.fused {
            Fused::Gather => (m / self.ranks, m),
            Fused::Scatter => (m, m / self.ranks),
            Fused::Reduce => (m, m),
        };
        let a = self.a.iter().map(|a| a.view([of_a, k])).collect();
        let b = self.b.iter().map(|b| b.view([k, n]).with_strides([1, k]));
        let c = self.c.iter().map(|c| c.view([of_c, n])).collect();
        [a, b.collect(), c]
    }

    /// The element of C of a rank, in f64.
    fn element(&self, rank: usize, [row, column]: [usize; 2]) -> f64 {
        let ([m, _, k], [a, b]) = (self.size, &self.host);
        let of_rank = m / self.ranks;
        let dot = |a: &[bf16], b: &[bf16]| -> f64 {
            a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
        };
        match self.fused {
            Fused::Gather => {
                let (of, row) = (row / of_rank, row % of_rank);
                dot(&a[of][row * k..][..k], &b[rank][column * k..][..k])
            }
            Fused::Scatter | Fused::Reduce => {
                let first = if self.fused == Fused::Scatter {
                    rank * of_rank
                } else {
                    0
                };
                let row = first + row;
                let of = |of: usize| dot(&a[of][row * k..][..k], &b[of][column * k..][..k]);
                (0..self.ranks).map(of).sum()
            }
        }
    }

    /// The largest error of elements spread over C, in units of what is allowed; all elements are written.
    fn worst(&self) -> f64 {
        let ([_, n, k], mut worst) = (self.size, 0_f64);
        for rank in 0..self.ranks {
            let got = self.c[rank].to_vec().unwrap();
            let unwritten = got.iter().filter(|x| x.to_bits() & 0x7fff > 0x7f80).count();
            assert_eq!(unwritten, 0, "elements of rank {rank} that are no numbers");
            for at in (0..got.len())
                .step_by(got.len() / 199 + 1)
                .chain([got.len() - 1])
            {
                let want = self.element(rank, [at / n, at % n]);
                let rounds = if self.fused == Fused::Gather {
                    1
                } else {
                    self.ranks
                };
                let allowed = 4e-3 * rounds as f64 * (want.abs() + (k as f64).sqrt());
                worst = worst.max((got[at].to_f64() - want).abs() / allowed);
            }
        }
        worst
    }
}

/// The calls of a measurement, so that the host takes no part in it.
fn captured(world: &World, call: &dyn Fn()) -> WorldGraph {
    let calls = || {
        (0..CALLS).for_each(|_| call());
        Ok(())
    };
    world.capture(calls).unwrap()
}

/// Microseconds of one call on the slowest rank.
fn timed(world: &World, calls: &WorldGraph) -> f64 {
    world.synchronize().unwrap();
    let record = || -> Vec<Event> {
        let streams = world.streams().iter();
        streams.map(|stream| stream.record().unwrap()).collect()
    };
    let start = record();
    world.replay(calls).unwrap();
    let end = record();
    world.synchronize().unwrap();
    let of_ranks = end.iter().zip(&start);
    let times = of_ranks.map(|(end, start)| f64::from(end.milliseconds_since(start).unwrap()));
    times.fold(0.0, f64::max) * 1e3 / CALLS as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

pub(crate) fn run(world: &World, nccl: &Nccl, layer: &Layer, [checks, times]: [bool; 2]) {
    let matrices = Matrices::new(world, layer);
    let parallel = Parallel::new(world);
    let products: Vec<Products> = world.devices().iter().map(Products::new).collect();
    let [a, b, c] = matrices.views();
    let fused = || match layer.fused {
        Fused::Gather => parallel.gather_multiply(&a, &b, &c).unwrap(),
        Fused::Scatter => parallel.multiply_scatter(&a, &b, &c).unwrap(),
        Fused::Reduce => parallel.multiply_reduce(&a, &b, &c).unwrap(),
    };
    let [m, n, k] = matrices.size;
    print!("{:24} {m}x{n}x{k}", layer.name);
    if checks {
        // A second time, memory of all ranks is overwritten.
        fused();
        fused();
        world.synchronize().unwrap();
        print!(": error {:.3} of what is allowed", matrices.worst());
    }
    println!();
    if times {
        let peers = Peers::new(world, nccl, &matrices);
        let alone = || {
            for (rank, products) in products.iter().enumerate() {
                let (a, c) = (
                    peers.all_a[rank].view([m, k]),
                    peers.all_c[rank].view([m, n]),
                );
                let stream = world.stream(rank);
                products.multiply_into(stream, &a, &b[rank], &c).unwrap();
            }
        };
        let contestants: [(&str, &dyn Fn()); 4] = [
            ("fused", &fused),
            ("our product alone", &alone),
            ("cuBLAS alone", &|| peers.product()),
            ("cuBLAS and NCCL", &|| peers.both()),
        ];
        contest(world, &contestants);
    }
}

/// Times in turn, and ratios to the first.
pub(crate) fn contest(world: &World, contestants: &[(&str, &dyn Fn())]) {
    for (_, call) in contestants {
        call();
    }
    world.synchronize().unwrap();
    let graphs = contestants.iter().map(|(_, call)| captured(world, call));
    let graphs: Vec<WorldGraph> = graphs.collect();
    for calls in &graphs {
        timed(world, calls);
    }
    let mut times = vec![Vec::new(); graphs.len()];
    for round in 0..ROUNDS {
        for turn in 0..graphs.len() {
            let at = (turn + round) % graphs.len();
            times[at].push(timed(world, &graphs[at]));
        }
    }
    for ((name, _), own) in contestants.iter().zip(&times) {
        let mut ratios: Vec<f64> = own
            .iter()
            .zip(&times[0])
            .map(|(own, first)| own / first)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios[1], ratios[ratios.len() - 2]);
        let (time, ratio) = (median(own.clone()), median(ratios));
        println!("    {name:18} {time:8.1} us, {ratio:.3} times the first ({low:.3} to {high:.3})");
    }
}

/// cuBLAS and NCCL one after the other.
struct Peers<'w> {
    world: &'w World,
    nccl: &'w Nccl,
    matrices: &'w Matrices,
    cublas: Vec<CublasHandle<'w>>,
    /// All of A and of C on each rank.
    all_a: Vec<Buffer<bf16>>,
    all_c: Vec<Buffer<bf16>>,
}

impl<'w> Peers<'w> {
    fn new(world: &'w World, nccl: &'w Nccl, matrices: &'w Matrices) -> Peers<'w> {
        let [m, n, k] = matrices.size;
        let whole = |len: usize, seed| -> Vec<Buffer<bf16>> {
            let numbers = normal(len, seed);
            let devices = world.devices().iter();
            devices
                .map(|device| Buffer::from_slice(device, &numbers).unwrap())
                .collect()
        };
        let cublas = world.streams().iter();
        Peers {
            world,
            nccl,
            matrices,
            cublas: cublas
                .map(|stream| CublasHandle::new(stream).unwrap())
                .collect(),
            all_a: whole(m * k, 5),
            all_c: whole(m * n, 6),
        }
    }

    fn product(&self) {
        for (rank, cublas) in self.cublas.iter().enumerate() {
            let factors = [&self.all_a[rank], &self.matrices.b[rank], &self.all_c[rank]];
            cublas.multiply(self.matrices.size, factors, true).unwrap();
        }
    }

    fn both(&self) {
        let (all_a, all_c) = (of(&self.all_a), of(&self.all_c));
        match self.matrices.fused {
            Fused::Gather => {
                let sent = of(&self.matrices.a);
                self.nccl.all_gather(self.world, &sent, &all_a).unwrap();
                self.product();
            }
            Fused::Scatter => {
                self.product();
                let got = of(&self.matrices.c);
                self.nccl.reduce_scatter(self.world, &all_c, &got).unwrap();
            }
            Fused::Reduce => {
                self.product();
                self.nccl.all_reduce(self.world, &all_c, &all_c).unwrap();
            }
        }
    }
}

fn of(buffers: &[Buffer<bf16>]) -> Vec<&Buffer<bf16>> {
    buffers.iter().collect()
}

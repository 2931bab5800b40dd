//! Layers of Llama 70B, divided among the ranks.

use std::time::Duration;

use tilekit::case::{BenchOptions, RanksContest, Series};
use tilekit::prelude::*;
use tilekit::{Buffer, CublasHandle, Nccl, TensorView, World};
use tilekit_kernels::parallel::{Options, Parallel};
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
    pub(crate) name: &'static str,
    fused: Fused,
    size: [usize; 3],
}

const fn layer(name: &'static str, fused: Fused, size: [usize; 3]) -> Layer {
    Layer { name, fused, size }
}

pub(crate) const LAYERS: [Layer; 18] = [
    layer("few ragged + all-reduce", Fused::Reduce, [19, 1160, 2192]),
    layer("few: o + all-reduce", Fused::Reduce, [1, 8192, 8192]),
    layer("few: o + all-reduce", Fused::Reduce, [16, 8192, 8192]),
    layer("few: o + all-reduce", Fused::Reduce, [64, 8192, 8192]),
    layer("few: o + all-reduce", Fused::Reduce, [128, 8192, 8192]),
    layer("few: o + all-reduce", Fused::Reduce, [256, 8192, 8192]),
    layer("few: down + all-reduce", Fused::Reduce, [1, 8192, 28672]),
    layer("few: down + all-reduce", Fused::Reduce, [16, 8192, 28672]),
    layer("few: down + all-reduce", Fused::Reduce, [64, 8192, 28672]),
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

/// Bytes that the copies of the weights exceed together.
const BEYOND_L2: usize = 200 << 20;

/// The matrices of all ranks.
struct Matrices {
    fused: Fused,
    ranks: usize,
    /// M of all ranks, N and K of one.
    size: [usize; 3],
    host: [Vec<Vec<bf16>>; 2],
    a: Vec<Buffer<bf16>>,
    /// Copies that calls take in turns.
    b: Vec<Vec<Buffer<bf16>>>,
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
        let copies = BEYOND_L2.div_ceil(2 * n * k);
        Matrices {
            fused: layer.fused,
            ranks,
            size,
            a: put(&host[0]),
            b: (0..copies).map(|_| put(&host[1])).collect(),
            c: put(&poison),
            host,
        }
    }

    /// A, the copies of B, and C.
    fn views(&self) -> (Views<'_>, Vec<Views<'_>>, Views<'_>) {
        let [m, n, k] = self.size;
        let (of_a, of_c) = match self.fused {
            Fused::Gather => (m / self.ranks, m),
            Fused::Scatter => (m, m / self.ranks),
            Fused::Reduce => (m, m),
        };
        let a = self.a.iter().map(|a| a.view([of_a, k])).collect();
        let mut b: Vec<Views<'_>> = Vec::new();
        for copy in &self.b {
            let of_ranks = copy.iter();
            b.push(
                of_ranks
                    .map(|b| b.view([k, n]).with_strides([1, k]))
                    .collect(),
            );
        }
        let c = self.c.iter().map(|c| c.view([of_c, n])).collect();
        (a, b, c)
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

pub(crate) fn run(world: &World, nccl: &Nccl, layer: &Layer, [checks, times]: [bool; 2]) {
    let matrices = Matrices::new(world, layer);
    let parallel = Parallel::new(world);
    let products: Vec<Products> = world.devices().iter().map(Products::new).collect();
    let (a, b, c) = matrices.views();
    let fused = |copy: usize| match layer.fused {
        Fused::Gather => parallel.gather_multiply(&a, &b[copy], &c).unwrap(),
        Fused::Scatter => parallel.multiply_scatter(&a, &b[copy], &c).unwrap(),
        Fused::Reduce => parallel.multiply_reduce(&a, &b[copy], &c).unwrap(),
    };
    let [m, n, k] = matrices.size;
    let plans = match layer.fused {
        Fused::Reduce => parallel.reduce_plans(&a, &b[0], &c).unwrap(),
        _ => Vec::new(),
    };
    print!("{:24} {m}x{n}x{k}", layer.name);
    if checks {
        // A second time, memory of all ranks is overwritten.
        fused(0);
        fused(b.len() - 1);
        world.synchronize().unwrap();
        print!(": error {:.3} of what is allowed", matrices.worst());
    }
    println!(
        "{}",
        plans
            .first()
            .map_or(String::new(), |plan| format!(", {plan}"))
    );
    if times {
        let peers = Peers::new(world, nccl, &matrices);
        let mut contest = RanksContest::new(world, options(), b.len());
        contest.add("fused", |copy| {
            fused(copy);
            Ok(())
        });
        let (a, b, c) = (&a, &b, &c);
        let parallel = &parallel;
        // Other ways, the fastest of each kernel by the model.
        let few = layer.name.starts_with("few");
        for plan in plans.iter().skip(1).filter(|_| few) {
            contest.add(&plan.to_string(), move |copy| {
                let called =
                    parallel.multiply_reduce_planned([a, &b[copy]], c, &Options::default(), plan);
                called.unwrap();
                Ok(())
            });
        }
        contest.add("our product alone", |copy| {
            for (rank, products) in products.iter().enumerate() {
                let (a, c) = (
                    peers.all_a[rank].view([m, k]),
                    peers.all_c[rank].view([m, n]),
                );
                let stream = world.stream(rank);
                products
                    .multiply_into(stream, &a, &b[copy][rank], &c)
                    .unwrap();
            }
            Ok(())
        });
        contest.add("cuBLAS alone", |copy| {
            peers.product(copy);
            Ok(())
        });
        contest.add("cuBLAS and NCCL", |copy| {
            peers.both(copy);
            Ok(())
        });
        tell(contest);
    }
}

/// Work that has one copy of its tensors, in turn.
pub(crate) fn contest(world: &World, contestants: &[(&str, &dyn Fn())]) {
    let mut contest = RanksContest::new(world, options(), 1);
    for (name, call) in contestants {
        contest.add(name, move |_| {
            call();
            Ok(())
        });
    }
    tell(contest);
}

fn options() -> BenchOptions {
    BenchOptions {
        samples: 11,
        rounds: 7,
        slice: Duration::from_millis(8),
        rest: Duration::from_millis(1),
        ..BenchOptions::default()
    }
}

/// A line for each: single launches, then back to back.
fn tell(contest: RanksContest<'_>) {
    let timing = contest.hold().unwrap();
    let first = &timing.entrants[0];
    for entrant in &timing.entrants {
        println!(
            "    {} | {} | {}",
            told(&entrant.single, &first.single),
            told(&entrant.back_to_back, &first.back_to_back),
            entrant.name
        );
    }
}

/// µs, and ratios to the first of the same samples: the median, the second lowest and the second highest.
fn told(own: &Series, first: &Series) -> String {
    let pairs = own.samples_ms.iter().zip(&first.samples_ms);
    let mut ratios: Vec<f32> = pairs.map(|(own, first)| own / first).collect();
    ratios.sort_by(f32::total_cmp);
    let (low, high) = (
        ratios[1.min(ratios.len() - 1)],
        ratios[ratios.len().saturating_sub(2)],
    );
    let (time, ratio) = (own.median_ms() * 1e3, own.ratio_to(first));
    format!("{time:8.1} us {ratio:.3} ({low:.3} to {high:.3})")
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

    fn product(&self, copy: usize) {
        for (rank, cublas) in self.cublas.iter().enumerate() {
            let b = &self.matrices.b[copy][rank];
            let factors = [&self.all_a[rank], b, &self.all_c[rank]];
            cublas.multiply(self.matrices.size, factors, true).unwrap();
        }
    }

    fn both(&self, copy: usize) {
        let (all_a, all_c) = (of(&self.all_a), of(&self.all_c));
        match self.matrices.fused {
            Fused::Gather => {
                let sent = of(&self.matrices.a);
                self.nccl.all_gather(self.world, &sent, &all_a).unwrap();
                self.product(copy);
            }
            Fused::Scatter => {
                self.product(copy);
                let got = of(&self.matrices.c);
                self.nccl.reduce_scatter(self.world, &all_c, &got).unwrap();
            }
            Fused::Reduce => {
                self.product(copy);
                self.nccl.all_reduce(self.world, &all_c, &all_c).unwrap();
            }
        }
    }
}

fn of(buffers: &[Buffer<bf16>]) -> Vec<&Buffer<bf16>> {
    buffers.iter().collect()
}

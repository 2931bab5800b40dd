//! Layers of Llama 70B, divided among the ranks.

use tilekit::prelude::*;
use tilekit::{Buffer, Event, TensorView, World, WorldGraph};
use tilekit_kernels::parallel::Parallel;
use tilekit_kernels::products::Products;

use crate::numbers::normal;

/// What is fused with a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fused {
    Gather,
    Scatter,
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

pub(crate) const LAYERS: [Layer; 6] = [
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
            Fused::Scatter => {
                let row = rank * of_rank + row;
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
                let rounds = if self.fused == Fused::Scatter {
                    self.ranks
                } else {
                    1
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

pub(crate) fn run(world: &World, layer: &Layer, [checks, times]: [bool; 2]) {
    let matrices = Matrices::new(world, layer);
    let parallel = Parallel::new(world);
    let products: Vec<Products> = world.devices().iter().map(Products::new).collect();
    let [a, b, c] = matrices.views();
    let fused = || match layer.fused {
        Fused::Gather => parallel.gather_multiply(&a, &b, &c).unwrap(),
        Fused::Scatter => parallel.multiply_scatter(&a, &b, &c).unwrap(),
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
    if times {
        // A product alone has all of A, and all of C.
        let whole =
            |device, len: usize, seed| Buffer::from_slice(device, &normal(len, seed)).unwrap();
        let devices = || world.devices().iter();
        let all_a: Vec<_> = devices().map(|device| whole(device, m * k, 5)).collect();
        let all_c: Vec<_> = devices().map(|device| whole(device, m * n, 6)).collect();
        let alone = || {
            for rank in 0..world.ranks() {
                let (a, c) = (all_a[rank].view([m, k]), all_c[rank].view([m, n]));
                let stream = world.stream(rank);
                products[rank]
                    .multiply_into(stream, &a, &b[rank], &c)
                    .unwrap();
            }
        };
        fused();
        alone();
        world.synchronize().unwrap();
        let [fused, alone] = [captured(world, &fused), captured(world, &alone)];
        for calls in [&fused, &alone] {
            timed(world, calls);
        }
        let (mut of_fused, mut of_alone) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            of_fused.push(timed(world, &fused));
            of_alone.push(timed(world, &alone));
        }
        let ratios = of_alone
            .iter()
            .zip(&of_fused)
            .map(|(alone, fused)| alone / fused);
        let ratio = median(ratios.collect());
        let (of_fused, of_alone) = (median(of_fused), median(of_alone));
        print!(": fused {of_fused:.1} us, product alone {of_alone:.1} us, {ratio:.3} of its speed");
    }
    println!();
}

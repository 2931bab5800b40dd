//! Ring attention as a program calls it.

use std::time::Duration;

use tilekit::prelude::*;
use tilekit::{TensorView, World};
use tilekit_kernels::attention::ring::{Placement, RingOptions};
use tilekit_kernels::attention::{Operand, Result};
use tilekit_kernels::parallel::Parallel;

use crate::ranks::{emulated, world};

/// An element of a test's tensors.
trait Real: Operand {
    fn of(number: f64) -> Self;
    fn back(self) -> f64;
}

impl Real for bf16 {
    fn of(number: f64) -> Self {
        bf16::from_f64(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

impl Real for f16 {
    fn of(number: f64) -> Self {
        f16::from_f64(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

/// Batch, heads of Q, heads of K and V, tokens of a rank; elements of a row of Q and K, and of one of V.
type Size = ([usize; 4], [usize; 2]);

/// How tensors lie: batch, tokens, heads, depth, with so many elements between the rows; or batch, heads, tokens, depth.
#[derive(Clone, Copy, PartialEq)]
enum Lies {
    TokensFirst(usize),
    HeadsFirst,
}
use Lies::{HeadsFirst, TokensFirst};

/// A tensor on each rank.
struct Shards<T> {
    shape: [usize; 4],
    strides: [usize; 4],
    buffers: Vec<Buffer<T>>,
}

impl<T: Real> Shards<T> {
    fn new(
        world: &World,
        shape: [usize; 4],
        lies: Lies,
        number: impl Fn(usize, usize) -> f64,
    ) -> Shards<T> {
        let [batch, heads, tokens, depth] = shape;
        let strides = match lies {
            HeadsFirst => [heads * tokens * depth, tokens * depth, depth, 1],
            TokensFirst(more) => {
                let row = heads * depth + more;
                [tokens * row, depth, row, 1]
            }
        };
        let ranks = world.devices().iter().enumerate();
        let buffers = ranks.map(|(rank, device)| {
            let numbers: Vec<T> = (0..batch * strides[0])
                .map(|at| T::of(number(rank, at)))
                .collect();
            Buffer::from_slice(device, &numbers).unwrap()
        });
        Shards {
            shape,
            strides,
            buffers: buffers.collect(),
        }
    }

    fn views(&self) -> Vec<TensorView<'_, T>> {
        let buffers = self.buffers.iter();
        buffers
            .map(|buffer| buffer.view(self.shape).with_strides(self.strides))
            .collect()
    }

    /// By rank and `[batch, head, token]`, rows.
    fn rows(&self) -> impl Fn(usize, [usize; 3]) -> Vec<f64> {
        let all = self.buffers.iter().map(|buffer| buffer.to_vec().unwrap());
        let (all, strides, depth): (Vec<Vec<T>>, _, _) =
            (all.collect(), self.strides, self.shape[3]);
        move |rank, at| {
            let first: usize = at
                .iter()
                .zip(&strides)
                .map(|(at, stride)| at * stride)
                .sum();
            all[rank][first..first + depth]
                .iter()
                .map(|x| x.back())
                .collect()
        }
    }
}

/// A number between -2 and 2 that looks drawn.
fn drawn(seed: usize, at: usize) -> f64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed as u64) << 32;
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / (1 << 22) as f64 - 2.0
}

/// The tensors of a call.
struct Call<T> {
    size: Size,
    ranks: usize,
    options: RingOptions,
    qkv: [Shards<T>; 3],
    out: Shards<T>,
    lse: Vec<Buffer<f32>>,
}

impl<T: Real> Call<T> {
    fn new(world: &World, size: Size, lies: Lies, options: RingOptions) -> Call<T> {
        let ([batch, heads, kv_heads, tokens], [depth, values]) = size;
        let shards = |seed: usize, heads, depth| {
            let number = move |rank, at| drawn(seed + 10 * rank, at);
            Shards::new(world, [batch, heads, tokens, depth], lies, number)
        };
        let nothing = |_, _| f64::NAN;
        let lse = world.devices().iter();
        Call {
            size,
            ranks: world.ranks(),
            options,
            qkv: [
                shards(1, heads, depth),
                shards(2, kv_heads, depth),
                shards(3, kv_heads, values),
            ],
            out: Shards::new(world, [batch, heads, tokens, values], lies, nothing),
            lse: lse
                .map(|device| {
                    Buffer::from_slice(device, &vec![f32::NAN; batch * heads * tokens]).unwrap()
                })
                .collect(),
        }
    }

    fn run(&self, parallel: &Parallel<'_>) -> Result<()> {
        let [q, k, v] = self.qkv.each_ref().map(Shards::views);
        let lse: Vec<_> = self.lse.iter().collect();
        parallel.ring_attention([&q, &k, &v], &self.out.views(), &lse, &self.options)
    }

    fn position(&self, rank: usize, token: usize) -> usize {
        let tokens = self.size.0[3];
        match self.options.placement {
            Placement::Contiguous => rank * tokens + token,
            Placement::ZigZag => {
                let half = tokens / 2;
                let chunk = [rank, 2 * self.ranks - 1 - rank][token / half];
                chunk * half + token % half
            }
        }
    }

    /// Compares every element with f64.
    fn check(&self) {
        let ([_, heads, kv_heads, tokens], [depth, values]) = self.size;
        let scale = self
            .options
            .scale
            .map_or(1.0 / (depth as f64).sqrt(), f64::from);
        let ([q, k, v], out) = (self.qkv.each_ref().map(Shards::rows), self.out.rows());
        for rank in 0..self.ranks {
            let lse = self.lse[rank].to_vec().unwrap();
            for (row, lse) in lse.into_iter().enumerate() {
                let (line, token) = (row / tokens, row % tokens);
                let (batch, head) = (line / heads, line % heads);
                let at = |key: usize| [batch, head / (heads / kv_heads), key];
                let own = self.position(rank, token);
                let seen = (0..self.ranks * tokens).map(|key| (key / tokens, key % tokens));
                let seen =
                    seen.filter(|&(of, key)| !self.options.causal || self.position(of, key) <= own);
                let seen: Vec<(usize, usize)> = seen.collect();
                let query = q(rank, [batch, head, token]);
                let scores = seen.iter().map(|&(of, key)| {
                    let products = query.iter().zip(k(of, at(key))).map(|(q, k)| q * k);
                    products.sum::<f64>() * scale
                });
                let scores: Vec<f64> = scores.collect();
                let most = scores.iter().copied().fold(f64::MIN, f64::max);
                let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                let mut want = vec![0.0; values];
                for (score, &(of, key)) in scores.iter().zip(&seen) {
                    let weight = (score - most).exp() / total;
                    let v = v(of, at(key)).into_iter();
                    want.iter_mut()
                        .zip(v)
                        .for_each(|(want, v)| *want += weight * v);
                }
                let got = out(rank, [batch, head, token]);
                for (column, (got, want)) in got.iter().zip(want).enumerate() {
                    assert!(
                        (got - want).abs() <= 8e-3 + 8e-3 * want.abs(),
                        "rank {rank}, row {row}, column {column}: {got}, not {want}"
                    );
                }
                let (got, want) = (f64::from(lse), most + total.ln());
                assert!(
                    (got - want).abs() <= 2e-4,
                    "LSE of rank {rank}, row {row}: {got}, not {want}"
                );
            }
        }
    }

    fn bits(&self) -> Vec<(Vec<u64>, Vec<u32>)> {
        let of_rank = |(out, lse): (&Buffer<T>, &Buffer<f32>)| {
            let out = out.to_vec().unwrap();
            let lse = lse.to_vec().unwrap();
            let out = out.into_iter().map(|x| x.back().to_bits()).collect();
            (out, lse.into_iter().map(f32::to_bits).collect())
        };
        self.out
            .buffers
            .iter()
            .zip(&self.lse)
            .map(of_rank)
            .collect()
    }
}

const FULL: RingOptions = RingOptions {
    causal: false,
    placement: Placement::Contiguous,
    scale: None,
};
const CAUSAL: RingOptions = RingOptions {
    causal: true,
    ..FULL
};
const ZIGZAG: RingOptions = RingOptions {
    placement: Placement::ZigZag,
    ..CAUSAL
};

fn attends<T: Real>(
    parallel: &Parallel<'_>,
    world: &World,
    size: Size,
    lies: Lies,
    options: RingOptions,
) {
    let call = Call::<T>::new(world, size, lies, options);
    call.run(parallel).unwrap();
    world.synchronize().unwrap();
    call.check();
}

#[test]
fn all_numbers_of_ranks_attend_to_the_whole_sequence() {
    let narrow = [64, 64];
    for (ranks, tokens) in [(1, 70), (2, 134), (3, 34), (5, 8), (16, 2)] {
        let world = world(ranks, ranks as u64);
        let parallel = Parallel::new(&world);
        for (options, lies) in [
            (FULL, HeadsFirst),
            (CAUSAL, TokensFirst(8)),
            (ZIGZAG, TokensFirst(0)),
        ] {
            let size = ([1, 2, 1, tokens], narrow);
            attends::<bf16>(&parallel, &world, size, lies, options);
        }
    }
}

#[test]
fn all_depths_attend() {
    let world = world(2, 9);
    let parallel = Parallel::new(&world);
    for (depths, options) in [
        ([128, 128], CAUSAL),
        ([192, 128], FULL),
        ([192, 128], ZIGZAG),
        ([256, 256], FULL),
        ([256, 256], CAUSAL),
    ] {
        let size = ([1, 1, 1, 102], depths);
        attends::<f16>(&parallel, &world, size, TokensFirst(0), options);
    }
}

#[test]
fn calls_of_other_shapes_and_types_follow_each_other_on_the_same_memory() {
    let world = world(3, 5);
    let parallel = Parallel::new(&world);
    let (small, large) = (([2, 2, 2, 6], [64, 64]), ([1, 2, 1, 140], [64, 64]));
    let scaled = RingOptions {
        scale: Some(0.3),
        ..ZIGZAG
    };
    for (size, options) in [
        (small, ZIGZAG),
        (large, FULL),
        (large, scaled),
        (small, CAUSAL),
    ] {
        attends::<bf16>(&parallel, &world, size, HeadsFirst, options);
        attends::<f16>(&parallel, &world, small, HeadsFirst, options);
    }
}

/// Results do not depend on who is faster.
#[test]
fn results_are_the_same_bits_in_every_schedule() {
    let results = (0..3).map(|seed| {
        let world = world(4, seed);
        let parallel = Parallel::new(&world);
        let call = Call::<bf16>::new(&world, ([1, 2, 1, 66], [64, 64]), HeadsFirst, ZIGZAG);
        call.run(&parallel).unwrap();
        world.synchronize().unwrap();
        call.bits()
    });
    let results: Vec<_> = results.collect();
    assert!(results.iter().all(|result| *result == results[0]));
}

#[test]
fn a_captured_call_is_replayed_with_new_numbers() {
    let world = world(2, 7);
    let parallel = Parallel::new(&world);
    let call = Call::<bf16>::new(&world, ([1, 1, 1, 70], [64, 64]), HeadsFirst, CAUSAL);
    // What is compiled and allocated is so before.
    call.run(&parallel).unwrap();
    let record = || {
        call.run(&parallel).expect("the same call as before");
        Ok(())
    };
    let graph = world.capture(record).unwrap();
    for round in 0..2 {
        for (side, shards) in call.qkv.iter().enumerate() {
            for (rank, buffer) in shards.buffers.iter().enumerate() {
                let seed = 100 * round + 10 * side + rank;
                let numbers = (0..buffer.len()).map(|at| bf16::of(drawn(seed, at)));
                buffer.write(&numbers.collect::<Vec<_>>()).unwrap();
            }
        }
        world.replay(&graph).unwrap();
        world.synchronize().unwrap();
        call.check();
    }
}

#[test]
fn a_wait_past_the_limit_ends_the_kernel_and_says_what_is_late() {
    // A GPU is of no more use to the process behind a trap.
    let world = emulated(2, 0);
    // No wait is that short, unless what it waits for was there before.
    let parallel = Parallel::new(&world).with_limit(Duration::from_nanos(1));
    let call = Call::<bf16>::new(&world, ([1, 1, 1, 40], [64, 64]), HeadsFirst, FULL);
    let ended = call.run(&parallel).map_err(|error| error.to_string());
    let text = ended.expect_err("rank 1 takes longer");
    assert!(text.contains("the kernel executed trap"), "{text}");
    let said = [0, 1].map(|rank| world.late(rank).read(0..1).unwrap()[0]);
    assert!(said.iter().any(|&word| word & 0xffff_ffff == 1), "{said:?}");
}

#[track_caller]
fn says(result: Result<()>, expected: &str) {
    assert_eq!(result.unwrap_err().to_string(), expected);
}

#[test]
fn what_does_not_fit_is_named_with_its_rank() {
    let world = world(2, 0);
    let parallel = Parallel::new(&world);
    let of = |shape: [usize; 4]| Shards::<bf16>::new(&world, shape, HeadsFirst, |_, _| 1.0);
    let (q, k) = (of([1, 4, 20, 64]), of([1, 2, 20, 64]));
    let lse: Vec<Buffer<f32>> = world
        .devices()
        .iter()
        .map(|device| Buffer::new(device, 80).unwrap())
        .collect();
    let lse: Vec<&Buffer<f32>> = lse.iter().collect();
    let out = of([1, 4, 20, 64]);
    let call = |qkv: [&[TensorView<'_, bf16>]; 3], options: RingOptions| {
        parallel.ring_attention(qkv, &out.views(), &lse, &options)
    };
    let (of_q, of_k) = (q.views(), k.views());
    says(
        call([&of_q[..1], &of_k, &of_k], FULL),
        "ring attention: `q`: found 1 tensors; expected 2: one for each rank",
    );
    let short = [20, 12].into_iter().zip(&k.buffers);
    let short: Vec<_> = short
        .map(|(tokens, k)| k.view([1, 2, tokens, 64]))
        .collect();
    says(
        call([&of_q, &short, &short], FULL),
        "ring attention: `k`: found shape [1, 2, 12, 64] on rank 1; expected [1, 2, 20, 64], as on rank 0",
    );
    says(
        call([&of_q, &of_k, &short], FULL),
        "ring attention: `v`: found tokens 12 on rank 1; expected 20, that of k",
    );
    let few = of([1, 2, 10, 64]);
    says(
        call([&of_q, &few.views(), &few.views()], FULL),
        "ring attention: `k`: found 10 tokens; expected 20, those of q",
    );
    let other = of([1, 3, 20, 64]);
    says(
        call([&of_q, &other.views(), &other.views()], FULL),
        "ring attention: `k`: found heads 3 on rank 0; expected a divisor of q's 4 heads",
    );
    let (odd, odd_k) = (of([1, 4, 5, 64]), of([1, 2, 5, 64]));
    let of_lse: Vec<Buffer<f32>> = world
        .devices()
        .iter()
        .map(|device| Buffer::new(device, 20).unwrap())
        .collect();
    let of_lse: Vec<&Buffer<f32>> = of_lse.iter().collect();
    says(
        parallel.ring_attention(
            [&odd.views(), &odd_k.views(), &odd_k.views()],
            &of([1, 4, 5, 64]).views(),
            &of_lse,
            &ZIGZAG,
        ),
        "ring attention: `q`: found 5 tokens; expected an even number: two chunks of equal lengths (options.placement)",
    );
    says(
        parallel.ring_attention([&of_q, &of_k, &of_k], &out.views(), &of_lse, &FULL),
        "ring attention: `lse`: found 20 elements on rank 0; expected 80: one for each query of each head, at most 268435456",
    );
    says(
        parallel.ring_attention([&of_q, &of_k, &of_k], &of_q, &lse, &FULL),
        "ring attention: `out`: found memory of q on rank 0; expected memory of its own",
    );
    let scale = RingOptions {
        scale: Some(f32::NAN),
        ..FULL
    };
    says(
        call([&of_q, &of_k, &of_k], scale),
        "ring attention: `options.scale`: found Some(NaN); expected a finite number above 0",
    );
    let deep = of([1, 2, 20, 80]);
    let out = of([1, 2, 20, 80]);
    let of_lse: Vec<Buffer<f32>> = world
        .devices()
        .iter()
        .map(|device| Buffer::new(device, 40).unwrap())
        .collect();
    let of_lse: Vec<&Buffer<f32>> = of_lse.iter().collect();
    says(
        parallel.ring_attention(
            [&deep.views(), &deep.views(), &deep.views()],
            &out.views(),
            &of_lse,
            &FULL,
        ),
        "ring attention: `q`: found depth 80 with values of 80; expected one that is built (depth/values): 64/64, 128/128, 192/128, 256/256",
    );
}

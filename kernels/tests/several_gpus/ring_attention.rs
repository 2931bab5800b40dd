//! Ring attention as a program calls it.

use std::time::Duration;

use tilekit::prelude::*;
use tilekit::{TensorView, World};
use tilekit_kernels::attention::Result;
use tilekit_kernels::attention::ring::RingOptions;
use tilekit_kernels::parallel::Parallel;

use crate::ranks::{emulated, world};
use crate::ring_tensors::{
    CAUSAL, Call, FULL, HeadsFirst, Lies, Real, Shards, Size, TokensFirst, ZIGZAG, drawn,
};

fn attends<T: Real>(
    parallel: &Parallel<'_>,
    world: &World,
    size: Size,
    lies: Lies,
    options: RingOptions<'_>,
) {
    let call = Call::<T>::new(world, size, lies, options);
    call.run(parallel).unwrap();
    world.synchronize().unwrap();
    call.check();
}

#[test]
fn all_numbers_of_ranks_attend_to_the_whole_sequence() {
    let narrow = [64, 64];
    for (ranks, tokens) in [(1, 70), (2, 134), (3, 34), (4, 38), (5, 8), (16, 2)] {
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
    let call = |qkv: [&[TensorView<'_, bf16>]; 3], options: RingOptions<'_>| {
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
        "ring attention: `q`: found depth 80 with values of 80; expected one that is built (depth/values): 64/64, 96/96, 128/128, 192/128, 256/256",
    );
}

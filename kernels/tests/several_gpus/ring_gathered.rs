//! Attention of shards whose keys are gathered first: windows, softcap, sinks, depth 96, and gradients.

use tilekit::World;
use tilekit::prelude::*;
use tilekit_kernels::attention::Result;
use tilekit_kernels::attention::ring::RingOptions;
use tilekit_kernels::parallel::Parallel;

use crate::ranks::world;
use crate::ring_tensors::{CAUSAL, Call, FULL, HeadsFirst, Real, Size, TokensFirst, ZIGZAG};

/// The forward pass, and with `differentiates` the gradients.
fn attends<T: Real>(
    parallel: &Parallel<'_>,
    world: &World,
    size: Size,
    options: RingOptions<'_>,
    differentiates: bool,
) {
    let call = Call::<T>::new(world, size, TokensFirst(8), options);
    call.run(parallel).unwrap();
    world.synchronize().unwrap();
    call.check();
    if differentiates {
        call.differentiate(parallel).unwrap();
        world.synchronize().unwrap();
        call.check_gradients();
    }
}

fn sinks_of(world: &World, heads: usize) -> Vec<Buffer<f32>> {
    let sinks: Vec<f32> = (0..heads).map(|head| head as f32 - 0.5).collect();
    let devices = world.devices().iter();
    devices
        .map(|device| Buffer::from_slice(device, &sinks).unwrap())
        .collect()
}

#[test]
fn windows_caps_and_sinks_are_those_of_the_whole_sequence() {
    for (ranks, tokens) in [(2, 70), (4, 22), (8, 6)] {
        let world = world(ranks, ranks as u64);
        let parallel = Parallel::new(&world);
        let sinks = sinks_of(&world, 2);
        let sinks: Vec<&Buffer<f32>> = sinks.iter().collect();
        let size = ([1, 2, 1, tokens], [64, 64]);
        let window = |window: [Option<usize>; 2], options| RingOptions { window, ..options };
        let sunk = RingOptions {
            sinks: Some(&sinks),
            ..window([Some(tokens), None], CAUSAL)
        };
        attends::<bf16>(&parallel, &world, size, sunk, ranks == 8);
        let left = window([Some(tokens / 2 + 3), None], ZIGZAG);
        attends::<bf16>(&parallel, &world, size, left, ranks == 4);
        if ranks == 2 {
            let capped = RingOptions {
                softcap: Some(3.0),
                ..ZIGZAG
            };
            attends::<bf16>(&parallel, &world, size, capped, false);
        } else if ranks == 4 {
            let both = window([Some(5), Some(tokens / 2)], FULL);
            attends::<bf16>(&parallel, &world, size, both, false);
        }
    }
}

#[test]
fn depth_96_attends() {
    let world = world(2, 4);
    let parallel = Parallel::new(&world);
    attends::<f16>(&parallel, &world, ([1, 2, 2, 66], [96, 96]), ZIGZAG, false);
    attends::<bf16>(&parallel, &world, ([2, 1, 1, 20], [96, 96]), FULL, true);
}

#[test]
fn gradients_are_those_of_the_whole_sequence() {
    let (one, two) = (world(1, 3), world(2, 3));
    attends::<bf16>(
        &Parallel::new(&one),
        &one,
        ([1, 1, 1, 40], [64, 64]),
        CAUSAL,
        true,
    );
    let parallel = Parallel::new(&two);
    // A launch of another kind on the same memory between them.
    attends::<bf16>(&parallel, &two, ([2, 2, 1, 34], [64, 64]), ZIGZAG, true);
    attends::<bf16>(&parallel, &two, ([1, 1, 1, 70], [128, 128]), FULL, true);
    let capped = RingOptions {
        softcap: Some(4.0),
        ..CAUSAL
    };
    attends::<f16>(&parallel, &two, ([1, 1, 1, 34], [64, 64]), capped, true);
}

/// Results do not depend on who is faster.
#[test]
fn gradients_are_the_same_bits_in_every_schedule() {
    let results = (0..2).map(|seed| {
        let world = world(4, seed);
        let parallel = Parallel::new(&world);
        let options = RingOptions {
            deterministic: true,
            ..CAUSAL
        };
        let call = Call::<bf16>::new(&world, ([1, 1, 1, 18], [64, 64]), HeadsFirst, options);
        call.run(&parallel).unwrap();
        call.differentiate(&parallel).unwrap();
        world.synchronize().unwrap();
        (call.bits(), call.gradient_bits())
    });
    let results: Vec<_> = results.collect();
    assert!(results[0] == results[1]);
}

#[track_caller]
fn says(result: Result<()>, expected: &str) {
    assert_eq!(result.unwrap_err().to_string(), expected);
}

#[test]
fn what_does_not_fit_is_named() {
    let world = world(2, 0);
    let parallel = Parallel::new(&world);
    let call = |options| {
        let call = Call::<bf16>::new(&world, ([1, 2, 1, 20], [64, 64]), HeadsFirst, options);
        call.differentiate(&parallel)
    };
    let sinks = sinks_of(&world, 3);
    let sinks: Vec<&Buffer<f32>> = sinks.iter().collect();
    let of = |sinks| RingOptions {
        sinks: Some(sinks),
        ..FULL
    };
    says(
        call(of(&sinks[..1])),
        "ring attention: `options.sinks`: found 1 buffers; expected 2: one for each rank",
    );
    says(
        call(of(&sinks)),
        "ring attention: `options.sinks`: found 3 elements on rank 0; expected 2, one for each head of q",
    );
    let behind = RingOptions {
        window: [None, Some(3)],
        ..CAUSAL
    };
    says(
        call(behind),
        "ring attention: `options.window`: found 3 keys behind; expected none or 0 with causal",
    );
    let cap = RingOptions {
        softcap: Some(0.0),
        ..FULL
    };
    says(
        call(cap),
        "ring attention: `options.softcap`: found Some(0.0); expected a finite number above 0",
    );
}

#[test]
fn gradients_outside_of_their_buffers_are_named() {
    let world = world(2, 0);
    let parallel = Parallel::new(&world);
    let shape = [1, 2, 20, 64];
    let call = Call::<bf16>::new(&world, ([1, 2, 1, 20], [64, 64]), HeadsFirst, FULL);
    let of = |device| Buffer::<bf16>::zeros(device, 2 * 20 * 64).unwrap();
    let buffers: Vec<_> = world.devices().iter().map(of).collect();
    for (dq, expected) in [
        (
            buffers[1].view(shape).with_offset(64),
            "found a tensor that ends at element 2624 on rank 1; expected one inside of its buffer of 2560 elements",
        ),
        (
            buffers[1].view(shape).with_strides([64, 1]),
            "found 4 dimensions and 2 strides on rank 1; expected 4 of each: batch, heads, tokens, depth",
        ),
    ] {
        says(
            call.differentiate_into(&parallel, &[buffers[0].view(shape), dq]),
            &format!("ring attention: `dq`: {expected}"),
        );
    }
}

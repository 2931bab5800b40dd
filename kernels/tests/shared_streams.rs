//! Calls of several threads on one stream: launches of a call follow each other, though threads share copies and workspaces of the stream.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use std::thread;

use tilekit::prelude::*;
use tilekit::{EmulatorOptions, World};
use tilekit_kernels::attention::{self, Attention, Cache, PartialResult, Upstream};
use tilekit_kernels::convolution::{self, Convolutions};
use tilekit_kernels::parallel::Parallel;
use tilekit_kernels::products::Products;

const THREADS: usize = 4;

fn there() -> (Device, Stream) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    (device, stream)
}

/// Numbers of a thread, which differ from those of another.
fn numbers(device: &Device, len: usize, thread: usize) -> Buffer<bf16> {
    let number = |at: usize| ((at * 37 + at / 11 + thread * 5) % 13) as f32 / 8.0 - 0.75;
    let numbers: Vec<bf16> = (0..len).map(|at| bf16::from_f32(number(at))).collect();
    Buffer::from_slice(device, &numbers).unwrap()
}

fn bits(stream: &Stream, results: &[&Buffer<bf16>]) -> Vec<u16> {
    stream.synchronize().unwrap();
    let of_one = |result: &&Buffer<bf16>| result.to_vec().unwrap();
    let all = results.iter().flat_map(of_one);
    all.map(bf16::to_bits).collect()
}

/// What each thread computes is what it computes alone.
fn check(call: impl Fn(usize) -> Vec<u16> + Sync) {
    let alone: Vec<Vec<u16>> = (0..THREADS).map(&call).collect();
    let call = &call;
    for _ in 0..4 {
        let found: Vec<Vec<u16>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || call(thread)))
                .collect();
            threads.into_iter().map(|of| of.join().unwrap()).collect()
        });
        assert!(found == alone, "threads overwrite each other's workspaces");
    }
}

#[test]
fn of_products() {
    let (device, stream) = there();
    let products = Products::new(&device);
    check(|thread| {
        // Operands of stride 2 are copied.
        let x = numbers(&device, 24 * 64, thread);
        let (a, b) = (x.view([24, 32]), x.view([32, 24]));
        let (a, b) = (a.with_strides([64, 2]), b.with_strides([48, 2]));
        let c = products.multiply(&stream, &a, &b).unwrap();
        bits(&stream, &[&c])
    });
}

#[test]
fn of_convolutions() {
    let (device, stream) = there();
    let convolutions = Convolutions::new(&device);
    check(|thread| {
        // Pixels of 3 channels are copied, and so are results of 5 filters.
        let (x, filters) = (
            numbers(&device, 10 * 10 * 3, thread),
            numbers(&device, 5 * 3 * 3 * 3, thread + 7),
        );
        let y = Buffer::<bf16>::zeros(&device, 8 * 8 * 5).unwrap();
        let (x, filters) = (x.view([1, 10, 10, 3]), filters.view([5, 3, 3, 3]));
        let options = convolution::Options::default();
        convolutions
            .forward(&stream, &x, &filters, &y.view([1, 8, 8, 5]), &options)
            .unwrap();
        bits(&stream, &[&y])
    });
}

#[test]
fn of_backward_passes() {
    let (device, stream) = there();
    let attention = Attention::new(&device);
    let shape = [1, 1, 64, 64];
    check(|thread| {
        let tensors = [0, 1, 2, 3].map(|at| numbers(&device, 64 * 64, thread + 7 * at));
        let [q, k, v, dout] = tensors.each_ref().map(|tensor| tensor.view(shape));
        let options = attention::Options::default();
        let forward = attention.forward(&stream, [&q, &k, &v], &options).unwrap();
        let upstream = Upstream {
            out: &forward.out.view(shape),
            lse: &forward.lse,
            dout: &dout,
        };
        let gradients = attention.backward(&stream, [&q, &k, &v], upstream, &options);
        let gradients = gradients.unwrap();
        bits(&stream, &[&gradients.dq, &gradients.dk, &gradients.dv])
    });
}

/// The keys of a long cache are split, and the results of splits merged.
#[test]
fn of_decode() {
    let (device, stream) = there();
    let attention = Attention::new(&device);
    check(|thread| {
        let tokens = 1024;
        let rows = numbers(&device, tokens * 64, thread);
        let rows = rows.view([1, 1, tokens, 64]);
        let lengths = Buffer::from_slice(&device, &[1000]).unwrap();
        let cache = Cache {
            keys: &rows,
            values: &rows,
            lengths: &lengths,
            table: None,
            scales: None,
            checked: true,
        };
        let q = numbers(&device, 64, thread + 7);
        let (q, options) = (q.view([1, 1, 1, 64]), attention::Options::default());
        let decode = || attention.decode(&stream, &q, &cache, &options);
        let results = [(); 20].map(|()| decode().unwrap().out);
        bits(&stream, &results.each_ref())
    });
}

/// Sums of three parts and more stay f32 in a workspace.
#[test]
fn of_merge() {
    let (device, stream) = there();
    let attention = Attention::new(&device);
    check(|thread| {
        let out = numbers(&device, 16 * 64, thread);
        let lse = Buffer::from_slice(&device, &[thread as f32; 16]).unwrap();
        let view = out.view([1, 1, 16, 64]);
        let part = || PartialResult {
            out: &view,
            lse: &lse,
        };
        let parts = [(); 4].map(|()| part());
        let results = [(); 20].map(|()| attention.merge(&stream, &parts).unwrap().out);
        bits(&stream, &results.each_ref())
    });
}

/// The launches of a call on all ranks, and copies in front of them.
#[test]
fn of_ranks() {
    let world = World::emulators(2, EmulatorOptions::default()).unwrap();
    let parallel = Parallel::new(&world);
    check(|thread| {
        let devices = world.devices().iter();
        let x: Vec<_> = devices
            .clone()
            .map(|device| numbers(device, 24 * 80, thread))
            .collect();
        let c: Vec<_> = devices
            .map(|device| Buffer::<bf16>::zeros(device, 8 * 24).unwrap())
            .collect();
        let of_a: Vec<_> = x
            .iter()
            .map(|x| x.view([16, 40]).with_strides([80, 2]))
            .collect();
        let of_b: Vec<_> = x
            .iter()
            .map(|x| x.view([40, 24]).with_strides([48, 2]))
            .collect();
        let of_c: Vec<_> = c.iter().map(|c| c.view([8, 24])).collect();
        parallel.multiply_scatter(&of_a, &of_b, &of_c).unwrap();
        world.synchronize().unwrap();
        let results = c.iter().flat_map(|c| c.to_vec().unwrap());
        results.map(bf16::to_bits).collect()
    });
}

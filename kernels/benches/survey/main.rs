//! A survey of products of random shapes beside cublasLt, on one GPU.
//!
//! ```sh
//! cargo bench -p tilekit-kernels --bench survey                            # bf16, 300 shapes
//! cargo bench -p tilekit-kernels --bench survey -- --type f16 --shapes 90  # the first 90 of them
//! cargo bench -p tilekit-kernels --bench survey -- --beside 12 --json survey.jsonl --samples 3 --rounds 2
//! cargo bench -p tilekit-kernels --bench survey -- --only 1000x1000x1000,4800x256x8384 --beside 40
//! ```
//!
//! `C[M, N] = A[M, K] · B[N, K]ᵀ`, all packed, by `Products::multiply_into`: what a program calls, copies of operands among it where rows have odd pitches. Its instance is that which `Dispatch` chooses.
//! Beside it run the first three candidates of cublasLt's heuristic, interleaved in one process, and with `--beside N` as many of the instances that the model says are the fastest, tiles of no list among them; with `--each N` as many tiles of no list of each form of kernel besides, all of which are compiled first.
//! Every element of each of our results is compared with cublasLt's of f32 results, and what follows the result in memory with what was there before. `--seconds N` begins no shape after that time.
//! With `--cublas`, `cublasGemmEx` runs beside the candidates, and ratios are to the fastest of all.
//! With `--settled b` B is loaded before the launch in front has ended, as weights may be, with `--settled ab` A too.
//! Options: `--type`, `--shapes`, `--from` (the first shape), `--seed` (of other shapes), `--only`, `--beside`, `--each`, `--samples` (single launches), `--rounds`, `--slice-ms`, `--seconds`, `--json`.
//!
//! Each row has the plan, medians in µs single and back to back, cublasLt's best candidate for each of them, its time over ours, half of what lies between the quartiles of ours, and the rate at which
//! operands and results are moved back to back.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here ends the program at its line, and figures are what it prints"
)]

#[path = "../host/normal.rs"]
mod normal;
mod options;
mod pool;
mod row;
mod shapes;
mod summary;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use tilekit::prelude::*;
use tilekit_kernels::products::instances::Instance;
use tilekit_kernels::products::need::Need;
use tilekit_kernels::products::plan::Plan;
use tilekit_kernels::products::{Dispatch, Operand, Products, ResultOf};

use options::Options;
use pool::{Pool, Standard};
use shapes::Shape;
use summary::Summary;

fn main() {
    let options = Options::of_arguments();
    let device = Device::cuda(0).unwrap();
    let facts = device.facts();
    println!("{}, {} multiprocessors", facts.name, facts.multiprocessors);
    if options.is_f16 {
        survey::<f16>(&device, &options);
    } else {
        survey::<bf16>(&device, &options);
    }
}

fn survey<T: Operand + ResultOf<T, Addend = T> + Standard>(device: &Device, options: &Options) {
    let start = Instant::now();
    let shapes = options.shapes();
    let dispatched = Products::new(device);
    let others = of_each_instance(device, &shapes, options);
    let pool = Pool::<T>::new(device, &shapes, options.are_settled);
    println!("ready after {:.0} s", start.elapsed().as_secs_f64());
    let mut summary = Summary::default();
    for shape in &shapes {
        if start.elapsed() > options.limit {
            println!("no more shapes after {:.0} s", options.limit.as_secs_f64());
            break;
        }
        let row = row::run(&pool, *shape, (&dispatched, &others), options);
        println!("{row}");
        options.keep(&row);
        summary.add(row);
    }
    print!("{summary}");
    println!("{:.0} s", start.elapsed().as_secs_f64());
}

/// The instances that stand beside the chosen one, each with its plan for the shape: the fastest ones by the model, and those of each form.
fn beside(shape: Shape, options: &Options) -> Vec<(Instance, Plan)> {
    let need = Need::of_packed_16_bits(shape.size);
    let mut plans = Plan::candidates(&need);
    plans.truncate(options.beside);
    for plan in Plan::of_each_form(&need, options.of_each_form) {
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    plans
}

/// `Products` that computes all shapes by one instance, for each that stands beside another; loaded on all cores.
fn of_each_instance(
    device: &Device,
    shapes: &[Shape],
    options: &Options,
) -> HashMap<Instance, Products> {
    let all = shapes.iter().flat_map(|shape| beside(*shape, options));
    let instances: HashSet<Instance> = all.map(|(instance, _)| instance).collect();
    // Of each kernel that an instance is compiled to: rows that begin anywhere have units.
    let smalls = |instance: Instance| match instance {
        Instance::Any(_) => {
            let units = [65, 66, 68, 72];
            units
                .into_iter()
                .flat_map(|n| units.map(|k| [65, n, k]))
                .collect()
        }
        Instance::Copied(_) => {
            let of_results = [65, 66, 68, 72];
            of_results
                .into_iter()
                .flat_map(|n| [1026, 1028, 1032].map(|k| [64, n, k]))
                .collect()
        }
        Instance::Persistent(tile) if tile.every_other_row => vec![[3000, 1032, 256]],
        _ => vec![[520, 256, 2048]],
    };
    let load = |instance: Instance| {
        let mut dispatch = Dispatch::default();
        for shape in shapes {
            dispatch.set(&Need::of_16_bits(shape.size), instance);
        }
        for size in smalls(instance) {
            dispatch.set(&Need::of_16_bits(size), instance);
        }
        let products = Products::with_dispatch(device, dispatch);
        let stream = Stream::new(device).unwrap();
        for [m, n, k] in smalls(instance) {
            let [a, b] = [m * k, n * k].map(|len| Buffer::<bf16>::zeros(device, len).unwrap());
            let b = b.view([k, n]).with_strides([1, k]);
            let done = products.multiply::<bf16, bf16>(&stream, &a.view([m, k]), &b);
            if let Err(error) = done {
                println!("{instance} is left out: {error}");
                return None;
            }
        }
        stream.synchronize().unwrap();
        Some((instance, products))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = instances
            .into_iter()
            .map(|instance| scope.spawn(move || load(instance)))
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .collect()
    })
}

//! Accumulators in flight that loops carry: products of one step run beside the arithmetic on those of the step before.

use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, buffer, numbers, run};

/// The most steps of K.
const STEPS: usize = 8;

/// The operands in shared memory, a step of 16 along K for each buffer.
#[derive(Clone, Copy, Aggregate)]
struct Operands {
    a: Smem<f16>,
    b: Smem<f16>,
}

impl Operands {
    #[device]
    fn load(a: Ptr<f16>, b: Ptr<f16>) -> Self {
        let rows = || Blocked::new([1, 8], [16, 2], [4, 1], [1, 0]);
        let operands = Operands {
            a: Smem::alloc([STEPS, 64, 16], Nvmma::new(32, 16)),
            b: Smem::alloc([STEPS, 16, 16], Nvmma::new(32, 16)),
        };
        let column = || arange(0..16, Slice::new(0, rows())).expand_dims(0);
        for step in 0..STEPS {
            let row = arange(0..64, Slice::new(1, rows())).expand_dims(1);
            let tile = a
                .at(row * (16 * STEPS as i32) + column() + step as i32 * 16)
                .load();
            operands.a.index(step).store(tile);
            let row = arange(0..16, Slice::new(1, rows())).expand_dims(1);
            let tile = b
                .at(row * (16 * STEPS as i32) + column() + step as i32 * 16)
                .load();
            operands.b.index(step).store(tile);
        }
        fence_async_shared();
        operands
    }

    /// Starts the product of one step in an accumulator of its own.
    #[device]
    fn start(self, step: Scalar<i32>) -> Accumulator<f32> {
        let acc = Accumulator::zeros([64, 16], sums());
        acc.mma(self.a.index(step), self.b.index(step).transpose())
    }
}

fn sums() -> Wgmma {
    Wgmma::new([4, 1], [64, 16, 16])
}

#[device]
fn store(out: Ptr<f32>, total: Tensor<f32>) {
    let row = arange(0..64, Slice::new(1, sums())).expand_dims(1);
    let column = arange(0..16, Slice::new(0, sums())).expand_dims(0);
    out.at(row * 16 + column).store(total);
}

/// Each iteration starts the product of a step and then scales that of the step before.
#[kernel(warps = 4)]
fn scaled_beside(a: Ptr<f16>, b: Ptr<f16>, scales: Ptr<f32>, out: Ptr<f32>, steps: i32) {
    let operands = Operands::load(a, b);
    let mut total = zeros([64, 16], sums());
    let mut pending = operands.start(scalar(0));
    for step in range(1, steps) {
        let next = operands.start(step);
        total += pending.wait_older_than(1) * scales.at(step - 1).load();
        pending = next;
    }
    total += pending.wait_all() * scales.at(steps - 1).load();
    store(out, total);
}

/// The same by two accumulators, each of which ends before it begins again; the number of steps is even.
#[kernel(warps = 4)]
fn in_two(a: Ptr<f16>, b: Ptr<f16>, scales: Ptr<f32>, out: Ptr<f32>, steps: i32) {
    let operands = Operands::load(a, b);
    let mut total = zeros([64, 16], sums());
    let mut odd = Accumulator::zeros([64, 16], sums());
    for pair in range(0, steps / 2) {
        let even = operands.start(pair * 2);
        let scale = scales.at(maximum(pair * 2 - 1, 0)).load();
        let ended = odd.wait_older_than(1);
        odd = operands.start(pair * 2 + 1);
        // What has ended is used while the tensor cores write the registers again.
        total += ended * scale;
        total += even.wait_older_than(1) * scales.at(pair * 2).load();
    }
    total += odd.wait_all() * scales.at(steps - 1).load();
    store(out, total);
}

/// Three products at a time: the accumulators of two steps go from one variable to the other.
#[kernel(warps = 4)]
fn three_at_a_time(a: Ptr<f16>, b: Ptr<f16>, scales: Ptr<f32>, out: Ptr<f32>, steps: i32) {
    let operands = Operands::load(a, b);
    let mut total = zeros([64, 16], sums());
    let mut first = operands.start(scalar(0));
    let mut second = operands.start(scalar(1));
    for step in range(2, steps) {
        let third = operands.start(step);
        total += first.wait_older_than(2) * scales.at(step - 2).load();
        first = second;
        second = third;
    }
    total += first.wait_older_than(1) * scales.at(steps - 2).load();
    total += second.wait_all() * scales.at(steps - 1).load();
    store(out, total);
}

fn number(i: usize) -> f32 {
    ((i * 7 + 3) % 11) as f32 - 5.0
}

fn scale(step: usize) -> f32 {
    [1.0, 0.5, -2.0, 0.25, 4.0, -1.0, 8.0, 3.0][step]
}

/// The scaled products of so many steps; every number is exact.
fn expected(steps: usize) -> Vec<f32> {
    let depth = 16 * STEPS;
    let of_step = |row: usize, column: usize, step: usize| {
        let k = step * 16..(step + 1) * 16;
        let sum: f32 = k
            .map(|k| number(row * depth + k) * number(column * depth + k + 5))
            .sum();
        sum * scale(step)
    };
    let total = |at: usize| (0..steps).map(|step| of_step(at / 16, at % 16, step)).sum();
    (0..64 * 16).map(total).collect()
}

#[track_caller]
fn check<Args>(kernel: impl KernelFn<Args>, steps: &[usize]) {
    let half = |i: usize| f16::from_f32(number(i));
    let depth = 16 * STEPS;
    let a: Vec<f16> = (0..64 * depth).map(half).collect();
    let b: Vec<f16> = (0..16 * depth).map(|i| half(i + 5)).collect();
    let scales: Vec<f32> = (0..STEPS).map(scale).collect();
    for &steps in steps {
        let arguments = [
            buffer(&a),
            buffer(&b),
            buffer(&scales),
            buffer(&[f32::NAN; 64 * 16]),
            Argument::Int(steps as i32),
        ];
        let after = run(kernel, [1; 3], &arguments);
        assert_eq!(numbers::<f32>(&after[3]), expected(steps), "{steps} steps");
    }
}

#[test]
fn product_of_a_step_runs_beside_the_scaling_of_the_step_before() {
    check(scaled_beside, &[1, 2, 3, 4, 5, 8]);
}

#[test]
fn two_accumulators_end_before_they_begin_again() {
    check(in_two, &[2, 4, 6, 8]);
}

#[test]
fn three_products_in_flight_take_turns() {
    check(three_at_a_time, &[2, 3, 4, 5, 6, 7, 8]);
}

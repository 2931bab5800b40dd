//! A function of the author's for each element: with branches and loops of each thread's own, of several tensors, and of packs.

use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;
use ir::elem::DType;

use crate::machine::{LEN, run_func};
use crate::values::{bytes, values};

fn places() -> Tensor<i32> {
    arange(0..LEN, Blocked::new([4], [32], [2], [0]))
}

fn numbers(seed: u64) -> Vec<u64> {
    (0..LEN as u64)
        .map(|at| (at * 0x9e37_79b9 + seed).wrapping_mul(0xc2b2_ae35) >> 12 & 0xffff)
        .collect()
}

/// Steps of Collatz's sequence down to 1, at most 200.
#[device]
fn steps(start: Scalar<u32>) -> Scalar<u32> {
    let mut n = start;
    let mut count = scalar(0_u32);
    while (n > 1) & (count < 200) {
        if (n & 1) == 0 {
            n /= 2;
        } else {
            n = n * 3 + 1;
        }
        count += 1;
    }
    count
}

#[kernel(warps = 2)]
fn collatz(x: Ptr<u32>, out: Ptr<u32>) {
    let at = places();
    out.at(at).store(map_elementwise(x.at(at).load(), steps));
}

#[test]
fn each_thread_branches_and_loops_by_itself() {
    let x = numbers(1);
    let func = KernelFn::trace(collatz)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let found = values(
        &run_func(func, &[&bytes(&x, DType::U32)], 4 * LEN),
        DType::U32,
    );
    for (found, x) in found.into_iter().zip(x) {
        let (mut n, mut count) = (x, 0);
        while n > 1 && count < 200 {
            n = if n % 2 == 0 { n / 2 } else { n * 3 + 1 };
            count += 1;
        }
        assert_eq!(found, count, "steps from {x}");
    }
}

#[kernel(warps = 2)]
fn quotients(x: Ptr<u32>, y: Ptr<u32>, out: Ptr<u32>) {
    let at = places();
    let (x, y) = (x.at(at).load(), y.at(at).load() | 1);
    let (quotient, rest) = map_elementwise((x, y), |(x, y)| (x / y, x % y));
    out.at(at).store(quotient);
    out.at(places() + LEN).store(rest);
}

#[test]
fn a_function_may_take_and_give_several_elements() {
    let (x, y) = (numbers(2), numbers(3));
    let func = KernelFn::trace(quotients)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let data = [&x, &y].map(|s| bytes(s, DType::U32));
    let found = values(&run_func(func, &[&data[0], &data[1]], 8 * LEN), DType::U32);
    for at in 0..LEN {
        let (x, y) = (x[at], y[at] | 1);
        assert_eq!((found[at], found[LEN + at]), (x / y, x % y));
    }
}

/// In every pack of four the larger of neighbours first, and the place within the pack in the lowest bits.
#[kernel(warps = 2)]
fn sorted_pairs(x: Ptr<u32>, out: Ptr<u32>) {
    let at = places();
    let sorted = map_elementwise_packed(x.at(at).load(), |[a, b, c, d]| {
        [
            a.maximum(b) * 4,
            a.minimum(b) * 4 + 1,
            c.maximum(d) * 4 + 2,
            c.minimum(d) * 4 + 3,
        ]
    });
    out.at(at).store(sorted);
}

#[test]
fn packs_are_neighbours_in_the_order_of_the_registers() {
    let x = numbers(4);
    let func = KernelFn::trace(sorted_pairs)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let found = values(
        &run_func(func, &[&bytes(&x, DType::U32)], 4 * LEN),
        DType::U32,
    );
    // Four neighbours lie in one thread.
    for (found, x) in found.chunks(4).zip(x.chunks(4)) {
        let [a, b, c, d] = [x[0], x[1], x[2], x[3]];
        let wanted = [
            a.max(b) * 4,
            a.min(b) * 4 + 1,
            c.max(d) * 4 + 2,
            c.min(d) * 4 + 3,
        ];
        assert_eq!(found, wanted);
    }
}

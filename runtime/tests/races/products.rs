//! Asynchronous products of matrices, and what may be done with their operands.

use emulator::FaultKind::{Race, Wgmma as Misuse};
use tilekit::prelude::*;

use crate::line;

said!("products.rs", [Race, Misuse]);

fn rows() -> Blocked {
    Blocked::new([1, 16], [8, 4], [4, 1], [1, 0])
}

fn sums() -> Wgmma {
    Wgmma::new([4, 1], [64, 64, 16])
}

/// An operand is written again while the product may read it.
#[kernel(warps = 4, instances(<true>, <false>))]
fn operand_in_use<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let a = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    let b = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    fence_async_shared();
    let mut acc = Accumulator::<f32>::zeros([64, 64], sums());
    acc = acc.mma(a, b); // in use: multiplies
    if !WRONG {
        acc = acc.wait(0);
    }
    a.store(full([64, 64], 2.0, rows())); // in use: writes
    let total = acc.wait_all().sum(1).sum(0);
    out.store(total.scalar().cast::<i32>());
}

#[test]
fn an_operand_is_written_after_its_product() {
    let said = said(&["in use: multiplies", "in use: writes"]);
    said.of(1, operand_in_use::<true>, operand_in_use::<false>);
}

/// Two products in flight: a wait for all but one frees the operands of the first alone.
#[kernel(warps = 4, instances(<true>, <false>))]
fn newest_in_flight<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let a = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    let b = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    let other = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    fence_async_shared();
    let mut acc = Accumulator::<f32>::zeros([64, 64], sums());
    acc = acc.mma(a, b);
    acc = acc.mma(other, b); // newest: multiplies
    acc = acc.wait(1);
    if WRONG {
        other.store(full([64, 64], 2.0, rows())); // newest: writes
    } else {
        a.store(full([64, 64], 2.0, rows()));
    }
    let total = acc.wait_all().sum(1).sum(0);
    out.store(total.scalar().cast::<i32>());
}

#[test]
fn a_wait_for_older_products_leaves_the_operands_of_the_newest() {
    let said = said(&["newest: multiplies", "newest: writes"]);
    said.of(1, newest_in_flight::<true>, newest_in_flight::<false>);
}

/// A ring of two stages that threads fill while the product of the other stage is in flight.
#[kernel(warps = 4, instances(<true>, <false>))]
fn ring_of_operands<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let stages = Smem::<f16>::alloc([2, 64, 64], Nvmma::B128);
    let b = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    let mut acc = Accumulator::<f32>::zeros([64, 64], sums());
    for step in range(0, 4) {
        let stage = stages.index(step % 2);
        let value = x.at(step).load().cast::<f16>();
        stage.store(full([64, 64], value, rows())); // ring: writes
        fence_async_shared();
        acc = acc.mma(stage, b); // ring: multiplies
        acc = acc.wait(if WRONG { 2 } else { 1 });
    }
    let total = acc.wait_all().sum(1).sum(0);
    out.at(arange(0..128, line()))
        .store(total.scalar().cast::<i32>());
}

#[test]
fn a_ring_of_operands_waits_for_the_product_before_the_last() {
    let said = said(&["ring: multiplies", "ring: writes"]);
    said.of(1, ring_of_operands::<true>, ring_of_operands::<false>);
}

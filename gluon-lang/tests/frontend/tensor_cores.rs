//! Products on the tensor cores, and warp specialization.

use gluon_lang::lang::prelude::*;

use crate::support::ir;

#[kernel(warps = 4)]
fn products(
    #[block([64, 64], Nvmma::B128)] a: TensorMap<bf16>,
    #[block([32, 64], Nvmma::B128)] b: TensorMap<bf16>,
    n: i32,
) {
    let x = Smem::<bf16>::alloc([2, 64, 64], a.layout());
    let y = Smem::<bf16>::alloc([2, 32, 64], b.layout());
    let sums = Wgmma::new([4, 1], [64, 32, 16]);
    let mut acc = Accumulator::<f32>::zeros([64, 32], sums.clone());
    for i in range(0, n) {
        acc = acc.mma_if(i != 0, x.index(i % 2), y.index(i % 2).transpose());
        acc = acc.wait(1);
    }
    let left = x.index(0).load(DotOperand::new(0, sums, 2));
    let first = acc.mma(left, y.index(0).transpose());
    let other = Accumulator::from_tensor(first.wait_all() * 2.0);
    device_print(
        "sums",
        other.mma(x.index(1), y.index(1).transpose()).wait_all(),
    );
}

#[test]
fn products_in_flight() {
    insta::assert_snapshot!(ir(products));
}

#[kernel(warps = 4)]
fn parts(out: Ptr<i32>, n: i32) {
    let ready = Mbarrier::alloc(1);
    let twice = n * 2;
    warp_specialize()
        .registers(120)
        .main(|| {
            ready.wait(0);
            let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
            out.at(at).store(at + twice);
        })
        .worker(Warps(1).registers(40), || {
            let at = arange(0..32, Blocked::new([1], [32], [1], [0]));
            out.at(at + 128).store(at);
            ready.arrive();
        })
        .worker(Warps(2), || {
            for i in range(0, n) {
                out.at(i + 160).store(i);
            }
        })
        .run();
}

#[test]
fn partitions_of_warps() {
    insta::assert_snapshot!(ir(parts));
}

/// Accumulators are moved: round loops, into the arms of branches, through closures and behind references.
#[kernel]
fn moved_accumulators(a: Ptr<f32>, n: i32) {
    let tile = Smem::<bf16>::alloc([64, 64], Nvmma::B128);
    let sums = || Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    let product = |acc: Accumulator<f32>| acc.mma(tile, tile.transpose());
    let (mut acc, mut pair) = (sums(), [sums(), sums()]);
    for i in range(0, n) {
        if i > 2 {
            acc = product(acc);
        }
        acc = if i > 3 { product(acc) } else { acc };
        for one in 0..2 {
            pair[one].update(product);
        }
    }
    let mut add = |times: usize| {
        for _ in 0..times {
            acc.update(product);
        }
    };
    for _ in range(0, n) {
        add(2);
    }
    twice(&mut acc, tile);
    let [first, second] = pair.map(Accumulator::wait_all);
    a.store((first + second).sum(0).sum(0).scalar());
    if n > 4 {
        a.at(1).store(acc.wait_all().sum(0).sum(0).scalar());
    } else if n > 3 {
        let sums = acc.mma(tile, tile.transpose()).wait_all();
        a.at(2).store(sums.sum(0).sum(0).scalar());
    }
}

#[device]
fn twice(acc: &mut Accumulator<f32>, tile: Smem<bf16>) {
    for _ in range(0, 2) {
        acc.update(|acc| acc.mma(tile, tile.transpose()));
    }
}

/// What follows moves into the `else`, and takes the accumulator along.
#[kernel]
fn accumulator_past_a_return(a: Ptr<f32>, n: i32) {
    let tile = Smem::<bf16>::alloc([64, 64], Nvmma::B128);
    let mut acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    if n < 1 {
        return;
    }
    for _ in range(0, n) {
        acc = acc.mma(tile, tile.transpose());
    }
    a.store(acc.wait_all().sum(0).sum(0).scalar());
}

#[test]
fn accumulators_are_moved() {
    insta::assert_snapshot!(ir(moved_accumulators));
    insta::assert_snapshot!(ir(accumulator_past_a_return));
}

//! Products on the tensor cores, and warps that part.

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
        });
}

#[test]
fn partitions_of_warps() {
    insta::assert_snapshot!(ir(parts));
}

//! What uses an accumulator up: `mma` and the waits.
use tilekit::lang::prelude::*;

fn sums() -> Accumulator<f32> {
    Accumulator::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]))
}

/// An accumulator is used up by what is done with it.
#[kernel]
fn used_twice(a: TensorMap<bf16>, n: i32) {
    let tile = Smem::<bf16>::alloc([64, 64], a.layout());
    let acc = sums();
    let first = acc.mma(tile, tile.transpose()).wait_all();
    let second = acc.mma(tile, tile.transpose()).wait_all(); //~ use of moved value: `acc`
    let outside = sums();
    for i in range(0, n) { //~ borrow of moved value: `outside`
        let sum = outside.mma(tile, tile.transpose()).wait_all();
    }
    let arms = sums();
    if n > 3 {
        device_print("sums", arms.wait_all());
    }
    device_print("sums", arms.wait_all()); //~ use of moved value: `arms`
}

//! What the tensor cores still write offers nothing but more products and waits.
use tilekit::lang::prelude::*;

#[kernel]
fn read_too_early(x: Ptr<f32>, a: TensorMap<bf16>) {
    let tile = Smem::<bf16>::alloc([64, 64], a.layout());
    let acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    let acc = acc.mma(tile, tile.transpose());
    let b = acc + 1.0; //~ cannot add
    let c = acc.cast::<bf16>(); //~ method
    x.at(0).store(acc); //~ Accumulator<f32>` does not fit an access of
    let d = acc.wait(0).exp(); //~ method
}

#[kernel]
fn types_that_do_not_meet(a: TensorMap<bf16>, b: TensorMap<f16>) {
    let x = Smem::<bf16>::alloc([64, 64], a.layout());
    let y = Smem::<f16>::alloc([64, 64], b.layout());
    let acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    acc.mma(x, y.transpose()); //~ mismatched types
    let acc = Accumulator::<bf16>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    acc.mma(x, x.transpose()); //~ the tensor cores do not multiply
}

#[kernel]
fn phases(n: f32) {
    let ready = Mbarrier::alloc(1);
    ready.wait(n); //~ is no single
    ready.wait(0.5); //~ is no single
}

#[kernel]
fn copied() {
    let acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    let again = acc.clone(); //~ no method named `clone`
}

//! Sizes, counts and depths that nothing can have, in the author's own numbers.

use tilekit::prelude::*;

use crate::check;

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

#[kernel]
fn tile_of_two_to_the_40() {
    let tile = Smem::<f32>::alloc([1_usize << 40, 64], Swizzled::plain([1, 0]));
    tile.store(full([64, 64], 0.0, Coalesced));
}

#[kernel]
fn tensor_past_32_bits(x: Ptr<f32>) {
    let value: Tensor<f32> = full([(1_usize << 32) + 32], 0.0, line());
    x.at(arange(0..32, line())).store(value);
}

#[kernel]
fn tensor_of_negative_size(x: Ptr<f32>) {
    let short = 3;
    x.at(arange(0..32, line()))
        .store(zeros::<f32>([short - 4], line()));
}

#[test]
fn a_size_that_no_dimension_can_have() {
    check("tile_of_two_to_the_40", tile_of_two_to_the_40.trace());
    check("tensor_past_32_bits", tensor_past_32_bits.trace());
    check("tensor_of_negative_size", tensor_of_negative_size.trace());
}

#[kernel]
fn barriers_of_two_to_the_32() {
    let full = Mbarriers::alloc(1_usize << 32, Arrivals(1));
    full.index(0).wait(0);
}

#[kernel]
fn barriers_past_shared_memory() {
    let full = Mbarriers::alloc(1_000_000_000, Arrivals(1));
    full.index(0).wait(0);
}

#[kernel]
fn no_barriers() {
    Mbarriers::alloc(0, Arrivals(1)).index(0).wait(0);
}

#[kernel]
fn arrivals_past_32_bits() {
    Mbarriers::alloc(2, Arrivals(1_u64 << 32)).index(0).wait(0);
}

#[test]
fn more_barriers_than_there_can_be() {
    check(
        "barriers_of_two_to_the_32",
        barriers_of_two_to_the_32.trace(),
    );
    check(
        "barriers_past_shared_memory",
        barriers_past_shared_memory.trace(),
    );
    check("no_barriers", no_barriers.trace());
    check("arrivals_past_32_bits", arrivals_past_32_bits.trace());
}

#[device]
fn fibonacci(n: Scalar<i32>) -> Scalar<i32> {
    let mut sum = n;
    if n > 1 {
        sum = fibonacci(n - 1) + fibonacci(n - 2);
    }
    sum
}

#[kernel]
fn calls_itself(x: Ptr<i32>, n: i32) {
    x.store(fibonacci(n));
}

#[test]
fn a_device_function_calls_itself_as_the_kernel_decides() {
    check("calls_itself", calls_itself.trace());
}

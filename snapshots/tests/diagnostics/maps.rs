//! Functions of elements that cannot be.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn map_elementwise_that_loads(x: Ptr<f32>) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let scaled = map_elementwise(x.at(at).load(), |v| v * x.load());
    x.at(at).store(scaled);
}

#[test]
fn a_load_in_map_elementwise_is_refused() {
    check(
        "map_elementwise_that_loads",
        map_elementwise_that_loads.trace(),
    );
}

#[kernel]
fn map_elementwise_beyond_a_thread(x: Ptr<f32>) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let swapped = map_elementwise_packed(x.at(at).load(), |[a, b]| [b, a]);
    x.at(at).store(swapped);
}

#[test]
fn a_pack_larger_than_a_threads_elements_is_refused() {
    check(
        "map_elementwise_beyond_a_thread",
        map_elementwise_beyond_a_thread.trace(),
    );
}

#[kernel]
fn map_elementwise_of_two_layouts(x: Ptr<f32>) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let other = arange(0..128, Blocked::new([4], [32], [4], [0]));
    let sum = map_elementwise((x.at(at).load(), x.at(other).load()), |(a, b)| a + b);
    x.at(at).store(sum);
}

#[test]
fn map_elementwise_of_two_layouts_is_refused() {
    check(
        "map_elementwise_of_two_layouts",
        map_elementwise_of_two_layouts.trace(),
    );
}

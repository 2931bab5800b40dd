//! Control flow inside macros is not rewritten: what only the host can decide stays so.
use tilekit::lang::KernelEq;
use tilekit::lang::prelude::*;

macro_rules! keep {
    ($($code:tt)*) => { $($code)* };
}

#[kernel]
fn loops_in_macros(n: i32) {
    keep! {
        for i in range(0, n) {} //~ is not an iterator
    }
    keep! {
        if n.equal_to_three() {} //~ mismatched types
    }
    assert!(n < 3); //~ a host assertion runs while the kernel is traced
}

trait Three {
    fn equal_to_three(self) -> Scalar<bool>;
}

impl Three for Scalar<i32> {
    #[device]
    fn equal_to_three(self) -> Scalar<bool> {
        self == 3
    }
}

/// What a kernel decides is not the host's to match, count or convert, and nothing is indexed.
#[kernel]
fn as_if_of_the_host(x: Ptr<i32>, n: i32) {
    let at = arange(0..32, Auto);
    for i in 0..n { //~ is a host range, whose loop unrolls
        let _ = i;
    }
    let f = n as f32; //~ `as` converts host numbers //~ non-primitive cast
    let first = at[0]; //~ a tensor cannot be indexed
    let second = x[1]; //~ a pointer cannot be indexed in a kernel
    let tile = Smem::<i32>::alloc([4, 8], Swizzled::plain([1, 0]));
    let row = tile[n]; //~ a tile of shared memory cannot be indexed
}

/// A runtime `match` covers all numbers, as one of the host does.
#[kernel]
fn matches_some(x: Ptr<i32>, n: i32) {
    match n { //~ non-exhaustive patterns
        0 => x.at(0).store(1),
        1..=3 => x.at(0).store(2),
    }
}

/// The macros give comparisons their meaning.
fn forgotten(x: Tensor<f32>, n: Scalar<i32>) -> Tensor<bool> {
    let y = x.maximum(0.0);
    if n == 3 { //~ values of the kernel are compared in functions under
        let _ = y;
    }
    let _ = y < 1.0; //~ values of the kernel are compared in functions under
    y.equal(&x)
}

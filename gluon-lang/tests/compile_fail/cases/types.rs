//! What rustc refuses, in our words.
use tilekit::lang::prelude::*;

#[kernel]
fn elements_differ(x: Ptr<f16>, y: Ptr<f32>, n: i32, m: i64) {
    let at = arange(0..32, Auto);
    let a = x.at(at).load();
    let b = y.at(at).load();
    let c = a + b; //~ Tensor<f32>` does not mix with elements of type
    let d = a < b; //~ Tensor<f32>` does not mix with elements of type //~ cannot be compared in a kernel
    let e = n + m; //~ Scalar<i64>` does not mix with elements of type `i32`
    let f = a * true; //~ `bool` does not mix with elements of type
    let g = at * 1.5; //~ `{float}` does not mix with elements of type `i32`
    let h = at.exp(); //~ `i32` is not a float type with arithmetic
    let i = (at > 3).sum(0); //~ there is no arithmetic on `bool` in a kernel
    let j = at.max(n); //~ is no dimension
    x.at(at).store(b); //~ Tensor<f32>` does not fit an access of
    x.at(a).load(); //~ is no offset of a pointer
}

#[kernel]
fn conditions(x: Ptr<f32>, n: i32) {
    let at = arange(0..32, Auto);
    if at < n { //~ `if` wants one boolean
        x.at(at).store(0.0);
    }
    while at < n { //~ `while` wants one boolean
        x.at(at).store(0.0);
    }
    if n { //~ `if` wants one boolean
        x.at(at).store(0.0);
    }
    if n && true { //~ `&&` and `||` want booleans
        x.at(at).store(0.0);
    }
}

#[kernel]
fn arms_differ(n: i32, f: f32) {
    let a = if n > 0 { n } else { f }; //~ mismatched types
    let b = if n > 0 {
        n
    } else {
        5 //~ mismatched types
    };
    let c = if n > 0 { n }; //~ mismatched types
}

#[kernel]
fn parameters(name: String) {} //~ a kernel cannot take a `String` //~

#[kernel]
fn tensor_parameter(x: Tensor<f32>) {} //~ a kernel cannot take a `gluon_lang::lang::Tensor<f32>` //~

#[kernel]
fn eight_bits(x: Ptr<E4m3>) {
    let v = x.at(0).load();
    let w = v + v; //~ cannot add
}

#[kernel]
fn refutable(n: i32) {
    for Some(i) in [Some(1), None] { //~ refutable pattern
        let _ = n + i;
    }
}

fn assigning_combine(x: Tensor<f32>) -> Tensor<f32> {
    let mut count = 0;
    x.reduce(0, |a, b| {
        count += 1; //~ cannot assign to `count`
        a + b
    })
}

#[kernel]
fn read_only_number(#[readonly] n: i32) {} //~ only a `Ptr` can be `#[readonly]`, or an array of them, not `i32`

#[kernel]
fn read_only_of_what(#[readonly(x)] x: Ptr<f32>) {} //~ unexpected

#[kernel]
fn products() {
    let single = zeros::<f32>([32, 32], Auto);
    let half = zeros::<f16>([32, 32], Auto);
    let byte = zeros::<E4m3>([32, 32], Auto);
    mma_v2(single, single, single); //~ `mma_v2` does not multiply `f32` by
    mma_v2(half, single, single); //~ `mma_v2` does not multiply `gluon_lang::lang::prelude::f16` by `f32`
    dot_fma(byte, byte, single); //~ `dot_fma` does not multiply `gluon_lang::lang::E4m3`
}

#[kernel]
fn array_of_maps(x: [TensorMap<f32>; 2]) {} //~ a kernel takes no array or struct with a `gluon_lang::lang::TensorMap<f32>` //~ is not a kernel

#[kernel]
fn readonly_numbers(#[readonly] n: [i32; 2]) {} //~ only a `Ptr` can be `#[readonly]`, or an array of them, not `[i32; 2]`

#[kernel(signature(x: [rows, 4], strides = [x.stride(0), 1, 1]))] //~ mismatched types
fn rules_of_another_length(x: Ptr<f32>, strides: [i64; 2]) {}

#[derive(Clone, Copy, KernelParam)]
struct OfMaps {
    map: TensorMap<f16>, //~ a kernel takes no array or struct with a
}

#[derive(Clone, Copy, KernelParam)]
struct OfHostNumbers {
    count: usize, //~ a kernel takes no array or struct with a `usize`
    #[readonly]
    n: Scalar<i32>, //~ only a `Ptr` can be `#[readonly]`
}

#[derive(Clone, Copy)]
struct Underived {
    n: Scalar<i32>,
}

#[kernel]
fn underived(n: Underived) {} //~ a kernel cannot take a `Underived` //~

#[derive(Clone, Copy, KernelParam)]
struct Derived {
    n: Scalar<i32>,
}

#[kernel]
fn promised(#[multiple_of(8)] n: Derived) {} //~ only a number or a `Ptr` can be promised to be a multiple

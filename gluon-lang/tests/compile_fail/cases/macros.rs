//! What the macros refuse.
use tilekit::lang::prelude::*;

#[kernel(wraps = 4)] //~ expected `warps = 4`
fn misspelt(x: Ptr<f32>) {}

#[kernel(warps = 4, warps = 8)] //~ `warps` is given twice
fn twice(x: Ptr<f32>) {}

#[kernel(deny(spils))] //~ expected `conversions`
fn denies(x: Ptr<f32>) {}

#[kernel(instances(<1>))] //~ this kernel is not generic
fn not_generic(x: Ptr<f32>) {}

#[kernel]
fn returns(x: Ptr<f32>) -> i32 { //~ a kernel returns nothing
    1
}

#[kernel]
fn borrows<'a>(x: Ptr<f32>) {} //~ a kernel has no lifetimes

#[kernel]
async fn waits(x: Ptr<f32>) {} //~ cannot be `async`

#[kernel]
fn pattern((a, b): (i32, i32)) {} //~ a parameter of a kernel is a name, not a pattern

#[kernel]
fn promise(#[multiple_of(12)] n: i32) {} //~ a power of two

#[kernel]
#[kernel] //~ a function has one attribute `#[kernel]` or `#[device]`
fn twice_a_kernel(n: i32) {}

#[device]
#[kernel] //~ a function has one attribute `#[kernel]` or `#[device]`
fn device_and_kernel(n: i32) {}

#[device(inline)] //~ takes no arguments
fn arguments() {}

#[kernel]
fn stored_reference(n: i32) {
    struct Holder<'a>(&'a mut Scalar<i32>);
    struct Named<'a> {
        r: &'a mut Scalar<i32>,
    }
    let mut a = n;
    let mut b = n;
    let both = (&mut a, &mut b); //~ a `&mut` to `a` cannot be stored //~ a `&mut` to `b` cannot be stored
    let named = Named { r: &mut a }; //~ a `&mut` to `a` cannot be stored
}

#[case(size(n = [1]))] //~ expected `sizes
fn wrong_case() {}

#[case(sizes(n = []))] //~ the size `n` has no value
fn empty_case() {}

#[derive(Aggregate)]
union Both { //~ a union cannot be an `Aggregate`: its active field is unknown
    a: u32,
    b: f32,
}
#[kernel]
fn fixed_later(
    n: i32,
    #[fixed] count: usize, //~ only the first parameter of a kernel can be `#[fixed]`
) {}

#[kernel(instances(<f32>))] //~ `count` is `#[fixed]`
fn fixed_with_instances<T: Float>(#[fixed] count: usize, x: Ptr<T>) {}

#[kernel]
fn fixed_to(#[fixed(8)] count: usize, n: i32) {} //~ unexpected token

#[derive(KernelParam)]
enum EitherParam { //~ an enum cannot be a parameter of a kernel
    A(Scalar<i32>),
}

#[derive(KernelParam)]
struct TwelveParam {
    #[multiple_of(12)] //~ a power of two
    n: Scalar<i32>,
}

//! What cannot live across a loop or branch of the kernel.
use tilekit::lang::prelude::*;

struct Opaque(u32);

#[kernel]
fn not_a_value(n: i32) {
    let mut opaque = Opaque(1);
    for i in range(0, n) {
        opaque.0 += 1; //~ `Opaque` cannot live across a loop or branch of the kernel
    }
    // Where the host decides, anything goes.
    for i in 0..3 {
        opaque.0 += 1;
    }
    if true {
        opaque.0 += 1;
    }
}

#[kernel]
fn closure_that_assigns(n: i32) {
    let mut sum = n;
    let mut add = |x: Scalar<i32>| sum += x;
    for i in range(0, n) {
        add(i); //~ cannot live across a loop or branch of the kernel
    }
}

#[device]
fn calls_back(n: Scalar<i32>, mut f: impl FnMut(Scalar<i32>)) {
    if n > 3 {
        f(n); //~ cannot live across a loop or branch of the kernel
    }
}

/// Shown at the `if`, whose value it is.
#[kernel]
fn value_of_a_branch(n: i32) {
    let opaque =
        if n > 3 { Opaque(1) } else { Opaque(2) }; //~ `Opaque` cannot live across a loop or branch of the kernel
}

#[kernel]
fn reference_and_variable(n: i32) {
    let mut sum = n;
    let r = &mut sum;
    for i in range(0, n) { //~ cannot borrow `sum` as mutable
        *r += i;
        sum += i; //~ cannot borrow `sum` as mutable more than once
    }
    *r += 1;
}

/// What an `if` decides is its value: `let x = if n > 3 { n } else { n + 1 };`.
#[kernel]
fn assigned_in_both_arms(n: i32) {
    let x;
    if n > 3 {
        x = n;
    } else {
        x = n + 1; //~ cannot assign twice to immutable variable
    }
    let mut y;
    if n > 3 { //~ used binding `y` is possibly-uninitialized
        y = n;
    } else {
        y = n + 2;
    }
    y += 1;
}

//! What cannot live across a loop or branch of the kernel.
use tilekit::lang::prelude::*;

struct Opaque(u32);

#[kernel]
fn not_a_value(n: i32) {
    let mut opaque = Opaque(1);
    for i in range(0, n) {
        opaque.0 += 1; //~ `Opaque` cannot live across a loop or branch of the kernel
    }
    // Where the condition is known at trace time, anything goes.
    for i in 0..3 {
        opaque.0 += 1;
    }
    if true {
        opaque.0 += 1;
    }
}

/// Where it is only called, it borrows what it changes; this one is given away too.
#[kernel]
fn closure_that_assigns(n: i32) {
    let mut sum = n;
    let mut add = |x: Scalar<i32>| sum += x;
    for i in range(0, n) {
        add(i); //~ cannot live across a loop or branch of the kernel
    }
    calls_back(n, add);
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

/// A value is missing by one of the ways that lead to its use.
#[kernel]
fn not_in_every_arm(n: i32) {
    let x;
    if n > 3 { //~ `x` is not assigned where the condition of this `if` is false, and used after it
        x = n;
    }
    let mut y;
    if n > 3 {
        y = n + x;
    } else { //~ `y` is not assigned in this `else`, and used after it
        let _ = n + 2;
    }
    y += 1;
    let z;
    if n > 3 { //~ `z` is not assigned in the first arm of this `if`, and used after it
        let _ = n;
    } else {
        z = y;
    }
    let w: Scalar<i32>;
    match z + 1 {
        _ if true => w = n,
        _ => {} //~ `w` is not assigned in this arm, and used after it
    }
    let mut v = w + w;
    let mut last;
    for i in range(0, n) { //~ `last` is not assigned if this loop has no iteration, and used after it
        last = i;
        v += last;
    }
    v += last;
}

#[kernel]
fn chained_arms(n: i32) {
    let x;
    if n > 3 {
        x = n;
    } else if n > 2 { //~ `x` is not assigned where the condition of this `if` is false, and used after it
        x = n + 1;
    }
    let y = x;
}

#[kernel]
fn arms_of_other_types(n: i32, m: i64) {
    let x;
    if n > 3 {
        x = n;
    } else {
        x = m; //~ mismatched types
    }
    let y: Scalar<i32> = x;
}

#[kernel]
fn opaque_in_both_arms(n: i32) {
    let x;
    if n > 3 { //~ `Opaque` cannot live across a loop or branch of the kernel
        x = Opaque(1);
    } else {
        x = Opaque(2);
    }
    drop(x);
}

/// As in Rust.
#[kernel]
fn assigned_twice(n: i32) {
    let x;
    if n > 3 {
        x = n;
    } else {
        x = n + 1;
    }
    x = n + 2; //~ cannot assign twice to immutable variable
    let y;
    if n > x {
        y = n;
        y = n + 1; //~ cannot assign twice to immutable variable
    } else {
        y = n;
    }
    let z;
    for i in range(0, n) {
        z = i + y; //~ cannot assign twice to immutable variable
    }
    let never: Scalar<i32>;
    let w = never + 1; //~ used binding `never` isn't initialized
}

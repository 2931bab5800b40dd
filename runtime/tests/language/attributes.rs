//! Attributes of statements and parameters, and names that are not plain.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 1)]
fn conditional(input: Ptr<i32>, #[cfg(any())] never: f32, out: Ptr<i32>) {
    #[allow(unused_variables, reason = "the attribute is what is tested")]
    let n = input.at(0).load();
    #[cfg(any())]
    let mut never = n + 1;
    #[cfg(any())]
    let mut which = n + 1;
    #[cfg(not(any()))]
    let mut which = n + 2;
    for i in range(0, 3) {
        #[cfg(any())]
        {
            never += i;
            which = never;
        }
        which += 2 * i;
    }
    #[cfg(any())]
    if n > 0 {
        out.at(0).store(99);
    }
    #[cfg(any())]
    for i in range(0, 4) {
        out.at(i).store(99);
    }
    #[cfg(any())]
    while n > 0 {
        out.at(0).store(99);
    }
    #[cfg(any())]
    loop {
        break;
    }
    #[cfg(any())]
    return;
    #[cfg(any())]
    if n > 0 {
        return;
    }
    out.at(1).store(which);
    #[allow(unused_braces, reason = "the attribute is what is tested")]
    if n > 2 {
        out.at(2).store(n);
    }
}

#[test]
fn what_is_configured_away_is_not_there() {
    check!(conditional, [[1], [5]], |input: &[i32], out: &mut [i32]| {
        out[1] = input[0] + 8;
        out[2] = if input[0] > 2 { input[0] } else { 0 };
    });
}

#[kernel(warps = 1)]
fn r#match(r#type: Ptr<i32>, r#fn: Ptr<i32>) {
    let mut r#in = r#type.at(0).load();
    let r#loop = r#in + 1;
    for r#if in range(0, 3) {
        r#in += r#if * r#loop;
    }
    r#fn.at(0).store(r#in);
}

#[test]
fn names_may_be_keywords() {
    check!(r#match, [[1], [5]], |input: &[i32], out: &mut [i32]| {
        out[0] = input[0] + 3 * (input[0] + 1);
    });
}

#[device]
fn größer(ähre: Scalar<i32>) -> Scalar<i32> {
    if ähre > 2 { ähre } else { scalar(2) }
}

#[kernel(warps = 1)]
fn größe<const HÖHE: usize>(ähre: Ptr<i32>, übung: Ptr<i32>) {
    let mut röte = größer(ähre.at(0).load());
    for größen in range(0, HÖHE) {
        röte += größen;
    }
    übung.at(0).store(röte);
}

/// PTX has ASCII letters only.
#[test]
fn names_may_have_any_letters() {
    check!(
        größe::<3>,
        [[1], [5]],
        |input: &[i32], out: &mut [i32]| {
            out[0] = input[0].max(2) + 3;
        }
    );
}

#[kernel(warps = 1)]
#[expect(non_snake_case, reason = "PTX has a constant of this name")]
fn add(ld: Ptr<i32>, WARP_SZ: Ptr<i32>) {
    let mut ret = ld.at(0).load();
    for tid in range(0, 3) {
        ret += tid;
    }
    WARP_SZ.at(0).store(ret);
}

#[test]
fn names_may_be_those_of_ptx() {
    check!(add, [[1]], |input: &[i32], out: &mut [i32]| out[0] =
        input[0] + 3);
}

//! Masks of every kind against wide loads and stores: which elements are touched is decided element by element, however
//! many bytes one instruction moves.

use ir::elem::DType;

use crate::machine::run;
use crate::values::{bytes, values};

/// Elements, eight in a row for each of 128 threads.
const LEN: usize = 1024;

/// Splats and constants that masks are written with.
fn numbers(n: i64, k: i64) -> (String, Vec<u8>) {
    let text = "  %one = constant {value=1} : i32
  %pk = ptr_add %numbers, %one : ptr<i32>
  %n0 = load %numbers : i32
  %k0 = load %pk : i32
  %n = splat %n0 : tensor<1024xi32, #b>
  %k = splat %k0 : tensor<1024xi32, #b>
  %i = arange {start=0, end=1024} : tensor<1024xi32, #b>
";
    (
        text.into(),
        bytes(
            &[n as u64 & 0xffff_ffff, k as u64 & 0xffff_ffff],
            DType::I32,
        ),
    )
}

/// Values of `n` and `k` within a thread's eight elements, at their edges and beyond both ends.
const ENDS: [(i64, i64); 7] = [
    (5, 2),
    (12, 3),
    (12, 7),
    (12, 8),
    (3, 9),
    (1024, -1),
    (1000, 997),
];

/// `mask` is text that computes `%m` from `%i`, which counts from 0, and from `%n` and `%k`, numbers read from memory, so
/// that nothing is known of them; `holds` says what it is for element `i`.
#[track_caller]
fn each(what: &str, mask: &str, numbers: &[(i64, i64)], holds: impl Fn(i64, (i64, i64)) -> bool) {
    for &(n, k) in numbers {
        let holds: Vec<bool> = (0..LEN as i64).map(|i| holds(i, (n, k))).collect();
        check(what, mask, (n, k), &holds);
    }
}

/// `out` is -1 where the mask does not hold, and elsewhere what was loaded. There is no element of `x` behind the last
/// for which the mask holds: to read it is a fault.
#[track_caller]
fn check(what: &str, mask: &str, (n, k): (i64, i64), holds: &[bool]) {
    let (setup, numbers) = numbers(n, k);
    let text = format!(
        "#b = Blocked([8], [32], [4], [0])
kernel @k(%numbers: ptr<i32>, %x: ptr<i16> {{divisor=16}}, %bits: ptr<i1>, %out: ptr<i16> {{divisor=16}}) warps(4) {{
{setup}  %xs = splat %x : tensor<1024xptr<i16>, #b>
  %xp = ptr_add %xs, %i : tensor<1024xptr<i16>, #b>
  %os = splat %out : tensor<1024xptr<i16>, #b>
  %op = ptr_add %os, %i : tensor<1024xptr<i16>, #b>
{mask}
  %untouched = constant {{value=-1}} : tensor<1024xi16, #b>
  %other = constant {{value=-2}} : tensor<1024xi16, #b>
  store %op, %untouched
  %v = load %xp, mask=%m, other=%other : tensor<1024xi16, #b>
  store %op, %v, mask=%m
  %seen = select %m, %other, %v : tensor<1024xi16, #b>
  %skipped = constant {{value=1024}} : i32
  %tail = ptr_add %out, %skipped : ptr<i16>
  %ts = splat %tail : tensor<1024xptr<i16>, #b>
  %tp = ptr_add %ts, %i : tensor<1024xptr<i16>, #b>
  store %tp, %seen
  return
}}
"
    );
    let readable = holds.iter().rposition(|h| *h).map_or(1, |last| last + 1);
    let x: Vec<u64> = (0..readable as u64).map(|i| i + 100).collect();
    let bits: Vec<u8> = holds.iter().map(|h| u8::from(*h)).collect();
    let inputs = [&numbers[..], &bytes(&x, DType::I16), &bits];
    let found = values(&run(&text, &inputs, 4 * LEN), DType::I16);
    let (out, seen) = found.split_at(LEN);
    for (at, &holds) in holds.iter().enumerate() {
        let wanted = if holds { at as u64 + 100 } else { 0xffff };
        assert_eq!(
            (out[at], seen[at]),
            (wanted, 0xfffe),
            "element {at} under {what} with n = {n}, k = {k}{mask}"
        );
    }
}

/// Bounds `n`.
fn pairs(n: impl IntoIterator<Item = i64>) -> Vec<(i64, i64)> {
    n.into_iter().map(|n| (n, 0)).collect()
}

/// Bounds `k`.
fn pairs_k(k: impl IntoIterator<Item = i64>) -> Vec<(i64, i64)> {
    k.into_iter().map(|k| (0, k)).collect()
}

fn wrap32(value: i64) -> i64 {
    i64::from(value as i32)
}

#[test]
fn a_bound_that_no_run_knows() {
    each(
        "i < n",
        "
  %m = compare %i, %n {op=lt} : tensor<1024xi1, #b>",
        &pairs(0..=17),
        |i, (n, _)| i < n,
    );
    each(
        "i <= n",
        "
  %m = compare %i, %n {op=le} : tensor<1024xi1, #b>",
        &pairs(0..=17),
        |i, (n, _)| i <= n,
    );
    each(
        "n > i",
        "
  %m = compare %n, %i {op=gt} : tensor<1024xi1, #b>",
        &pairs(1015..=1025),
        |i, (n, _)| n > i,
    );
    each(
        "i >= n",
        "
  %m = compare %i, %n {op=ge} : tensor<1024xi1, #b>",
        &pairs(0..=17),
        |i, (n, _)| i >= n,
    );
    each(
        "i > n",
        "
  %m = compare %i, %n {op=gt} : tensor<1024xi1, #b>",
        &pairs(1010..=1024),
        |i, (n, _)| i > n,
    );
    each(
        "!(i < n)",
        "
  %l = compare %i, %n {op=lt} : tensor<1024xi1, #b>
  %m = unary %l {op=not} : tensor<1024xi1, #b>",
        &pairs(0..=17),
        |i, (n, _)| i >= n,
    );
}

#[test]
fn equalities_and_remainders() {
    each(
        "i != n",
        "
  %m = compare %i, %n {op=ne} : tensor<1024xi1, #b>",
        &[(0, 0), (5, 0), (7, 0), (8, 0), (1023, 0), (-1, 0)],
        |i, (n, _)| i != n,
    );
    each(
        "i == n",
        "
  %m = compare %i, %n {op=eq} : tensor<1024xi1, #b>",
        &[(0, 0), (5, 0), (7, 0), (8, 0), (1023, 0), (-1, 0)],
        |i, (n, _)| i == n,
    );
    each(
        "i % 3 == 0",
        "
  %three = constant {value=3} : tensor<1024xi32, #b>
  %zero = constant {value=0} : tensor<1024xi32, #b>
  %r = binary %i, %three {op=rem} : tensor<1024xi32, #b>
  %m = compare %r, %zero {op=eq} : tensor<1024xi1, #b>",
        &[(0, 0)],
        |i, _| i % 3 == 0,
    );
    each(
        "i % n < k",
        "
  %r = binary %i, %n {op=rem} : tensor<1024xi32, #b>
  %m = compare %r, %k {op=lt} : tensor<1024xi1, #b>",
        &[(8, 5), (16, 11), (7, 3), (1, 0), (1000, 3)],
        |i, (n, k)| i % n < k,
    );
    each(
        "i % 8 < k",
        "
  %eight = constant {value=8} : tensor<1024xi32, #b>
  %r = binary %i, %eight {op=rem} : tensor<1024xi32, #b>
  %m = compare %r, %k {op=lt} : tensor<1024xi1, #b>",
        &pairs_k(0..=8),
        |i, (_, k)| i % 8 < k,
    );
    each(
        "(i & 7) < k",
        "
  %seven = constant {value=7} : tensor<1024xi32, #b>
  %r = binary %i, %seven {op=and} : tensor<1024xi32, #b>
  %m = compare %r, %k {op=lt} : tensor<1024xi1, #b>",
        &pairs_k(0..=8),
        |i, (_, k)| i & 7 < k,
    );
    each(
        "(i & 12) < k",
        "
  %twelve = constant {value=12} : tensor<1024xi32, #b>
  %r = binary %i, %twelve {op=and} : tensor<1024xi32, #b>
  %m = compare %r, %k {op=lt} : tensor<1024xi1, #b>",
        &pairs_k(0..=13),
        |i, (_, k)| i & 0b1100 < k,
    );
    each(
        "i / 8 < k",
        "
  %eight = constant {value=8} : tensor<1024xi32, #b>
  %r = binary %i, %eight {op=div} : tensor<1024xi32, #b>
  %m = compare %r, %k {op=lt} : tensor<1024xi1, #b>",
        &pairs_k(0..=3),
        |i, (_, k)| i / 8 < k,
    );
    each(
        "i / 3 < k",
        "
  %three = constant {value=3} : tensor<1024xi32, #b>
  %r = binary %i, %three {op=div} : tensor<1024xi32, #b>
  %m = compare %r, %k {op=lt} : tensor<1024xi1, #b>",
        &pairs_k(0..=9),
        |i, (_, k)| i / 3 < k,
    );
    each(
        "(i >> 1) != k",
        "
  %one1 = constant {value=1} : tensor<1024xi32, #b>
  %r = binary %i, %one1 {op=shr} : tensor<1024xi32, #b>
  %m = compare %r, %k {op=ne} : tensor<1024xi1, #b>",
        &pairs_k(0..=9),
        |i, (_, k)| i >> 1 != k,
    );
}

#[test]
fn ranges_and_combinations() {
    each(
        "k < i & i < n",
        "
  %a = compare %i, %k {op=gt} : tensor<1024xi1, #b>
  %z = compare %i, %n {op=lt} : tensor<1024xi1, #b>
  %m = binary %a, %z {op=and} : tensor<1024xi1, #b>",
        &ENDS,
        |i, (n, k)| k < i && i < n,
    );
    each(
        "i < k | i > n",
        "
  %a = compare %i, %k {op=lt} : tensor<1024xi1, #b>
  %z = compare %i, %n {op=gt} : tensor<1024xi1, #b>
  %m = binary %a, %z {op=or} : tensor<1024xi1, #b>",
        &ENDS,
        |i, (n, k)| i < k || i > n,
    );
    each(
        "i < k & i < n",
        "
  %a = compare %i, %k {op=lt} : tensor<1024xi1, #b>
  %z = compare %i, %n {op=lt} : tensor<1024xi1, #b>
  %m = binary %a, %z {op=and} : tensor<1024xi1, #b>",
        &ENDS,
        |i, (n, k)| i < k && i < n,
    );
    each(
        "(i < k) ^ (i < n)",
        "
  %a = compare %i, %k {op=lt} : tensor<1024xi1, #b>
  %z = compare %i, %n {op=lt} : tensor<1024xi1, #b>
  %m = binary %a, %z {op=xor} : tensor<1024xi1, #b>",
        &ENDS,
        |i, (n, k)| (i < k) != (i < n),
    );
    each(
        "select(i < 8, i < k, i > n)",
        "
  %eight = constant {value=8} : tensor<1024xi32, #b>
  %e = compare %i, %eight {op=lt} : tensor<1024xi1, #b>
  %a = compare %i, %k {op=lt} : tensor<1024xi1, #b>
  %z = compare %i, %n {op=gt} : tensor<1024xi1, #b>
  %m = select %e, %a, %z : tensor<1024xi1, #b>",
        &ENDS,
        |i, (n, k)| if i < 8 { i < k } else { i > n },
    );
    each(
        "select(i % 2 == 0, i < k, i < n)",
        "
  %two = constant {value=2} : tensor<1024xi32, #b>
  %zero = constant {value=0} : tensor<1024xi32, #b>
  %r = binary %i, %two {op=rem} : tensor<1024xi32, #b>
  %e = compare %r, %zero {op=eq} : tensor<1024xi1, #b>
  %a = compare %i, %k {op=lt} : tensor<1024xi1, #b>
  %z = compare %i, %n {op=lt} : tensor<1024xi1, #b>
  %m = select %e, %a, %z : tensor<1024xi1, #b>",
        &ENDS,
        |i, (n, k)| if i % 2 == 0 { i < k } else { i < n },
    );
}

#[test]
fn bounds_that_count_too() {
    each(
        "2 i < n",
        "
  %d = binary %i, %i {op=add} : tensor<1024xi32, #b>
  %m = compare %d, %n {op=lt} : tensor<1024xi1, #b>",
        &pairs(0..=19),
        |i, (n, _)| 2 * i < n,
    );
    each(
        "i < n - i",
        "
  %d = binary %n, %i {op=sub} : tensor<1024xi32, #b>
  %m = compare %i, %d {op=lt} : tensor<1024xi1, #b>",
        &pairs(0..=19),
        |i, (n, _)| i < n - i,
    );
    each(
        "n - i < k",
        "
  %d = binary %n, %i {op=sub} : tensor<1024xi32, #b>
  %m = compare %d, %k {op=lt} : tensor<1024xi1, #b>",
        &[
            (5, 2),
            (12, 3),
            (12, 7),
            (12, 8),
            (3, 9),
            (1024, 1),
            (1000, 997),
        ],
        |i, (n, k)| n - i < k,
    );
    each(
        "min(i, k) < n",
        "
  %d = binary %i, %k {op=min} : tensor<1024xi32, #b>
  %m = compare %d, %n {op=lt} : tensor<1024xi1, #b>",
        &[(5, 2), (12, 3), (12, 13), (3, 9), (1024, 1)],
        |i, (n, k)| i.min(k) < n,
    );
    each(
        "(i ^ 1) < n",
        "
  %one1 = constant {value=1} : tensor<1024xi32, #b>
  %d = binary %i, %one1 {op=xor} : tensor<1024xi32, #b>
  %m = compare %d, %n {op=lt} : tensor<1024xi1, #b>",
        &pairs(0..=17),
        |i, (n, _)| (i ^ 1) < n,
    );
    each(
        "i + k < n",
        "
  %d = binary %i, %k {op=add} : tensor<1024xi32, #b>
  %m = compare %d, %n {op=lt} : tensor<1024xi1, #b>",
        &[(5, 2), (12, 3), (12, 7), (1024, -1), (1000, 997), (-3, -7)],
        |i, (n, k)| i + k < n,
    );
}

#[test]
fn indices_that_wrap() {
    each(
        "i + k < n, wrapping",
        "
  %d = binary %i, %k {op=add} : tensor<1024xi32, #b>
  %m = compare %d, %n {op=lt} : tensor<1024xi1, #b>",
        &[
            (0, i64::from(i32::MAX) - 3),
            (5, i64::from(i32::MAX) - 8),
            (-2_147_483_640, i64::from(i32::MAX) - 5),
            (0, i64::from(i32::MAX) - 7),
        ],
        |i, (n, k)| wrap32(i + k) < n,
    );
    each(
        "i - k < n, unsigned",
        "
  %iu = cast %i : tensor<1024xu32, #b>
  %ku = cast %k : tensor<1024xu32, #b>
  %nu = cast %n : tensor<1024xu32, #b>
  %d = binary %iu, %ku {op=sub} : tensor<1024xu32, #b>
  %m = compare %d, %nu {op=lt} : tensor<1024xi1, #b>",
        &[(3, 2), (6, 5), (10, 1), (100, 13), (0, 5), (2, 1022)],
        |i, (n, k)| ((i - k) as u32) < n as u32,
    );
    each(
        "(i + k) as i8 < n",
        "
  %d = binary %i, %k {op=add} : tensor<1024xi32, #b>
  %d8 = cast %d : tensor<1024xi8, #b>
  %n8 = cast %n : tensor<1024xi8, #b>
  %m = compare %d8, %n8 {op=lt} : tensor<1024xi1, #b>",
        &[(0, 0), (125, 120), (0, 4), (5, 0), (-128, 0)],
        |i, (n, k)| ((i + k) as i8) < n as i8,
    );
    each(
        "i as i8 < 0",
        "
  %d8 = cast %i : tensor<1024xi8, #b>
  %z8 = constant {value=0} : tensor<1024xi8, #b>
  %m = compare %d8, %z8 {op=lt} : tensor<1024xi1, #b>",
        &[(0, 0)],
        |i, _| (i as i8) < 0,
    );
    each(
        "i as u8 + k < n",
        "
  %d8 = cast %i : tensor<1024xu8, #b>
  %k8 = cast %k : tensor<1024xu8, #b>
  %n8 = cast %n : tensor<1024xu8, #b>
  %e8 = binary %d8, %k8 {op=add} : tensor<1024xu8, #b>
  %m = compare %e8, %n8 {op=lt} : tensor<1024xi1, #b>",
        &[(10, 250), (3, 253), (16, 8), (255, 1)],
        |i, (n, k)| (i as u8).wrapping_add(k as u8) < n as u8,
    );
    each(
        "(i + k) as i64 < n",
        "
  %d = binary %i, %k {op=add} : tensor<1024xi32, #b>
  %dw = cast %d : tensor<1024xi64, #b>
  %nw = cast %n : tensor<1024xi64, #b>
  %m = compare %dw, %nw {op=lt} : tensor<1024xi1, #b>",
        &[
            (0, i64::from(i32::MAX) - 3),
            (0, i64::from(i32::MAX) - 7),
            (5, 0),
        ],
        |i, (n, k)| wrap32(i + k) < n,
    );
    each(
        "(i as i8) as i32 < n",
        "
  %d8 = cast %i : tensor<1024xi8, #b>
  %d = cast %d8 : tensor<1024xi32, #b>
  %m = compare %d, %n {op=lt} : tensor<1024xi1, #b>",
        &[(0, 0), (5, 0), (-3, 0)],
        |i, (n, _)| i64::from(i as i8) < n,
    );
}

#[test]
fn masks_from_memory() {
    each(
        "a loaded mask",
        "
  %bs = splat %bits : tensor<1024xptr<i1>, #b>
  %bp = ptr_add %bs, %i : tensor<1024xptr<i1>, #b>
  %m = load %bp : tensor<1024xi1, #b>",
        &[(0, 0)],
        |i, _| i % 5 == 1 || i == 7,
    );
    each(
        "a loaded mask and i < n",
        "
  %bs = splat %bits : tensor<1024xptr<i1>, #b>
  %bp = ptr_add %bs, %i : tensor<1024xptr<i1>, #b>
  %l = load %bp : tensor<1024xi1, #b>
  %e = compare %i, %n {op=lt} : tensor<1024xi1, #b>
  %m = binary %l, %e {op=and} : tensor<1024xi1, #b>",
        &[(1021, 0)],
        |i, (n, _)| i % 3 != 1 && i < n,
    );
    each(
        "a loaded value > 0",
        "
  %nb = splat %numbers : tensor<1024xptr<i32>, #b>
  %two = constant {value=2} : tensor<1024xi32, #b>
  %par = binary %i, %two {op=rem} : tensor<1024xi32, #b>
  %np = ptr_add %nb, %par : tensor<1024xptr<i32>, #b>
  %l = load %np : tensor<1024xi32, #b>
  %zero = constant {value=0} : tensor<1024xi32, #b>
  %m = compare %l, %zero {op=gt} : tensor<1024xi1, #b>",
        &[(1, 0), (0, 1), (1, 1), (0, 0)],
        |i, (n, k)| (if i % 2 == 0 { n } else { k }) > 0,
    );
}

//! Scans, atomics and what else works between the elements of a tensor or between CTAs.

use gluon_lang::lang::prelude::*;

use crate::support::ir;

fn vector() -> Blocked {
    Blocked::new([1], [32], [1], [0])
}

#[kernel(warps = 1)]
fn scans<T: Numeric>(x: Ptr<T>, out: Ptr<T>) {
    let at = arange(0..32, vector());
    let v = x.at(at).load();
    let sums = v.cumsum(0) + v.cumsum_reverse(0);
    let products = v.cumprod(0) + v.cumprod_reverse(0);
    let extremes = v.cummax(0) + v.cummin(0);
    let last = v.scan(0, |_, here| here);
    let (slope, shift) = scan_reverse((v, last), 0, |after, here| {
        (after.0 * here.0, after.1 * here.0 + here.1)
    });
    let (behind, _) = scan((slope, at), 0, |a, b| (b.0, a.1));
    let all = sums + products + extremes + shift + behind;
    out.at(at).store(all + v.scan_reverse(0, |a, b| a.max(b)));
}

#[test]
fn scans_both_ways() {
    insta::assert_snapshot!(ir(scans::<i32>));
    assert_eq!(
        ir(scans::<f32>).lines().count(),
        ir(scans::<i32>).lines().count()
    );
}

#[kernel(warps = 1)]
fn atomics(x: Ptr<i32>, sums: Ptr<f32>, n: i32) {
    let at = arange(0..32, vector());
    let places = x + at;
    let inside = at < n;
    let masked = x.at(at).mask(inside);
    let old = places.atomic_add(1).old() + masked.relaxed().atomic_max(at).old();
    let old = old + masked.acquire().scope(Scope::Sys).atomic_min(n).old();
    places.atomic_and(old);
    places.atomic_or(7);
    let old = old + places.atomic_xor(at).old();
    let exchange = places.mask(n > 3).release().scope(Scope::Cta);
    let old = old + exchange.atomic_xchg(0).old();
    let old = old + places.atomic_cas(0, at) + masked.acq_rel().atomic_cas(n, 1);
    places.atomic_store(old + places.atomic_load());
    sums.at(at % 4).relaxed().atomic_add(1.5);
    let flag: Scalar<i32> = x.at(3).relaxed().scope(Scope::Cluster).atomic_load();
    x.atomic_store(flag + x.atomic_add(flag).old());
}

#[test]
fn atomics_with_order_and_scope() {
    insta::assert_snapshot!(ir(atomics));
}

#[kernel(warps = 1)]
fn lookups(x: Ptr<f32>, out: Ptr<i32>, n: i32) {
    let at = arange(0..32, vector());
    let v = x.at(at).load();
    let turned = v.gather(31 - at, 0);
    let again = turned.gather(at.cast::<u8>() ^ 1, 0);
    let digits = again.cast::<i32>();
    let all = digits.histogram(64, vector());
    let some = digits.cast::<u32>().histogram_where(at < n, 64, vector());
    out.at(arange(0..64, vector())).store(all + some);
}

#[test]
fn gathers_and_histograms() {
    insta::assert_snapshot!(ir(lookups));
}

#[kernel(warps = 1)]
fn sorts<T: Numeric>(x: Ptr<T>, out: Ptr<T>, places: Ptr<i32>) {
    let at = arange(0..64, vector());
    let v = x.at(at).load();
    out.at(at).store(v.sort(0) + v.sort_descending(0));
    let (largest, place) = v.top_k(8, 0);
    let first = arange(0..8, vector());
    out.at(first).store(largest);
    places.at(first).store(place);
}

#[test]
fn sorts_and_the_largest() {
    insta::assert_snapshot!(ir(sorts::<bf16>));
    // Integers need not be turned, and those of 64 bits go beside their places.
    let ops = |text: String, op: &str| text.matches(op).count();
    assert_eq!(ops(ir(sorts::<u32>), "bitcast"), 0);
    assert_eq!(ops(ir(sorts::<f64>), "shl"), 0);
    assert_eq!(ops(ir(sorts::<f32>), "sort ["), 3);
}

//! Every operation of the language.

use gluon_lang::lang::prelude::*;

use crate::support::ir;

fn vector() -> Blocked {
    Blocked::new([1], [32], [1], [0])
}

fn matrix() -> Blocked {
    Blocked::new([1, 4], [4, 8], [1, 1], [1, 0])
}

#[kernel(warps = 1)]
fn integers<T: Int>(out: Ptr<T>, n: T) {
    let x = full([32], n, vector());
    let at = arange(0..32, vector());
    let mut v = (x + n) * x - n;
    v = v / x % n;
    v = (v & x) | (v ^ n);
    v = (v << 2) >> n;
    v = -v + !x;
    v = v.minimum(x).maximum(n).clamp(T::MIN, T::MAX).abs();
    v = umulhi(v, x).mul_high(n);
    v += select(v == x, v, n);
    v -= where_(n < T::ONE, x, T::ZERO);
    out.at(at).store(v);
    out.at(0).store(n.min(T::ONE).max(n).div_ceil(n));
}

#[test]
fn arithmetic_of_integers() {
    insta::assert_snapshot!(ir(integers::<i32>));
    // One text for all types: only the type's name and its bounds differ.
    for text in [
        ir(integers::<i8>),
        ir(integers::<u8>),
        ir(integers::<i16>),
        ir(integers::<u16>),
    ] {
        assert_eq!(text.lines().count(), ir(integers::<i32>).lines().count());
    }
    for text in [
        ir(integers::<u32>),
        ir(integers::<i64>),
        ir(integers::<u64>),
    ] {
        assert_eq!(text.lines().count(), ir(integers::<i32>).lines().count());
    }
}

#[kernel(warps = 1)]
fn floats<T: Float>(out: Ptr<T>, n: T) {
    let x: Tensor<T> = full([32], n, vector());
    let mut v = 1.0 - x * 2.0 + 3;
    v = v.exp() + v.exp2() + v.log() + v.log2() + v.sin() + v.cos() + v.tanh() + v.erf();
    v = v.sqrt() + v.rsqrt() + v.abs() + v.floor() + v.ceil();
    v = v.precise().sqrt() + v.fast().exp2() + v.precise().div(x) + v.fast().div(2.0);
    v = fma(v, x, n) + v.fma(2.0, x) + div_rn(v, x) + fdiv(1.0, v);
    v = maximum(v, x) + minimum(v, 0.5) + maximum_nan(v, n) + minimum_nan(n, v);
    v = v.clamp(0.0, 1.0) + v.clamp_nan(0, 1) + clamp(v, n, 2.0);
    v = select(x != v, v, 0.0) + select(n >= 1, x, v);
    out.at(arange(0..32, vector())).store(v + T::NEG_INFINITY);
    out.at(0).store(-n.fast().rsqrt() + 2.0 / n);
}

#[test]
fn arithmetic_of_floats() {
    insta::assert_snapshot!(ir(floats::<f32>));
    for text in [ir(floats::<f16>), ir(floats::<bf16>), ir(floats::<f64>)] {
        assert_eq!(text.lines().count(), ir(floats::<f32>).lines().count());
    }
}

#[kernel(warps = 1)]
fn casts(x: Ptr<f32>, out: Ptr<u8>, n: i32) {
    let at = arange(0..32, vector());
    let v = x.at(at).load();
    let v = v
        .cast::<f16>()
        .cast::<bf16>()
        .cast::<f64>()
        .cast::<E4m3>()
        .cast::<E5m2>()
        .cast::<f32>();
    let v = v
        .cast::<i8>()
        .cast::<i16>()
        .cast::<i64>()
        .cast::<bool>()
        .cast::<u16>()
        .cast::<u64>();
    let w = v
        .cast::<f32>()
        .cast_rounded::<f16>(Rounding::Zero)
        .bitcast::<u16>();
    out.at(at).store(w.cast::<u8>());
    let p = x.address() + n.cast::<u64>();
    let q = p.to_pointer::<u8>();
    q.store(n.cast::<u8>());
    x.cast::<u32>().at(n).store(n.bitcast::<u32>());
    let tile = (out + at).address().to_pointer::<u8>();
    tile.store(0);
}

#[test]
fn conversions() {
    insta::assert_snapshot!(ir(casts));
}

#[kernel(warps = 1)]
fn shapes(out: Ptr<i32>, n: i32) {
    let rows = arange(0..16, Slice::new(1, matrix()));
    let cols = arange(0..32, Slice::new(0, matrix()));
    let tile = rows.expand_dims(1) * 32 + cols.expand_dims(0);
    let same = rows.expand_dims(1).broadcast_to([16, 32]) + zeros_like(tile);
    let flat = (tile + same + full_like(tile, n)).reshape([32, 16]).ravel();
    let turned = tile.transpose().permute([1, 0]);
    let (a, b) = tile.join(same).split();
    let open = zeros::<i32>([16, 32], Auto) + join(a, b).split().0;
    let other = Blocked::new([1, 1], [1, 32], [1, 1], [1, 0]);
    let moved = (turned + open)
        .convert_layout(&other)
        .convert_layout_trivial(&other);
    out.at(moved).store(moved);
    out.at(flat)
        .store(zeros::<i32>([512], Auto).set_layout(flat.layout()) + flat);
    out.at(num_programs(0) + num_programs(1) + program_id(2))
        .store(n);
}

#[test]
fn shapes_and_layouts() {
    insta::assert_snapshot!(ir(shapes));
}

#[kernel(warps = 1)]
fn accesses(x: Ptr<f16>, out: Ptr<f16>, n: i64, u: u32) {
    let at = arange(0..32, Coalesced);
    let inside = at < 20;
    let v = x
        .at(at)
        .mask(inside)
        .other(1.5)
        .cache(CacheOp::Cg)
        .policy(L2Policy::EvictLast)
        .l2_prefetch(256)
        .load();
    let w = (x + n).at(at).mask(true).no_allocate().load() + (x + at + u).volatile_load();
    (out + at).mask(inside).volatile().store(v + w);
    (out + at)
        .access()
        .eviction(Eviction::First)
        .policy(L2Policy::EvictFirst)
        .store(w);
    out.at(n + at).store(0.0);
    let one = out.at(5).mask(n > 3).other(2.0).load();
    out.store(one);
}

trait VolatileLoad {
    fn volatile_load(self) -> Tensor<f16>;
}

impl VolatileLoad for Pointers<f16> {
    fn volatile_load(self) -> Tensor<f16> {
        self.access().volatile().load()
    }
}

#[test]
fn loads_and_stores() {
    insta::assert_snapshot!(ir(accesses));
}

#[kernel(warps = 1)]
fn reductions(x: Ptr<f32>, out: Ptr<f32>, index: Ptr<i32>) {
    let rows = arange(0..16, Slice::new(1, matrix())).expand_dims(1);
    let cols = arange(0..32, Slice::new(0, matrix())).expand_dims(0);
    let v = x.at(rows * 32 + cols).load();
    let sums = v.sum(1) + v.max(1) + v.min(1) + v.product(1);
    out.at(rows.reduce(1, |a, b| a.max(b))).store(sums);
    index.at(v.argmax(0)).store(v.argmin(0));
    let any = (v > 0.0).reduce_or(1).reduce_and(0).scalar();
    let bits = v.bitcast::<i32>().xor_sum(1).reduce_or(0).scalar();
    let count = v.sum(0).sum(0).scalar();
    let bias = 2.0 * count;
    // Mean and count, joined.
    let (mean, n) = reduce((v, zeros_like(v) + 1.0), 1, |(a, n), (b, m)| {
        let total = n + m;
        (a + (b - a) * m / total + bias, total)
    });
    if any {
        out.at(bits).store(count);
    }
    out.at(n.cast::<i32>()).store(mean);
}

#[test]
fn reductions_of_every_kind() {
    insta::assert_snapshot!(ir(reductions));
}

#[kernel(warps = 1)]
fn facts(x: Ptr<f32>, n: i32) {
    assume(n > 0);
    let n = n.multiple_of(16);
    let at = (arange(0..32, vector()) + n)
        .max_contiguous([32])
        .multiple_of(4);
    let same = (at / 32).max_constancy(32);
    let p = (x + at).multiple_of([8]);
    device_assert(at < n, "in range");
    device_assert(n != 3, "not three");
    device_print("here:", (at, n, same));
    let y: Tensor<f32> = inline_ptx("ex2.approx.ftz.f32 $0, $1;", p.load());
    let (lo, hi): (Tensor<u32>, Tensor<u32>) =
        inline_ptx_with_effects("mov.b32 $0, $2; mov.b32 $1, $3;", (y, n));
    p.store((lo + hi).bitcast::<f32>());
}

#[test]
fn facts_checks_and_inline_ptx() {
    insta::assert_snapshot!(ir(facts));
}

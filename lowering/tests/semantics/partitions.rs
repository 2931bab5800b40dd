//! Warp specialization: each partition has its own threads, barriers and registers.

use ir::elem::DType;

use crate::machine::{ptx_of, run};
use crate::values::{Number, bytes, encode, values};

/// Stores `base + i` for the elements of a vector of one partition, after a trip through shared
/// memory and a conversion, in which threads exchange them.
fn part(tag: &str, warps: u32, base: u32) -> String {
    let len = warps * 32;
    let tile = format!("tensor<{len}xi32, #p{warps}>");
    format!(
        "    %{tag}i = arange {{start=0, end={len}}} : {tile}\n    %{tag}l = constant {{value={last}}} : {tile}\n    %{tag}m = binary %{tag}l, %{tag}i {{op=sub}} : {tile}\n    %{tag}s = smem_alloc init=%{tag}m : smem<{len}xi32, #s>\n    %{tag}h = smem_load %{tag}s : tensor<{len}xi32, #q{warps}>\n    %{tag}c = convert_layout %{tag}h : {tile}\n    %{tag}g = binary %{tag}l, %{tag}c {{op=sub}} : {tile}\n    %{tag}b = constant {{value={base}}} : {tile}\n    %{tag}v = binary %{tag}g, %{tag}b {{op=add}} : {tile}\n    %{tag}w = binary %{tag}i, %{tag}b {{op=add}} : {tile}\n    %{tag}o = splat %out : tensor<{len}xptr<i32>, #p{warps}>\n    %{tag}p = ptr_add %{tag}o, %{tag}w : tensor<{len}xptr<i32>, #p{warps}>\n    store %{tag}p, %{tag}v\n    yield []\n",
        last = len - 1
    )
}

/// Every partition writes its own run of numbers behind those of the partitions before it.
#[track_caller]
fn check(warps: &[u32], registers: &[u32]) {
    let mut text = String::from("#s = Swizzled(1, 1, 1, [0])\n");
    let mut sizes = warps.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    for w in sizes {
        text += &format!(
            "#p{w} = Blocked([1], [32], [{w}], [0])\n#q{w} = Blocked([2], [32], [{w}], [0])\n"
        );
    }
    text += &format!(
        "kernel @k(%out: ptr<i32> {{divisor=16}}) warps({}) {{\n  warp_specialize {{warps={warps:?}, registers={registers:?}}} ",
        warps[0]
    );
    let mut base = 0;
    for (at, &warps) in warps.iter().enumerate() {
        text += &format!("() {{\n{}  }} ", part(&format!("t{at}_"), warps, base));
        base += warps * 32;
    }
    text += "\n  return\n}\n";
    let out = run(&text, &[], base as usize * 4);
    let found = values(&out, DType::I32);
    assert!(
        found.iter().enumerate().all(|(at, &v)| v == at as u64),
        "{found:?}\n{text}"
    );
}

#[test]
fn partitions_of_every_size_run_beside_each_other() {
    check(&[4, 1], &[0, 0]);
    check(&[8, 1], &[0, 40]);
    check(&[4, 1, 2, 4], &[0, 40, 40, 80]);
    check(&[4, 1, 1, 1, 1, 2], &[120, 40, 40, 24, 24, 24]);
    check(&[8, 4, 8], &[0, 0, 0]);
    check(&[12, 4], &[0, 40]);
    check(&[12, 1, 3], &[0, 40, 40]);
    check(&[4, 6, 12, 2], &[0, 0, 0, 0]);
}

#[test]
fn tiles_before_warp_specialize_are_those_of_main() {
    // 12 warps run what stands before, and only the kernel's own four store, once each.
    let text = "\
#b = Blocked([1], [32], [4], [0])
#h = Blocked([2], [32], [4], [0])
kernel @k(%x: ptr<i32> {divisor=16}, %out: ptr<i32> {divisor=16}) warps(4) {
  %i = arange {start=0, end=128} : tensor<128xi32, #b>
  %xs = splat %x : tensor<128xptr<i32>, #b>
  %xp = ptr_add %xs, %i : tensor<128xptr<i32>, #b>
  %v = load %xp : tensor<128xi32, #b>
  %h = convert_layout %v : tensor<128xi32, #h>
  %sum = reduce [%h] {axis=0} (%l: i32, %r: i32) {
    %s = binary %l, %r {op=add} : i32
    yield [%s]
  } : i32
  %os = splat %out : tensor<128xptr<i32>, #b>
  %op = ptr_add %os, %i : tensor<128xptr<i32>, #b>
  store %op, %v
  %last = constant {value=128} : i32
  %at = ptr_add %out, %last : ptr<i32>
  warp_specialize {warps=[4, 1, 4], registers=[0, 0, 0]} () {
    yield []
  } () {
    store %at, %sum
    yield []
  } () {
    yield []
  }
  return
}
";
    let input: Vec<u8> = (0..128_i32).flat_map(|i| (i * 3).to_le_bytes()).collect();
    let found = values(&run(text, &[&input], 129 * 4), DType::I32);
    let mut wanted: Vec<u64> = (0..128).map(|i| i * 3).collect();
    wanted.push(127 * 128 / 2 * 3);
    assert_eq!(found, wanted);
}

/// A worker of one warp waits for the others and does as `body` says, then lets them continue and store.
fn worker(body: &str) -> String {
    format!(
        "\
#b = Blocked([1], [32], [4], [0])
#w = Blocked([1], [32], [1], [0])
#s = Swizzled(1, 1, 1, [0])
kernel @k(%out: ptr<i32> {{divisor=16}}) warps(4) {{
  %come = smem_alloc : smem<1xu64, #s>
  %go = smem_alloc : smem<1xu64, #s>
  mbarrier_init %come {{count=4}}
  mbarrier_init %go {{count=1}}
  %zero = constant {{value=0}} : i32
  warp_specialize {{warps=[4, 1], registers=[0, 0]}} () {{
    mbarrier_arrive %come {{count=1, by=warp}}
    mbarrier_wait %go, %zero
    %i = arange {{start=0, end=128}} : tensor<128xi32, #b>
    %o = splat %out : tensor<128xptr<i32>, #b>
    %p = ptr_add %o, %i : tensor<128xptr<i32>, #b>
    store %p, %i
    yield []
  }} () {{
    mbarrier_wait %come, %zero
{body}    mbarrier_arrive %go {{count=1, by=partition}}
    yield []
  }}
  return
}}
"
    )
}

/// What the worker says between its wait and the end.
#[track_caller]
fn check_worker(body: &str, wanted: &str) {
    let text = worker(body);
    let found = values(&run(&text, &[], 512), DType::I32);
    assert!(
        found.iter().enumerate().all(|(at, &v)| v == at as u64),
        "{found:?}"
    );
    let ptx = ptx_of(&text);
    let code = ptx.split("$L_workers:").nth(1).unwrap_or_default();
    assert!(code.contains(wanted), "{wanted:?} is not in\n{code}");
}

#[test]
fn what_one_thread_can_do_alone_one_thread_does() {
    check_worker("", "\tmbarrier.arrive.shared::cta.b64 _,");
    check_worker("    barrier\n", "\tmbarrier.arrive.shared::cta.b64 _,");
    // A tensor belongs to all lanes, which therefore stay and meet.
    let tensor = "    %i = arange {start=0, end=32} : tensor<32xi32, #w>\n    %m = reduce [%i] {axis=0} (%l: i32, %r: i32) {\n      %s = binary %l, %r {op=max} : i32\n      yield [%s]\n    } : i32\n    %far = ptr_add %out, %m : ptr<i32>\n    store %far, %m\n";
    check_worker(tensor, "bar.warp.sync");
}

#[test]
fn partitions_multiply_in_registers_of_their_own() {
    // A worker of two warps multiplies ones by what the kernel's four warps left in shared memory: each row of it is summed.
    let text = "\
#rows = Blocked([1, 8], [4, 8], [4, 1], [1, 0])
#acc = Mma([2, 1], [16, 8])
#left = DotOperand(0, Mma([2, 1], [16, 8]), 2)
#right = DotOperand(1, Mma([2, 1], [16, 8]), 2)
#swizzle = Swizzled(8, 1, 8, [1, 0])
kernel @k(%x: ptr<f16> {divisor=16}, %out: ptr<f32> {divisor=16}) warps(4) {
  %i = arange {start=0, end=4096} : tensor<4096xi32, auto>
  %r = reshape %i : tensor<64x64xi32, auto>
  %at = set_layout %r : tensor<64x64xi32, #rows>
  %s = splat %x : tensor<64x64xptr<f16>, #rows>
  %p = ptr_add %s, %at : tensor<64x64xptr<f16>, #rows>
  %v = load %p : tensor<64x64xf16, #rows>
  %tile = smem_alloc init=%v : smem<64x64xf16, #swizzle>
  warp_specialize {warps=[4, 1, 2], registers=[0, 0, 0]} () {
    yield []
  } () {
    yield []
  } () {
    %ones = constant {value=1.0} : tensor<32x64xf16, #left>
    %b = smem_load %tile : tensor<64x64xf16, #right>
    %zero = constant {value=0.0} : tensor<32x64xf32, #acc>
    %sum = mma_v2 %ones, %b, %zero : tensor<32x64xf32, #acc>
    %oi = arange {start=0, end=2048} : tensor<2048xi32, auto>
    %or = reshape %oi : tensor<32x64xi32, auto>
    %oat = set_layout %or : tensor<32x64xi32, #acc>
    %os = splat %out : tensor<32x64xptr<f32>, #acc>
    %op = ptr_add %os, %oat : tensor<32x64xptr<f32>, #acc>
    store %op, %sum
    yield []
  }
  return
}
";
    let number = |at: usize| (at * 7 + at / 64) % 11;
    let input: Vec<u64> = (0..4096)
        .map(|at| encode(Number::Float(number(at) as f64), DType::F16))
        .collect();
    let found = values(
        &run(text, &[&bytes(&input, DType::F16)], 2048 * 4),
        DType::F32,
    );
    for (at, &bits) in found.iter().enumerate() {
        let sum: usize = (0..64).map(|row| number(row * 64 + at % 64)).sum();
        assert_eq!(f32::from_bits(bits as u32), sum as f32, "element {at}");
    }
}

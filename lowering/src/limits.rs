//! A kernel for a machine with other limits: checks, plans and messages follow its [`Target`].

use ir::text::parse;
use ir::verify::verify;
use target::{SM_90A, Target};

use crate::{Options, compile};

/// What is wrong with the kernel on `sm_90a` with this change of a limit, without which nothing is.
#[track_caller]
fn check(change: impl FnOnce(&mut Target), text: &str, expected: &str) {
    let mut func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let right = compile(func.clone(), &Options::default());
    assert!(right.is_ok(), "{:?}", right.err());
    let mut target = SM_90A;
    change(&mut target);
    // A kernel names its target for as long as the program runs.
    func.target = Box::leak(Box::new(target));
    let mut found = verify(&func, func.stage);
    if !found.has_errors() {
        found = compile(func, &Options::default()).expect_err("the limit is passed");
    }
    let text = found.to_string();
    assert!(text.contains(expected), "{text}");
}

const TILE: &str = "#s = Swizzled(1, 1, 1, [1, 0])
#b = Blocked([1, 4], [4, 8], [4, 1], [1, 0])
kernel @k() warps(4) {
  %z = constant {value=0.0} : tensor<64x64xf32, #b>
  %s = smem_alloc : smem<64x64xf32, #s>
  smem_store %s, %z
  smem_keep %s
  return
}
";

#[test]
fn shared_memory_of_a_cta() {
    let limit = |target: &mut Target| target.cta.shared_bytes = 8 << 10;
    check(limit, TILE, "a CTA can have 8192");
}

#[test]
fn ctas_of_a_cluster() {
    let limit = |target: &mut Target| {
        target.cluster.ctas = 4;
        target.cluster.portable_ctas = 2;
    };
    let text = "kernel @k() warps(4) cluster(8, 1, 1) {\n  return\n}\n";
    check(limit, text, "a cluster of 8x1x1 CTAs");
    check(
        limit,
        text,
        "use 1 to 4 CTAs; up to 2 run on every GPU of the architecture",
    );
}

#[test]
fn threads_of_a_cta_and_an_sm() {
    let text = "kernel @k() warps(8) min_ctas_per_sm(8) {\n  return\n}\n";
    let warps = |target: &mut Target| target.cta.threads = 128;
    check(warps, text, "a kernel of 8 warps: a CTA has 1 to 4 warps");
    let threads = |target: &mut Target| target.sm.threads = 1024;
    check(threads, text, "an SM runs 1024 threads at once");
}

#[test]
fn registers_of_a_thread() {
    let text = "kernel @k() warps(4) max_registers(128) {\n  return\n}\n";
    let limit = |target: &mut Target| target.registers.per_thread = 100;
    check(limit, text, "a thread has 24 to 100 registers");
}

#[test]
fn arrivals_of_an_mbarrier() {
    let text = "#s = Swizzled(1, 1, 1, [0])
kernel @k() warps(4) {
  %s = smem_alloc : smem<1xu64, #s>
  mbarrier_init %s {count=9}
  return
}
";
    let limit = |target: &mut Target| target.mbarrier.arrivals = 8;
    check(limit, text, "a barrier counts 1 to 8 arrivals, not 9");
}

const PRODUCT: &str = "#s = Nvmma(128, 16)
#acc = Wgmma([4, 1], [64, 64, 16])
kernel @k() warps(4) {
  %a = smem_alloc : smem<64x64xf16, #s>
  %b = smem_alloc : smem<64x64xf16, #s>
  %z = constant {value=0.0} : tensor<64x64xf32, #acc>
  %i = accumulator %z : in_flight<64x64xf32, #acc>
  %p = wgmma %a, %b, %i {promote_every=0} : in_flight<64x64xf32, #acc>
  %d = wgmma_wait [%p] {pending=0} : tensor<64x64xf32, #acc>
  return
}
";

#[test]
fn shapes_and_types_of_a_wgmma() {
    let columns = |target: &mut Target| target.wgmma.most_n = 32;
    check(
        columns,
        PRODUCT,
        "on sm_90a they are multiples of 8 up to 32",
    );
    let types = |target: &mut Target| target.wgmma.types = &SM_90A.wgmma.types[1..3];
    check(
        types,
        PRODUCT,
        "`wgmma` does not multiply f16 by f16 into f32",
    );
    check(
        types,
        PRODUCT,
        "it multiplies bf16 into f32, and tf32 into f32",
    );
}

/// A copy of 128 `f32` whose addresses allow 16 bytes a thread.
const COPY: &str = "#b = Blocked([4], [32], [1], [0])
kernel @k(%x: ptr<f32> {divisor=16}, %y: ptr<f32> {divisor=16}) warps(1) {
  %i = arange {start=0, end=128} : tensor<128xi32, #b>
  %xs = splat %x : tensor<128xptr<f32>, #b>
  %p = ptr_add %xs, %i : tensor<128xptr<f32>, #b>
  %v = load %p : tensor<128xf32, #b>
  %ys = splat %y : tensor<128xptr<f32>, #b>
  %q = ptr_add %ys, %i : tensor<128xptr<f32>, #b>
  store %q, %v
  return
}
";

/// The PTX of a kernel on `sm_90a` with this change.
fn ptx(change: impl FnOnce(&mut Target), text: &str) -> String {
    let mut func = parse("test.tile", text).expect("the text is right");
    let mut target = SM_90A;
    change(&mut target);
    func.target = Box::leak(Box::new(target));
    let compiled = compile(func, &Options::default()).expect("the kernel is right");
    compiled.module.to_text()
}

#[test]
fn width_of_an_access() {
    for (bytes, load) in [
        (16, "ld.global.v4"),
        (8, "ld.global.v2"),
        (4, "ld.global.f32"),
    ] {
        let text = ptx(|target| target.access.widest_bytes = bytes, COPY);
        assert!(text.contains(load), "{bytes}: {text}");
        assert_eq!(text.contains(".v4"), bytes == 16);
    }
}

const ASYNC_COPY: &str = "#b = Blocked([2], [32], [1], [0])
#s = Swizzled(1, 1, 1, [0])
kernel @k(%x: ptr<f32> {divisor=16}) warps(1) {
  %s = smem_alloc : smem<64xf32, #s>
  %i = arange {start=0, end=64} : tensor<64xi32, #b>
  %xs = splat %x : tensor<64xptr<f32>, #b>
  %p = ptr_add %xs, %i : tensor<64xptr<f32>, #b>
  async_copy %s, %p
  async_commit
  async_wait {pending=0}
  return
}
";

#[test]
fn widths_of_an_asynchronous_copy() {
    let widths = |target: &mut Target| target.access.async_bytes = [64, 32, 16];
    check(
        widths,
        ASYNC_COPY,
        "no thread can copy 16 bytes at once, the least that an asynchronous copy moves",
    );
    check(widths, ASYNC_COPY, "a layout with 64 contiguous bytes");
}

const MAP: &str = "#s = Nvmma(0, 16)
kernel @k(%m: tensor_map<256x64xf16, #s>) warps(1) {
  return
}
";

#[test]
fn blocks_of_tensor_maps() {
    let rank = |target: &mut Target| target.tensor_map.rank = 1;
    check(rank, MAP, "a block has 1 to 1 dimensions, not 2");
    let unit = |target: &mut Target| target.tensor_map.unit_bytes = 256;
    check(unit, MAP, "TMA moves multiples of 256");
}

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
    check(limit, text, "take 1 to 4 CTAs; up to 2 fit everywhere");
}

#[test]
fn threads_of_a_cta_and_an_sm() {
    let text = "kernel @k() warps(8) min_ctas_per_sm(8) {\n  return\n}\n";
    let warps = |target: &mut Target| target.cta.threads = 128;
    check(
        warps,
        text,
        "a kernel of 8 warps: the hardware runs 1, 2 or 4 in a CTA",
    );
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

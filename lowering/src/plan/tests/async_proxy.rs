//! Accesses through the async proxy, by TMA and the tensor cores: the fences and CTA barriers that they need.

use super::lines_of;

const HEAD: &str = "\
#nvmma = Nvmma(128, 16)
#bar = Swizzled(1, 1, 1, [0])
#acc = Wgmma([4, 1], [64, 64, 16])
#blocked = Blocked([1, 8], [4, 8], [4, 1], [1, 0])
#line = Blocked([1], [32], [4], [0])
kernel @k(%m: tensor_map<64x64xbf16, #nvmma>, %n: i32, %c: i1, %p: ptr<bf16>) warps(4) stage(resolved) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %v = constant {value=1.0} : tensor<64x64xbf16, #blocked>
  %init = constant {value=0.0} : tensor<64x64xf32, #acc>
";

#[track_caller]
fn plan(body: &str) -> (String, diag::Diagnostics) {
    let body = body
        .replace("SMEM", "smem<64x64xbf16, #nvmma>")
        .replace("BAR", "smem<1xu64, #bar>")
        .replace("ACC", "64x64xf32, #acc");
    let lines: Vec<String> = body.lines().map(|l| format!("  {}\n", l.trim())).collect();
    let kernel = format!("{HEAD}{}  return\n}}\n", lines.concat());
    let (planned, found) = crate::test::apply("plan-shared", &kernel);
    assert!(found.is_empty(), "{found}");
    let (placed, found) = crate::test::apply("place-barriers", &ir::text::print(&planned));
    (ir::text::print(&placed), found)
}

#[track_caller]
fn check(body: &str, expected: &[&str]) {
    let (text, found) = plan(body);
    assert!(found.is_empty(), "{found}");
    let words = [
        "smem_",
        "barrier",
        "mbarrier",
        "fence",
        "for",
        "tma_",
        "bulk_",
        "wgmma",
        "async_",
        "warp_spec",
        "else",
    ];
    assert_eq!(lines_of(&text, &words), expected, "{text}");
}

#[test]
fn a_cta_barrier_follows_the_initialisation_of_an_mbarrier() {
    check(
        "%a = smem_alloc : SMEM
        %b = smem_alloc : BAR
        mbarrier_init %b {count=1}
        mbarrier_expect %b {bytes=8192}
        tma_load %m, [%zero, %zero], [], %a, %b
        mbarrier_wait %b, %zero
        %x = smem_load %a : tensor<64x64xbf16, #blocked>
        print [%x] {prefix=\"x\"}",
        &[
            "smem_alloc 0..8192",
            "smem_alloc 8192..8208",
            "mbarrier_init",
            "barrier",
            "mbarrier_expect",
            "tma_load",
            "mbarrier_wait",
            "smem_load",
        ],
    );
}

#[test]
fn a_cta_barrier_follows_a_wait_for_async_copies() {
    check(
        "%a = smem_alloc : SMEM
        %b = smem_alloc : SMEM
        %ps = splat %p : tensor<64x64xptr<bf16>, #blocked>
        async_copy %a, %ps
        async_commit
        async_copy %b, %ps
        async_commit
        async_wait {pending=1}
        %x = smem_load %a : tensor<64x64xbf16, #blocked>
        async_wait {pending=0}
        %y = smem_load %b : tensor<64x64xbf16, #blocked>
        print [%x, %y] {prefix=\"xy\"}",
        &[
            "smem_alloc 0..8192",
            "smem_alloc 8192..16384",
            "async_copy",
            "async_commit",
            "async_copy",
            "async_commit",
            "async_wait",
            "barrier",
            "smem_load",
            "async_wait",
            "barrier",
            "smem_load",
        ],
    );
}

#[test]
fn a_cta_barrier_stands_between_reads_of_a_buffer_and_its_next_tma_load() {
    check(
        "%a = smem_alloc : SMEM
        %b = smem_alloc : BAR
        mbarrier_init %b {count=1}
        for %zero, %n, %one, [] (%i: i32) {
          mbarrier_expect %b {bytes=8192}
          tma_load %m, [%zero, %zero], [], %a, %b
          mbarrier_wait %b, %i
          %x = smem_load %a : tensor<64x64xbf16, #blocked>
          print [%x] {prefix=\"x\"}
          yield []
        }",
        &[
            "smem_alloc 0..8192",
            "smem_alloc 8192..8208",
            "mbarrier_init",
            "barrier",
            "for",
            "mbarrier_expect",
            "barrier",
            "tma_load",
            "mbarrier_wait",
            "smem_load",
        ],
    );
}

#[test]
fn a_proxy_fence_stands_between_stores_and_a_tma_store() {
    check(
        "%a = smem_alloc init=%v : SMEM
        tma_store %m, [%zero, %zero], %a
        tma_store_wait {pending=0, is_read=true}
        smem_store %a, %v",
        &[
            "smem_alloc 0..8192",
            "fence_async_shared",
            "barrier",
            "tma_store",
            "tma_store_wait",
            "barrier",
            "smem_store",
        ],
    );
    // A wait that leaves a group in flight is not the last one: after the next, others must know of that too.
    check(
        "%a = smem_alloc init=%v : SMEM
        %b = smem_alloc init=%v : SMEM
        tma_store %m, [%zero, %zero], %a
        tma_store %m, [%zero, %zero], %b
        tma_store_wait {pending=1, is_read=true}
        smem_store %a, %v
        tma_store_wait {pending=0, is_read=true}
        smem_store %b, %v",
        &[
            "smem_alloc 0..8192",
            "smem_alloc 8192..16384",
            "fence_async_shared",
            "barrier",
            "tma_store",
            "tma_store",
            "tma_store_wait",
            "barrier",
            "smem_store",
            "tma_store_wait",
            // A barrier also publishes what was stored before it to the async proxy.
            "fence_async_shared",
            "barrier",
            "smem_store",
        ],
    );
    // The author's fence is not repeated; the CTA barrier is still inserted.
    check(
        "%a = smem_alloc init=%v : SMEM
        fence_async_shared
        tma_store %m, [%zero, %zero], %a",
        &[
            "smem_alloc 0..8192",
            "fence_async_shared",
            "barrier",
            "tma_store",
        ],
    );
}

#[test]
fn bulk_copies_are_ordered_as_tma_copies_are() {
    check(
        "%r = smem_alloc : smem<2x64xbf16, #bar>
        %b = smem_alloc : BAR
        mbarrier_init %b {count=1}
        %w = constant {value=1.0} : tensor<64xbf16, #line>
        for %zero, %n, %one, [] (%i: i32) {
          %s = smem_index %r, %i : smem<64xbf16, #bar>
          mbarrier_expect %b, count=%n {bytes=0}
          bulk_load %p, %s, %b, count=%n, predicate=%c {policy=evict_first}
          mbarrier_wait %b, %i
          smem_store %s, %w
          bulk_store %p, %s, count=%n, predicate=%c
          bulk_prefetch %p, %n
          tma_store_wait {pending=0, is_read=true}
          yield []
        }",
        &[
            "smem_alloc 0..256",
            "smem_alloc 256..272",
            "mbarrier_init",
            "barrier",
            "for",
            "smem_index",
            "mbarrier_expect",
            "barrier",
            "bulk_load",
            "mbarrier_wait",
            "smem_store",
            "fence_async_shared",
            "barrier",
            "bulk_store",
            "bulk_prefetch",
            "tma_store_wait",
        ],
    );
}

#[test]
fn operands_of_wgmma_are_overwritten_after_a_wait_and_a_cta_barrier() {
    check(
        "%a = smem_alloc init=%v : SMEM
        %acc = wgmma %a, %a, %init {promote_every=0} : in_flight<ACC>
        %done = wgmma_wait [%acc] {pending=0} : tensor<ACC>
        smem_store %a, %v
        print [%done] {prefix=\"x\"}",
        &[
            "smem_alloc 0..8192",
            "fence_async_shared",
            "barrier",
            "wgmma",
            "wgmma_wait",
            "barrier",
            "smem_store",
        ],
    );
}

#[test]
fn a_wait_for_products_is_none_for_tma_stores() {
    check(
        "%a = smem_alloc init=%v : SMEM
        tma_store %m, [%zero, %zero], %a
        %acc = wgmma %a, %a, %init {promote_every=0} : in_flight<ACC>
        %done = wgmma_wait [%acc] {pending=0} : tensor<ACC>
        barrier
        tma_store_wait {pending=0, is_read=true}
        smem_store %a, %v
        print [%done] {prefix=\"x\"}",
        &[
            "smem_alloc 0..8192",
            "fence_async_shared",
            "barrier",
            "tma_store",
            "wgmma",
            "wgmma_wait",
            "barrier",
            "tma_store_wait",
            "barrier",
            "smem_store",
        ],
    );
}

const SPECIALIZED: &str = "%a = smem_alloc : SMEM
        %b = smem_alloc : BAR
        mbarrier_init %b {count=1}
        warp_specialize {warps=[4, 4], registers=[0, 0]} () {
          %w = constant {value=2.0} : tensor<64x64xbf16, #blocked>
          smem_store %a, %w
          FENCE
          mbarrier_arrive %b {count=1}
          yield []
        } () {
          mbarrier_wait %b, %zero
          tma_store %m, [%zero, %zero], %a
          yield []
        }";

#[test]
fn a_missing_proxy_fence_between_partitions_is_reported() {
    check(
        &SPECIALIZED.replace("FENCE", "fence_async_shared"),
        &[
            "smem_alloc 0..8192",
            "smem_alloc 8192..8208",
            "mbarrier_init",
            "warp_specialize",
            "smem_store",
            "fence_async_shared",
            "mbarrier_arrive",
            "else",
            "mbarrier_wait",
            "tma_store",
        ],
    );
    let (_, found) = plan(&SPECIALIZED.replace("FENCE\n", "\n"));
    assert!(
        found
            .to_string()
            .starts_with("error[TK0077]: this signals another partition before"),
        "{found}"
    );
}

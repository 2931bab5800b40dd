//! Allocations of the author's: lifetimes, bytes, and barriers between ordinary accesses.

use super::lines_of;

const HEAD: &str = "\
#blocked = Blocked([1, 8], [8, 4], [4, 1], [1, 0])
#slice = Slice(0, Blocked([1, 8], [8, 4], [4, 1], [1, 0]))
#swizzled = Swizzled(8, 1, 8, [1, 0])
kernel @k(%n: i32, %c: i1) warps(4) stage(resolved) {
  %v = constant {value=1.0} : tensor<64x32xf16, #blocked>
";

/// After both passes of the plan, the lines about shared memory, each as `name bytes`.
#[track_caller]
fn check(body: &str, expected: &[&str]) {
    let body = body
        .replace("SMEM", "smem<64x32xf16, #swizzled>")
        .replace("TENSOR", "tensor<64x32xf16, #blocked>");
    let lines: Vec<String> = body.lines().map(|l| format!("  {}\n", l.trim())).collect();
    let kernel = format!("{HEAD}{}  return\n}}\n", lines.concat());
    let (planned, found) = crate::test::apply("plan-shared", &kernel);
    assert!(found.is_empty(), "{found}");
    let (placed, found) = crate::test::apply("place-barriers", &gluon_lang::text::print(&planned));
    assert!(found.is_empty(), "{found}");
    let text = gluon_lang::text::print(&placed);
    assert_eq!(
        lines_of(&text, &["smem_", "barrier", "for", "reduce"]),
        expected,
        "{text}"
    );
}

#[test]
fn one_after_the_other_share_their_bytes() {
    check(
        "%a = smem_alloc : SMEM
        smem_store %a, %v
        %x = smem_load %a : TENSOR
        %b = smem_alloc : SMEM
        smem_store %b, %x
        %y = smem_load %b : TENSOR
        print [%y] {prefix=\"y\"}",
        &[
            "smem_alloc 0..4096",
            "smem_store",
            "barrier",
            "smem_load",
            "smem_alloc 0..4096",
            "barrier",
            "smem_store",
            "barrier",
            "smem_load",
        ],
    );
}

#[test]
fn those_needed_together_lie_apart() {
    check(
        "%a = smem_alloc init=%v : SMEM
        %b = smem_alloc init=%v : SMEM
        %x = smem_load %a : TENSOR
        %y = smem_load %b : TENSOR
        print [%x, %y] {prefix=\"y\"}",
        &[
            "smem_alloc 0..4096",
            "smem_alloc 4096..8192",
            "barrier",
            "smem_load",
            "smem_load",
        ],
    );
}

#[test]
fn what_is_kept_alive_keeps_its_bytes() {
    check(
        "%a = smem_alloc init=%v : SMEM
        %b = smem_alloc init=%v : SMEM
        smem_keep %a
        smem_keep %b",
        &[
            "smem_alloc 0..4096",
            "smem_alloc 4096..8192",
            "smem_keep",
            "smem_keep",
        ],
    );
}

#[test]
fn a_view_lives_as_long_as_what_is_made_of_it() {
    check(
        "%a = smem_alloc : smem<2x64x32xf16, #swizzled>
        %i = constant {value=1} : i32
        %p = smem_index %a, %i : SMEM
        %b = smem_alloc init=%v : SMEM
        %x = smem_load %b : TENSOR
        smem_store %p, %x",
        &[
            "smem_alloc 0..8192",
            "smem_index",
            "smem_alloc 8192..12288",
            "barrier",
            "smem_load",
            "smem_store",
        ],
    );
}

#[test]
fn what_goes_round_a_loop_lives_as_long_as_the_loop() {
    // Both buffers are alive all the time, for each is the other's in the next iteration.
    check(
        "%zero = constant {value=0} : i32
        %one = constant {value=1} : i32
        %a = smem_alloc init=%v : SMEM
        %b = smem_alloc init=%v : SMEM
        %p, %q = for %zero, %n, %one, [%a, %b] (%i: i32, %s: SMEM, %t: SMEM) {
          %x = smem_load %s : TENSOR
          smem_store %t, %x
          yield [%t, %s]
        } : SMEM, SMEM
        %c1 = smem_alloc init=%v : SMEM
        %y = smem_load %p : TENSOR
        %z = smem_load %c1 : TENSOR
        print [%y, %z] {prefix=\"y\"}",
        &[
            "smem_alloc 0..4096",
            "smem_alloc 4096..8192",
            "for",
            "barrier",
            "smem_load",
            "barrier",
            "smem_store",
            "smem_alloc 8192..12288",
            "barrier",
            "smem_load",
            "smem_load",
        ],
    );
}

#[test]
fn a_barrier_that_only_the_first_iteration_wants_stands_before_the_loop() {
    check(
        "%zero = constant {value=0} : i32
        %one = constant {value=1} : i32
        %a = smem_alloc init=%v : SMEM
        for %zero, %n, %one, [] (%i: i32) {
          %x = smem_load %a : TENSOR
          print [%x] {prefix=\"x\"}
          yield []
        }",
        &["smem_alloc 0..4096", "barrier", "for", "smem_load"],
    );
}

#[test]
fn scratch_and_allocations_share_what_is_free() {
    check(
        "%a = smem_alloc init=%v : SMEM
        %x = smem_load %a : TENSOR
        %m = reduce [%x] {axis=0} (%l: f16, %r: f16) {
          %s = binary %l, %r {op=max} : f16
          yield [%s]
        } : tensor<32xf16, #slice>
        print [%m] {prefix=\"m\"}",
        &[
            "smem_alloc 0..4096",
            "barrier",
            "smem_load",
            "barrier",
            "reduce 0..256",
        ],
    );
}

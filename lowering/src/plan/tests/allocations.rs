//! Allocations of the author's: lifetimes, bytes, and barriers between ordinary accesses.

use super::lines_of;

const HEAD: &str = "\
#blocked = Blocked([1, 8], [8, 4], [4, 1], [1, 0])
#slice = Slice(0, Blocked([1, 8], [8, 4], [4, 1], [1, 0]))
#swizzled = Swizzled(8, 1, 8, [1, 0])
#line = Blocked([1], [32], [4], [0])
#plain = Swizzled(1, 1, 1, [0])
#rows = Swizzled(1, 1, 1, [1, 0])
#columns = Swizzled(1, 1, 1, [0, 1])
#dense = SharedLinear(offset=[[1], [2], [4], [8], [16], [32], [64]])
#wide = SharedLinear(offset=[[1], [2], [4], [8], [16], [32], [64], [128], [256]])
#sparse = SharedLinear(offset=[[0], [0], [1], [2], [4], [8], [16], [32], [64]])
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
    let (placed, found) = crate::test::apply("place-barriers", &ir::text::print(&planned));
    assert!(found.is_empty(), "{found}");
    let text = ir::text::print(&placed);
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

/// Every part of four is stored and then part 0 read, part `n` of them by an index that is not known.
fn parts_of_four(layout: &str, part: &str, last: &str) -> String {
    format!(
        "%one = constant {{value=1}} : i32
        %zero = constant {{value=0}} : i32
        %w = constant {{value=1.0}} : tensor<128xf32, #line>
        %a = smem_alloc : smem<4x128xf32, {layout}>
        %p = smem_index %a, %zero : smem<128xf32, {part}>
        smem_store %p, %w
        %q = smem_index %a, {last} : smem<128xf32, {part}>
        smem_store %q, %w
        %x = smem_load %q : tensor<128xf32, #line>
        print [%x] {{prefix=\"x\"}}"
    )
}

#[test]
fn buffers_whose_numbers_are_known_lie_apart() {
    const APART: [&str; 6] = [
        "smem_alloc 0..2048",
        "smem_index",
        "smem_store",
        "smem_index",
        "smem_store",
        "smem_load",
    ];
    let met = [&APART[..4], &["barrier", "smem_store", "smem_load"]].concat();
    let read = |lines: &[&'static str]| {
        let mut lines = lines.to_vec();
        lines.insert(lines.len() - 1, "barrier");
        lines
    };
    let buffers = parts_of_four("#plain", "#plain", "%one");
    check(&buffers, &read(&APART));
    check(&parts_of_four("#rows", "#dense", "%one"), &read(&APART));
    // One behind the other in each column, the rows mix.
    check(&parts_of_four("#columns", "#sparse", "%one"), &read(&met));
    check(&parts_of_four("#plain", "#plain", "%n"), &read(&met));
}

#[test]
fn a_part_of_a_part_is_where_the_part_is() {
    check(
        "%one = constant {value=1} : i32
        %zero = constant {value=0} : i32
        %w = constant {value=1.0} : tensor<128xf32, #line>
        %a = smem_alloc : smem<4x2x128xf32, #rows>
        %s = smem_slice %a {starts=[2, 0, 0], lengths=[2, 2, 128]} : smem<2x2x128xf32, #rows, alloc=[4, 2, 128]>
        %p = smem_index %s, %zero : smem<2x128xf32, #rows>
        %q = smem_index %a, %one : smem<2x128xf32, #rows>
        %r = smem_index %a, %n : smem<2x128xf32, #rows>
        %p1 = smem_index %p, %one : smem<128xf32, #dense>
        %q0 = smem_index %q, %zero : smem<128xf32, #dense>
        %q1 = smem_index %q, %one : smem<128xf32, #dense>
        %r1 = smem_index %r, %one : smem<128xf32, #dense>
        smem_store %q0, %w
        smem_store %q1, %w
        smem_store %p1, %w
        smem_store %r1, %w",
        &[
            "smem_alloc 0..4096",
            "smem_slice",
            "smem_index",
            "smem_index",
            "smem_index",
            "smem_index",
            "smem_index",
            "smem_index",
            "smem_index",
            "smem_store",
            "smem_store",
            // Which of a slice or of an unknown buffer is not followed.
            "barrier",
            "smem_store",
            "barrier",
            "smem_store",
        ],
    );
}

#[test]
fn a_part_ends_with_what_it_is_a_part_of() {
    // 384 elements, in offsets up to 512.
    check(
        "%zero = constant {value=0} : i32
        %w = constant {value=1.0} : tensor<384xf32, #line>
        %x = constant {value=1.0} : tensor<128xf32, #line>
        %a = smem_alloc : smem<1x384xf32, #rows>
        %b = smem_alloc : smem<128xf32, #plain>
        %p = smem_index %a, %zero : smem<384xf32, #wide>
        smem_store %b, %x
        smem_store %p, %w
        smem_keep %b",
        &[
            "smem_alloc 0..1536",
            "smem_alloc 1536..2048",
            "smem_index",
            "smem_store",
            "smem_store",
            "smem_keep",
        ],
    );
}

#[test]
fn scratch_is_kept_apart_where_it_costs_no_cta() {
    let two = |buffers: u32| {
        format!(
            "%w = constant {{value=1.0}} : tensor<128xf32, #line>
            %a = smem_alloc : smem<{buffers}x4xf32, #plain>
            %x = reduce [%w] {{axis=0}} (%l: f32, %r: f32) {{
              %s = binary %l, %r {{op=max}} : f32
              yield [%s]
            }} : f32
            %y = reduce [%w] {{axis=0}} (%l: f32, %r: f32) {{
              %s = binary %l, %r {{op=max}} : f32
              yield [%s]
            }} : f32
            smem_keep %a
            print [%x, %y] {{prefix=\"x\"}}"
        )
    };
    // Three CTAs of 76800 bytes fit an SM, whatever their threads would allow.
    check(
        &two(4096),
        &[
            "smem_alloc 0..65536",
            "reduce 65536..65552",
            "reduce 65552..65568",
            "smem_keep",
        ],
    );
    // With 16 bytes of scratch a CTA takes all that a third of an SM has.
    check(
        &two(4799),
        &[
            "smem_alloc 0..76784",
            "reduce 76784..76800",
            "barrier",
            "reduce 76784..76800",
            "smem_keep",
        ],
    );
}

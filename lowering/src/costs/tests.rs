//! Kernels in, lines of `inspect` out.

use super::of;
use crate::analysis::access::Accesses;
use crate::analysis::axis::Axes;
use crate::test::read;
use crate::{Options, compile};

/// What is said of the accesses of a kernel with these parameters and this body, below the cost of each.
#[track_caller]
fn said(params: &str, body: &str) -> Vec<Vec<String>> {
    let text = format!(
        "#b = Blocked([1, 1], [1, 32], [4, 1], [1, 0])
        #rows = Slice(1, Blocked([1, 1], [1, 32], [4, 1], [1, 0]))
        #cols = Slice(0, Blocked([1, 1], [1, 32], [4, 1], [1, 0]))
        #v = Blocked([4], [32], [4], [0])
        #col = Blocked([4, 1], [16, 2], [1, 4], [0, 1])
        #s = Swizzled(1, 1, 1, [0])
        #plain = Swizzled(1, 1, 1, [1, 0])
        kernel @k({params}) warps(4) {{
          {body}
          return
        }}"
    );
    let found = of(&read(&text)).expect("the kernel is right");
    found.into_iter().map(|entry| entry.advice).collect()
}

/// This is said of the only access.
#[track_caller]
fn check(params: &str, body: &str, expected: &[&str]) {
    assert_eq!(said(params, body), [expected]);
}

/// A store of a tile of 32 x 64 `f16` at `%p`, whose rows are `%stride` apart; `%c` are the columns.
fn tile(layout: &str, store: &str) -> String {
    let (rows, cols) = match layout {
        "#b" => ("#rows", "#cols"),
        open => (open, open),
    };
    let text = format!(
        "
        %r = arange {{start=0, end=32}} : tensor<32xi32, {rows}>
        %c = arange {{start=0, end=64}} : tensor<64xi32, {cols}>
        %r2 = expand_dims %r {{axis=1}} : tensor<32x1xi32, LAYOUT>
        %c2 = expand_dims %c {{axis=0}} : tensor<1x64xi32, LAYOUT>
        %s = splat %stride : tensor<32x1xi32, LAYOUT>
        %rs = binary %r2, %s {{op=mul}} : tensor<32x1xi32, LAYOUT>
        %rb = broadcast %rs : tensor<32x64xi32, LAYOUT>
        %cb = broadcast %c2 : tensor<32x64xi32, LAYOUT>
        %i = binary %rb, %cb {{op=add}} : tensor<32x64xi32, LAYOUT>
        %xs = splat %x : tensor<32x64xptr<f16>, LAYOUT>
        %p = ptr_add %xs, %i : tensor<32x64xptr<f16>, LAYOUT>
        %v = constant {{value=1.0}} : tensor<32x64xf16, LAYOUT>
        {store}"
    );
    text.replace("LAYOUT", layout)
}

/// A store of 1024 `ELEM` at `%x + %at`, which `offsets` makes of the numbers `%i`.
fn vector(elem: &str, offsets: &str, store: &str) -> String {
    format!(
        "
        %i = arange {{start=0, end=1024}} : tensor<1024xi32, coalesced>
        {offsets}
        %xs = splat %x : tensor<1024xptr<{elem}>, coalesced>
        %p = ptr_add %xs, %at : tensor<1024xptr<{elem}>, coalesced>
        %v = constant {{value=1}} : tensor<1024x{elem}, coalesced>
        {store}"
    )
}

const STORE: &str = "store %p, %v";

#[test]
fn a_stride_divisible_by_2_limits_rows_to_4_bytes() {
    let params =
        |divisor: u32| format!("%x: ptr<f16> {{divisor=16}}, %stride: i32 {{divisor={divisor}}}");
    check(
        &params(2),
        &tile("coalesced", STORE),
        &["4 bytes: `stride` is known to be divisible by 2; `#[multiple_of(8)]` would give 16"],
    );
    check(&params(8), &tile("coalesced", STORE), &[]);
}

#[test]
fn a_pointer_aligned_to_4_bytes_limits_an_access_to_4_bytes() {
    check(
        "%x: ptr<i32> {divisor=4}",
        &vector(
            "i32",
            "%at = broadcast %i : tensor<1024xi32, coalesced>",
            STORE,
        ),
        &["4 bytes: `x` is known to be aligned to 4 bytes; `#[align(16)]` would give 16"],
    );
    check(
        "%x: ptr<f16> {divisor=2}, %stride: i32",
        &tile("coalesced", STORE),
        &[
            "2 bytes: `x` is known to be aligned to 2 bytes, and `stride` is known to be divisible by 1; `#[align(16)]` and `#[multiple_of(8)]` would give 16",
        ],
    );
}

#[test]
fn a_constant_offset_and_a_number_of_the_kernel_limit_alignment() {
    check(
        "%x: ptr<i32> {divisor=16}",
        &vector(
            "i32",
            "%one = constant {value=1} : tensor<1024xi32, coalesced>
        %at = binary %i, %one {op=add} : tensor<1024xi32, coalesced>",
            STORE,
        ),
        &["4 bytes: the constant 1 aligns vectors to 4 bytes"],
    );
    check(
        "%x: ptr<i32> {divisor=16}",
        &vector(
            "i32",
            "%pid = program_id {axis=x} : i32
        %ps = splat %pid : tensor<1024xi32, coalesced>
        %at = binary %i, %ps {op=add} : tensor<1024xi32, coalesced>",
            STORE,
        ),
        &["4 bytes: `pid` is known to be divisible by 1; `.multiple_of(4)` can promise more"],
    );
}

#[test]
fn a_mask_of_an_unknown_bound_may_split_what_a_known_one_does_not() {
    let masked = vector(
        "i32",
        "%at = broadcast %i : tensor<1024xi32, coalesced>
        %ns = splat %n : tensor<1024xi32, coalesced>
        %m = compare %i, %ns {op=lt} : tensor<1024xi1, coalesced>",
        "store %p, %v, mask=%m",
    );
    check(
        "%x: ptr<i32> {divisor=16}, %n: i32",
        &masked,
        &[
            "the mask may split the 16 bytes, which are then accessed one by one: `n` is known to be divisible by 1; with `#[multiple_of(4)]` it never does",
        ],
    );
    check(
        "%x: ptr<i32> {divisor=16}, %n: i32 {divisor=4}",
        &masked,
        &[],
    );
}

#[test]
fn a_layout_of_one_element_a_thread_limits_rows_of_halves_to_2_bytes() {
    let params = "%x: ptr<f16> {divisor=16}, %stride: i32 {divisor=8}";
    check(
        params,
        &tile("#b", STORE),
        &[
            "2 bytes: the layout gives a thread 1 element in a row; 8 (as `Coalesced` chooses for this access alone) would give 16",
        ],
    );
}

#[test]
fn a_tile_of_one_byte_for_each_thread_is_no_fault_of_the_layout() {
    let body = vector(
        "i8",
        "%at = broadcast %i : tensor<1024xi32, coalesced>",
        STORE,
    );
    check(
        "%x: ptr<i8> {divisor=16}",
        &body.replace("1024", "128"),
        &["1 byte: the tile has 1 element for each of 128 threads"],
    );
}

#[test]
fn elements_at_an_unknown_distance_go_one_by_one() {
    check(
        "%x: ptr<i32> {divisor=16}, %step: i32",
        &vector(
            "i32",
            "%s = splat %step : tensor<1024xi32, coalesced>
        %at = binary %i, %s {op=mul} : tensor<1024xi32, coalesced>",
            STORE,
        ),
        &[
            "4 bytes: neighbouring elements are `step` apart, which is not known to be 1; remove it if it is 1, or order the lanes along the other dimension",
        ],
    );
    check(
        "%x: ptr<i32> {divisor=16}",
        &vector(
            "i32",
            "%two = constant {value=2} : tensor<1024xi32, coalesced>
        %at = binary %i, %two {op=mul} : tensor<1024xi32, coalesced>",
            STORE,
        ),
        &["4 bytes: neighbouring elements are 2 apart"],
    );
}

#[test]
fn atomics_whose_old_values_are_used_go_one_by_one() {
    let body = vector(
        "i32",
        "%at = broadcast %i : tensor<1024xi32, coalesced>",
        "%old = atomic_rmw %p, %v {op=add, semantics=relaxed, scope=gpu} : tensor<1024xi32, coalesced>",
    );
    check(
        "%x: ptr<i32> {divisor=16}",
        &body,
        &[
            "4 bytes: `atomic_rmw` accesses each element by one instruction; only float additions whose old values are unused are vectorized",
        ],
    );
}

#[test]
fn loaded_offsets_go_one_by_one() {
    let body = vector(
        "i32",
        "%ixs = splat %x : tensor<1024xptr<i32>, coalesced>
        %ixp = ptr_add %ixs, %i : tensor<1024xptr<i32>, coalesced>
        %at = load %ixp : tensor<1024xi32, coalesced>",
        STORE,
    );
    let found = said(
        "%x: ptr<i32> {divisor=16}",
        &body.replace("coalesced", "#v"),
    );
    let store = "4 bytes: the offsets are loaded (`at`), without known contiguity or divisibility; promise it by `.max_contiguous(..)` and `.multiple_of(..)`";
    assert_eq!(found, [vec![], vec![store.to_owned()]]);
}

#[test]
fn a_copy_whose_mask_may_split_anywhere_is_limited_by_the_mask() {
    let body = "
        %i = arange {start=0, end=1024} : tensor<1024xi32, #v>
        %is = cast %i : tensor<1024xi32, #v>
        %three = constant {value=3} : tensor<1024xi32, #v>
        %odd = binary %is, %three {op=and} : tensor<1024xi32, #v>
        %zero = constant {value=0} : tensor<1024xi32, #v>
        %m = compare %odd, %zero {op=ne} : tensor<1024xi1, #v>
        %xs = splat %x : tensor<1024xptr<f32>, #v>
        %p = ptr_add %xs, %i : tensor<1024xptr<f32>, #v>
        %s = smem_alloc : smem<1024xf32, #s>
        async_copy %s, %p, mask=%m
        async_wait {pending=0}";
    check(
        "%x: ptr<f32> {divisor=16}",
        body,
        &[
            "4 bytes: the mask may differ for each element of the vector; a bound check (`index < bound`, with a scalar bound) does not narrow the access",
        ],
    );
}

#[test]
fn rows_that_a_tile_holds_by_columns_go_to_shared_memory_one_by_one() {
    let body = "
        %v = constant {value=1.0} : tensor<64x64xf32, #col>
        %s = smem_alloc init=%v : smem<64x64xf32, #plain>
        smem_keep %s";
    check(
        "",
        body,
        &["4 bytes: the register layout and the memory layout have 1 element contiguous in both"],
    );
}

#[test]
fn atomics_on_places_of_shared_memory_cost_what_they_issue_with_and_without_results() {
    // Two warps hold copies, so that results pass through scratch, which is no access of the op.
    let text = "#wide = Blocked([2], [32], [2], [0])
        #s = Swizzled(1, 1, 1, [0])
        kernel @k(%out: ptr<f32> {divisor=16}) warps(2) {
          %s = smem_alloc : smem<64xf32, #s>
          %i = arange {start=0, end=64} : tensor<64xi32, #wide>
          %v = constant {value=1.0} : tensor<64xf32, #wide>
          smem_store %s, %v
          smem_atomic_scatter %s, %v, %i {op=max, axis=0}
          %old = smem_atomic_fetch %s, %v, %i {op=max, axis=0} : tensor<64xf32, #wide>
          %ps = splat %out : tensor<64xptr<f32>, #wide>
          %p = ptr_add %ps, %i : tensor<64xptr<f32>, #wide>
          store %p, %old
          return
        }";
    let func = read(text);
    let axes = Axes::of(&func);
    let accesses = Accesses::new(&func, &axes);
    let plans = func.walk().into_iter().filter_map(|inst| {
        let name = func.op(inst).rules().mnemonic();
        let plan = accesses.plan(inst)?;
        name.starts_with("smem_atomic")
            .then_some((plan.bytes, plan.runs, plan.instructions))
    });
    assert_eq!(plans.collect::<Vec<_>>(), [(4, 2, 2), (4, 2, 2)]);
    // Emission asserts that it issued what is planned.
    assert!(compile(func, &Options::default()).is_ok());
}

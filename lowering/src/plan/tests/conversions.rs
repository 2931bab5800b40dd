//! Conversions: bytes, passes, and barrier scopes.

use ir::text::print;

use super::lines_of;
use crate::test::apply;

/// What both passes of the plan make of the lines of `body`, counting those that name one of `words`.
#[track_caller]
fn check(body: &str, words: &[&str], expected: &[&str]) {
    let text = format!(
        "#blocked = Blocked([1, 4], [8, 4], [4, 1], [1, 0])
        #near = Blocked([1, 2], [8, 4], [4, 1], [1, 0])
        #far = Blocked([2, 4], [4, 8], [1, 4], [0, 1])
        #rows = Slice(1, Blocked([1, 4], [8, 4], [4, 1], [1, 0]))
        #swizzled = Swizzled(1, 1, 1, [1, 0])
        kernel @k(%n: i32) warps(4) stage(resolved) {{
          %a = constant {{value=1.0}} : tensor<64x64xf32, #blocked>
          {body}
          return
        }}"
    );
    let (planned, found) = apply("plan-shared", &text);
    assert!(found.is_empty(), "{found}");
    let (placed, found) = apply("place-barriers", &print(&planned));
    assert!(found.is_empty(), "{found}");
    let text = print(&placed);
    assert_eq!(lines_of(&text, words), expected, "{text}");
}

#[test]
fn rounds_are_taken_where_the_kernel_would_not_fit() {
    let beside = |buffers: u32, expected: &[&str]| {
        let body = format!(
            "%m = smem_alloc : smem<{buffers}x64x64xf32, #swizzled>
            %b = convert_layout %a : tensor<64x64xf32, #far>
            print [%b] {{prefix=\"b\"}}
            smem_keep %m"
        );
        check(&body, &["smem_alloc", "convert"], expected);
    };
    beside(
        13,
        &["smem_alloc 0..212992", "convert_layout 212992..229376"],
    );
    // 3072 bytes are left.
    beside(
        14,
        &["smem_alloc 0..229376", "convert_layout 229376..231424"],
    );
}

const LOOP: &str = "%zero = constant {value=0} : i32
    %one = constant {value=1} : i32
    for %zero, %n, %one, [] (%i: i32) {
      %b = convert_layout %a : tensor<64x64xf32, #near>
      print [%b] {prefix=\"b\"}
      yield []
    }";

#[test]
fn a_warp_uses_its_own_bytes_again_without_the_others() {
    let words = ["for", "convert", "barrier", "reduce"];
    check(LOOP, &words, &["for", "convert_layout 0..16384"]);
    let far = LOOP.replace("#near", "#far");
    check(&far, &words, &["for", "barrier", "convert_layout 0..16384"]);
}

#[test]
fn what_another_op_did_to_the_bytes_of_a_warp_is_waited_for() {
    let words = ["for", "convert", "barrier"];
    // Other bytes belong to a warp, though both conversions stay within warps.
    let other = LOOP.replace(
        "yield []",
        "%c = convert_layout %b : tensor<64x64xf32, #blocked>
        print [%c] {prefix=\"c\"}
        yield []",
    );
    check(
        &other,
        &words,
        &[
            "for",
            "barrier",
            "convert_layout 0..16384",
            "barrier",
            "convert_layout 0..16384",
        ],
    );
    let before = format!(
        "%d = convert_layout %a : tensor<64x64xf32, #far>
        print [%d] {{prefix=\"d\"}}
        {LOOP}"
    );
    let expected = [
        "convert_layout 0..16384",
        "barrier",
        "for",
        "convert_layout 0..16384",
    ];
    check(&before, &words, &expected);
}

/// Checks the plan of a kernel of `warps` warps that converts an `f64` tile of `rows` rows, after an allocation of `beside` bytes that
/// is dead by then.
#[track_caller]
fn check_passes(warps: u32, rows: u32, beside: u32, expected: &[&str]) {
    let ty = |layout: &str| format!("tensor<{rows}x128xf64, #{layout}>");
    let text = format!(
        "#from = Blocked([1, 2], [1, 32], [{warps}, 1], [1, 0])
        #to = Blocked([1, 1], [32, 1], [1, {warps}], [0, 1])
        #bytes = Swizzled(1, 1, 1, [0])
        #line = Blocked([1], [32], [{warps}], [0])
        kernel @k(%p: ptr<f64>, %n: i32) warps({warps}) stage(resolved) {{
          %m = smem_alloc : smem<{beside}xi8, #bytes>
          %v = smem_load %m : tensor<{beside}xi8, #line>
          print [%v] {{prefix=\"v\"}}
          %ps = splat %p : {}
          %a = load %ps : {}
          %b = convert_layout %a : {}
          print [%b] {{prefix=\"b\"}}
          return
        }}",
        ty("from").replace("f64", "ptr<f64>"),
        ty("from"),
        ty("to"),
    );
    let (planned, found) = apply("plan-shared", &text);
    assert!(found.is_empty(), "{found}");
    let text = print(&planned);
    assert_eq!(
        lines_of(&text, &["smem_alloc", "convert"]),
        expected,
        "{text}"
    );
}

#[test]
fn fewer_passes_are_taken_where_occupancy_stays_the_same() {
    // A single pass would leave room for six CTAs instead of seven.
    check_passes(
        4,
        32,
        1024,
        &["smem_alloc 0..1024", "convert_layout 0..16384"],
    );
    // 64 KiB of tiles of 4 warps are 128 registers a thread: three CTAs, of which each has 75 KiB.
    check_passes(
        4,
        64,
        1024,
        &["smem_alloc 0..1024", "convert_layout 0..65536"],
    );
    // The tile fills the registers of the SM.
    check_passes(
        8,
        128,
        1024,
        &["smem_alloc 0..1024", "convert_layout 0..131072"],
    );
    // Bytes of a buffer that is dead by then.
    check_passes(
        4,
        64,
        65536,
        &["smem_alloc 0..65536", "convert_layout 0..65536"],
    );
    // More scratch gains nothing where one pass suffices.
    check_passes(
        4,
        16,
        65536,
        &["smem_alloc 0..65536", "convert_layout 0..16384"],
    );
}

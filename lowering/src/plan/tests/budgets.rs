//! Registers of partitions.

use crate::test::apply;

fn kernel(warps: &str, registers: &str, tile: u32) -> String {
    let empty = " () {\n    yield []\n  }";
    let workers = empty.repeat(warps.matches(',').count());
    let main: u32 = warps[1..2].parse().unwrap();
    format!(
        "#acc = Wgmma([{main}, 1], [64, {tile}, 16])
kernel @k(%x: ptr<f32>) warps({main}) stage(resolved) {{
  warp_specialize {{warps={warps}, registers={registers}}} () {{
    %z = constant {{value=1.0}} : tensor<64x{tile}xf32, #acc>
    %e = unary %z {{op=exp2}} : tensor<64x{tile}xf32, #acc>
    %f = unary %e {{op=exp2}} : tensor<64x{tile}xf32, #acc>
    print [%e, %f] {{prefix=\"e\"}}
    yield []
  }}{workers}
  return
}}"
    )
}

#[track_caller]
fn check(warps: &str, registers: &str, expected: &str, start: u32) {
    let (func, found) = apply("plan-warps", &kernel(warps, registers, 64));
    assert!(found.is_empty(), "{found}");
    let text = ir::text::print(&func);
    assert!(text.contains(&format!("registers={expected}}}")), "{text}");
    assert_eq!(func.max_registers, Some(start), "{text}");
}

#[test]
fn what_is_left_open_is_filled_in() {
    // 256 threads may have 256 each, and a thread can name 255, in eights 248.
    check("[4, 4]", "[0, 0]", "[248, 248]", 248);
    check("[8, 4]", "[0, 0]", "[168, 168]", 168);
    check("[8, 4]", "[0, 24]", "[240, 24]", 168);
    // One warp counts as its whole warpgroup, and the largest of a warpgroup counts for all of it.
    check("[8, 1, 2]", "[0, 24, 40]", "[232, 24, 40]", 168);
    check("[8, 1]", "[232, 40]", "[232, 40]", 168);
    // The launch takes 3 x 128 x 168 of the 65536, and what it leaves nobody gets: not 240.
    check("[4, 4, 1]", "[0, 232, 40]", "[232, 232, 40]", 168);
}

#[test]
fn ctas_that_must_fit_share_the_registers() {
    let text = kernel("[4, 1]", "[0, 40]", 64).replace(" stage(", " min_ctas_per_sm(2) stage(");
    let (func, found) = apply("plan-warps", &text);
    assert!(found.is_empty(), "{found}");
    let printed = ir::text::print(&func);
    assert!(printed.contains("registers=[216, 40]}"), "{printed}");
    assert_eq!(func.max_registers, Some(128), "{printed}");
}

#[test]
fn budgets_of_one_cta_are_refused_where_two_must_fit() {
    let text = kernel("[4, 1]", "[232, 40]", 64).replace(" stage(", " min_ctas_per_sm(2) stage(");
    let func = ir::text::parse("test.tile", &text).unwrap();
    assert_eq!(
        ir::verify::verify(&func, func.stage).to_string(),
        "error[TK0075]: the budgets add up to 34816 registers (29696 of the kernel's own warps, 5120 of the workers), and the 8 warps of the CTA are launched with 32768 where 2 CTAs fit an SM
  --> test.tile:3:3
  = help: give the 2 warpgroups budgets that add up to at most 256"
    );
}

#[test]
fn a_partition_that_cannot_hold_its_tiles_is_reported() {
    let (_, found) = apply("plan-warps", &kernel("[4, 4]", "[40, 40]", 64));
    assert_eq!(
        found.to_string(),
        "error[TK0075]: the live tiles of the kernel's own warps take 64 registers per thread, and their budget is 40
  --> test.tile:6:5
      the most tiles are live here
  ::: test.tile:3:3: the budgets are given here
  = help: give this partition more warps or registers, or make its tiles smaller"
    );
}

#[test]
fn a_kernel_without_warp_specialize_is_unchanged() {
    let text = "kernel @k(%x: ptr<f32>) warps(4) stage(resolved) {\n  return\n}";
    let (func, found) = apply("plan-warps", text);
    assert!(found.is_empty() && func.max_registers.is_none());
}

//! Products of tiles in registers, used wrongly, and what stands in the way of the tensor cores.

use tilekit::prelude::*;

use crate::{check, check_warned};

fn sums() -> Mma {
    Mma::new([2, 2], [16, 8])
}

fn factors() -> (Smem<bf16>, Smem<bf16>) {
    let layout = || Swizzled::new(8, 1, 8, [1, 0]);
    (
        Smem::alloc([64, 64], layout()),
        Smem::alloc([64, 64], layout()),
    )
}

/// One product of bf16 whose operands and sums have these layouts.
fn product(left: impl Into<Layout>, right: impl Into<Layout>, sums: impl Into<Layout>) {
    let (a, b) = factors();
    let zero = zeros::<f32>([64, 64], sums);
    device_print("sum", mma_v2(a.load(left), b.load(right), zero));
}

#[kernel]
fn mma_operand_of_another_accumulator() {
    let left = DotOperand::new(0, Mma::new([4, 1], [16, 8]), 2);
    product(left, DotOperand::new(1, sums(), 2), sums());
}

#[test]
fn an_operand_of_another_accumulator_is_refused() {
    let traced = mma_operand_of_another_accumulator.trace();
    check("mma_operand_of_another_accumulator", traced);
}

#[kernel]
fn mma_operand_in_blocked_layout() {
    let rows = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
    product(rows, DotOperand::new(1, sums(), 2), sums());
}

#[test]
fn an_operand_in_a_blocked_layout_is_refused() {
    check(
        "mma_operand_in_blocked_layout",
        mma_operand_in_blocked_layout.trace(),
    );
}

#[kernel]
fn mma_operands_exchanged() {
    let operand = |number| DotOperand::new(number, sums(), 2);
    product(operand(1), operand(0), sums());
}

#[test]
fn exchanged_operands_are_refused() {
    check("mma_operands_exchanged", mma_operands_exchanged.trace());
}

#[kernel]
fn k_width_below_a_word() {
    let operand = |number| DotOperand::new(number, sums(), 1);
    product(operand(0), operand(1), sums());
}

#[test]
fn a_k_width_below_32_bits_is_refused() {
    check("k_width_below_a_word", k_width_below_a_word.trace());
}

#[kernel]
fn k_widths_differ() {
    let (left, right) = (DotOperand::new(0, sums(), 2), DotOperand::new(1, sums(), 4));
    product(left, right, sums());
}

#[test]
fn operands_of_different_k_widths_are_refused() {
    check("k_widths_differ", k_widths_differ.trace());
}

#[kernel]
fn mma_accumulator_in_blocked_layout() {
    let blocked = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
    let operand = |number| DotOperand::new(number, sums(), 2);
    product(operand(0), operand(1), blocked);
}

#[test]
fn an_accumulator_in_a_blocked_layout_is_refused() {
    check(
        "mma_accumulator_in_blocked_layout",
        mma_accumulator_in_blocked_layout.trace(),
    );
}

#[kernel]
fn k_below_four_lanes() {
    let operand = |number| DotOperand::new(number, sums(), 8);
    let a = zeros::<bf16>([64, 16], operand(0));
    let b = zeros::<bf16>([16, 64], operand(1));
    device_print("sum", mma_v2(a, b, zeros::<f32>([64, 64], sums())));
}

#[test]
fn a_k_below_four_lanes_is_refused() {
    check("k_below_four_lanes", k_below_four_lanes.trace());
}

#[kernel]
fn factors_of_unequal_k() {
    let a = zeros::<bf16>([64, 32], DotOperand::new(0, sums(), 2));
    let b = zeros::<bf16>([64, 64], DotOperand::new(1, sums(), 2));
    device_print("sum", mma_v2(a, b, zeros::<f32>([64, 64], sums())));
}

#[test]
fn operands_of_different_k_are_refused() {
    check("mma_operands_of_different_k", factors_of_unequal_k.trace());
}

#[test]
fn elements_that_mma_does_not_multiply() {
    check_text(
        "mma_of_other_elements",
        "mma_v2",
        "Mma([2, 2], [16, 8])",
        ["f16", "bf16", "f32"],
    );
    check_text(
        "mma_of_f32",
        "mma_v2",
        "Mma([2, 2], [16, 8])",
        ["f32", "f32", "f32"],
    );
    check_text(
        "dot_fma_of_fp8",
        "dot_fma",
        "Blocked([1, 8], [4, 8], [4, 1], [1, 0])",
        ["e4m3", "e4m3", "e4m3"],
    );
}

/// A product as text, for rustc refuses these element types before.
#[track_caller]
fn check_text(name: &str, op: &str, parent: &str, [a, b, sum]: [&str; 3]) {
    let width = if op == "mma_v2" { 2 } else { 0 };
    let text = format!(
        "#acc = {parent}\n#left = DotOperand(0, {parent}, {width})\n#right = DotOperand(1, {parent}, {width})\nkernel @k() warps(4) {{\n  %a = constant {{value=1.0}} : tensor<32x32x{a}, #left>\n  %b = constant {{value=1.0}} : tensor<32x32x{b}, #right>\n  %z = constant {{value=0.0}} : tensor<32x32x{sum}, #acc>\n  %r = {op} %a, %b, %z : tensor<32x32x{sum}, #acc>\n  print [%r] {{prefix=\"r\"}}\n  return\n}}\n"
    );
    crate::check_func(
        name,
        Ok(ir::text::parse("kernel.tile", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))),
    );
}

#[kernel]
fn dot_fma_in_another_layout() {
    let parent = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
    let other = Blocked::new([8, 1], [8, 4], [4, 1], [1, 0]);
    let a = zeros::<f32>([32, 32], DotOperand::new(0, parent.clone(), 0));
    let b = zeros::<f32>([32, 32], DotOperand::new(1, other, 0));
    device_print("sum", dot_fma(a, b, zeros::<f32>([32, 32], parent)));
}

#[test]
fn dot_fma_operands_of_another_accumulator_are_refused() {
    let traced = dot_fma_in_another_layout.trace();
    check("dot_fma_in_another_layout", traced);
}

#[kernel]
fn dot_fma_of_a_large_tile() {
    let parent = Blocked::new([8, 8], [4, 8], [4, 1], [1, 0]);
    let a = zeros::<f32>([128, 64], DotOperand::new(0, parent.clone(), 0));
    let b = zeros::<f32>([64, 128], DotOperand::new(1, parent.clone(), 0));
    device_print("sum", dot_fma(a, b, zeros::<f32>([128, 128], parent)));
}

#[test]
fn a_large_dot_fma_is_warned_of() {
    check_warned("dot_fma_of_a_large_tile", dot_fma_of_a_large_tile.trace());
}

#[kernel]
fn print_beside_wgmma(n: i32) {
    device_assert(n > 0, "there is something to do");
    let tile = || Smem::<bf16>::alloc([64, 64], Nvmma::B128.of(16));
    let (a, b) = (tile(), tile());
    let acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    device_print("sum", acc.mma(a, b.transpose()).wait_all());
}

#[test]
fn a_print_beside_wgmma_is_warned_of() {
    check_warned("print_beside_wgmma", print_beside_wgmma.trace());
}

#[kernel]
fn print_in_a_partition(n: i32) {
    warp_specialize()
        .main(|| {})
        .worker(Warps(1).registers(40), || device_print("n", n))
        .run();
}

#[test]
fn a_print_in_a_partition_without_wgmma_is_accepted() {
    let compiled = lowering::compile(
        print_in_a_partition.trace().unwrap().func,
        &lowering::Options::default(),
    );
    let warnings = compiled.unwrap().warnings;
    assert!(warnings.0.is_empty(), "{warnings}");
}

#[kernel]
fn scales_of_another_shape(out: Ptr<f32>) {
    let warps = Mma::new([4, 1], [16, 8]);
    let a = zeros::<bf16>([64, 64], DotOperand::new(0, warps.clone(), 2));
    let b = zeros::<bf16>([64, 8], DotOperand::new(1, warps.clone(), 2));
    let tile = Blocked::new([1, 1], [32, 1], [4, 1], [0, 1]);
    let (of_a, of_b) = (
        zeros::<E8m0>([64, 4], tile.clone()),
        zeros::<E8m0>([2, 8], tile),
    );
    let sum = mma_v2_scaled(a, of_a, b, of_b, zeros::<f32>([64, 8], warps));
    out.store(sum.sum(..).scalar());
}

#[test]
fn scales_of_another_shape_are_refused() {
    check("scales_of_another_shape", scales_of_another_shape.trace());
}

#[kernel]
fn k_no_multiple_of_the_scale_groups(out: Ptr<f32>) {
    let warps = Mma::new([4, 1], [16, 8]);
    let a = zeros::<bf16>([64, 16], DotOperand::new(0, warps.clone(), 2));
    let b = zeros::<bf16>([16, 8], DotOperand::new(1, warps.clone(), 2));
    let tile = Blocked::new([1, 1], [32, 1], [4, 1], [0, 1]);
    let (of_a, of_b) = (
        zeros::<E8m0>([64, 1], tile.clone()),
        zeros::<E8m0>([1, 8], tile),
    );
    let sum = mma_v2_scaled(a, of_a, b, of_b, zeros::<f32>([64, 8], warps));
    out.store(sum.sum(..).scalar());
}

#[test]
fn a_k_no_multiple_of_the_scale_groups_is_refused() {
    check(
        "k_no_multiple_of_the_scale_groups",
        k_no_multiple_of_the_scale_groups.trace(),
    );
}

//! Constants, element types and sizes that do not fit.

use tilekit::prelude::*;

use crate::check;

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

#[kernel]
fn constant_out_of_range(x: Ptr<i8>) {
    let at = arange(0..128, line());
    let value = x.at(at).load() + 300;
    x.at(at).store(value);
}

#[test]
fn a_constant_does_not_fit_its_element() {
    check("constant_out_of_range", constant_out_of_range.trace());
}

#[kernel(instances(<f32>))]
fn bitcast_to_another_width<T: Element>(x: Ptr<T>) {
    let at = arange(0..128, line());
    let bits = x.at(at).load().bitcast::<i16>();
    device_print("bits", bits);
}

#[test]
fn a_generic_element_has_another_width() {
    check(
        "bitcast_to_another_width",
        bitcast_to_another_width::<f32>.trace(),
    );
}

#[kernel]
fn block_of<const BLOCK: usize>(x: Ptr<f32>) {
    static_assert!(BLOCK % 128 == 0, "a block of {BLOCK} leaves lanes idle");
    x.at(arange(0..BLOCK, Coalesced)).store(0.0);
}

#[test]
fn a_static_assert_does_not_hold() {
    check("static_assert", block_of::<64>.trace());
}

#[kernel(warps = 8)]
fn shared_overflow(x: Ptr<f32>) {
    let row_wise = Blocked::new([1, 256], [32, 1], [8, 1], [1, 0]);
    let column_wise = Blocked::new([256, 1], [1, 32], [1, 8], [0, 1]);
    let at = arange(0..256, Slice::new(1, row_wise.clone())).expand_dims(1) * 256
        + arange(0..256, Slice::new(0, row_wise)).expand_dims(0);
    let turned = x.at(at).load().convert_layout(column_wise.clone());
    let to = at.convert_layout(column_wise);
    x.at(to).store(turned);
}

#[test]
fn a_conversion_needs_more_shared_memory_than_there_is() {
    check("shared_overflow", shared_overflow.trace());
}

#[kernel]
fn hint_of_other_rank(x: Ptr<f32>) {
    let at = arange(0..128, line()).multiple_of([1, 4]);
    x.at(at).store(0.0);
}

#[test]
fn a_hint_has_more_numbers_than_the_tensor_dimensions() {
    check("hint_of_other_rank", hint_of_other_rank.trace());
}

#[kernel]
fn broken_inline_ptx(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let value = x.at(at).load();
    let wrong: Tensor<f32> = inline_ptx("ad.f32 $0, $1, $1;", value);
    x.at(at).store(wrong);
}

#[test]
fn inline_ptx_does_not_parse() {
    check("broken_inline_ptx", broken_inline_ptx.trace());
}

#[kernel]
fn ptx_of_odd_packs(x: Ptr<f16>) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let value = x.at(at).load();
    let sum: Tensor<f16> = inline_ptx_packed(2, "add.rn.f16x2 $0, $1, $1;", value);
    x.at(at).store(sum);
}

#[kernel]
fn ptx_packs_of_a_scalar(x: Ptr<f16>) {
    let sum: Scalar<f16> = inline_ptx_packed(2, "add.rn.f16 $0, $1, $1;", x.load());
    x.store(sum);
}

#[kernel]
fn pure_ptx_that_writes(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([128], Swizzled::new(1, 1, 1, [0]));
    let _: () = inline_ptx("st.shared.f32 [$0], $1;", (tile.written_by_ptx(), x.load()));
    x.at(arange(0..128, line())).store(tile.load(line()));
}

#[kernel]
fn ptx_that_writes_half_a_pack(x: Ptr<f32>) {
    let at = arange(0..256, Blocked::new([2], [32], [4], [0]));
    let twice: Tensor<f32> = inline_ptx_packed(2, "add.f32 $0, $2, $2;", x.at(at).load());
    x.at(at).store(twice);
}

#[test]
fn inline_ptx_of_packs_and_tiles() {
    check("ptx_of_odd_packs", ptx_of_odd_packs.trace());
    check("ptx_packs_of_a_scalar", ptx_packs_of_a_scalar.trace());
    check("pure_ptx_that_writes", pure_ptx_that_writes.trace());
    check(
        "ptx_that_writes_half_a_pack",
        ptx_that_writes_half_a_pack.trace(),
    );
}

#[kernel]
fn loading_combine(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let total = x.at(at).load().reduce(0, |a, b| a + b * x.load());
    x.store(total.scalar());
}

#[test]
fn a_combine_function_loads() {
    check("loading_combine", loading_combine.trace());
}

#[test]
fn an_operation_stands_outside_of_a_kernel() {
    let outside = std::panic::catch_unwind(|| program_id(0));
    assert!(outside.is_err(), "there is no kernel to add it to");
}

#[kernel]
fn store_to_readonly(#[readonly] x: Ptr<f32>, scale: f32) {
    let at = arange(0..128, Coalesced);
    x.at(at).store(x.at(at).load() * scale);
}

#[test]
fn a_store_to_readonly_is_refused() {
    check("store_to_readonly", store_to_readonly.trace());
}

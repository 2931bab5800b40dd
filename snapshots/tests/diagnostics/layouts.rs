//! Operands whose layouts differ, and layouts that stay unresolved.

use tilekit::prelude::*;

use crate::check;

fn rows() -> Blocked {
    Blocked::new([1, 4], [4, 8], [4, 1], [1, 0])
}

fn columns() -> Blocked {
    Blocked::new([4, 1], [8, 4], [1, 4], [0, 1])
}

#[kernel]
fn mixed_layouts(out: Ptr<f32>) {
    let a = full::<f32>([16, 32], 1.0, rows());
    let b = full::<f32>([16, 32], 2.0, columns());
    let sum = a + b;
    let at = arange(0..16, Slice::new(1, rows())).expand_dims(1) * 32
        + arange(0..32, Slice::new(0, rows())).expand_dims(0);
    out.at(at).store(sum);
}

#[test]
fn two_layouts_in_one_operation() {
    check("mixed_layouts", mixed_layouts.trace());
}

#[kernel]
fn mixed_layouts_in_store(out: Ptr<f32>) {
    let at = arange(0..128, Blocked::new([1], [32], [4], [0]));
    let value = full::<f32>([128], 1.0, Blocked::new([4], [32], [4], [0]));
    out.at(at).store(value);
}

#[test]
fn a_stored_value_has_another_layout_than_its_pointers() {
    check("mixed_layouts_in_store", mixed_layouts_in_store.trace());
}

#[kernel]
fn wrong_slice(x: Ptr<f32>) {
    let row = arange(0..16, Slice::new(0, rows()));
    let at = row.expand_dims(1) * 32;
    x.at(at).store(0.0);
}

#[test]
fn a_slice_comes_back_at_another_axis() {
    check("wrong_slice", wrong_slice.trace());
}

#[kernel]
fn expanded_without_slice(x: Ptr<f32>) {
    let row = arange(0..128, Blocked::new([1], [32], [4], [0]));
    x.at(row.expand_dims(1)).store(0.0);
}

#[test]
fn a_plain_layout_has_no_dimension_to_give_back() {
    check("expanded_without_slice", expanded_without_slice.trace());
}

#[kernel]
fn auto_never_resolved(x: Ptr<f32>) {
    let at = arange(0..128, Auto);
    let twice = at * 2;
    x.at(twice).store(0.0);
}

/// Any layout will do for what is only reduced, and a loop that unrolls makes the mistake several times.
#[kernel]
fn auto_in_an_unrolled_loop(x: Ptr<f32>) {
    let mut sum = scalar(0.0);
    for part in 0..4 {
        let tile = Smem::<f32>::alloc([64, 32], Swizzled::plain([1, 0]));
        tile.store(full::<f32>(
            [64, 32],
            1.0,
            Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]),
        ));
        sum += tile.load(Auto).sum(..).scalar() * part as f32;
    }
    x.store(sum);
}

#[test]
fn a_mistake_in_an_unrolled_loop_is_one_mistake() {
    check("auto_in_an_unrolled_loop", auto_in_an_unrolled_loop.trace());
}

#[test]
fn an_auto_layout_without_a_source_is_refused() {
    check("auto_never_resolved", auto_never_resolved.trace());
}

#[kernel]
fn auto_conflict(x: Ptr<f32>, y: Ptr<f32>) {
    let narrow = Blocked::new([1], [32], [4], [0]);
    let wide = Blocked::new([4], [32], [4], [0]);
    let value = x.at(arange(0..128, Auto)).load();
    x.at(arange(0..128, narrow)).store(value + 1.0);
    y.at(arange(0..128, wide)).store(value);
}

#[test]
fn two_layouts_reach_one_auto_value() {
    check("auto_conflict", auto_conflict.trace());
}

#[kernel]
fn coalesced_conflict(x: Ptr<u8>, y: Ptr<f64>) {
    let at = arange(0..4096, Coalesced);
    let bytes = x.at(at).load();
    y.at(at).store(bytes.cast::<f64>());
}

#[test]
fn two_accesses_that_share_an_index_want_two_layouts() {
    check("coalesced_conflict", coalesced_conflict.trace());
}

#[kernel]
fn layout_of_other_warps(x: Ptr<f32>) {
    let at = arange(0..256, Blocked::new([1], [32], [8], [0]));
    x.at(at).store(0.0);
}

#[test]
fn a_layout_is_for_another_number_of_warps() {
    check("layout_of_other_warps", layout_of_other_warps.trace());
}

#[kernel(deny(conversions))]
fn denied_conversion(x: Ptr<f32>) {
    let at = arange(0..512, Blocked::new([1], [32], [4], [0]));
    let value = x.at(at).load();
    let moved = value.convert_layout(Blocked::new([4], [32], [4], [0]));
    let other = arange(0..512, moved.layout());
    x.at(other).store(moved);
}

#[test]
fn a_conversion_is_denied() {
    check("denied_conversion", denied_conversion.trace());
}

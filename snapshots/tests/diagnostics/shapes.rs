//! Shapes, ranks and axes that do not fit.

use tilekit::prelude::*;

use crate::check;

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

fn grid_layout() -> Blocked {
    Blocked::new([1, 4], [4, 8], [4, 1], [1, 0])
}

#[kernel]
fn shape_mismatch(x: Ptr<f32>) {
    let a = x.at(arange(0..128, line())).load();
    let b = x.at(arange(0..256, line())).load();
    x.at(arange(0..128, line())).store(a + b);
}

#[test]
fn two_lengths_in_one_operation() {
    check("shape_mismatch", shape_mismatch.trace());
}

#[kernel]
fn rank_mismatch(x: Ptr<f32>) {
    let matrix = zeros::<f32>([16, 32], grid_layout());
    let bias = x.at(arange(0..32, Slice::new(0, grid_layout()))).load();
    let sum = matrix + bias;
    let at = arange(0..16, Slice::new(1, grid_layout())).expand_dims(1) * 32
        + arange(0..32, Slice::new(0, grid_layout())).expand_dims(0);
    x.at(at).store(sum);
}

#[test]
fn a_vector_and_a_matrix_in_one_operation() {
    check("rank_mismatch", rank_mismatch.trace());
}

#[kernel]
fn not_power_of_two(x: Ptr<f32>, n: i32) {
    let at = arange(0..100, Coalesced);
    x.at(at).mask(at < n).store(0.0);
}

#[test]
fn a_length_is_no_power_of_two() {
    check("not_power_of_two", not_power_of_two.trace());
}

#[kernel]
fn missing_axis(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let value = x.at(at).load();
    let total = value.sum(1);
    x.at(at).store(total);
}

#[test]
fn a_reduction_names_an_axis_that_is_not_there() {
    check("missing_axis", missing_axis.trace());
}

#[kernel]
fn reshape_loses_elements(x: Ptr<f32>) {
    let value = x.at(arange(0..128, line())).load();
    let folded = value.reshape([4, 16]);
    device_print("folded", folded);
}

#[test]
fn a_reshape_changes_the_number_of_elements() {
    check("reshape_loses_elements", reshape_loses_elements.trace());
}

#[kernel]
fn permute_repeats_an_axis(x: Ptr<f32>) {
    let matrix = zeros::<f32>([16, 32], grid_layout());
    let turned = matrix.permute([0, 0]);
    device_print("turned", turned);
    x.store(0.0);
}

#[test]
fn a_permutation_names_an_axis_twice() {
    check("permute_repeats_an_axis", permute_repeats_an_axis.trace());
}

#[kernel]
fn too_large(x: Ptr<f32>) {
    let at = arange(0..1 << 24, Coalesced);
    x.at(at).store(0.0);
}

#[test]
fn a_tensor_has_more_elements_than_the_language_allows() {
    check("too_large", too_large.trace());
}

#[device]
fn scaled(x: Tensor<f32>, by: Tensor<f32>) -> Tensor<f32> {
    x * by
}

#[kernel]
fn inside_a_device_function(x: Ptr<f32>) {
    let a = x.at(arange(0..128, line())).load();
    let b = x.at(arange(0..64, line())).load();
    x.at(arange(0..128, line())).store(scaled(a, b));
}

#[test]
fn a_mistake_in_a_device_function_names_its_call() {
    check("inside_a_device_function", inside_a_device_function.trace());
}

#[kernel]
fn store_of_another_shape(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let folded = x.at(at).load().reshape([64, 2]).max(1);
    x.at(at).store(folded);
}

#[test]
fn a_stored_tensor_has_another_length_than_its_pointers() {
    check("store_of_another_shape", store_of_another_shape.trace());
}

fn lanes_along_columns() -> Blocked {
    Blocked::new([1, 1], [1, 32], [4, 1], [1, 0])
}

#[kernel]
fn slice_across_lanes(out: Ptr<f32>) {
    let tile = zeros::<f32>([16, 64], lanes_along_columns());
    out.store(tile.slice(1, 16..32).sum(0).sum(0).scalar());
}

#[test]
fn a_slice_crosses_lanes() {
    check("slice_across_lanes", slice_across_lanes.trace());
}

#[kernel]
fn slice_past_the_end(out: Ptr<f32>) {
    let tile = zeros::<f32>([16, 64], lanes_along_columns());
    out.store(tile.slice(1, 32..96).sum(0).sum(0).scalar());
}

#[test]
fn a_slice_leaves_the_tensor() {
    check("slice_past_the_end", slice_past_the_end.trace());
}

#[kernel]
fn slice_of_nothing(out: Ptr<f32>) {
    let tile = zeros::<f32>([16, 64], lanes_along_columns());
    out.store(tile.slice(2, 0..0).sum(0).sum(0).scalar());
}

#[test]
fn a_slice_is_empty() {
    check("slice_of_nothing", slice_of_nothing.trace());
}

#[kernel]
fn chunks_that_do_not_divide(out: Ptr<f32>) {
    let tile = zeros::<f32>([16, 64], lanes_along_columns());
    let [a, b, c] = tile.chunks::<3>(1);
    out.store((a + b + c).sum(0).sum(0).scalar());
}

#[test]
fn pieces_are_not_equal() {
    check(
        "chunks_that_do_not_divide",
        chunks_that_do_not_divide.trace(),
    );
}

#[kernel]
fn cat_of_two_widths(out: Ptr<f32>) {
    let a = zeros::<f32>([16, 64], lanes_along_columns());
    let b = zeros::<f32>([32, 64], lanes_along_columns());
    out.store(a.cat(b, 1).sum(0).sum(0).scalar());
}

#[test]
fn tensors_of_two_heights_are_put_side_by_side() {
    check("cat_of_two_widths", cat_of_two_widths.trace());
}

#[kernel]
fn cat_of_two_layouts(out: Ptr<f32>) {
    let a = zeros::<f32>([16, 64], lanes_along_columns());
    let b = zeros::<f32>([16, 64], Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]));
    out.store(cat([a, b], 1).sum(0).sum(0).scalar());
}

#[test]
fn tensors_of_two_layouts_are_put_side_by_side() {
    check("cat_of_two_layouts", cat_of_two_layouts.trace());
}

#[kernel]
fn one_axis_twice(out: Ptr<f32>) {
    let tile = zeros::<f32>([16, 64], lanes_along_columns());
    out.store(tile.sum((1, 1)).sum(0).scalar());
}

#[test]
fn a_reduction_names_an_axis_twice() {
    check("one_axis_twice", one_axis_twice.trace());
}

#[kernel]
fn third_axis_of_two(out: Ptr<f32>) {
    let tile = zeros::<f32>([16, 64], lanes_along_columns());
    out.store(tile.max((0, 2)).scalar());
}

#[test]
fn one_of_several_axes_is_not_there() {
    check("third_axis_of_two", third_axis_of_two.trace());
}

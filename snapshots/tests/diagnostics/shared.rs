//! Shared memory that cannot be, or cannot be used so.

use tilekit::prelude::*;

use crate::check;

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

fn matrix() -> Blocked {
    Blocked::new([1, 8], [4, 8], [4, 1], [1, 0])
}

#[kernel]
fn shared_rank(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([4, 64, 64], Swizzled::plain([0]));
    x.store(tile.index(0).index(0).load(line()).sum(0).scalar());
}

#[test]
fn a_layout_covers_too_few_dimensions() {
    check("shared_rank", shared_rank.trace());
}

#[kernel]
fn shared_size(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([100], Padded::new([[32, 1]], [0]));
    x.store(tile.load(line()).sum(0).scalar());
}

#[test]
fn a_dimension_of_a_tile_is_no_power_of_two() {
    check("shared_size", shared_size.trace());
}

#[kernel]
fn shared_swizzle(x: Ptr<bf16>) {
    let tile = Smem::<bf16>::alloc([64, 32], Nvmma::new(128, 16));
    tile.store(zeros([64, 32], matrix()));
    x.store(tile.load(matrix()).max(0).max(0).scalar());
}

#[test]
fn rows_are_shorter_than_the_swizzle() {
    check("shared_swizzle", shared_swizzle.trace());
}

#[kernel]
fn shared_store_shape(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([256], Swizzled::plain([0]));
    let v = x.at(arange(0..128, line())).load();
    tile.store(v);
}

#[test]
fn a_store_of_another_shape_is_refused() {
    check("shared_store_shape", shared_store_shape.trace());
}

#[kernel]
fn shared_index(x: Ptr<f32>) {
    let stages = Smem::<f32>::alloc([3, 128], Swizzled::plain([0]));
    stages.index(3).store(x.at(arange(0..128, line())).load());
}

#[test]
fn an_index_is_past_the_buffers() {
    check("shared_index", shared_index.trace());
}

#[kernel]
fn shared_index_vector(x: Ptr<f32>, i: i32) {
    let tile = Smem::<f32>::alloc([128], Swizzled::plain([0]));
    let one = tile.index(i);
    one.store(x.at(arange(0..128, line())).load());
}

#[test]
fn a_vector_is_indexed() {
    check("shared_index_vector", shared_index_vector.trace());
}

#[kernel]
fn shared_slice_end(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([128], Swizzled::plain([0]));
    x.store(tile.slice(0, 64..192).load(line()).sum(0).scalar());
}

#[test]
fn a_slice_ends_past_the_tile() {
    check("shared_slice_end", shared_slice_end.trace());
}

#[kernel]
fn shared_slice_start(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([128], Swizzled::plain([0]));
    x.store(tile.slice(0, 32..96).load(line()).sum(0).scalar());
}

#[test]
fn a_slice_begins_between_multiples_of_its_length() {
    check("shared_slice_start", shared_slice_start.trace());
}

#[kernel]
fn shared_slice_axis(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([128], Swizzled::plain([0]));
    x.store(tile.slice(1, 0..64).load(line()).sum(0).scalar());
}

#[test]
fn a_slice_of_a_dimension_that_is_not_there() {
    check("shared_slice_axis", shared_slice_axis.trace());
}

#[kernel]
fn shared_reshape(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([128], Swizzled::plain([0]));
    let wide = tile.reshape([16, 16]);
    x.store(wide.load(matrix()).sum(0).sum(0).scalar());
}

#[test]
fn a_reshape_changes_the_number_of_elements() {
    check("shared_reshape", shared_reshape.trace());
}

#[kernel]
fn shared_reinterpret_size(x: Ptr<f32>) {
    let bytes = Smem::<u8>::alloc([1024], Swizzled::plain([0]));
    let tile = bytes.reinterpret::<f32>([512], Swizzled::plain([0]));
    x.store(tile.load(line()).sum(0).scalar());
}

#[test]
fn a_reinterpretation_of_more_bytes_is_refused() {
    check("shared_reinterpret_size", shared_reinterpret_size.trace());
}

#[kernel]
fn shared_reinterpret_part(x: Ptr<f32>) {
    let bytes = Smem::<u8>::alloc([1024], Swizzled::plain([0]));
    let half = bytes.slice(0, 0..512);
    let tile = half.reinterpret::<f32>([128], Swizzled::plain([0]));
    x.store(tile.load(line()).sum(0).scalar());
}

#[test]
fn a_reinterpretation_of_a_part_is_refused() {
    check("shared_reinterpret_part", shared_reinterpret_part.trace());
}

#[kernel]
fn shared_reinterpret_alignment(x: Ptr<bf16>) {
    let stages = Smem::<u8>::alloc([2, 8192], Swizzled::plain([0]));
    let tile = stages
        .index(1)
        .reinterpret::<bf16>([64, 64], Nvmma::new(128, 16));
    x.store(tile.load(matrix()).max(0).max(0).scalar());
}

#[test]
fn a_reinterpretation_with_more_alignment_is_refused() {
    check(
        "shared_reinterpret_alignment",
        shared_reinterpret_alignment.trace(),
    );
}

#[kernel]
fn shared_gather_rank(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64, 64], Swizzled::plain([1, 0]));
    let at = arange(0..64, line());
    x.at(at).store(tile.gather(at, 0));
}

#[test]
fn indices_have_another_rank_than_the_tile() {
    check("shared_gather_rank", shared_gather_rank.trace());
}

#[kernel]
fn shared_atomic_element(x: Ptr<i16>) {
    let tile = Smem::<i16>::alloc([128], Swizzled::plain([0]));
    let at = arange(0..128, line());
    tile.at_indices(at, 0).atomic_add(1);
    x.at(at).store(tile.load(line()));
}

#[test]
fn a_shared_atomic_on_i16_is_refused() {
    check("shared_atomic_element", shared_atomic_element.trace());
}

#[kernel]
fn shared_tiles_overflow(x: Ptr<f32>) {
    let a = Smem::<f32>::alloc([5, 64, 128], Swizzled::plain([1, 0]));
    let b = Smem::<f32>::alloc([4, 64, 64], Nvmma::new(128, 32));
    let v = zeros([64, 128], matrix());
    let w = zeros([64, 64], matrix());
    for stage in 0..4 {
        a.index(stage).store(v);
        b.index(stage).store(w);
    }
    let both = a.index(0).load(matrix()).sum(1).sum(0) + b.index(0).load(matrix()).sum(1).sum(0);
    x.store(both.scalar());
    Smem::<f32>::alloc([64, 128], Swizzled::plain([1, 0])).store(v);
    a.keep_alive();
    b.keep_alive();
}

#[test]
fn tiles_take_more_than_a_cta_has() {
    check("shared_tiles_overflow", shared_tiles_overflow.trace());
}

#[kernel(cluster = 2)]
fn shared_ctas(x: Ptr<f32>) {
    let split = matrix().with_ctas([[1, 0]]);
    let tile = Smem::<f32>::alloc([128, 64], Swizzled::plain([1, 0]).with_ctas([[0, 1]]));
    tile.store(zeros([128, 64], split));
    x.store(0.0);
}

#[test]
fn a_tensor_and_a_tile_split_differently_are_refused() {
    check("shared_ctas", shared_ctas.trace());
}

#[kernel(cluster = 2)]
fn split_tiles() {
    let line = Blocked::new([1], [32], [4], [0]).with_ctas([[1]]);
    let tile = Smem::<i32>::alloc([256], Swizzled::plain([0]).with_ctas([[1]]));
    tile.store(zeros([256], line.clone()));
    let own = tile
        .slice(0, 0..128)
        .load(Blocked::new([1], [32], [4], [0]).with_ctas([[0]]));
    tile.scatter(tile.gather(arange(0..256, line.clone()), 0), own, 0);
    let rows = Smem::<i32>::alloc([2, 128], Swizzled::plain([1, 0]).with_ctas([[1, 0]]));
    rows.index(1).keep_alive();
    let copies = Smem::<i32>::alloc([256], Swizzled::plain([0]));
    copies.at_indices(arange(0..256, line), 0).atomic_add(1);
}

#[test]
fn views_and_indices_of_tiles_that_ctas_split() {
    check("split_tiles", split_tiles.trace());
}

#[kernel]
fn empty_slice() {
    let ring = Smem::<f32>::alloc([4, 64], Swizzled::plain([0]));
    ring.slice(0, 2..2).keep_alive();
}

#[test]
fn a_slice_has_no_element() {
    check("empty_slice", empty_slice.trace());
}

#[kernel]
fn tile_without_elements(x: Ptr<f32>) {
    x.store(
        Smem::<f32>::alloc([0], Swizzled::plain([0]))
            .load(line())
            .sum(0)
            .scalar(),
    );
}

#[test]
fn a_tile_has_no_element() {
    check("tile_without_elements", tile_without_elements.trace());
}

#[kernel]
fn shared_slice_only_start(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([112], Swizzled::plain([0]));
    x.store(tile.slice(0, 32..96).load(line()).sum(0).scalar());
}

#[test]
fn a_slice_has_no_room_at_the_next_multiple() {
    check("shared_slice_only_start", shared_slice_only_start.trace());
}

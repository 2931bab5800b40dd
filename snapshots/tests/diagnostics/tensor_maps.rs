//! Tensor maps that a kernel makes, made wrongly.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn map_off_the_units(x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor((64, 60), (60,))).map([64, 64], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_map_of_rows_that_begin_between_multiples_of_16_bytes() {
    check("map_off_the_units", map_off_the_units.trace());
}

#[kernel]
fn map_of_other_rank(x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor([64, 64, 64], [64])).map([64, 64], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_map_has_blocks_of_another_rank() {
    check("map_of_other_rank", map_of_other_rank.trace());
}

#[kernel]
fn map_with_narrow_blocks(x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor([64, 64], [64])).map([64, 32], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_map_of_the_kernel_has_blocks_that_no_copy_moves() {
    check("map_with_narrow_blocks", map_with_narrow_blocks.trace());
}

#[kernel]
fn map_over_what_is_read_only(#[readonly] x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor([64, 64], [64])).map([64, 64], Nvmma::B128, places);
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.load((0, 0), tile, full);
    full.wait(0);
    a.store((0, 0), tile);
}

#[test]
fn a_map_of_what_is_only_read_is_stored_through() {
    check(
        "map_over_what_is_read_only",
        map_over_what_is_read_only.trace(),
    );
}

#[kernel]
fn integers_that_are_no_number(x: Ptr<i32>, places: Ptr<u64>) {
    let x = (x.tensor([64, 64], [64])).filled_with_nan();
    x.map([64, 32], Nvmma::B128, places).prefetch((0, 0));
}

#[test]
fn a_map_fills_integers_with_nan() {
    check(
        "integers_that_are_no_number",
        integers_that_are_no_number.trace(),
    );
}

#[kernel]
fn map_kept_where_all_is_read(x: Ptr<f16>, #[readonly] places: Ptr<u64>) {
    let a = (x.tensor([64, 64], [64])).map([64, 64], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_map_is_kept_where_all_is_only_read() {
    check(
        "map_kept_where_all_is_read",
        map_kept_where_all_is_read.trace(),
    );
}

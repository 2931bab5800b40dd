//! Tensor maps that a kernel makes, made wrongly.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn tensor_map_of_misaligned_rows(x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor((64, 60), (60,))).map([64, 64], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_map_of_rows_that_begin_between_multiples_of_16_bytes() {
    check(
        "tensor_map_of_misaligned_rows",
        tensor_map_of_misaligned_rows.trace(),
    );
}

#[kernel]
fn tensor_map_of_another_rank(x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor([64, 64, 64], [64])).map([64, 64], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_map_has_blocks_of_another_rank() {
    check(
        "tensor_map_of_another_rank",
        tensor_map_of_another_rank.trace(),
    );
}

#[kernel]
fn tensor_map_of_narrow_blocks(x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor([64, 64], [64])).map([64, 32], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_map_of_the_kernel_has_blocks_that_no_copy_moves() {
    check(
        "tensor_map_of_narrow_blocks",
        tensor_map_of_narrow_blocks.trace(),
    );
}

#[kernel]
fn tma_store_to_readonly(#[readonly] x: Ptr<f16>, places: Ptr<u64>) {
    let a = (x.tensor([64, 64], [64])).map([64, 64], Nvmma::B128, places);
    let tile = Smem::<f16>::alloc([64, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.load((0, 0), tile, full);
    full.wait(0);
    a.store((0, 0), tile);
}

#[test]
fn a_tma_store_to_readonly_is_refused() {
    check("tma_store_to_readonly", tma_store_to_readonly.trace());
}

#[kernel]
fn nan_fill_of_integers(x: Ptr<i32>, places: Ptr<u64>) {
    let x = (x.tensor([64, 64], [64])).filled_with_nan();
    x.map([64, 32], Nvmma::B128, places).prefetch((0, 0));
}

#[test]
fn a_map_fills_integers_with_nan() {
    check("nan_fill_of_integers", nan_fill_of_integers.trace());
}

#[kernel]
fn tensor_map_in_readonly_memory(x: Ptr<f16>, #[readonly] places: Ptr<u64>) {
    let a = (x.tensor([64, 64], [64])).map([64, 64], Nvmma::B128, places);
    a.prefetch((0, 0));
}

#[test]
fn a_tensor_map_in_readonly_memory_is_refused() {
    check(
        "tensor_map_in_readonly_memory",
        tensor_map_in_readonly_memory.trace(),
    );
}

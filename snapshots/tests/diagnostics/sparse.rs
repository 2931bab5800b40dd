//! Sparse products whose operands and metadata do not go together.

use tilekit::prelude::*;

use crate::check;

fn sums() -> Wgmma {
    Wgmma::new([4, 1], [64, 64, 16])
}

/// Kept elements `[64, KEPT]` and operand B of a K of `K`, which is the second dimension of its tile.
fn factors<const KEPT: usize, const K: usize>() -> (Smem<bf16>, Smem<bf16>) {
    let layout = |k: usize| match k {
        ..16 => SharedLayout::from(Swizzled::plain([1, 0])),
        _ => Nvmma::new([32, 64, 128][k / 32], 16).into(),
    };
    (
        Smem::alloc([64, KEPT], layout(KEPT)),
        Smem::alloc([64, K], layout(K)),
    )
}

/// Metadata that names the first two elements of each group.
fn metadata(columns: usize, layout: impl Into<Layout>) -> Tensor<u16> {
    full::<u16>([64, columns], 0x4444, layout)
}

fn product(a: Smem<bf16>, metadata: Tensor<u16>, b: Smem<bf16>) {
    let acc = Accumulator::<f32>::zeros([64, 64], sums());
    let sum = acc.mma_sparse(a, metadata, b.transpose()).wait_all();
    device_print("sum", sum);
}

#[kernel]
fn metadata_in_blocked_layout() {
    let (a, b) = factors::<32, 64>();
    let rows = Blocked::new([1, 1], [8, 4], [4, 1], [1, 0]);
    product(a, metadata(4, rows), b);
}

#[test]
fn metadata_has_a_layout_of_its_own() {
    check(
        "metadata_in_blocked_layout",
        metadata_in_blocked_layout.trace(),
    );
}

#[kernel]
fn metadata_of_half_of_k() {
    let (a, b) = factors::<32, 64>();
    product(
        a,
        metadata(2, sparse_metadata::<bf16>(&sums(), [64, 32])),
        b,
    );
}

#[test]
fn metadata_is_of_all_of_k() {
    check("metadata_of_half_of_k", metadata_of_half_of_k.trace());
}

#[kernel]
fn metadata_of_another_element_width() {
    let (a, b) = factors::<32, 64>();
    product(a, metadata(4, sparse_metadata::<i8>(&sums(), [64, 64])), b);
}

#[test]
fn metadata_of_another_element_width_is_refused() {
    check(
        "metadata_of_another_element_width",
        metadata_of_another_element_width.trace(),
    );
}

#[kernel]
fn sparse_operand_with_all_elements() {
    let (a, b) = factors::<64, 64>();
    product(
        a,
        metadata(4, sparse_metadata::<bf16>(&sums(), [64, 64])),
        b,
    );
}

#[test]
fn a_sparse_operand_with_all_elements_is_refused() {
    check(
        "sparse_operand_with_all_elements",
        sparse_operand_with_all_elements.trace(),
    );
}

#[kernel]
fn sparse_wgmma_of_too_small_k() {
    let (a, b) = factors::<8, 16>();
    product(
        a,
        metadata(1, sparse_metadata::<bf16>(&sums(), [64, 16])),
        b,
    );
}

#[test]
fn a_sparse_instruction_is_twice_as_deep() {
    check(
        "sparse_wgmma_of_too_small_k",
        sparse_wgmma_of_too_small_k.trace(),
    );
}

#[kernel]
fn sparse_layout_of_dense_k() {
    let (a, b) = factors::<32, 64>();
    let sums = Wgmma::new([4, 1], [64, 64, 32]);
    let places = metadata(4, sparse_metadata::<bf16>(&sums, [64, 64]));
    let acc = Accumulator::<f32>::zeros([64, 64], sums);
    let sum = acc.mma_sparse(a, places, b.transpose()).wait_all();
    device_print("sum", sum);
}

#[test]
fn the_layout_counts_kept_elements() {
    check("sparse_layout_of_dense_k", sparse_layout_of_dense_k.trace());
}

#[kernel]
fn sparse_operand_of_narrow_rows() {
    let (a, _) = factors::<32, 64>();
    let b = Smem::<bf16>::alloc([64, 64], Nvmma::new(32, 16));
    product(
        a,
        metadata(4, sparse_metadata::<bf16>(&sums(), [64, 64])),
        b,
    );
}

#[test]
fn rows_are_as_wide_as_a_sparse_instruction() {
    check(
        "sparse_operand_of_narrow_rows",
        sparse_operand_of_narrow_rows.trace(),
    );
}

/// In the language rustc refuses metadata of another type.
#[test]
fn metadata_of_words_in_edited_ir() {
    let text = "#rows = Nvmma(64, 16)
#columns = Nvmma(128, 16, transposed=true)
#sums = Wgmma([4, 1], [64, 64, 16])
#places = Linear(register=[[8, 0]], lane=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp=[[16, 0], [32, 0]])
kernel @metadata_of_words(%n: i32) warps(4) {
  %a = smem_alloc : smem<64x32xbf16, #rows>
  %b = smem_alloc : smem<64x64xbf16, #columns>
  %zero = constant {value=0.0} : tensor<64x64xf32, #sums>
  %acc = accumulator %zero : in_flight<64x64xf32, #sums>
  %places = constant {value=17476} : tensor<64x4xu32, #places>
  %x = wgmma %a, %b, %acc, metadata=%places {promote_every=0} : in_flight<64x64xf32, #sums>
  %sum = wgmma_wait [%x] {pending=0} : tensor<64x64xf32, #sums>
  print [%sum] {prefix=\"sum\"}
  return
}
";
    let func = ir::text::parse("kernel.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    crate::check_func("metadata_of_words", Ok(func));
}

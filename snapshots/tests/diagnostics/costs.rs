//! Kernels that are right and cost more than their author allows.

use tilekit::prelude::*;

use crate::check;

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

#[kernel(deny(uncoalesced))]
fn strided(x: Ptr<f32>) {
    let at = arange(0..128, line());
    x.at(at * 16).store(0.0);
}

#[test]
fn a_denied_uncoalesced_access_is_reported() {
    check("denied_uncoalesced", strided.trace());
}

#[kernel(deny(bank_conflicts))]
fn by_columns(x: Ptr<f32>) {
    let rows = Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]);
    let columns = Blocked::new([1, 1], [32, 1], [1, 4], [0, 1]);
    let tile = Smem::alloc_with(
        full::<f32>([32, 32], 1.0, rows),
        Swizzled::new(1, 1, 1, [1, 0]),
    );
    let turned = tile.load(columns.clone());
    let at = arange(0..32, Slice::new(1, columns.clone())).expand_dims(1)
        + arange(0..32, Slice::new(0, columns)).expand_dims(0) * 32;
    x.at(at).store(turned);
}

#[test]
fn a_denied_bank_conflict_is_reported() {
    check("denied_bank_conflicts", by_columns.trace());
}

#[kernel]
fn not_trivial(x: Ptr<f32>) {
    let value = x.at(arange(0..512, line())).load();
    let wide = value.convert_layout_trivial(Blocked::new([4], [32], [4], [0]));
    x.at(arange(0..512, wide.layout())).store(wide);
}

#[test]
fn a_trivial_conversion_that_moves_data_is_refused() {
    check("not_trivial", not_trivial.trace());
}

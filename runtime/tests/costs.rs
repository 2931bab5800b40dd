//! What accesses cost, as a test of an author's asks for it.

use tilekit::layout::local::{Direction, bank_conflicts};
use tilekit::layout::{Blocked, Layout, SharedLayout, Swizzled};
use tilekit::prelude::*;
use tilekit::target::SM_90A;

/// Lanes read the 32 numbers of a warp from the last to the first.
#[kernel(warps = 1)]
fn reversed(x: Ptr<f32>, out: Ptr<f32>) {
    let i = arange(0..32, Coalesced);
    out.at(i).store(x.at(31 - i).load());
}

/// Elements `STEP` apart, which a step of 0 has all at one address.
#[kernel(warps = 1)]
fn strided<const STEP: i32>(x: Ptr<f32>, out: Ptr<f32>) {
    let i = arange(0..32, Coalesced);
    out.at(i).store(x.at(i * STEP).load());
}

/// Rows of halves at a stride that is known to be even.
#[kernel(warps = 4)]
fn even_rows(x: Ptr<f16>, #[multiple_of(2)] stride: i32) {
    let row = arange(0..32, Coalesced).expand_dims(1) * stride;
    let at = row + arange(0..64, Coalesced).expand_dims(0);
    x.at(at).store(full::<f16>([32, 64], 1.0, Coalesced));
}

fn load_cost<H>(kernel: impl Kernel<H>) -> (u32, u32, u32) {
    let found = kernel.coalescing().expect("the kernel is right");
    let load = found.iter().find(|access| access.op == "load");
    let load = load.expect("the kernel loads");
    (load.sectors, load.used_bytes, load.wasted_sectors())
}

#[test]
fn reversed_lanes_and_broadcasts_waste_no_sector_and_strides_do() {
    assert_eq!(load_cost(reversed), (4, 128, 0));
    assert_eq!(load_cost(strided::<0>), (1, 4, 0));
    assert_eq!(load_cost(strided::<1>), (4, 128, 0));
    assert_eq!(load_cost(strided::<2>), (8, 128, 4));
    assert_eq!(load_cost(strided::<{ -2 }>), (8, 128, 4));
    assert_eq!(load_cost(strided::<8>), (32, 128, 28));
}

#[test]
fn an_even_stride_limits_rows_of_halves_and_a_hint_would_widen_them() {
    let found = even_rows.coalescing().expect("the kernel is right");
    let advice =
        "4 bytes: `stride` is known to be divisible by 2; `#[multiple_of(8)]` would give 16";
    assert_eq!(
        (found[0].thread_bytes, &found[0].advice[..]),
        (4, &[advice.to_owned()][..])
    );
}

#[test]
fn bank_conflicts_of_two_layouts_are_counted() {
    let columns: Layout = Blocked::new([1, 1], [32, 1], [1, 4], [0, 1]).into();
    let conflicts = |phases: u32| {
        let shared: SharedLayout = Swizzled::new(1, 1, phases, [1, 0]).into();
        let cost = bank_conflicts(&SM_90A, &columns, &shared, &[32, 32], 4, Direction::Store);
        cost.expect("the layouts fit").conflicts
    };
    assert_eq!(conflicts(32), 0);
    assert_eq!(conflicts(1), 8 * 31);
}

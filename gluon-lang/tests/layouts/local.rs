//! Plans between registers and shared memory, against the definition: every element goes where its layout says.

use std::collections::HashMap;

use gluon_lang::layout::local::{Places, plan_local};
use gluon_lang::layout::{Axis, Layout, SharedLayout};

/// Follows the plan thread by thread and compares each place with that of the element's coordinates; gives the vector
/// width.
#[track_caller]
fn check(registers: &str, shared: &str, shape: &[u32], alloc: &[u32], elem_bits: u32) -> u32 {
    let registers: Layout = registers
        .parse()
        .expect("the layout is written as it is read");
    let shared: SharedLayout = shared.parse().expect("the layout is written as it is read");
    let map = registers.linear(shape).expect("the layout fits the shape");
    let plan = plan_local(&map, &shared, alloc, elem_bits).expect("the tile lies in the buffer");
    let places = Places::new(&shared, alloc).expect("the layout fits the buffer");
    let offsets = shared.linear(alloc).expect("the layout fits the buffer");
    let mut written = HashMap::new();
    for thread in 0..1_u32 << plan.thread.len() {
        let (lane, warp) = (thread & 31, thread >> 5);
        let base = plan
            .thread
            .iter()
            .enumerate()
            .filter(|&(b, _)| thread >> b & 1 == 1)
            .fold(0, |s, (_, e)| s ^ e);
        for access in &plan.accesses {
            assert_eq!(access.registers.len() as u32, plan.vector);
            assert_eq!(
                (base ^ access.offset) % plan.vector,
                0,
                "an access begins at a multiple of its width"
            );
            for (at, &register) in access.registers.iter().enumerate() {
                let coords = map.apply(&[
                    (Axis::Register, register),
                    (Axis::Lane, lane),
                    (Axis::Warp, warp),
                ]);
                let offset = (base ^ access.offset) + at as u32;
                assert_eq!(
                    offset,
                    places.offset(&coords),
                    "thread {thread}, register {register}, {coords}"
                );
                assert_eq!(offsets.apply(&[(Axis::Offset, offset)])[..], coords[..]);
                let owner = thread & plan.copied_threads == 0;
                if owner {
                    assert_eq!(
                        written.insert(coords.to_vec(), thread),
                        None,
                        "{coords} is held by one owner"
                    );
                }
            }
        }
    }
    assert_eq!(
        written.len() as u64,
        shape.iter().map(|&d| u64::from(d)).product::<u64>()
    );
    plan.vector
}

const ROWS: &str = "Blocked([1, 8], [4, 8], [4, 1], [1, 0])";
const COLUMNS: &str = "Blocked([8, 1], [8, 4], [1, 4], [0, 1])";

#[test]
fn takes_the_widest_access_that_both_sides_allow() {
    let shape = [64, 64];
    assert_eq!(
        check(ROWS, "Swizzled(1, 1, 1, [1, 0])", &shape, &shape, 16),
        8
    );
    assert_eq!(check(ROWS, "Nvmma(128, 16)", &shape, &shape, 16), 8);
    assert_eq!(
        check(ROWS, "Swizzled(1, 1, 1, [1, 0])", &shape, &shape, 32),
        4
    );
    assert_eq!(
        check(ROWS, "Swizzled(2, 1, 4, [1, 0])", &shape, &shape, 32),
        2
    );
    assert_eq!(check(COLUMNS, "Nvmma(128, 16)", &shape, &shape, 16), 1);
    assert_eq!(
        check(
            COLUMNS,
            "Nvmma(128, 16, transposed=true)",
            &shape,
            &shape,
            16
        ),
        8
    );
    assert_eq!(
        check(ROWS, "Padded([[4, 2]], [1, 0])", &shape, &shape, 16),
        2
    );
    assert_eq!(
        check(ROWS, "Padded([[64, 8]], [1, 0])", &shape, &shape, 16),
        8
    );
    assert_eq!(
        check(
            "Wgmma([4, 1], [64, 64, 16])",
            "Nvmma(128, 16)",
            &shape,
            &shape,
            16
        ),
        2
    );
}

#[test]
fn holds_for_slices_copies_and_every_width() {
    let layouts = [
        ROWS,
        COLUMNS,
        "Blocked([1, 1], [1, 32], [4, 1], [1, 0])",
        "Blocked([2, 2], [8, 4], [2, 2], [0, 1])",
        "Wgmma([4, 1], [64, 32, 16])",
        "Mma([2, 2], [16, 8])",
    ];
    let shared = [
        "Swizzled(1, 1, 1, [1, 0])",
        "Swizzled(4, 2, 4, [1, 0])",
        "Swizzled(8, 1, 8, [0, 1])",
        "Padded([[32, 4], [256, 8]], [0, 1])",
        "SharedLinear(offset=[[0, 1], [1, 0], [0, 2], [2, 0], [0, 4], [4, 4], [0, 8], [8, 0], [0, 16], [16, 1], [0, 32], [32, 0]])",
    ];
    for (r, s) in layouts
        .iter()
        .flat_map(|r| shared.iter().map(move |s| (r, s)))
    {
        for (shape, alloc) in [
            ([64, 64], [64, 64]),
            ([32, 16], [64, 64]),
            ([8, 64], [64, 64]),
            ([16, 1], [64, 64]),
        ] {
            for bits in [8, 16, 32, 64] {
                check(r, s, &shape, &alloc, bits);
            }
        }
    }
}

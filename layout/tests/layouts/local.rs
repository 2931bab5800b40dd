//! Plans between registers and shared memory, against the definition: every element goes where its layout says.

use std::collections::HashMap;

use layout::convert::AccessKind;
use layout::local::{Direction, LocalCost, LocalPlan, Places, Storage, plan_access, plan_local};
use layout::{Axis, Layout, SharedLayout};
use target::SM_90A;

/// Follows the plan thread by thread and compares each place with that of the element's coordinates; gives the vector
/// width.
#[track_caller]
fn check(registers: &str, shared: &str, shape: &[u32], alloc: &[u32], elem_bits: u32) -> u32 {
    let registers: Layout = registers
        .parse()
        .expect("the layout is written as it is read");
    let shared: SharedLayout = shared.parse().expect("the layout is written as it is read");
    let map = registers.linear(shape).expect("the layout fits the shape");
    let plan =
        plan_local(&SM_90A, &map, &shared, alloc, elem_bits).expect("the tile lies in the buffer");
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

/// The offset of the element that lane `lane` has at `at` of an access, by the definition of the instruction.
fn offset_of(plan: &LocalPlan, thread: u32, access: u32, at: u32, elem_bits: u32) -> u32 {
    let place = |thread: u32| {
        let set = plan.thread.iter().enumerate();
        set.filter(|&(b, _)| thread >> b & 1 == 1)
            .fold(access, |s, (_, e)| s ^ e)
    };
    let (lane, warp) = (thread & 31, thread & !31);
    let in_word = (32 / elem_bits).max(1);
    let (matrix, within) = (at / in_word, at % in_word);
    let row = |r: u32| {
        let offset = place(warp + 8 * matrix + r);
        assert_eq!(offset % (128 / elem_bits), 0, "a row is aligned");
        offset
    };
    match plan.kind {
        AccessKind::Vector => place(thread) + at,
        AccessKind::Matrix => row(lane / 4) + lane % 4 * in_word + within,
        AccessKind::Transposed => row(2 * (lane % 4) + within) + lane / 4,
    }
}

/// Follows the cheapest plan lane by lane, and gives its kind, its width and its cost.
#[track_caller]
fn check_access(
    registers: &str,
    shared: &str,
    shape: &[u32],
    alloc: &[u32],
    elem_bits: u32,
    direction: Direction,
) -> (AccessKind, u32, LocalCost) {
    let registers: Layout = registers.parse().expect("a layout as it is written");
    let shared: SharedLayout = shared.parse().expect("a layout as it is written");
    let map = registers.linear(shape).expect("the layout fits the shape");
    let plan =
        plan_access(&SM_90A, &map, &shared, alloc, elem_bits, direction).expect("the tile fits");
    let places = Places::new(&shared, alloc).expect("the layout fits the buffer");
    let mut held = vec![false; map.num_registers() as usize];
    for access in &plan.accesses {
        for (at, &register) in access.registers.iter().enumerate() {
            assert!(!std::mem::replace(&mut held[register as usize], true));
            for thread in 0..1_u32 << plan.thread.len() {
                let coords = map.apply(&[
                    (Axis::Register, register),
                    (Axis::Lane, thread & 31),
                    (Axis::Warp, thread >> 5),
                ]);
                assert_eq!(
                    offset_of(&plan, thread, access.offset, at as u32, elem_bits),
                    places.offset(&coords),
                    "{registers} {shared} {shape:?} of {alloc:?}: thread {thread}, register {register}"
                );
            }
        }
    }
    for (register, &original) in plan.originals.iter().enumerate() {
        assert!(held[original as usize]);
        let of = |r: u32| map.apply(&[(Axis::Register, r)]);
        assert_eq!(of(register as u32), of(original));
    }
    let storage = Storage::new(&shared, alloc, elem_bits / 8).expect("the layout fits the buffer");
    (plan.kind, plan.vector, plan.cost(&storage))
}

#[test]
fn matrices_are_taken_where_they_fit() {
    use Direction::{Load, Store};
    let plain = AccessKind::Matrix;
    let turned = AccessKind::Transposed;
    let accumulator = "Wgmma([4, 1], [64, 64, 16])";
    let check = |registers: &str, shared: &str, bits: u32, direction| {
        let (kind, vector, cost) =
            check_access(registers, shared, &[64, 64], &[64, 64], bits, direction);
        (kind, vector, cost.accesses, cost.conflicts)
    };
    // An accumulator of 16 bits goes by fours of matrices, without conflicts; 32 bits move as fast in pairs.
    for direction in [Load, Store] {
        assert_eq!(
            check(accumulator, "Nvmma(128, 16)", 16, direction),
            (plain, 8, 4, 0)
        );
        assert_eq!(
            check(
                accumulator,
                "Nvmma(128, 16, transposed=true)",
                16,
                direction
            ),
            (turned, 8, 4, 0)
        );
        assert_eq!(
            check(accumulator, "Padded([[64, 8]], [1, 0])", 16, direction),
            (plain, 8, 4, 0)
        );
        assert_eq!(
            check(ROWS, "Nvmma(128, 16)", 16, direction).0,
            AccessKind::Vector
        );
        // Padding that splits rows of 16 bytes leaves pairs.
        assert_eq!(
            check(accumulator, "Padded([[32, 2]], [1, 0])", 16, direction).0,
            AccessKind::Vector
        );
    }
    let operand =
        |parent: &str, index: u32, width: u32| format!("DotOperand({index}, {parent}, {width})");
    let a = operand("Mma([4, 1], [16, 8])", 0, 2);
    assert_eq!(check(&a, "Nvmma(128, 16)", 16, Load), (plain, 8, 4, 0));
    assert_eq!(
        check(&a, "Nvmma(128, 16, transposed=true)", 16, Load),
        (turned, 8, 4, 0)
    );
    let b = operand("Mma([4, 1], [16, 8])", 1, 2);
    assert_eq!(check(&b, "Nvmma(128, 16)", 16, Load), (turned, 8, 16, 0));
    let bytes = operand("Mma([4, 1], [16, 8])", 0, 4);
    assert_eq!(check(&bytes, "Nvmma(64, 8)", 8, Load), (plain, 16, 2, 0));
}

#[test]
fn every_access_moves_what_its_layouts_say() {
    let layouts = [
        ROWS,
        COLUMNS,
        "Blocked([1, 1], [1, 32], [4, 1], [1, 0])",
        "Blocked([1, 2], [8, 4], [2, 2], [1, 0])",
        "Blocked([2, 1], [4, 8], [2, 2], [0, 1])",
        "Blocked([1, 4], [8, 4], [1, 4], [1, 0])",
        "Wgmma([4, 1], [64, 32, 16])",
        "Mma([2, 2], [16, 8])",
        "DotOperand(0, Mma([2, 2], [16, 8]), 2)",
        "DotOperand(1, Mma([2, 2], [16, 8]), 2)",
        "DotOperand(0, Wgmma([4, 1], [64, 32, 16]), 4)",
    ];
    let shared = [
        "Swizzled(1, 1, 1, [1, 0])",
        "Swizzled(1, 1, 1, [0, 1])",
        "Swizzled(4, 2, 4, [1, 0])",
        "Swizzled(8, 1, 8, [0, 1])",
        "Padded([[32, 16], [256, 8]], [0, 1])",
        "Padded([[64, 8]], [1, 0])",
        "Nvmma(32, 16)",
        "Nvmma(128, 16, transposed=true)",
        "SharedLinear(offset=[[0, 1], [1, 0], [0, 2], [2, 0], [0, 4], [4, 4], [0, 8], [8, 0], [0, 16], [16, 1], [0, 32], [32, 0]])",
    ];
    let mut matrices = 0;
    for (r, s) in layouts
        .iter()
        .flat_map(|r| shared.iter().map(move |s| (r, s)))
    {
        for (shape, alloc) in [
            ([64, 64], [64, 64]),
            ([32, 16], [64, 64]),
            ([16, 1], [64, 64]),
        ] {
            for bits in [8, 16, 32] {
                for direction in [Direction::Load, Direction::Store] {
                    let (kind, ..) = check_access(r, s, &shape, &alloc, bits, direction);
                    matrices += u32::from(kind != AccessKind::Vector);
                }
            }
        }
    }
    assert!(matrices > 100, "{matrices}");
}

#[test]
fn a_tile_can_be_turned_without_conflicts() {
    // Rows of 16 bytes a thread go in, columns of 16 bytes a thread come out.
    let halves = "SharedLinear(offset=[[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 0], [4, 0], [8, 16], [16, 32], [32, 0]])";
    let check = |registers: &str, shared: &str, bits: u32, direction| {
        let (kind, vector, cost) =
            check_access(registers, shared, &[64, 64], &[64, 64], bits, direction);
        (kind, vector, cost.accesses, cost.conflicts)
    };
    assert_eq!(
        check(
            "Blocked([1, 8], [4, 8], [4, 1], [1, 0])",
            halves,
            16,
            Direction::Store
        ),
        (AccessKind::Vector, 8, 4, 0)
    );
    assert_eq!(
        check(
            "Blocked([8, 1], [4, 8], [1, 4], [0, 1])",
            halves,
            16,
            Direction::Load
        ),
        (AccessKind::Transposed, 8, 4, 0)
    );
    let words = "Swizzled(4, 4, 8, [1, 0])";
    assert_eq!(
        check(
            "Blocked([1, 4], [2, 16], [4, 1], [1, 0])",
            words,
            32,
            Direction::Store
        ),
        (AccessKind::Vector, 4, 8, 0)
    );
    assert_eq!(
        check(
            "Blocked([4, 1], [8, 4], [1, 4], [0, 1])",
            words,
            32,
            Direction::Load
        ),
        (AccessKind::Vector, 1, 32, 0)
    );
}

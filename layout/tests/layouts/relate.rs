//! Layout relations against brute force: after the operation, every thread holds the same elements as before.

use layout::relate::{
    Part, expand_dims, inverse_order, join, part, permute, reduce, registers_in, registers_of_part,
    reshape, split, whole,
};
use layout::{Axis, Dims, Layout};

use crate::family::{layout, matrices, places, row_major};

#[test]
fn a_permuted_tensor_lies_in_the_same_registers() {
    for (source, shape) in matrices() {
        let result = permute(&source, &shape, &[1, 0]).unwrap();
        let result_shape = shape.permuted(&[1, 0]);
        let (before, after) = (
            source.linear(&shape).unwrap(),
            result.linear(&result_shape).unwrap(),
        );
        for place in places(&before) {
            assert_eq!(
                before.apply(&place).permuted(&[1, 0]),
                after.apply(&place),
                "{source} on {shape}: {result}"
            );
        }
        let back = permute(&result, &result_shape, &[1, 0]).unwrap();
        assert!(
            back.same_on(&source, &shape),
            "{source} came back as {back}"
        );
    }
}

#[test]
fn permutations_keep_names() {
    let check = |text: &str, shape: &[u32], order: &[u32], wanted: &str| {
        let result = permute(&layout(text), shape, order).unwrap();
        assert_eq!(result.to_string(), wanted);
        let result_shape = Dims::from(shape).permuted(order);
        let back = permute(&result, &result_shape, &inverse_order(order)).unwrap();
        assert_eq!(back.to_string(), text);
    };
    check(
        "Blocked([1, 2, 4], [8, 4, 1], [4, 1, 1], [2, 1, 0])",
        &[8, 8, 8],
        &[2, 0, 1],
        "Blocked([4, 1, 2], [1, 8, 4], [1, 4, 1], [0, 2, 1])",
    );
    check(
        "Slice(1, Blocked([1, 2, 4], [8, 4, 1], [4, 1, 1], [2, 1, 0]))",
        &[8, 8],
        &[1, 0],
        "Slice(1, Blocked([4, 2, 1], [1, 4, 8], [1, 1, 4], [0, 1, 2]))",
    );
    check(
        "Wgmma([4, 1], [64, 64, 16])",
        &[64, 64],
        &[0, 1],
        "Wgmma([4, 1], [64, 64, 16])",
    );
    check("Auto", &[64, 64], &[1, 0], "Auto");
}

#[test]
fn a_reshaped_tensor_lies_in_the_same_registers() {
    for (source, shape) in matrices() {
        let elements = u32::try_from(shape.product()).unwrap();
        for wanted in [
            vec![elements],
            vec![2, elements / 2],
            vec![elements / 16, 4, 4],
            vec![elements / 2, 1, 2],
        ] {
            let result = reshape(&source, &shape, &wanted).unwrap();
            let (before, after) = (
                source.linear(&shape).unwrap(),
                result.linear(&wanted).unwrap(),
            );
            for place in places(&before) {
                let number = row_major(&before.apply(&place), &shape);
                assert_eq!(
                    number,
                    row_major(&after.apply(&place), &wanted),
                    "{source} on {shape} to {wanted:?}"
                );
            }
            let back = reshape(&result, &wanted, &shape).unwrap();
            assert!(
                back.same_on(&source, &shape),
                "{source} came back as {back}"
            );
        }
    }
}

#[test]
fn reshapes_of_blocked_are_blocked_where_possible() {
    let check = |text: &str, from: &[u32], to: &[u32], wanted: &str| {
        assert_eq!(
            reshape(&layout(text), from, to).unwrap().to_string(),
            wanted
        );
    };
    check(
        "Blocked([4], [32], [4], [0])",
        &[512],
        &[32, 16],
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
    );
    check(
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
        &[32, 16],
        &[512],
        "Blocked([4], [32], [4], [0])",
    );
    check(
        "Blocked([1], [32], [4], [0])",
        &[128],
        &[8, 16],
        "Blocked([1, 1], [2, 16], [4, 1], [1, 0])",
    );
    check(
        "Blocked([2, 2], [8, 4], [4, 1], [1, 0])",
        &[64, 8],
        &[64, 2, 4],
        "Blocked([2, 1, 2], [8, 2, 2], [4, 1, 1], [2, 1, 0])",
    );
    check("Coalesced", &[64, 8], &[512], "Coalesced");
    assert!(reshape(&layout("Auto"), &[64], &[32]).is_err());
}

#[test]
fn join_and_split_are_each_others_inverse() {
    for (source, shape) in matrices() {
        let joined = join(&source, &shape).unwrap();
        let joined_shape = shape.with_inserted(2, 2);
        let (before, after) = (
            source.linear(&shape).unwrap(),
            joined.linear(&joined_shape).unwrap(),
        );
        for mut place in places(&after) {
            let coords = after.apply(&place);
            assert_eq!(
                coords[2],
                place[0].1 & 1,
                "the new dimension is the lowest register bit"
            );
            place[0].1 >>= 1;
            assert_eq!(coords.without(2), before.apply(&place));
        }
        let halves = split(&joined, &joined_shape).unwrap();
        assert!(
            halves.same_on(&source, &shape),
            "{source} split into {halves}"
        );
    }
    let blocked = layout("Blocked([1, 4], [8, 4], [4, 1], [1, 0])");
    let joined = join(&blocked, &[32, 16]).unwrap();
    assert_eq!(
        joined.to_string(),
        "Blocked([1, 4, 2], [8, 4, 1], [4, 1, 1], [2, 1, 0])"
    );
    assert_eq!(split(&joined, &[32, 16, 2]).unwrap(), blocked);
}

#[test]
fn splits_that_move_data_are_refused() {
    let across_lanes = layout("Blocked([1, 1], [16, 2], [4, 1], [1, 0])");
    let message = split(&across_lanes, &[64, 2]).unwrap_err().to_string();
    assert!(
        message.contains("a thread must hold both elements"),
        "{message}"
    );
    assert!(split(&across_lanes, &[64, 4]).is_err());
    assert!(join(&layout("Blocked([1], [32], [4], [0])"), &[]).is_err());
}

#[test]
fn expand_dims_undoes_a_reduction() {
    let parent = layout("Blocked([1, 4], [8, 4], [4, 1], [1, 0])");
    let slice = reduce(&parent, 1);
    assert_eq!(
        slice.to_string(),
        "Slice(1, Blocked([1, 4], [8, 4], [4, 1], [1, 0]))"
    );
    assert_eq!(expand_dims(&slice, 1).unwrap(), parent);
    assert_eq!(expand_dims(&Layout::Auto, 1).unwrap(), Layout::Auto);
    for (layout, dim, part) in [
        (
            &slice,
            0,
            "a slice of dimension 1, and Slice(0, ...) is needed",
        ),
        (&parent, 0, "it is no slice, and Slice(0, ...) is needed"),
    ] {
        let message = expand_dims(layout, dim).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    assert!(
        reduce(&slice, 0).check(&[]).is_err(),
        "a vector reduces to a scalar, which has no layout"
    );
    assert!(reduce(&parent, 2).check(&[16]).is_err());
}

/// The registers named for each register of the result hold the right element, in every thread.
fn check_registers(source: &Layout, source_shape: &[u32], result: &Layout, result_shape: &[u32]) {
    let from = source.linear(source_shape).unwrap();
    let whole = result.linear(result_shape).unwrap();
    let wanted = whole.clipped_to(source_shape);
    let registers = registers_in(&from, &wanted)
        .unwrap_or_else(|| panic!("{source} {source_shape:?} {result}"));
    for place in places(&whole) {
        let mut held = place;
        held[0].1 = registers[place[0].1 as usize];
        let mut coords = whole.apply(&place);
        for (coord, &size) in coords.iter_mut().zip(source_shape) {
            *coord %= size;
        }
        assert_eq!(from.apply(&held), coords);
    }
}

#[test]
fn broadcasts_and_expanded_slices_move_no_data() {
    for (parent, shape) in matrices() {
        for dim in 0..2 {
            let narrow = shape.with(dim, 1);
            check_registers(&parent, &narrow, &parent, &shape);
            let slice = reduce(&parent, dim);
            let source = slice.linear(&shape.without(dim)).unwrap();
            let expanded = parent.linear(&narrow).unwrap();
            let kept = [Axis::dim(1 - dim)];
            let renamed = expanded
                .with_outs_ordered(&kept)
                .with_outs_renamed(|_| Axis::dim(0));
            assert!(
                registers_in(&source, &renamed).is_some(),
                "{slice} on {shape}"
            );
        }
    }
}

#[test]
fn registers_of_other_threads_are_not_offered() {
    let shape = [64, 64];
    let rows = layout("Blocked([1, 1], [1, 32], [4, 1], [1, 0])")
        .linear(&shape)
        .unwrap();
    let columns = layout("Blocked([1, 1], [32, 1], [1, 4], [0, 1])")
        .linear(&shape)
        .unwrap();
    assert_eq!(registers_in(&rows, &columns), None);
}

/// Ranges of both dimensions of a matrix.
fn ranges(shape: &[u32]) -> Vec<Part> {
    let mut found = Vec::new();
    for (axis, &size) in shape.iter().enumerate() {
        for start in [0, 1, 2, 4, 8, 16, 32, 48] {
            for length in [1, 2, 3, 8, 16, 24, 32] {
                if start + length <= size {
                    found.push(Part {
                        axis,
                        start,
                        length,
                    });
                }
            }
        }
    }
    found
}

#[test]
fn a_part_lies_in_the_threads_of_the_whole() {
    let (mut kept, mut refused) = (0, 0);
    let cut = crate::family::CUT_SHAPES;
    let layouts = crate::family::MATRIX_LAYOUTS
        .iter()
        .map(|text| layout(text));
    let odd = layouts.flat_map(|l| {
        cut.iter()
            .map(move |shape| (l.clone(), Dims::from(&shape[..])))
    });
    for (turn, (source, shape)) in matrices().chain(odd).enumerate() {
        let Ok(all) = source.linear(&shape) else {
            continue;
        };
        // A share of the ranges for each, so that all come up often.
        for range in ranges(&shape).into_iter().skip(turn % 23).step_by(23) {
            let Ok(result) = part(&source, &shape, range) else {
                refused += 1;
                continue;
            };
            kept += 1;
            let part_shape = shape.with(range.axis, range.length);
            let own = result.linear(&part_shape).unwrap();
            let registers = registers_of_part(&all, &own, range.axis, range.start).unwrap();
            let (numbers, existing) = (own.registers(), all.registers());
            for place in places(&own) {
                let Ok(index) = numbers.binary_search(&place[0].1) else {
                    continue;
                };
                let mut there = place;
                there[0].1 = existing[registers[index] as usize];
                let mut wanted = own.apply(&place);
                wanted[range.axis] += range.start;
                assert_eq!(
                    all.apply(&there),
                    wanted,
                    "{range:?} of {source} on {shape}: {result}"
                );
            }
            if range.start == 0 {
                // Such a whole has the part where it is; which one it is, is open.
                let back = whole(&result, &part_shape, range, shape[range.axis]);
                let back = back.ok().and_then(|l| l.linear(&shape).ok());
                let there = back.and_then(|back| registers_of_part(&back, &own, range.axis, 0));
                assert!(
                    there.is_some(),
                    "{range:?} of {source} on {shape}: {result}"
                );
            }
        }
    }
    assert!(
        kept > 300 && refused > 300,
        "{kept} kept, {refused} refused"
    );
}

//! Warps that are no powers of two: what the warps that there are hold, and how they exchange it.

use std::collections::{BTreeMap, BTreeSet};

use layout::convert::{Conversion, Limits};
use layout::relate::{join, permute, reshape, split};
use layout::{Axis, Blocked, Dims, DistributedLinear, Layout, LinearLayout, spread};
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use target::SM_90A;

use crate::convert::{Held, check};
use crate::family::{layout, row_major};

/// Of 12 warps: every kind, with the sets along rows, along columns, and along what a layout loses.
const OF_12: &[&str] = &[
    "Blocked([1, 1], [1, 32], [12, 1], [1, 0])",
    "Blocked([1, 8], [4, 8], [12, 1], [1, 0])",
    "Blocked([2, 2], [4, 8], [6, 2], [1, 0])",
    "Blocked([8, 1], [8, 4], [4, 3], [0, 1])",
    "Blocked([1, 4], [8, 4], [2, 6], [0, 1])",
    "Blocked([1, 1], [32, 1], [1, 12], [0, 1])",
    "Mma([12, 1], [16, 8])",
    "Mma([2, 6], [16, 8])",
    "Wgmma([12, 1], [64, 64, 16])",
    "Wgmma([4, 3], [64, 32, 16])",
    "DotOperand(0, Wgmma([12, 1], [64, 64, 16]), 2)",
    "DotOperand(1, Mma([12, 1], [16, 8]), 2)",
    "DotOperand(0, Mma([4, 3], [16, 8]), 2)",
    "Slice(1, Blocked([1, 2, 2], [4, 2, 4], [6, 1, 2], [0, 2, 1]))",
    "Slice(0, Blocked([1, 1, 4], [2, 4, 4], [3, 2, 2], [2, 1, 0]))",
    "Linear(register=[[1, 0], [0, 8], [0, 16], [0, 32]], lane=[[0, 1], [0, 2], [0, 4], [2, 0], [4, 0]], \
     warp=[[8, 0], [16, 0], [32, 0], [64, 0]], warps=12)",
    "Linear(register=[[0, 1], [0, 2], [0, 4]], lane=[[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], \
     warp=[[0, 0], [16, 0], [0, 0], [0, 0]], warps=12)",
];

const SHAPES: [[u32; 2]; 6] = [[192, 64], [64, 192], [192, 96], [64, 64], [24, 48], [3, 80]];

/// The elements that each of so many warps holds, with how often.
fn held(map: &LinearLayout, warps: u32) -> BTreeMap<u32, BTreeMap<Dims, u32>> {
    let threads = Held::by_warps(map.clone(), warps).registers;
    let mut all: BTreeMap<u32, BTreeMap<Dims, u32>> = BTreeMap::new();
    for (thread, registers) in (0..).zip(threads) {
        for packed in registers {
            let element = map.unpack_out(packed.into());
            let of_warp = all.entry(thread / 32).or_default();
            *of_warp.entry(element).or_default() += 1;
        }
    }
    all
}

#[test]
fn the_warps_that_there_are_hold_every_element_equally_often() {
    let others = [
        ("Blocked([1, 2], [8, 4], [6, 1], [1, 0])", 6),
        ("Blocked([1, 2], [8, 4], [1, 3], [1, 0])", 3),
        ("Blocked([1, 2], [8, 4], [5, 2], [1, 0])", 10),
        ("Blocked([1, 2], [8, 4], [4, 7], [1, 0])", 28),
        ("Wgmma([20, 1], [64, 24, 16])", 20),
        ("Wgmma([24, 1], [64, 32, 16])", 24),
    ];
    let of_12 = OF_12.iter().map(|text| (*text, 12));
    let shapes = SHAPES.into_iter().chain([[320, 40], [32, 112], [384, 32]]);
    for (text, warps) in of_12.chain(others) {
        let layout = layout(text);
        assert_eq!(layout.warps(), Some(warps));
        for shape in shapes.clone() {
            let map = layout.linear(&shape).unwrap();
            let mut counts: BTreeMap<Dims, u32> = BTreeMap::new();
            for (element, count) in held(&map, warps).into_values().flatten() {
                *counts.entry(element).or_default() += count;
            }
            let is_inside = |at: &Dims| at.iter().zip(shape).all(|(&at, size)| at < size);
            assert!(counts.keys().all(is_inside), "{text} on {shape:?}");
            assert_eq!(
                counts.len() as u32,
                shape[0] * shape[1],
                "{text} on {shape:?}"
            );
            let often: BTreeSet<u32> = counts.into_values().collect();
            assert_eq!(often.len(), 1, "{text} on {shape:?}: {often:?}");
        }
    }
}

/// The sets divide a dimension into equal parts, one behind the other.
#[test]
fn a_set_holds_a_part_of_the_rows() {
    for (text, rows) in [
        ("Blocked([1, 8], [4, 8], [12, 1], [1, 0])", 192),
        ("Wgmma([12, 1], [64, 64, 16])", 384),
    ] {
        let map = layout(text).linear(&[rows, 64]).unwrap();
        assert_eq!(map.divided(), Some((0, 3)));
        for (warp, elements) in held(&map, 12) {
            let part = rows / 3;
            let of_set = |at: &Dims| at[0] / part == warp / 4;
            assert!(elements.keys().all(of_set), "{text}: warp {warp}");
        }
    }
}

fn maps(shape: [u32; 2]) -> Vec<Held> {
    let mut maps: Vec<LinearLayout> = Vec::new();
    for text in OF_12 {
        let map = layout(text).linear(&shape).unwrap();
        if !maps.contains(&map) {
            maps.push(map);
        }
    }
    let of_12 = |map| Held::by_warps(map, 12);
    maps.into_iter().map(of_12).collect()
}

/// All pairs, executed by 12 warps: what is read was written by one of them.
#[test]
fn every_pair_converts() {
    let mut kinds = BTreeSet::new();
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let maps = maps(shape);
        let pairs = maps
            .iter()
            .flat_map(|src| maps.iter().map(move |dst| (src, dst)));
        for (at, (src, dst)) in pairs.enumerate() {
            let elem_bits = [8, 16, 32, 64][(at + number) % 4];
            let plan = check(src, dst, elem_bits, Limits::of(&SM_90A));
            kinds.insert(match plan.conversion {
                Conversion::Registers => "registers".to_owned(),
                Conversion::Shuffle(_) => "shuffle".to_owned(),
                Conversion::Shared(shared) => {
                    let matrices = format!("{:?} {:?}", shared.store_kind, shared.load_kind);
                    format!("{:?}: {matrices}", shared.scope)
                }
                Conversion::Pieces(_) => "pieces".to_owned(),
            });
        }
    }
    let found: Vec<&str> = kinds.iter().map(String::as_str).collect();
    for wanted in ["pieces", "registers", "shuffle", "Cta: Vector Vector"] {
        assert!(found.contains(&wanted), "{found:?}");
    }
}

/// A layout of 12 warps for `[3 << bits[0], 3 << bits[1]]` whose sets divide a dimension, or none: every bit of the share of a
/// set anywhere, and those that step over granules in registers.
fn any_layout(random: &mut TestRng, bits: [u32; 2], divided: Option<usize>) -> Layout {
    let unit = |dim: usize, bit: u32| Dims::from([0, 0]).with(dim, 1 << bit);
    let along = |dim: usize| (0..bits[dim]).map(move |bit| unit(dim, bit));
    let mut steps: Vec<Dims> = along(0).chain(along(1)).collect();
    let mut lists: [Vec<Dims>; 3] = Default::default();
    for dim in [0, 1].into_iter().filter(|dim| divided != Some(*dim)) {
        lists[0].extend((0..2).map(|bit| unit(dim, bits[dim] + bit)));
    }
    while !steps.is_empty() {
        let step = steps.swap_remove(random.random_range(0..steps.len()));
        let list = random.random_range(0..3);
        let list = if lists[list].len() < [64, 5, 2][list] {
            list
        } else {
            0
        };
        lists[list].push(step);
    }
    for (list, length) in lists.iter_mut().zip([0, 5, 2]) {
        while list.len() < length {
            list.insert(random.random_range(0..=list.len()), Dims::from([0, 0]));
        }
    }
    let [register, lane, mut warp] = lists;
    warp.extend((0..2).map(|bit| match divided {
        Some(dim) => unit(dim, bits[dim] + bit),
        None => Dims::from([0, 0]),
    }));
    let none = Vec::<Dims>::new();
    DistributedLinear::new(register, lane, warp, none)
        .with_warps(12)
        .into()
}

#[test]
fn layouts_of_any_bits_convert() {
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for turn in 0..400 {
        let bits = [0, 1].map(|_| random.random_range(0..6));
        let shape = bits.map(|bits| 3 << bits);
        let mut held = || {
            let divided = [None, Some(0), Some(1)][random.random_range(0..3)];
            let layout = any_layout(&mut random, bits, divided);
            let map = layout.linear(&shape).unwrap();
            assert_eq!(map.divided(), divided.map(|dim| (dim, 3)), "{layout}");
            Held::by_warps(map, 12)
        };
        let (src, dst) = (held(), held());
        let limits = Limits {
            scratch_bytes: [1 << 20, 1 << 12][turn % 2],
            ..Limits::of(&SM_90A)
        };
        check(&src, &dst, [8, 16, 32, 64][turn / 2 % 4], limits);
    }
}

/// Sets along rows on one side and along columns on the other, in several passes.
#[test]
fn sets_along_other_dimensions_convert_in_passes() {
    let held = |text: &str| Held::by_warps(layout(text).linear(&[192, 192]).unwrap(), 12);
    let rows = held("Blocked([1, 8], [4, 8], [12, 1], [1, 0])");
    let columns = held("Blocked([8, 1], [8, 4], [4, 3], [0, 1])");
    for (src, dst) in [(&rows, &columns), (&columns, &rows)] {
        for scratch_bytes in [1 << 18, 1 << 17] {
            let limits = Limits {
                scratch_bytes,
                ..Limits::of(&SM_90A)
            };
            let plan = check(src, dst, 32, limits);
            assert!(plan.scratch_bytes() <= scratch_bytes, "{plan:#?}");
        }
    }
}

#[test]
fn relations_keep_every_element_in_its_thread() {
    for text in OF_12 {
        let source = layout(text);
        let shape = [192, 64];
        let before = held(&source.linear(&shape).unwrap(), 12);
        let same = |layout: &Layout, shape: &[u32], of: &dyn Fn(&Dims) -> u64| {
            assert_eq!(layout.warps(), Some(12), "{text}: {layout}");
            let after = held(&layout.linear(shape).unwrap(), 12);
            for (warp, elements) in &after {
                let elements: BTreeSet<u64> = elements.keys().map(of).collect();
                let wanted = before[warp].keys().map(|at| row_major(at, &[192, 64]));
                assert_eq!(elements, wanted.collect(), "{text} as {layout}");
            }
        };
        let turned = permute(&source, &shape, &[1, 0]).unwrap();
        same(&turned, &[64, 192], &|at| {
            row_major(&[at[1], at[0]], &shape)
        });
        for to in [&[192 * 64][..], &[192, 8, 8], &[3, 64, 64], &[1, 192, 64]] {
            let reshaped = reshape(&source, &shape, to).unwrap();
            same(&reshaped, to, &|at| row_major(at, to));
            assert_eq!(
                reshape(&reshaped, to, &shape).unwrap().linear(&shape),
                source.linear(&shape)
            );
        }
        let joined = join(&source, &shape).unwrap();
        let halves = split(&joined, &[192, 64, 2]).unwrap();
        same(&halves, &shape, &|at| row_major(at, &shape));
    }
}

#[test]
fn sets_divide_the_slowest_dimension_that_they_can() {
    let check = |shape: &[u32], order: &[u32], warps: u32, wanted: &str| {
        let found: Blocked = spread(shape, &order.into(), 4, warps);
        assert_eq!(found.to_string(), wanted, "{shape:?}");
        Layout::from(found).linear(shape).unwrap();
    };
    check(
        &[192, 64],
        &[1, 0],
        12,
        "Blocked([1, 4], [2, 16], [12, 1], [1, 0])",
    );
    check(
        &[64, 192],
        &[1, 0],
        12,
        "Blocked([1, 4], [2, 16], [4, 3], [1, 0])",
    );
    check(
        &[64, 128],
        &[1, 0],
        12,
        "Blocked([1, 4], [1, 32], [12, 1], [1, 0])",
    );
    check(&[384], &[0], 12, "Blocked([4], [32], [12], [0])");
    check(
        &[320, 32],
        &[1, 0],
        10,
        "Blocked([1, 4], [4, 8], [10, 1], [1, 0])",
    );
    check(
        &[4, 48],
        &[1, 0],
        6,
        "Blocked([1, 4], [8, 4], [2, 3], [1, 0])",
    );
}

#[test]
fn what_sets_cannot_divide_is_uneven() {
    let check = |text: &str, shape: &[u32], wanted: Option<(usize, u32)>| {
        assert_eq!(
            layout(text).covers_unevenly(shape),
            wanted,
            "{text} on {shape:?}"
        );
    };
    let one = "Blocked([1], [32], [12], [0])";
    check(one, &[384], None);
    check(one, &[1536], None);
    check(one, &[128], None);
    check(one, &[256], Some((0, 384)));
    check(one, &[192], None);
    check(one, &[1152], Some((0, 384)));
    let rows = "Blocked([1, 8], [4, 8], [12, 1], [1, 0])";
    check(rows, &[192, 64], None);
    check(rows, &[1, 64], None);
    check(rows, &[192, 96], Some((1, 64)));
    check(rows, &[64, 64], Some((0, 48)));
    check(
        "Slice(1, Blocked([1, 8], [4, 8], [12, 1], [1, 0]))",
        &[192],
        None,
    );
    check(
        "Slice(1, Blocked([1, 8], [4, 8], [12, 1], [1, 0]))",
        &[64],
        Some((0, 48)),
    );
    check(
        "Slice(0, Blocked([1, 8], [4, 8], [12, 1], [1, 0]))",
        &[64],
        None,
    );
}

#[test]
fn what_sets_may_not_be_is_said() {
    let check = |text: &str, wanted: &str| {
        assert_eq!(
            layout(text).check_parameters().unwrap_err().to_string(),
            wanted
        );
    };
    check(
        "Blocked([1, 1], [8, 4], [3, 5], [1, 0])",
        "warps of Blocked must be powers of two, all but one of them, but entry 1 is 5",
    );
    check(
        "Blocked([1, 1], [8, 4], [0, 1], [1, 0])",
        "warps of Blocked must be powers of two, all but one of them, but entry 0 is 0",
    );
    check(
        "Wgmma([6, 1], [64, 64, 16])",
        "warps of Wgmma is [6, 1], but dimension 0 must be a multiple of 4: a warpgroup is four warps along M",
    );
    let linear = |warp: &str, warps: u32| {
        format!("Linear(lane=[[1], [2], [4], [8], [16]], warp={warp}, warps={warps})")
    };
    check(
        &linear("[[32], [64], [128]]", 9),
        "warps of Linear is 9, but 3 bases number 5 to 8 warps",
    );
    check(
        &linear("[[128], [32], [64]]", 6),
        "warp basis 1 of Linear is [32]: where warps are no power of two, their highest bits take the largest steps of one dimension, or none",
    );
    check(
        &linear("[[32], [0], [64]]", 6),
        "warp basis 2 of Linear is [64]: where warps are no power of two, their highest bits take the largest steps of one dimension, or none",
    );
    let map = layout(&linear("[[32], [64], [128]]", 6))
        .linear(&[192])
        .unwrap();
    assert_eq!((map.in_size(Axis::Warp), map.divided()), (8, Some((0, 3))));
}

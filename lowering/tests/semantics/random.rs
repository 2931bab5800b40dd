//! Views of random allocations in random shared layouts, read and written in random layouts of registers.

use gluon_lang::lang::prelude::*;
use layout::{Dims, Layout, LayoutError, relate};

use crate::indexed;
use crate::views::{self, Plan, Step, reference};

#[path = "../collective/random/dice.rs"]
mod dice;
#[path = "../collective/random/layouts.rs"]
mod layouts;
#[path = "../collective/random/shared_layouts.rs"]
mod shared_layouts;

use dice::Dice;
use layouts::Team;

const TEAM: Team = Team {
    warp_bits: 2,
    cta_bits: 0,
};

/// What allocations may take, so that conversions between layouts have some of what a CTA has too.
const SHARED_BYTES: u32 = 160 << 10;

fn registers(dice: &mut Dice, rank: usize) -> Layout {
    layouts::layout(dice, TEAM, rank)
}

/// An allocation, some steps from it to a view, and layouts of registers for both.
fn plan(seed: u64, elem_bits: u32) -> Plan {
    let mut dice = Dice::new(seed);
    let mut steps = views::Dice(seed);
    let rank = 1 + dice.below(4);
    let mut bits = dice.below(12) as u32;
    let (shape, shared, buffer_bytes) = loop {
        let shape = dice.spread(rank, bits);
        let shared = shared_layouts::layout(&mut dice, &shape, elem_bits);
        let bytes = relate::shared_bytes(&shared, &shape, elem_bits / 8);
        // Padding may make a few elements into many bytes.
        if let Some(bytes) = bytes.ok().filter(|&bytes| bytes <= SHARED_BYTES) {
            break (shape, shared, bytes);
        }
        bits -= 1;
    };
    let mut has_buffers = dice.once_in(3);
    let most = (SHARED_BYTES / buffer_bytes.max(1)).min(3) as usize;
    let buffers = has_buffers.then(|| 1 + dice.below(3).min(most - 1) as u32);
    let mut plan = Plan {
        alloc: buffers.into_iter().chain(shape).collect(),
        shared,
        from: registers(&mut dice, rank),
        steps: Vec::new(),
        to: Auto.into(),
    };
    for _ in 0..dice.below(6) {
        let shape = reference(&plan).0;
        let step = if !has_buffers && shape.len() > 1 && dice.once_in(4) {
            let at = dice.below(shape[0] as usize) as u32;
            Step::Index(at, dice.once_in(2))
        } else {
            steps.step(&shape, has_buffers)
        };
        plan.steps.push(step);
        if layout_of(&plan).is_err() {
            plan.steps.pop();
            continue;
        }
        has_buffers &= !matches!(plan.steps.last(), Some(Step::Index(..)));
    }
    // Tensors have powers of two: what still counts buffers is indexed.
    if has_buffers {
        let count = reference(&plan).0[0];
        let at = dice.below(count as usize) as u32;
        plan.steps.push(Step::Index(at, true));
    }
    plan.to = registers(&mut dice, reference(&plan).0.len());
    plan
}

/// The layout of the view, and of what allocation it is a part; an error where an index finds no layout for the rest.
fn layout_of(plan: &Plan) -> Result<(SharedLayout, Dims), LayoutError> {
    let mut layout = plan.shared.clone();
    let mut alloc = Dims::from(&*plan.alloc);
    for (at, step) in plan.steps.iter().enumerate() {
        let before = Plan {
            steps: plan.steps[..at].to_vec(),
            ..plan.clone()
        };
        match step {
            Step::Slice(..) => {}
            Step::Permute(order) => {
                layout = relate::permute_shared(&layout, &alloc, order)?;
                alloc = alloc.permuted(order);
            }
            Step::Reshape(to) => {
                let shape = reference(&before).0;
                (layout, alloc) = relate::reshape_shared(&layout, &shape, &alloc, to)?;
            }
            Step::Index(..) => {
                layout = relate::index_shared(&layout, &alloc)?;
                alloc = alloc.without(0);
            }
        }
    }
    Ok((layout, alloc))
}

/// Checks plans of a kind from a first seed on; `RANDOM_SEED` and `RANDOM_COUNT` choose others.
fn plans(count: u64, elem_bits: u32, check: impl Fn(&Plan, u64)) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let first = number("RANDOM_SEED").unwrap_or(0);
    for seed in first..first + number("RANDOM_COUNT").unwrap_or(count) {
        let run = std::panic::AssertUnwindSafe(|| check(&plan(seed, elem_bits), seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("RANDOM_SEED={seed} RANDOM_COUNT=1 makes this plan again");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Views of one element have as many dimensions as they are given, whatever the layout of the allocation was called.
#[test]
fn a_single_element() {
    for shared in ["Swizzled(1, 1, 1, [0])", "Padded([[1, 4]], [0])"] {
        let to = "Blocked([1, 1, 1], [8, 2, 2], [1, 4, 1], [2, 1, 0])";
        views::check::<f32>(&Plan {
            alloc: vec![1],
            shared: shared.parse().expect("a layout"),
            from: Blocked::new([1], [32], [4], [0]).into(),
            steps: vec![Step::Reshape(vec![1, 1, 1]), Step::Permute(vec![2, 0, 1])],
            to: to.parse().expect("a layout"),
        });
    }
}

/// Padded buffers of 8-byte elements that would not fit shared memory together: seed 42984032698588 and the four behind it.
#[test]
fn padding_stays_within_shared_memory() {
    for seed in 42_984_032_698_588..42_984_032_698_593 {
        views::check::<f64>(&plan(seed, 64));
    }
}

/// Buffers stay as far apart as they are where offsets behind their elements hold nothing.
#[test]
fn buffers_with_an_unused_end() {
    views::check::<f32>(&Plan {
        alloc: vec![3, 4, 8],
        shared: "SharedLinear(offset=[[1, 0], [0, 1], [0, 2], [2, 0], [0, 4], [0, 0]])"
            .parse()
            .expect("a layout"),
        from: Blocked::new([1, 2], [8, 4], [4, 1], [1, 0]).into(),
        steps: vec![Step::Permute(vec![0, 2, 1]), Step::Index(2, true)],
        to: Blocked::new([1, 2], [8, 4], [4, 1], [1, 0]).into(),
    });
}

macro_rules! of_all_types {
    ($($name:ident: $elem:ty, $index:ty;)*) => {$(
        #[test]
        fn $name() {
            let bits = <$elem as Element>::DTYPE.bytes() * 8;
            plans(12, bits, |plan, _| views::check::<$elem>(plan));
            plans(12, bits, |plan, seed| {
                indexed::check::<$elem, $index>(plan, &mut views::Dice(seed));
            });
        }
    )*};
}

of_all_types! {
    booleans: bool, i32;
    bytes: i8, u32;
    short_floats: E5m2, i64;
    shorts: u16, i16;
    halves: f16, u16;
    brain_halves: bf16, i32;
    words: u32, i64;
    floats: f32, u32;
    long_words: i64, u64;
    doubles: f64, i32;
}

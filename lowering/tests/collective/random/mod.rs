//! Random programs over random layouts.
//!
//! `RANDOM_SEED` and `RANDOM_COUNT` choose other programs than those of every day, and `RANDOM_COUNT=1` the one that failed.

#![allow(
    clippy::unnecessary_wraps,
    reason = "a step that is always possible is one among others"
)]

mod combined;
mod dice;
mod frames;
mod layouts;
mod movement;
mod program;
mod ragged;
mod several;
mod shared;
mod shared_layouts;

use frames::Frame;
use ir::elem::DType;
use program::{Program, Tile};

use crate::kernel::{Kernel, from_bytes, noise, to_bytes};

/// Runs programs of a kind.
fn programs(first: u64, count: u64, program: impl Fn(u64)) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let first = number("RANDOM_SEED").unwrap_or(first);
    for seed in first..first + number("RANDOM_COUNT").unwrap_or(count) {
        let run = std::panic::AssertUnwindSafe(|| program(seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("RANDOM_SEED={seed} RANDOM_COUNT=1 makes this program again");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Some steps from a tile on in any frame, each looked at.
fn walk(program: &mut Program, tile: Tile, all: &[(&str, movement::Step)]) {
    let frame = Frame::any(&mut program.dice);
    walk_in(program, tile, all, frame);
}

fn walk_in(program: &mut Program, tile: Tile, all: &[(&str, movement::Step)], frame: Frame) {
    let (tile, carried) = frame.open(program, tile);
    steps(program, tile, all);
    frame.close(program, carried);
    // Warps without a tile run along, and part only at the end.
    if program.team.warp_bits >= 2 && program.dice.once_in(4) {
        let warps = 1 << program.team.warp_bits;
        let parts = [
            format!("warp_specialize {{warps=[{warps}, 1], registers=[0, 0]}} () {{"),
            "yield []\n  } () {\n  yield []\n  }".into(),
        ];
        for line in &parts {
            program.kernel.line(line);
        }
    }
    program.check(program.seed);
}

fn steps(program: &mut Program, mut tile: Tile, all: &[(&str, movement::Step)]) {
    let mut what = String::from("load");
    // What nobody looks at may be done in another place or layout.
    let looks = program.dice.once_in(2);
    if looks {
        program.observe(&what, &tile);
    }
    for _ in 0..if looks { 4 } else { 7 } {
        let (name, step) = program.dice.pick(all);
        let Some(next) = step(program, &tile) else {
            continue;
        };
        what = format!("{what}, {name}");
        if looks {
            program.observe(&what, &next);
        }
        tile = next;
    }
    program.observe(&what, &tile);
}

#[test]
fn elements_that_move() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, 0);
        let tile = program.any();
        let all = [movement::STEPS, movement::CHANGES].concat();
        walk(&mut program, tile, &all);
    });
}

#[test]
fn elements_that_are_converted_and_changed() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, u32::from(seed % 4 == 3));
        let tile = program.any();
        let all = [
            &movement::STEPS[..3],
            movement::CHANGES,
            &combined::STEPS[..1],
        ]
        .concat();
        walk(&mut program, tile, &all);
    });
}

#[test]
fn pointers_that_move() {
    programs(0, 20, |seed| {
        let mut program = Program::new(seed, 0);
        let tile = movement::pointers(&mut program);
        walk(&mut program, tile, movement::STEPS);
    });
}

#[test]
fn elements_exchanged_between_threads() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, 0);
        let tile = program.any();
        let steps = [combined::STEPS, several::STEPS, &movement::STEPS[..1]].concat();
        walk(&mut program, tile, &steps);
    });
}

#[test]
fn elements_that_move_between_ctas() {
    programs(0, 20, |seed| {
        let mut program = Program::new(seed, 1 + seed as u32 % 3);
        let tile = program.any();
        walk(&mut program, tile, movement::STEPS);
    });
}

#[test]
fn elements_exchanged_between_ctas() {
    programs(0, 20, |seed| {
        let mut program = Program::new(seed, 1 + seed as u32 % 3);
        let tile = program.any();
        walk(
            &mut program,
            tile,
            &[combined::STEPS, several::STEPS].concat(),
        );
    });
}

#[test]
fn elements_through_memory() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, 0);
        let tile = program.any();
        // What atomics leave in memory is not the same every time.
        walk_in(&mut program, tile, shared::STEPS, Frame::Straight);
    });
}

#[test]
fn elements_through_memory_again_and_again() {
    programs(0, 40, |seed| {
        let mut program = Program::new(seed, u32::from(seed % 5 == 4));
        let tile = program.any();
        let all = [shared::AGAIN, &combined::STEPS[..1], &movement::STEPS[..1]].concat();
        walk(&mut program, tile, &all);
    });
}

#[test]
fn atomics_of_several_ctas() {
    programs(0, 20, |seed| {
        let mut program = Program::new(seed, 1 + seed as u32 % 3);
        let tile = program.any();
        // What atomics leave in memory is not the same every time.
        walk_in(&mut program, tile, shared::STEPS, Frame::Straight);
    });
}

#[test]
fn parts_of_tensors_with_bounds() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, u32::from(seed % 4 == 3));
        let tile = program.any_of(9);
        let all = [ragged::STEPS, &movement::STEPS[..3]].concat();
        walk(&mut program, tile, &all);
    });
}

#[test]
fn atomics_within_bounds() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, u32::from(seed % 4 == 3));
        let tile = program.any_of(9);
        let all = [ragged::ATOMIC, &movement::STEPS[..3]].concat();
        walk_in(&mut program, tile, &all, Frame::Straight);
    });
}

/// A program with a tile whose extents are no powers of two.
fn cut_program(seed: u64) -> Program {
    let mut program = Program::new(seed, 0);
    program.has_cuts = true;
    program
}

#[test]
fn elements_of_cut_tiles_that_move() {
    programs(0, 120, |seed| {
        let mut program = cut_program(seed);
        let tile = program.any();
        let all = [movement::STEPS, movement::CHANGES].concat();
        walk(&mut program, tile, &all);
    });
}

#[test]
fn pointers_of_cut_tiles_that_move() {
    programs(0, 30, |seed| {
        let mut program = cut_program(seed);
        let tile = movement::pointers(&mut program);
        walk(&mut program, tile, movement::STEPS);
    });
}

#[test]
fn elements_of_cut_tiles_are_exchanged() {
    programs(0, 120, |seed| {
        let mut program = cut_program(seed);
        let tile = program.any();
        let sorts = combined::STEPS.iter().filter(|(name, _)| *name == "sort");
        let sorts: Vec<_> = sorts.copied().collect();
        let reductions = [&combined::STEPS[..2], &several::STEPS[..1], &sorts[..]];
        let all = [&reductions.concat(), &movement::STEPS[..1]].concat();
        walk(&mut program, tile, &all);
    });
}

#[test]
fn elements_of_cut_tiles_through_memory() {
    programs(0, 120, |seed| {
        let mut program = cut_program(seed);
        let tile = program.any();
        walk_in(&mut program, tile, shared::STEPS, Frame::Straight);
    });
}

#[test]
fn elements_of_cut_tiles_through_memory_again_and_again() {
    programs(0, 60, |seed| {
        let mut program = cut_program(seed);
        let tile = program.any();
        let all = [shared::AGAIN, &combined::STEPS[..1], &movement::STEPS[..1]].concat();
        walk(&mut program, tile, &all);
    });
}

#[test]
fn parts_of_cut_tiles_with_bounds() {
    programs(0, 60, |seed| {
        let mut program = cut_program(seed);
        let tile = program.any_of(9);
        let all = [ragged::STEPS, ragged::ATOMIC, &movement::STEPS[..3]].concat();
        walk_in(&mut program, tile, &all, Frame::Straight);
    });
}

/// Two partitions with steps of their own, which run concurrently.
#[test]
fn elements_exchanged_within_partitions() {
    programs(0, 30, |seed| {
        let mut program = Program::of(seed, 2 + seed as u32 % 2, u32::from(seed % 3 == 2));
        let all = [
            combined::STEPS,
            several::STEPS,
            movement::STEPS,
            shared::AGAIN,
        ]
        .concat();
        let bits = [program.team.warp_bits, program.dice.pick(&[0, 1, 2])];
        let warps = bits.map(|bits| 1 << bits);
        program.kernel.line(&format!(
            "warp_specialize {{warps={warps:?}, registers=[0, 0]}} () {{"
        ));
        for (bits, end) in bits
            .into_iter()
            .zip(["yield []\n  } () {", "yield []\n  }"])
        {
            program.team.warp_bits = bits;
            let tile = program.any_of(9);
            steps(&mut program, tile, &all);
            program.kernel.line(end);
        }
        // Tiles may be too many for the registers of half of the warps, and half of a CTA's warps never meet a cluster.
        let reasons = [
            "registers per thread",
            "waits at a barrier of all threads of the cluster",
        ];
        let func = ir::text::parse("test.tile", &program.text()).expect("what was written");
        let refused = lowering::compile(func, &lowering::Options::default()).err();
        let refused = refused.map(|found| found.to_string()).unwrap_or_default();
        if !reasons.iter().any(|reason| refused.contains(reason)) {
            program.check(seed);
        }
    });
}

/// Masks are moved as words of four where they lie so, also where another mask cuts them.
#[test]
fn booleans_that_lie_together() {
    let mut kernel = Kernel::new(4);
    let form = kernel.form("l", "Blocked([4], [32], [4], [0])", &[512]);
    kernel.load("x", DType::I1, &form);
    kernel.load("m", DType::I1, &form);
    let bits = form.of("i1");
    kernel.line(&format!(
        "%limit = constant {{value=401}} : {}",
        form.of("i32")
    ));
    kernel.line(&format!(
        "%inside = compare %l_at, %limit {{op=lt}} : {bits}"
    ));
    kernel.line(&format!(
        "%y = load %x_p, mask=%inside, other=%m_v : {bits}"
    ));
    kernel.line(&format!("%both = binary %y, %x_v {{op=and}} : {bits}"));
    kernel.store("out", DType::I1, &form, "both");
    kernel.line("store %m_p, %x_v, mask=%inside");
    let numbers = |seed: u64| -> Vec<u64> { noise(512, seed).iter().map(|v| v >> 9 & 1).collect() };
    let (x, m) = (numbers(1), numbers(2));
    let buffers = [
        to_bytes(&x, DType::I1),
        to_bytes(&m, DType::I1),
        vec![0; 512],
    ];
    let found = kernel.run(&buffers);
    let both: Vec<u64> = (0..512)
        .map(|at| x[at] & if at < 401 { x[at] } else { m[at] })
        .collect();
    assert_eq!(from_bytes(&found[2], DType::I1), both);
    let stored: Vec<u64> = (0..512)
        .map(|at| if at < 401 { x[at] } else { m[at] })
        .collect();
    assert_eq!(from_bytes(&found[1], DType::I1), stored);
    let ptx = kernel.assemble();
    let loads = ptx
        .lines()
        .filter(|line| line.contains("ld.global.b32"))
        .count();
    assert_eq!(loads, 3, "{ptx}");
}

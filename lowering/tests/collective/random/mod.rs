//! Random programs over random layouts.
//!
//! `RANDOM_SEED` and `RANDOM_COUNT` choose other programs than those of every day, and `RANDOM_COUNT=1` the one that failed.

#![allow(
    clippy::unnecessary_wraps,
    reason = "a step that is always possible is one among others"
)]

mod combined;
mod dice;
mod layouts;
mod movement;
mod program;
mod shared;
mod shared_layouts;

use program::{Program, Tile};

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

/// Some steps from a tile on, each looked at.
fn walk(program: &mut Program, mut tile: Tile, steps: &[(&str, movement::Step)]) {
    let mut what = String::from("load");
    program.observe(&what, &tile);
    for _ in 0..4 {
        let (name, step) = program.dice.pick(steps);
        let Some(next) = step(program, &tile) else {
            continue;
        };
        what = format!("{what}, {name}");
        program.observe(&what, &next);
        tile = next;
    }
    program.check(program.seed);
}

#[test]
fn elements_that_move() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, 0);
        let tile = program.any();
        walk(&mut program, tile, movement::STEPS);
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
fn elements_that_meet() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, 0);
        let tile = program.any();
        let steps = [combined::STEPS, &movement::STEPS[..1]].concat();
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
fn elements_of_several_ctas_that_meet() {
    programs(0, 20, |seed| {
        let mut program = Program::new(seed, 1 + seed as u32 % 3);
        let tile = program.any();
        walk(&mut program, tile, combined::STEPS);
    });
}

#[test]
fn elements_through_memory() {
    programs(0, 60, |seed| {
        let mut program = Program::new(seed, 0);
        let tile = program.any();
        walk(&mut program, tile, shared::STEPS);
    });
}

#[test]
fn atomics_of_several_ctas() {
    programs(0, 20, |seed| {
        let mut program = Program::new(seed, 1 + seed as u32 % 3);
        let tile = program.any();
        walk(&mut program, tile, shared::STEPS);
    });
}

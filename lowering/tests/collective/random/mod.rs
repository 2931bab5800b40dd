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

use gluon_lang::elem::DType;
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

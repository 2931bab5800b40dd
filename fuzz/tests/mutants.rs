//! A bounded number of mutants of every kind of text, the same in each run.

use std::time::Duration;

use fuzz::{Choices, Surface, attempt, mutate, seeds};

/// Longer than any text takes, by much, on a machine with other work.
const LIMIT: Duration = Duration::from_secs(20);

#[track_caller]
fn check(surface: Surface, mutants: u64) {
    let seeds = seeds(surface);
    assert!(!seeds.is_empty(), "there are {surface} texts to begin with");
    for number in 0..mutants {
        let mut choices = Choices::Seeded(number);
        let seed = &seeds[choices.below(seeds.len())];
        let text = mutate(seed, &seeds, &mut choices);
        if let Err(failure) = attempt(surface, &text, LIMIT) {
            panic!("{surface} text {number}: {failure:?}\n{text}");
        }
    }
}

#[test]
fn mutated_ir_gives_diagnostics() {
    check(Surface::Ir, 400);
}

#[test]
fn mutated_ptx_gives_diagnostics() {
    check(Surface::Ptx, 150);
}

#[test]
fn mutated_ptx_that_runs_gives_faults() {
    check(Surface::Launch, 100);
}

#[test]
fn mutated_layouts_give_diagnostics() {
    check(Surface::Layout, 1000);
}

#[test]
fn mutated_configurations_give_diagnostics() {
    check(Surface::Configuration, 2000);
}

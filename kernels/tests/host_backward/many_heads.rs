//! Gradients of so many heads that the main loop has the passes of some of them.

use tilekit_kernels::attention::Options;

use crate::problem::{Problem, check, scaled};

/// Heads of two blocks of keys. Without a mask the passes are 67 heads ahead, with one 74, and 82 in a fixed order.
fn of_heads(heads: usize, kv_heads: usize, depth: usize) -> Problem {
    Problem {
        heads,
        kv_heads,
        queries: 10,
        keys: 130,
        depth,
    }
}

#[test]
fn heads_beyond_those_of_the_passes_are_rounded_too() {
    let options = Options::default();
    check(&of_heads(90, 90, 64), &options, |_, _| true, scaled(64));
    check(&of_heads(70, 70, 128), &options, |_, _| true, scaled(128));
}

#[test]
fn groups_of_heads_share_keys_beyond_those_of_the_passes() {
    let problem = of_heads(150, 75, 64);
    check(&problem, &Options::default(), |_, _| true, scaled(64));
}

#[test]
fn masked_heads_are_a_section_further_ahead() {
    let causal = Options {
        causal: true,
        ..Options::default()
    };
    let sees = |query, key| key <= query + 120;
    check(&of_heads(90, 90, 64), &causal, sees, scaled(64));
    let in_order = Options {
        deterministic: true,
        ..causal
    };
    check(&of_heads(90, 90, 64), &in_order, sees, scaled(64));
    check(&of_heads(90, 90, 128), &in_order, sees, scaled(128));
}

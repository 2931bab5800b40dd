//! Gradients of each depth, of heads in groups, of a softcap, and without keys.

use tilekit_kernels::attention::Options;

use crate::problem::{Problem, check, scaled};

#[test]
fn heads_of_a_group_add_to_one_gradient() {
    let problem = Problem {
        heads: 4,
        kv_heads: 2,
        queries: 65,
        keys: 70,
        depth: 64,
    };
    let options = Options {
        causal: true,
        ..Options::default()
    };
    check(
        &problem,
        &options,
        |query, key| key <= query + 5,
        scaled(64),
    );
}

#[test]
fn all_depths_have_gradients() {
    for (depth, deterministic) in [(96, false), (96, true), (256, false), (256, true)] {
        let problem = Problem {
            heads: 2,
            kv_heads: 1,
            queries: 66,
            keys: 70,
            depth,
        };
        let options = Options {
            causal: true,
            deterministic,
            ..Options::default()
        };
        check(
            &problem,
            &options,
            |query, key| key <= query + 4,
            scaled(depth),
        );
    }
}

#[test]
fn the_slope_of_a_cap_counts() {
    let problem = Problem {
        heads: 1,
        kv_heads: 1,
        queries: 20,
        keys: 20,
        depth: 64,
    };
    let options = Options {
        softcap: Some(0.5),
        ..Options::default()
    };
    check(
        &problem,
        &options,
        |_, _| true,
        |product| {
            let tanh = (product / 8.0 / 0.5).tanh();
            (0.5 * tanh, (1.0 - tanh * tanh) / 8.0)
        },
    );
}

#[test]
fn no_keys_give_a_gradient_of_zeros() {
    let problem = Problem {
        heads: 2,
        kv_heads: 1,
        queries: 5,
        keys: 0,
        depth: 64,
    };
    check(&problem, &Options::default(), |_, _| true, scaled(64));
}

/// LSE is divided by the scale at depths 96 and 128; the first 30 queries see no key.
#[test]
fn rows_without_a_key_have_no_part_in_gradients_at_any_scale() {
    for depth in [96, 128] {
        for scale in [1e-30_f32, 0.25] {
            let problem = Problem {
                heads: 2,
                kv_heads: 1,
                queries: 70,
                keys: 40,
                depth,
            };
            let options = Options {
                causal: true,
                scale: Some(scale),
                ..Options::default()
            };
            let factor = f64::from(scale);
            let sees = |query: usize, key: usize| key + 30 <= query;
            check(&problem, &options, sees, |product| {
                (product * factor, factor)
            });
        }
    }
}

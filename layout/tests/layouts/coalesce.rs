//! The coalesced formula, step by step on examples worked out by hand from Gluon's rules.

use layout::{AccessFacts, Blocked, Dims};

fn facts(
    shape: &[u32],
    elem_bits: u32,
    contiguity: &[u32],
    divisibility_bytes: &[u32],
) -> AccessFacts {
    AccessFacts {
        shape: shape.into(),
        elem_bits,
        contiguity: contiguity.into(),
        divisibility_bytes: divisibility_bytes.into(),
        widest_bytes: 16,
        is_load: true,
    }
}

#[test]
fn the_most_contiguous_dimension_is_fastest_and_ties_go_to_the_last() {
    let order = |contiguity: &[u32]| {
        facts(
            &Dims::filled(64, contiguity.len()),
            32,
            contiguity,
            &[16, 16, 16],
        )
        .order()
    };
    assert_eq!(order(&[1, 64]), [1, 0]);
    assert_eq!(order(&[64, 1]), [0, 1]);
    assert_eq!(order(&[1, 1, 1]), [2, 1, 0]);
    assert_eq!(order(&[1, 8, 1]), [1, 2, 0]);
}

#[test]
fn one_access_is_limited_by_alignment_run_and_16_bytes() {
    let at_once = |bits, contiguity, divisibility| {
        facts(&[1024], bits, &[contiguity], &[divisibility]).elements_at_once()
    };
    assert_eq!(at_once(32, 1024, 16), 4);
    assert_eq!(at_once(16, 1024, 16), 8);
    assert_eq!(at_once(8, 1024, 64), 16);
    assert_eq!(at_once(32, 1024, 4), 1);
    assert_eq!(at_once(32, 2, 16), 2);
    assert_eq!(at_once(64, 1024, 16), 2);
    assert_eq!(at_once(32, 1024, 1), 1);
    // A pointer to i1 accesses bytes.
    assert_eq!(at_once(1, 1024, 16), 16);
}

#[test]
fn vectors_and_matrices_get_wide_accesses() {
    let vector = facts(&[1024], 32, &[1024], &[16]).coalesced_blocked([], 4);
    assert_eq!(vector, Blocked::new([4], [32], [4], [0]));
    // Fewer elements than threads x 4: each thread gets its fair share.
    let short = facts(&[256], 32, &[256], &[16]).coalesced_blocked([], 4);
    assert_eq!(short, Blocked::new([2], [32], [4], [0]));
    let rows = facts(&[128, 256], 32, &[1, 256], &[4, 16]).coalesced_blocked([], 4);
    assert_eq!(rows, Blocked::new([1, 4], [1, 32], [2, 2], [1, 0]));
    let columns = facts(&[128, 256], 16, &[128, 1], &[16, 2]).coalesced_blocked([], 4);
    assert_eq!(columns, Blocked::new([8, 1], [16, 2], [1, 4], [0, 1]));
    let narrow = facts(&[1024, 16], 32, &[1, 16], &[4, 16]).coalesced_blocked([], 8);
    assert_eq!(narrow, Blocked::new([1, 4], [8, 4], [8, 1], [1, 0]));
}

#[test]
fn stores_do_not_follow_wider_accesses_but_loads_do() {
    let wide = facts(&[1024], 16, &[1024], &[16]);
    let narrow = facts(&[1024], 32, &[1024], &[8]);
    assert_eq!(narrow.elements_per_thread([&wide], 4), 8);
    let store = AccessFacts {
        is_load: false,
        ..narrow.clone()
    };
    assert_eq!(store.elements_per_thread([&wide], 4), 2);
    let other_shape = facts(&[2048], 16, &[2048], &[16]);
    assert_eq!(narrow.elements_per_thread([&other_shape], 4), 2);
}

#[test]
fn the_default_puts_one_element_in_each_thread() {
    assert_eq!(
        Blocked::default_for(&[128], 4),
        Blocked::new([1], [32], [4], [0])
    );
    assert_eq!(
        Blocked::default_for(&[64, 16], 4),
        Blocked::new([1, 1], [2, 16], [4, 1], [1, 0])
    );
    assert_eq!(
        Blocked::default_for(&[4, 4, 4], 4),
        Blocked::new([1, 1, 1], [2, 4, 4], [4, 1, 1], [2, 1, 0])
    );
    assert_eq!(
        Blocked::default_for(&[1, 1024], 8),
        Blocked::new([1, 1], [1, 32], [1, 8], [1, 0])
    );
}

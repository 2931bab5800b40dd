//! The algebra of linear maps against brute force over all inputs.

use layout::linear::gf2;
use layout::{Axis, LinearLayout};
use proptest::prelude::*;

use crate::family::matrices;

const INS: [Axis; 3] = [Axis::Register, Axis::Lane, Axis::Warp];

/// Any map of three inputs and two outputs, up to 2^9 inputs.
fn any_map() -> impl Strategy<Value = LinearLayout> {
    let sizes = (0_u32..4, 0_u32..4, 0_u32..4, 0_u32..4, 0_u32..5);
    sizes.prop_flat_map(|(a, b, c, x, y)| {
        proptest::collection::vec(0_u64..1 << (x + y), (a + b + c) as usize).prop_map(
            move |columns| {
                let ins = INS.into_iter().zip([a, b, c]);
                LinearLayout::from_columns(ins, [(Axis::dim(0), x), (Axis::dim(1), y)], columns)
            },
        )
    })
}

/// The map and another one with the same outputs.
fn with_another(map: LinearLayout) -> impl Strategy<Value = (LinearLayout, LinearLayout)> {
    let columns = proptest::collection::vec(0_u64..1 << map.total_out_bits(), 0..10);
    columns.prop_map(move |columns| {
        let ins = [(Axis::Offset, columns.len() as u32)];
        let other = LinearLayout::from_columns(ins, map.outs(), columns);
        (map.clone(), other)
    })
}

/// A bijective map with `bits` bits on each side: elementary row operations on a permutation.
fn any_bijection(bits: u32) -> impl Strategy<Value = LinearLayout> {
    let shuffled = Just((0..bits).collect::<Vec<_>>()).prop_shuffle();
    let additions = proptest::collection::vec((0..bits as usize, 0..bits as usize), 0..24);
    (shuffled, additions).prop_map(move |(order, additions)| {
        let mut columns: Vec<u64> = order.iter().map(|bit| 1 << bit).collect();
        for (to, from) in additions {
            if to != from {
                columns[to] ^= columns[from];
            }
        }
        LinearLayout::from_columns([(Axis::Offset, bits)], [(Axis::dim(0), bits)], columns)
    })
}

fn inputs(map: &LinearLayout) -> std::ops::Range<u64> {
    0..1 << map.total_in_bits()
}

proptest! {
    #[test]
    fn maps_are_linear(map in any_map(), a: u64, b: u64) {
        let mask = (1 << map.total_in_bits()) - 1;
        let (a, b) = (a & mask, b & mask);
        prop_assert_eq!(map.apply_packed(a ^ b), map.apply_packed(a) ^ map.apply_packed(b));
    }

    #[test]
    fn composition_applies_one_after_the_other(inner in any_map(), outer in any_bijection(9)) {
        let bits = inner.total_out_bits();
        let flat = inner.with_outs_reshaped([(Axis::Offset, bits)]);
        let both = flat.then(&outer);
        for input in inputs(&inner) {
            prop_assert_eq!(both.apply_packed(input), outer.apply_packed(flat.apply_packed(input)));
        }
    }

    #[test]
    fn inverses_undo(map in any_bijection(8)) {
        let inverse = map.right_inverse().unwrap();
        for input in inputs(&map) {
            prop_assert_eq!(inverse.apply_packed(map.apply_packed(input)), input);
        }
    }

    #[test]
    fn right_inverses_exist_for_surjective_maps(map in any_map()) {
        let images: std::collections::BTreeSet<u64> = inputs(&map).map(|input| map.apply_packed(input)).collect();
        let surjective = images.len() as u64 == 1 << map.total_out_bits();
        prop_assert_eq!(map.is_surjective(), surjective);
        prop_assert_eq!(map.is_injective(), images.len() as u64 == 1 << map.total_in_bits());
        prop_assert_eq!(map.is_bijective(), surjective && map.is_injective());
        match map.right_inverse() {
            None => prop_assert!(!surjective),
            Some(back) => {
                for output in 0..1_u64 << map.total_out_bits() {
                    prop_assert_eq!(map.apply_packed(back.apply_packed(output)), output);
                    // Of all inputs with this image, redundant bits are zero: bits whose basis adds nothing.
                    for (axis, _) in map.ins() {
                        let input = back.apply_packed(output) >> map.in_shift(axis);
                        prop_assert_eq!(input as u32 & map.free_mask(axis), 0);
                    }
                }
            }
        }
    }

    #[test]
    fn find_in_names_a_place_with_the_same_image((map, target) in any_map().prop_flat_map(with_another)) {
        if let Some(found) = map.find_in(&target) {
            for input in inputs(&map) {
                prop_assert_eq!(target.apply_packed(found.apply_packed(input)), map.apply_packed(input));
            }
        } else {
            let reached: std::collections::BTreeSet<u64> =
                inputs(&target).map(|input| target.apply_packed(input)).collect();
            prop_assert!(inputs(&map).any(|input| !reached.contains(&map.apply_packed(input))));
        }
    }

    #[test]
    fn products_act_on_low_and_high_bits(low in any_map(), high in any_map()) {
        let product = low.product(&high);
        for (a, b) in inputs(&low).step_by(3).flat_map(|a| inputs(&high).step_by(5).map(move |b| (a, b))) {
            let (low_in, high_in) = (low.unpack_in(a), high.unpack_in(b));
            let both: Vec<(Axis, u32)> = INS
                .into_iter()
                .enumerate()
                .map(|(at, axis)| (axis, low_in[at] | high_in[at] << low.in_bits(axis)))
                .collect();
            let (low_out, high_out) = (low.unpack_out(low.apply_packed(a)), high.unpack_out(high.apply_packed(b)));
            let image = product.apply(&both);
            for dim in 0..2 {
                prop_assert_eq!(image[dim], low_out[dim] | high_out[dim] << low.out_bits(Axis::dim(dim)));
            }
        }
    }

    #[test]
    fn free_bits_hold_copies(map in any_map()) {
        let free: u32 = INS.into_iter().map(|axis| map.free_mask(axis).count_ones()).sum();
        let images: std::collections::BTreeSet<u64> = inputs(&map).map(|input| map.apply_packed(input)).collect();
        prop_assert_eq!(1_u64 << (map.total_in_bits() - free), images.len() as u64);
    }

    #[test]
    fn rearranged_maps_give_the_same_images(map in any_map()) {
        let turned = map.with_ins_ordered(&[Axis::Warp, Axis::Register, Axis::Lane]).with_outs_ordered(&[Axis::dim(1), Axis::dim(0)]);
        prop_assert!(turned.same_map(&map));
        for input in inputs(&map) {
            let place: Vec<(Axis, u32)> = INS.into_iter().zip(map.unpack_in(input).iter().copied()).collect();
            let (straight, turned) = (map.apply(&place), turned.apply(&place));
            prop_assert_eq!((straight[0], straight[1]), (turned[1], turned[0]));
        }
    }

    #[test]
    fn spans_answer_like_enumeration(a in proptest::collection::vec(0_u64..64, 0..5)) {
        let all = |vectors: &[u64]| -> std::collections::BTreeSet<u64> {
            (0..1_u32 << vectors.len())
                .map(|pick| vectors.iter().enumerate().filter(|(at, _)| pick >> at & 1 == 1).fold(0, |sum, (_, v)| sum ^ v))
                .collect()
        };
        let rest = gf2::complement(&a, 6);
        let whole: Vec<u64> = a.iter().chain(&rest).copied().collect();
        prop_assert_eq!(all(&whole).len(), 64);
        prop_assert_eq!(all(&a).len() << rest.len(), 64);
    }
}

#[test]
fn every_element_has_an_owner_and_copies_are_even() {
    for (layout, shape) in matrices() {
        let map = layout.linear(&shape).unwrap();
        let mut owners = std::collections::BTreeMap::new();
        for input in inputs(&map) {
            *owners.entry(map.apply_packed(input)).or_insert(0_u32) += 1;
        }
        assert_eq!(owners.len() as u64, shape.product(), "{layout} on {shape}");
        let copies = 1 << (map.total_in_bits() - map.total_out_bits());
        assert!(
            owners.values().all(|&count| count == copies),
            "{layout} on {shape}"
        );
        assert!(map.is_permutation_with_zeros(), "{layout} on {shape}");
    }
}

//! Matrices compressed for sparse products, against what is defined of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use tilekit::prelude::*;
use tilekit::sparse::Compressed;

/// Numbers of many magnitudes, with zeroes and equal ones among them.
fn numbers<T: DeviceElement>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 59) as i128 - 16
    };
    let number = |value: i128| {
        T::nearest(Number::Int(value.max(-8))).or(T::nearest(Number::Int(value.abs())))
    };
    (0..count).map(|_| number(next()).unwrap()).collect()
}

fn value<T: DeviceElement>(element: T) -> f64 {
    element.number().to_f64()
}

/// The places of the kept elements of a group, chosen by trying all.
fn best(group: &[f64], keep: usize) -> Vec<usize> {
    let mut sets: Vec<Vec<usize>> = (0..1_usize << group.len())
        .filter(|set| set.count_ones() as usize == keep)
        .map(|set| {
            (0..group.len())
                .filter(|place| set >> place & 1 == 1)
                .collect()
        })
        .collect();
    let kept = |set: &[usize]| set.iter().map(|&place| group[place].abs()).sum::<f64>();
    // Of equal sets the one whose places come first.
    sets.sort();
    sets.into_iter()
        .reduce(|found, set| {
            if kept(&set) > kept(&found) {
                set
            } else {
                found
            }
        })
        .unwrap()
}

/// All of a compressed matrix, in tiles of `tile`.
fn check<T: DeviceElement>([rows, columns]: [usize; 2], tile: [usize; 2]) {
    let elements = numbers::<T>(rows * columns, (rows * 1000 + columns) as u64);
    let compressed = Compressed::of(&elements, columns);
    let (of, keep) = if size_of::<T>() == 4 { (2, 1) } else { (4, 2) };
    let (groups, stride) = (columns.div_ceil(of), compressed.kept_columns());
    assert_eq!(compressed.kept().len(), rows * stride);
    assert_eq!(stride * size_of::<T>() % 16, 0);
    let numbers = tile[1] / (4 * of);
    let across = columns.div_ceil(tile[1]);
    let metadata = compressed.metadata_tiles(tile);
    assert_eq!(
        metadata.len(),
        rows.div_ceil(tile[0]) * across * tile[0] * numbers
    );

    let mut dense = vec![0.0; rows * columns];
    let mut dropped = 0;
    for row in 0..rows.next_multiple_of(tile[0]) {
        for group in 0..across * tile[1] / of {
            let (number, nibble) = (group / 4, group % 4);
            let tile_at = row / tile[0] * across + number / numbers;
            let at = (tile_at * tile[0] + row % tile[0]) * numbers + number % numbers;
            let bits = metadata[at] >> (4 * nibble) & 0xf;
            if row >= rows || group >= groups {
                assert_eq!(bits, 0b0100);
                continue;
            }
            let element = |place: usize| {
                let column = group * of + place;
                if column < columns {
                    value(elements[row * columns + column])
                } else {
                    0.0
                }
            };
            let all: Vec<f64> = (0..of).map(element).collect();
            let places = best(&all, keep);
            let wanted = match *places {
                [i, j] => i | j << 2,
                [0] => 0b0100,
                _ => 0b1110,
            };
            assert_eq!(usize::from(bits), wanted, "row {row} group {group} {all:?}");
            for (i, &place) in places.iter().enumerate() {
                let kept = value(compressed.kept()[row * stride + group * keep + i]);
                assert_eq!(kept.to_bits(), all[place].to_bits());
                if group * of + place < columns {
                    dense[row * columns + group * of + place] = kept;
                }
            }
            let nonzero = |at: &&usize| all[**at] != 0.0;
            let all: Vec<usize> = (0..of).collect();
            dropped += all
                .iter()
                .filter(nonzero)
                .filter(|at| !places.contains(at))
                .count();
        }
        if row < rows {
            let padding = &compressed.kept()[row * stride + groups * keep..(row + 1) * stride];
            assert!(padding.iter().all(|element| value(*element) == 0.0));
        }
    }
    assert_eq!(compressed.dropped(), dropped);
    let found: Vec<f64> = compressed.dense().into_iter().map(value).collect();
    assert_eq!(found, dense);
    // What is sparse already is kept as it is.
    let again = Compressed::of(&compressed.dense(), columns);
    assert_eq!((again.dropped(), again.dense()), (0, compressed.dense()));
}

#[test]
fn half_of_each_row_is_kept() {
    for (shape, tile) in [
        ([64, 128], [64, 64]),
        ([3, 72], [64, 32]),
        ([130, 50], [128, 64]),
        ([1, 1], [64, 64]),
        ([5, 7], [4, 16]),
    ] {
        check::<bf16>(shape, tile);
        check::<f16>(shape, tile);
        check::<E4m3>(shape, tile);
        check::<i8>(shape, tile);
        check::<u8>(shape, tile);
        check::<f32>(shape, tile);
    }
}

#[test]
fn nan_and_negative_zero() {
    let row = [0.0, f32::NAN, -0.0, f32::INFINITY].map(bf16::from_f32);
    let compressed = Compressed::of(&row, 4);
    assert!(compressed.kept()[0].is_nan());
    assert_eq!(compressed.kept()[1], bf16::INFINITY);
    assert_eq!(compressed.metadata_tiles([1, 16]), [0x4440 | 1 | 3 << 2]);
    assert_eq!(compressed.dropped(), 0);
    // NaN is kept before what is infinite.
    let row = [f32::INFINITY, f32::INFINITY, f32::NAN, f32::INFINITY].map(bf16::from_f32);
    assert!(Compressed::of(&row, 4).kept()[1].is_nan());
}

#[test]
fn parts_that_are_missing_are_zeroes() {
    let compressed = Compressed::of(&[1.0_f32, 2.0, 3.0], 2);
    assert_eq!(compressed.kept()[..5], [2.0, 0.0, 0.0, 0.0, 3.0]);
    assert_eq!(compressed.dense(), [0.0, 2.0, 3.0, 0.0]);
    assert_eq!(compressed.metadata_tiles([2, 8]), [0x444e, 0x4444]);
    let nothing = Compressed::<bf16>::of(&[], 8);
    assert!(nothing.kept().is_empty() && nothing.metadata_tiles([64, 64]).is_empty());
}

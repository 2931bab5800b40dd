//! Offsets, places and angles that do not fit, which are found where the kernel runs.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Cache, NewLengths, NewTokens, Rotary};

use crate::inputs::{DEPTH, PAGE, buffer, numbers};

/// Offsets that fall, leave the tensor, or are further apart than `longest`: with the check they are errors; without it no row but those of the tensor is stored.
#[test]
fn offsets_that_do_not_fit_are_found() {
    let device = Device::emulator();
    let new = numbers(4 * DEPTH, 1);
    let of_new = buffer(&device, &new);
    let of_new = of_new.view([1, 1, 4, DEPTH]);
    let lengths = buffer(&device, &[9, 9]);
    for (offsets, is_right) in [
        ([0, 2, 4], true),
        ([1, 1, 3], true),
        ([0, 3, 4], false),
        ([-1, 1, 3], false),
        ([0, 2, 1], false),
        ([2, 4, 5], false),
    ] {
        for checked in [true, false] {
            let stream = Stream::new(&device).unwrap();
            let [keys, values] =
                [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 2 * PAGE * DEPTH).unwrap());
            let [of_keys, of_values] =
                [&keys, &values].map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
            let of_offsets = buffer(&device, &offsets);
            let cache = Cache {
                keys: &of_keys,
                values: &of_values,
                lengths: &lengths,
                table: None,
                scales: None,
                checked,
            };
            let tokens = NewTokens {
                keys: &of_new,
                values: &of_new,
                queries: None,
                rotary: None,
                lengths: Some(NewLengths {
                    offsets: &of_offsets,
                    longest: 2,
                }),
                computes_scales: false,
            };
            let result = Attention::new(&device).append(&stream, &tokens, &cache);
            let result = result.and_then(|()| Ok(stream.synchronize()?));
            assert_eq!(
                result.is_ok(),
                is_right || !checked,
                "{offsets:?}, {result:?}"
            );
            if let Err(error) = result {
                assert!(error.to_string().contains("append"), "{error}");
                continue;
            }
            let mut wanted = vec![bf16::ZERO; 2 * PAGE * DEPTH];
            for (sequence, pair) in offsets.windows(2).enumerate() {
                for token in 0..(pair[1] - pair[0]).min(2) {
                    let row = usize::try_from(pair[0] + token).ok().filter(|&row| row < 4);
                    let place = sequence * PAGE + (9 - (pair[1] - pair[0]) + token) as usize;
                    if let Some(row) = row {
                        wanted[place * DEPTH..][..DEPTH]
                            .copy_from_slice(&new[row * DEPTH..][..DEPTH]);
                    }
                }
            }
            assert_eq!(keys.to_vec().unwrap(), wanted, "{offsets:?}");
            assert_eq!(values.to_vec().unwrap(), wanted, "{offsets:?}");
        }
    }
}

#[test]
fn tokens_without_a_place_and_angles_past_the_tables_are_found() {
    let device = Device::emulator();
    let [keys, values] =
        [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 2 * PAGE * DEPTH).unwrap());
    let [of_keys, of_values] = [&keys, &values].map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let new = buffer(&device, &numbers(DEPTH, 1));
    let new = new.view([1, 1, 1, DEPTH]);
    let angles = buffer(&device, &[1.0; 20 * 32]);
    let rotary = Rotary {
        cos: &angles,
        sin: &angles,
        pairs: 32,
        interleaved: true,
    };
    for (length, table, is_right) in [
        (20, [0, 1], true),
        (33, [0, 1], false),
        (0, [0, 1], false),
        (17, [0, 2], false),
        (17, [0, -1], false),
        (21, [0, 1], false),
    ] {
        for checked in [true, false] {
            let stream = Stream::new(&device).unwrap();
            let lengths = buffer(&device, &[length]);
            let table = buffer(&device, &table);
            let cache = Cache {
                keys: &of_keys,
                values: &of_values,
                lengths: &lengths,
                table: Some(&table),
                scales: None,
                checked,
            };
            let tokens = NewTokens {
                keys: &new,
                values: &new,
                queries: None,
                rotary: Some(rotary),
                lengths: None,
                computes_scales: false,
            };
            let attention = Attention::new(&device);
            let result = attention.append(&stream, &tokens, &cache);
            let result = result.and_then(|()| Ok(stream.synchronize()?));
            // Without the check such tokens are left out.
            assert_eq!(result.is_ok(), is_right || !checked, "{length}, {result:?}");
            if let Err(error) = result {
                assert!(error.to_string().contains("append"), "{error}");
            }
        }
    }
}

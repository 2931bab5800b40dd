//! Dropout, of both passes.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Dropout, Options};

use crate::problem::{differentiated, numbers};

/// Equal scores and values of 1: each output is the share of the keys that are kept, divided by one minus the rate. Eight query heads
/// share one of keys, which other calls pack into one tile.
#[test]
fn weights_are_dropped_at_the_rate_and_by_the_seed() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let x = Buffer::from_slice(&device, &vec![bf16::ONE; 8 * 40 * 64]).unwrap();
    let kv = Buffer::from_slice(&device, &vec![bf16::ONE; 256 * 64]).unwrap();
    let (q, kv) = (x.view([1, 8, 40, 64]), kv.view([1, 1, 256, 64]));
    let shares = |rate: f32, seed: u64| -> Vec<f32> {
        let options = Options {
            dropout: Some(Dropout { rate, seed }),
            ..Options::default()
        };
        let forward = attention
            .forward(&stream, [&q, &kv, &kv], &options)
            .unwrap();
        stream.synchronize().unwrap();
        let out = forward.out.to_vec().unwrap();
        out.chunks(64).map(|row| row[0].to_f32()).collect()
    };
    let found = shares(0.25, 3);
    let mean = found.iter().sum::<f32>() / found.len() as f32;
    // 81920 weights: the mean of their factors deviates by 0.002.
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    let spread = found.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / found.len() as f32;
    // Each row is the mean of 256 factors of variance 1/3.
    assert!((spread * 768.0 - 1.0).abs() < 0.3, "{spread}");
    assert_eq!(found, shares(0.25, 3));
    assert_ne!(found, shares(0.25, 4));
    assert_eq!(shares(0.0, 3), vec![1.0; found.len()]);
}

#[test]
fn a_rate_of_one_is_refused() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let x = Buffer::<bf16>::zeros(&device, 8 * 64).unwrap();
    let x = x.view([1, 1, 8, 64]);
    let options = Options {
        dropout: Some(Dropout { rate: 1.0, seed: 0 }),
        ..Options::default()
    };
    let result = Attention::new(&device).forward(&stream, [&x, &x, &x], &options);
    let Err(error) = result else {
        panic!("not refused");
    };
    assert_eq!(
        error.to_string(),
        "attention: `options.dropout`: found a rate of 1; expected 0 or more, and less than 1"
    );
}

/// dV of dO = 1 is the sum over queries of the weights that the forward pass had: the sum of all of it is that of all outputs.
#[test]
fn both_passes_drop_the_same() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let q = Buffer::from_slice(&device, &numbers(2 * 70 * 128, 1)).unwrap();
    let k = Buffer::from_slice(&device, &numbers(90 * 128, 2)).unwrap();
    let ones = Buffer::from_slice(&device, &vec![bf16::ONE; 2 * 90 * 128]).unwrap();
    let (q, k, v) = (
        q.view([1, 2, 70, 128]),
        k.view([1, 1, 90, 128]),
        ones.view([1, 1, 90, 128]),
    );
    let dout = ones.view([1, 2, 70, 128]);
    let options = Options {
        causal: true,
        dropout: Some(Dropout {
            rate: 0.5,
            seed: 11,
        }),
        ..Options::default()
    };
    let (forward, found) = differentiated(
        (&attention, &stream),
        [&q, &k, &v],
        (&dout, [1, 2, 70, 128]),
        &options,
    );
    let sum = |x: &Buffer<bf16>| -> f64 {
        let x = x.to_vec().unwrap();
        x.iter().step_by(128).map(|x| x.to_f64()).sum()
    };
    let [of_out, of_dv] = [sum(&forward.out), sum(&found.dv)];
    assert!((of_out / of_dv - 1.0).abs() < 2e-3, "{of_out} {of_dv}");
}

//! How many calls are drawn, of what sizes, and where they run.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tilekit::prelude::*;

/// Whether calls run on GPU 0.
pub(crate) fn is_on_gpu() -> bool {
    std::env::var("TILEKIT_TEST_DEVICE").is_ok_and(|device| device == "cuda")
}

/// GPU 0 or an emulator.
pub(crate) fn device() -> Device {
    if is_on_gpu() {
        Device::cuda(0).unwrap()
    } else {
        Device::emulator()
    }
}

/// Makes so many calls, or `RANDOM_COUNT`; one that panics is made smaller until it does not.
pub(crate) fn each<S: Strategy>(count: u32, calls: &S, call: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number("RANDOM_SEED").unwrap_or(0_u64).to_le_bytes());
    let config = Config {
        cases: number("RANDOM_COUNT").map_or(count, |count| count as u32),
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let made = runner.run(calls, |one| {
        call(one);
        Ok(())
    });
    if let Err(failure) = made {
        panic!("{failure}");
    }
}

/// An extent between 1 and `most`, as many of each power of two; a third are multiples of 8 and a few are 0.
pub(crate) fn extent(most: usize) -> impl Strategy<Value = usize> {
    let whole = (most as f64).log2();
    (0.0..whole, 0..30_u8).prop_map(move |(power, kind)| {
        let extent = power.exp2() as usize;
        match kind {
            29 => 0,
            0..10 => extent.next_multiple_of(8),
            _ => extent,
        }
    })
}

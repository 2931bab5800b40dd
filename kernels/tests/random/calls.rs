//! How many calls are drawn, of what sizes, and where they run.

use std::fmt::Debug;
use std::time::Instant;

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

/// Makes so many calls, or `RANDOM_COUNT`, of which none begins after `RANDOM_SECONDS`; one that panics is made smaller until it does not.
pub(crate) fn each<S: Strategy>(count: u32, calls: &S, call: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number("RANDOM_SEED").unwrap_or(0).to_le_bytes());
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 300,
        // In milliseconds; 0 is none.
        max_shrink_time: if is_on_gpu() { 8000 } else { 0 },
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let count = number("RANDOM_COUNT").unwrap_or(count.into());
    let (begin, most) = (Instant::now(), number("RANDOM_SECONDS"));
    let is_in_time = |_: &u64| most.is_none_or(|most| begin.elapsed().as_secs() < most);
    let mut made = 0;
    for _ in (0..count).take_while(is_in_time) {
        let drawn = calls.new_tree(&mut runner).unwrap();
        let result = runner.run_one(drawn, |one| {
            call(one);
            Ok(())
        });
        if let Err(failure) = result {
            panic!("{failure}");
        }
        made += 1;
    }
    if most.is_some() {
        let of = std::thread::current();
        println!("{}: {made} calls", of.name().unwrap_or_default());
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
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

//! The devices of a test.

use tilekit::{EmulatorOptions, World};

/// So many emulated devices; with `TILEKIT_TEST_DEVICE=cuda` as many GPUs, or all that there are.
pub(crate) fn world(ranks: usize, seed: u64) -> World {
    if std::env::var("TILEKIT_TEST_DEVICE").is_ok_and(|device| device == "cuda") {
        let mut fewer = (1..=ranks).rev();
        return fewer.find_map(|ranks| World::cuda(ranks).ok()).unwrap();
    }
    emulated(ranks, seed)
}

/// Emulated devices, whatever there is.
pub(crate) fn emulated(ranks: usize, seed: u64) -> World {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    World::emulators(ranks, options).unwrap()
}

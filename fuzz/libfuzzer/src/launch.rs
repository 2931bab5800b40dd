//! libFuzzer's bytes decide which text is mutated and how; see `tilekit-fuzz`.
#![no_main]

use std::sync::LazyLock;

use fuzz::{Choices, Surface, mutate, seeds};

static SEEDS: LazyLock<Vec<String>> = LazyLock::new(|| seeds(Surface::Launch));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::Bytes(bytes);
    let seed = &SEEDS[choices.below(SEEDS.len())];
    let _ = Surface::Launch.read(&mutate(seed, &SEEDS, &mut choices));
});

//! Kernels that spill registers, each with the bytes and the reason: no other snapshot may.

use std::collections::BTreeMap;
use std::fs;

use super::{at, read};

/// The snapshots that spill, the bytes of stores and loads, and why.
#[rustfmt::skip]
const SPILLS: &[(&str, u32, &str)] = &[
    ("alternating-bf16-bf16-Standard-128x192x4x2-alpha-scales_of_a-scales_of_b-bias-source-gelu", 920, "The source is loaded ahead of what it is added to, which is worth more (bench/results/products/epilogues.md)."),
    ("any_rows-bf16-bf16-Plain-1x128-2-8-8-a_along_m-b_along_n", 316, "What a step loads: two CTAs, which would not, are slower at five steps (bench/results/products/ragged.md)."),
    ("any_rows-bf16-bf16-Plain-2x128-2-2-1", 348, "What a step loads: one CTA, which would not, is slower at five steps (bench/results/products/ragged.md)."),
    ("backward-bf16-256-256-false-Dropped-Plain", 36, "Outside the steps: once a CTA or a query head."),
    ("backward-bf16-256-256-false-Plain", 92, "A load of 4 bytes in a masked step of 58 products; the others once a CTA, a query head or a loop."),
    ("backward-bf16-256-256-true-Plain", 128, "A load of 4 bytes in a masked step of 58 products; the others once a query head or a loop."),
    ("decode_latent-bf16-false", 16, "In front of the first barrier."),
    ("decode_latent-bf16-true", 752, "Loads ahead are worth 2 to 3 % (bench/results/attention.md)."),
    ("decode_latent-f16-false", 16, "In front of the first barrier."),
    ("forward_blocks-bf16-256-256-64-false-Plain", 124, "Values of a tile, none within a step (bench/results/attention.md)."),
    ("one_shot-bf16-16-true-8x16x2", 48, "Addresses and counts: six loads and stores in a turn of 2300 instructions."),
    ("ring_attention-bf16-256-256-2-64-false-false", 252, "Once a tile, and in the warp that loads and sends: 24 or 56 registers for it take more."),
    ("ring_attention-bf16-256-256-2-64-true-false", 444, "Once a tile, and in the warp that loads and sends: 24 or 56 registers for it take more."),
    ("ring_attention-bf16-64-64-3-128-false-true", 72, "In the warps that load and send: consumers need all of their 160 registers."),
    ("ring_attention-bf16-64-64-3-128-true-true", 228, "In the warps that load and send: consumers need all of their 160 registers."),
    ("two_shot-bf16-16-8x16x2", 196, "Addresses and counts: some 40 loads and stores in a turn of 4200 instructions."),
    ("weight_only_many-bf16-bf16-Standard-2x256x5-int4_of_128-alpha-scales_of_a-scales_of_b-bias-source-relu", 280, "In the epilogue of a tile, none within a step."),
];

/// The number in front of `bytes spilled`.
fn spilled(facts: &str) -> Option<u32> {
    let (before, _) = facts.split_once(" bytes spilled")?;
    let (_, number) = before.rsplit_once(' ')?;
    Some(number.parse().expect("facts have a number of bytes"))
}

/// What each snapshot of tuned kernels spills.
fn found() -> BTreeMap<String, u32> {
    let entries = fs::read_dir(at("snapshots/tuned")).expect("the snapshots are there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let facts = paths.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".facts.snap")?;
        Some((name.to_owned(), spilled(&read(&path))?))
    });
    facts.collect()
}

#[test]
fn no_other_kernel_spills() {
    let found = found();
    assert!(!found.is_empty(), "no snapshot says what it spills");
    let spilling: BTreeMap<&str, u32> = found
        .iter()
        .filter(|&(_, &bytes)| bytes > 0)
        .map(|(name, &bytes)| (name.as_str(), bytes))
        .collect();
    let listed: BTreeMap<&str, u32> = SPILLS
        .iter()
        .map(|&(name, bytes, _)| (name, bytes))
        .collect();
    assert_eq!(
        spilling,
        listed,
        "left: what snapshots spill; right: the list in {}",
        file!()
    );
}

//! Loads and stores of global memory under masks.

use ir::elem::DType;

use crate::machine::{LEN, elementwise, ptx_of, run};
use crate::values::{bytes, samples, values};

#[test]
fn ragged_masks_keep_what_is_outside() {
    for dtype in [
        DType::I8,
        DType::U16,
        DType::Bf16,
        DType::F32,
        DType::I64,
        DType::I1,
    ] {
        for inside in [0, 1, 3, 37, 128, 255, 256] {
            let body = format!(
                "  %n = constant {{value={inside}}} : tensor<{LEN}xi32, #b>\n  %m = compare %i, %n {{op=lt}} : tensor<{LEN}xi1, #b>\n  %z = load %a1, mask=%m, other=%x0 : tensor<{LEN}x{dtype}, #b>\n  %r = select %m, %z, %x0 : tensor<{LEN}x{dtype}, #b>\n"
            );
            let data = [samples(dtype, 12), samples(dtype, 13)];
            let text = elementwise(&[dtype, dtype], dtype, &body);
            let raw: Vec<Vec<u8>> = data.iter().map(|s| bytes(s, dtype)).collect();
            let found = values(
                &run(&text, &[&raw[0], &raw[1]], LEN * dtype.bytes() as usize),
                dtype,
            );
            let wanted: Vec<u64> = (0..LEN)
                .map(|at| data[usize::from(at < inside)][at])
                .collect();
            assert_eq!(found, wanted, "{dtype}, {inside} inside");
        }
    }
}

/// What an access may say to the caches: every cache operator or L1 priority, with and without an L2 priority.
fn hints(operators: &[&str]) -> Vec<String> {
    let priorities = [
        "evict_first",
        "evict_last",
        "evict_unchanged",
        "no_allocate",
    ];
    let operators = operators.iter().map(|o| format!("cache={o}"));
    let priorities = priorities.iter().map(|p| format!("eviction={p}"));
    let level1: Vec<String> = operators.chain(priorities).collect();
    let level2 = ["policy=evict_first", "policy=evict_last"].map(str::to_owned);
    let both = level1
        .iter()
        .flat_map(|one| level2.iter().map(move |two| format!("{one}, {two}")));
    let both: Vec<String> = both.collect();
    [level1, level2.to_vec(), both].concat()
}

/// Hints change no result, and every one is accepted by ptxas at every width.
#[test]
fn accesses_take_eviction_priorities() {
    for dtype in [DType::I8, DType::F32, DType::F64] {
        let data = samples(dtype, 14);
        let raw = bytes(&data, dtype);
        let copy = |load: &str, store: &str| {
            let body = format!("  %r = load %a0 {{{load}}} : tensor<{LEN}x{dtype}, #b>\n");
            let text = elementwise(&[dtype], dtype, &body);
            let text = text.replace("store %ao, %r", &format!("store %ao, %r {{{store}}}"));
            assert_eq!(run(&text, &[&raw], raw.len()), raw, "{text}");
        };
        for load in hints(&["ca", "cg", "cs"]) {
            copy(&load, "cache=cs");
            copy(&format!("{load}, prefetch=256"), "policy=evict_first");
        }
        for store in hints(&["wb", "cg", "cs"]) {
            copy("policy=evict_last", &store);
        }
    }
}

#[test]
fn a_policy_is_made_once_for_all_accesses() {
    let load = "  %r = load %a0 {policy=evict_last} : tensor<256xf32, #b>\n";
    let text = elementwise(&[DType::F32], DType::F32, load);
    let ptx = ptx_of(&text.replace("store %ao, %r", "store %ao, %r {policy=evict_last}"));
    assert_eq!(ptx.matches("createpolicy").count(), 1, "{ptx}");
    for access in ["ld.global.L2::cache_hint", "st.global.L2::cache_hint"] {
        assert!(ptx.contains(access), "{ptx}");
    }
}

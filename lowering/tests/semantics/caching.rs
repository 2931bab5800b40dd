//! What is said to the caches reaches the PTX and changes no result, and atomics on shared memory that tell what they found.

use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;
use ir::Func;
use ir::elem::DType;
use lowering::{Options, compile};

use crate::machine::{LEN, run_func};
use crate::values::{bytes, values};

fn places() -> Tensor<i32> {
    arange(0..LEN, Blocked::new([2], [32], [4], [0]))
}

#[kernel(warps = 4)]
fn kept(x: Ptr<u32>, out: Ptr<u32>) {
    let at = places();
    x.at(at).prefetch(PrefetchInto::L1);
    x.at(at).mask(at < 64).prefetch(PrefetchInto::L2Last);
    let half = L2Policy::EvictLast.fraction(0.5);
    let v = x.at(at).policy(half.rest_first()).load();
    let w = x.at(at).policy(L2Policy::EvictUnchanged).load();
    let normal = L2Policy::EvictNormal;
    out.at(at).policy(normal).store(v + w);
}

#[test]
fn policies_and_prefetches_are_hints() {
    let func: Func = KernelFn::trace(kept).unwrap_or_else(|e| panic!("{e}")).func;
    let x: Vec<u64> = (0..LEN as u64).collect();
    let found = values(
        &run_func(func.clone(), &[&bytes(&x, DType::U32)], 4 * LEN),
        DType::U32,
    );
    assert!(found.iter().zip(&x).all(|(found, x)| *found == 2 * x));
    let compiled = compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let ptx = compiled.module.to_text();
    for instruction in [
        "createpolicy.fractional.L2::evict_last.L2::evict_first.b64",
        "createpolicy.fractional.L2::evict_unchanged.b64",
        "createpolicy.fractional.L2::evict_normal.b64",
        "prefetch.global.L1",
        "prefetch.global.L2::evict_last",
    ] {
        assert!(ptx.contains(instruction), "no `{instruction}` in\n{ptx}");
    }
}

#[kernel(warps = 4)]
fn too_much(x: Ptr<u32>) {
    let at = places();
    let v = x.at(at).policy(L2Policy::EvictLast.fraction(1.5)).load();
    x.at(at).store(v);
}

#[test]
fn a_fraction_beyond_1_is_refused() {
    let error = KernelFn::trace(too_much).err().map(|e| e.to_string());
    let error = error.expect("a fraction of 1.5 is refused");
    assert!(
        error.contains("a fraction of 1.5 of the accesses"),
        "{error}"
    );
}

const BINS: usize = 16;

/// The number of each element among those with the same key: elements of one key draw tickets.
#[kernel(warps = 4)]
fn tickets(keys: Ptr<u32>, out: Ptr<u32>) {
    let counters = Smem::<u32>::alloc([BINS], Swizzled::plain([0]));
    counters.store(zeros([BINS], Blocked::new([1], [32], [4], [0])));
    let at = places();
    let keys = keys.at(at).load();
    let ticket = counters.at_indices(keys, 0).mask(at >= 32).fetch_add(1);
    out.at(at).store(ticket);
    // What comes after finds what was added.
    let after = counters.at_indices(keys, 0).fetch_max(0);
    out.at(places() + LEN).store(after);
}

#[test]
fn atomics_on_shared_memory_tell_what_they_found() {
    let keys: Vec<u64> = (0..LEN as u64).map(|at| at * at % 7).collect();
    let func = KernelFn::trace(tickets)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let found = run_func(func, &[&bytes(&keys, DType::U32)], 8 * LEN);
    let found = values(&found, DType::U32);
    for key in 0..BINS as u64 {
        let of_key: Vec<usize> = (32..LEN).filter(|&at| keys[at] == key).collect();
        let mut drawn: Vec<u64> = of_key.iter().map(|&at| found[at]).collect();
        drawn.sort_unstable();
        assert!(
            drawn.into_iter().eq(0..of_key.len() as u64),
            "tickets of {key}"
        );
        let totals = (0..LEN)
            .filter(|&at| keys[at] == key)
            .map(|at| found[LEN + at]);
        assert!(
            { totals }.all(|total| total == of_key.len() as u64),
            "total of {key}"
        );
    }
    assert!(
        found[..32].iter().all(|ticket| *ticket == 0),
        "no ticket where the mask is false"
    );
}

#[kernel(warps = 4)]
fn readonly_of_the_launch_before(#[readonly] x: Ptr<u32>, out: Ptr<u32>) {
    launch_wait();
    out.at(places()).store(x.at(places()).load());
}

#[kernel(warps = 4)]
fn readonly(#[readonly] x: Ptr<u32>, out: Ptr<u32>) {
    out.at(places()).store(x.at(places()).load());
}

/// ptxas moves `ld.global.nc` in front of the wait, where the launch before has not written yet.
#[test]
fn loads_of_what_the_launch_before_writes_are_coherent() {
    let ptx_of = |func: Func| {
        let compiled = compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        compiled.module.to_text()
    };
    let traced = [
        KernelFn::trace(readonly),
        KernelFn::trace(readonly_of_the_launch_before),
    ];
    let are_constant = traced.map(|traced| {
        let func = traced.unwrap_or_else(|e| panic!("{e}")).func;
        ptx_of(func).contains("ld.global.nc")
    });
    assert_eq!(are_constant, [true, false]);
}

//! What only a strict launch reports: an order that the PTX ISA gives to the executing threads alone.

use emulator::FaultKind::Mbarrier as Misuse;
use tilekit::prelude::*;
use tilekit::{Checks, EmulatorOptions};

use crate::{Said, fault_of, fault_on};

fn strict(seed: u64) -> Device {
    let checks = Checks {
        strict: true,
        ..Checks::default()
    };
    Device::emulator_with(EmulatorOptions {
        seed,
        checks,
        ..EmulatorOptions::default()
    })
}

/// A warpgroup ends two phases, with a product between. Wrong: its first thread alone arrives, having waited for the product.
#[kernel(warps = 4, instances(<true>, <false>))]
fn after_a_product<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let rows = Blocked::new([1, 16], [8, 4], [4, 1], [1, 0]);
    let factor = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows), Nvmma::B128);
    let (by, count) = if WRONG {
        (Arrivers::Warpgroup, 1)
    } else {
        (Arrivers::Warp, 4)
    };
    let turn = Mbarrier::alloc(count);
    fence_async_shared();
    let mut acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    // The barrier that the stores need stands before this product, and none after it.
    acc = acc.mma(factor, factor).wait(0);
    turn.arrival().by(by).arrive();
    turn.wait(0);
    acc = acc.mma(factor, factor).wait(0);
    turn.arrival().by(by).arrive(); // product: arrives
    turn.wait(1);
    out.store(acc.wait_all().sum(1).sum(0).scalar().cast::<i32>());
}

#[test]
fn a_warp_that_waited_for_a_product_speaks_for_itself() {
    let said = Said {
        kinds: &[Misuse],
        source: include_str!("strict.rs"),
        marks: &["product: arrives"],
    };
    said.of_runs(
        |seed| {
            let fault = fault_on(&strict(seed), after_a_product::<true>, 1)?;
            let help = fault.help.as_deref().unwrap_or_default();
            assert!(
                help.contains("complete for the executing threads"),
                "{fault}"
            );
            Some(fault)
        },
        |seed| {
            let usual = fault_of(seed, after_a_product::<true>, 1);
            usual.or_else(|| fault_on(&strict(seed), after_a_product::<false>, 1))
        },
    );
}

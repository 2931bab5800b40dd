//! Conversions between layouts of which one gives whole granules of a dimension to sets of warps, and the other to registers.
//!
//! The maps onto the sizes rounded up are exchanged through shared memory as one. An access moves no registers together that
//! step over whole granules, so that all its elements exist or none does; those that do not are left out.

use super::pull::Pull;
use super::{Conversion, ConversionPlan, LaneAccess, Limits, SharedPlan};
use crate::{Axis, LinearLayout};

/// Plans the conversion of a tensor whose shape cuts the maps.
pub(super) fn plan(
    src: &LinearLayout,
    dst: &LinearLayout,
    elem_bits: u32,
    limits: Limits,
) -> ConversionPlan {
    let pull = Pull::across(src, dst);
    let mut shared = SharedPlan::new(&pull, elem_bits, limits);
    let stored = src.registers();
    let loaded: Vec<u32> = (0..pull.dst.num_registers())
        .filter(|&value| src.is_inside(place_of(&pull.dst, value)))
        .collect();
    for exchange in &mut shared.exchanges {
        keep_existing(&mut exchange.stores, &stored);
        keep_existing(&mut exchange.loads, &loaded);
    }
    let value = |number: &u32| {
        let value = pull.results[*number as usize];
        let found = loaded.binary_search(&value);
        found.expect("a register that exists is a copy of one that does") as u32
    };
    ConversionPlan {
        elem_bits,
        conversion: Conversion::Shared(shared),
        results: dst.registers().iter().map(value).collect(),
    }
}

/// The packed coordinates that a register adds to those of its thread.
fn place_of(map: &LinearLayout, register: u32) -> u64 {
    map.apply_packed(u64::from(register) << map.in_shift(Axis::Register))
}

/// The accesses of numbers among these, each called by its place there.
fn keep_existing(accesses: &mut Vec<LaneAccess>, existing: &[u32]) {
    accesses.retain_mut(|access| {
        let places = access.registers.iter();
        let places = places.map(|number| existing.binary_search(number).ok());
        let found: Option<Vec<usize>> = places.collect();
        found.is_some_and(|found| {
            access.registers = found.into_iter().map(|at| at as u32).collect();
            true
        })
    });
}

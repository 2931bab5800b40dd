//! Bank conflicts of plans against Gluon's table, enumeration and examples by hand.

use std::collections::BTreeMap;

use layout::local::{LocalPlan, Storage, plan_local};
use layout::{Axis, Layout, Padded, SharedLayout, Swizzled};
use serde::Deserialize;
use target::SM_90A;

use crate::convert::extra_wavefronts;
use crate::family::layout;
use crate::golden::Golden;

#[derive(Deserialize)]
struct Table {
    element_bits: u32,
    shape: Vec<u32>,
    register_layouts: BTreeMap<String, Golden>,
    shared_layouts: BTreeMap<String, Golden>,
    conflicts: BTreeMap<String, BTreeMap<String, u32>>,
}

fn table() -> Table {
    serde_json::from_str(include_str!("../golden/bank_conflicts.json")).unwrap()
}

fn plan(registers: &Layout, shared: &SharedLayout, shape: &[u32], elem_bits: u32) -> LocalPlan {
    let map = registers.linear(shape).unwrap();
    plan_local(&SM_90A, &map, shared, shape, elem_bits).unwrap()
}

/// Wavefronts of lanes that are served together beyond the one that their bytes need.
#[track_caller]
fn conflicts(registers: &Layout, shared: &SharedLayout, shape: &[u32], elem_bits: u32) -> u32 {
    let storage = Storage::new(shared, shape, elem_bits / 8).unwrap();
    let cost = plan(registers, shared, shape, elem_bits).cost(&storage);
    let needed = cost.wavefronts - cost.conflicts;
    assert_eq!(cost.conflicts % needed, 0, "they differ: {cost:?}");
    cost.conflicts / needed
}

#[test]
fn golden_bank_conflicts() {
    let table = table();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (register_name, row) in &table.conflicts {
        for (shared_name, &theirs) in row {
            let registers = table.register_layouts[register_name].clone().distributed();
            let shared = table.shared_layouts[shared_name].clone().shared();
            let ours = conflicts(&registers, &shared, &table.shape, table.element_bits);
            compared += 1;
            if ours != theirs {
                wrong.push(format!(
                    "{register_name} x {shared_name}: {ours}, Gluon {theirs}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(compared, 72);
}

/// The same numbers by putting every lane's words into banks.
#[test]
fn conflicts_are_those_of_enumeration() {
    let table = table();
    for registers in table.register_layouts.values() {
        for shared in table.shared_layouts.values() {
            let (registers, shared) = (registers.clone().distributed(), shared.clone().shared());
            for elem_bits in [8, 16, 32] {
                let vector = plan(&registers, &shared, &table.shape, elem_bits).vector;
                let map = registers.linear(&table.shape).unwrap();
                let offsets = map.find_in(&shared.linear(&table.shape).unwrap()).unwrap();
                let bytes = vector * elem_bits / 8;
                let offset =
                    |lane| offsets.apply(&[(Axis::Lane, lane)])[0] * elem_bits / 8 / bytes * bytes;
                let counted = extra_wavefronts(32, 0, bytes, offset);
                assert_eq!(
                    conflicts(&registers, &shared, &table.shape, elem_bits),
                    counted,
                    "{registers} in {shared} of {elem_bits} bits"
                );
            }
        }
    }
}

#[test]
fn padding_breaks_the_conflicts_of_columns() {
    let columns = layout("Blocked([1, 1], [32, 1], [1, 4], [0, 1])");
    let conflicts = |shared: SharedLayout| conflicts(&columns, &shared, &[32, 32], 32);
    assert_eq!(conflicts(Swizzled::plain([1, 0]).into()), 31);
    assert_eq!(conflicts(Padded::new([[32, 1]], [1, 0]).into()), 0);
    assert_eq!(conflicts(Padded::new([[32, 2]], [1, 0]).into()), 1);
    assert_eq!(conflicts(Padded::new([[64, 1]], [1, 0]).into()), 1);
}

#[test]
fn padding_bounds_the_vector() {
    let rows = layout("Blocked([1, 8], [4, 8], [4, 1], [1, 0])");
    let vector = |pairs: [u32; 2]| {
        let shared: SharedLayout = Padded::new([pairs], [1, 0]).into();
        plan(&rows, &shared, &[64, 64], 16).vector
    };
    assert_eq!(
        (
            vector([64, 8]),
            vector([64, 4]),
            vector([64, 1]),
            vector([4, 8])
        ),
        (8, 4, 1, 4)
    );
}

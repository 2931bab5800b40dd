//! Bank conflicts and coalescing against Gluon's table, enumeration and examples by hand.

use std::collections::BTreeMap;

use gluon_lang::layout::banks::{bank_conflicts, global_access, shared_access};
use gluon_lang::layout::{Axis, Layout, Padded, SharedLayout, Swizzled};
use serde::Deserialize;

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

#[test]
fn golden_bank_conflicts() {
    let table = table();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (register_name, row) in &table.conflicts {
        for (shared_name, &theirs) in row {
            let registers = table.register_layouts[register_name].clone().distributed();
            let shared = table.shared_layouts[shared_name].clone().shared();
            let ours =
                bank_conflicts(&registers, &shared, &table.shape, table.element_bits).unwrap();
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
fn conflicts_from_bases_are_those_of_enumeration() {
    let table = table();
    for registers in table.register_layouts.values() {
        for shared in table.shared_layouts.values() {
            let (registers, shared) = (registers.clone().distributed(), shared.clone().shared());
            for elem_bits in [8, 16, 32] {
                let cost = shared_access(&registers, &shared, &table.shape, elem_bits).unwrap();
                let map = registers.linear(&table.shape).unwrap();
                let offsets = map.find_in(&shared.linear(&table.shape).unwrap()).unwrap();
                let bytes = cost.vector_elements * elem_bits / 8;
                let offset =
                    |lane| offsets.apply(&[(Axis::Lane, lane)])[0] * elem_bits / 8 / bytes * bytes;
                let counted = extra_wavefronts(32, 0, bytes, offset);
                assert_eq!(
                    cost.extra_wavefronts, counted,
                    "{registers} in {shared} of {elem_bits} bits"
                );
            }
        }
    }
}

#[test]
fn padding_breaks_the_conflicts_of_columns() {
    let columns = layout("Blocked([1, 1], [32, 1], [1, 4], [0, 1])");
    let conflicts =
        |shared: SharedLayout| bank_conflicts(&columns, &shared, &[32, 32], 32).unwrap();
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
        shared_access(&rows, &shared, &[64, 64], 16)
            .unwrap()
            .vector_elements
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

#[test]
fn coalescing_counts_sectors() {
    let cost = |text: &str, shape: &[u32], bits: u32| {
        let layout: Layout = layout(text);
        let cost = global_access(&layout, shape, bits, None).unwrap();
        (
            cost.vector_elements,
            cost.accesses,
            cost.sectors_per_request,
            cost.bytes_useful,
        )
    };
    assert_eq!(
        cost("Blocked([4], [32], [4], [0])", &[1024], 32),
        (4, 2, 16, 512)
    );
    assert_eq!(
        cost("Blocked([1], [32], [4], [0])", &[1024], 32),
        (1, 8, 4, 128)
    );
    // Each lane in another row: a sector for 16 bytes.
    assert_eq!(
        cost("Blocked([1, 1], [32, 1], [4, 1], [0, 1])", &[128, 64], 32),
        (4, 16, 32, 512)
    );
    // Registers along the columns of a row-major tensor do not vectorise.
    assert_eq!(
        cost("Blocked([8, 1], [4, 8], [4, 1], [0, 1])", &[128, 64], 16),
        (1, 64, 4, 64)
    );
    let odd = global_access(
        &layout("Blocked([1, 4], [8, 4], [4, 1], [1, 0])"),
        &[64, 16],
        32,
        Some(1001),
    )
    .unwrap();
    assert_eq!(
        odd.vector_elements, 1,
        "rows that start anywhere do not vectorise"
    );
    assert!(odd.waste() > 1.0);
}

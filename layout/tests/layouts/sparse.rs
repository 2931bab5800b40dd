//! The layout of the metadata of sparse operands against the tables of the PTX ISA (9.7.15.6.2).

use layout::{Axis, Layout, Wgmma};

/// The row and the column of metadata of each half of the register of a lane, for an instruction whose K begins at column
/// `first`; none in lanes that the selector leaves out.
fn in_the_isa(bits: u32, selector: u32, lane: u32, first: u32) -> Option<[[u32; 2]; 2]> {
    let (group, place) = (lane / 4, lane % 4);
    if bits == 8 {
        let row = group + 8 * (place % 2);
        let column = first + place / 2 * 2;
        return Some([[row, column], [row, column + 1]]);
    }
    let column = first + place % 2;
    (place / 2 == selector).then_some([[group, column], [group + 8, column]])
}

/// Every number that an instruction reads lies in the lane and the warp that the ISA names.
#[track_caller]
fn check(sums: &Wgmma, bits: u32, shape: [u32; 2]) {
    let layout = Layout::from(sums.sparse_metadata(bits, shape));
    layout.check(&shape).unwrap();
    let map = layout.linear(&shape).unwrap();
    let held = |lane: u32, warp: u32| -> Vec<Vec<u32>> {
        let registers = map.registers().into_iter();
        let place = |register| {
            let at = [
                (Axis::Register, register),
                (Axis::Lane, lane),
                (Axis::Warp, warp),
            ];
            map.apply(&at).to_vec()
        };
        registers.map(place).collect()
    };
    let columns = if bits == 8 { 4 } else { 2 };
    let warpgroups = sums.warps[0] / 4;
    for warp in 0..sums.warps[0] * sums.warps[1] {
        let group = warp % sums.warps[0] / 4;
        for tile in 0..shape[0] / 64 {
            // Tiles go round the warpgroups along M; three of them have one part each.
            let owner = if warpgroups.is_power_of_two() {
                tile % warpgroups
            } else {
                tile / (shape[0] / 64 / warpgroups)
            };
            if owner != group {
                continue;
            }
            for step in 0..shape[1] / columns {
                let reads = |selector: u32| {
                    (0..32).all(|lane| {
                        let read = in_the_isa(bits, selector, lane, step * columns);
                        let places = held(lane, warp);
                        read.is_none_or(|read| {
                            read.iter().all(|[row, column]| {
                                let row = tile * 64 + warp % 4 * 16 + row;
                                places.contains(&vec![row, *column])
                            })
                        })
                    })
                };
                let selectors = if bits == 8 { 1 } else { 2 };
                assert!(
                    (0..selectors).any(reads),
                    "warp {warp} tile {tile} step {step} of {layout}"
                );
            }
        }
    }
}

#[test]
fn metadata_lies_where_the_instruction_reads_it() {
    for bits in [8, 16, 32] {
        let columns = if bits == 8 { [4, 8, 12] } else { [2, 4, 6] };
        for columns in columns {
            for (warps, rows) in [
                ([4, 1], 64),
                ([4, 1], 128),
                ([4, 1], 192),
                ([8, 1], 128),
                ([8, 1], 256),
                ([4, 2], 64),
                ([12, 1], 192),
                ([12, 1], 384),
                ([4, 3], 64),
            ] {
                let sums = Wgmma::new(warps, [64, 64, 256 / bits]);
                check(&sums, bits, [rows, columns]);
            }
        }
    }
}

#[test]
fn one_register_serves_two_instructions() {
    let sums = Wgmma::new([4, 1], [64, 256, 16]);
    assert_eq!(
        Layout::from(sums.sparse_metadata(16, [64, 4])).to_string(),
        "Linear(register=[[8, 0]], lane=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp=[[16, 0], [32, 0]])"
    );
    assert_eq!(
        Layout::from(sums.sparse_metadata(8, [128, 8])).to_string(),
        "Linear(register=[[0, 1], [0, 4], [64, 0]], lane=[[8, 0], [0, 2], [1, 0], [2, 0], [4, 0]], warp=[[16, 0], [32, 0]])"
    );
}

#[test]
fn ctas_have_the_rows_of_their_sums() {
    let sums = Wgmma::new([4, 1], [64, 64, 16]).with_ctas([[64, 0], [0, 64]]);
    assert_eq!(
        Layout::from(sums.sparse_metadata(16, [128, 4])).to_string(),
        "Linear(register=[[8, 0]], lane=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp=[[16, 0], [32, 0]], block=[[64, 0], [0, 0]])"
    );
}

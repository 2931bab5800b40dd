//! Epilogue buffers of groups that share them, over several rounds.

use tilekit::prelude::*;

use crate::{launch, mistakes};

const GROUPS: usize = 3;
const ROWS: usize = 16;
const COLUMNS: usize = 64;

/// Tile `[round, group]` of `out` is filled with `round * GROUPS + group`.
#[kernel(warps = 4)]
fn rounds_of_tiles<const BUFFERS: usize>(
    #[block([ROWS, COLUMNS], Nvmma::PLAIN)] out: TensorMap<i32>,
    rounds: i32,
) {
    let turns = Turns {
        buffers: BUFFERS,
        groups: GROUPS,
        warps: 4,
    };
    let epilogue = EpilogueStore::alloc(out, turns);
    let fill = |group: usize| {
        let layout = Blocked::new([1, 4], [2, 16], [4, 1], [1, 0]);
        let mut turn = epilogue.start();
        for round in range(0, rounds) {
            let tile = full([ROWS, COLUMNS], round * GROUPS + group, layout.clone());
            turn = epilogue.fill(group, turn, tile);
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for round in range(0, rounds) {
            let row = (round * GROUPS + group) * ROWS;
            turn = epilogue.store(group, turn, out, [row, scalar(0)]);
        }
    };
    let mut parts = warp_specialize().main(|| fill(0));
    for group in 1..GROUPS {
        parts = parts.worker(Warps(4), || fill(group));
    }
    for group in 0..GROUPS {
        parts = parts.worker(Warps(1), || store(group));
    }
    parts.run();
}

#[test]
fn groups_share_buffers() {
    let device = Device::emulator();
    for rounds in [1, 2, 5] {
        let tiles = rounds as usize * GROUPS;
        let out =
            Buffer::<i32>::zeros(&device, tiles * ROWS * COLUMNS).expect("memory of the host");
        let expected: Vec<i32> = (0..tiles as i32)
            .flat_map(|tile| [tile; ROWS * COLUMNS])
            .collect();
        let view = || out.view([tiles * ROWS, COLUMNS]);
        launch(&device, rounds_of_tiles::<1>, grid(1u32), (view(), rounds)).expect("in turns");
        assert!(out.to_vec().expect("it has run") == expected);
        out.fill_bytes(0).expect("memory of the host");
        launch(&device, rounds_of_tiles::<3>, grid(1u32), (view(), rounds)).expect("own buffers");
        assert!(out.to_vec().expect("it has run") == expected);
    }
}

#[test]
fn buffers_divide_the_groups() {
    let found = mistakes(rounds_of_tiles::<2>);
    assert!(
        found.contains("expected a divisor of the groups"),
        "{found}"
    );
}

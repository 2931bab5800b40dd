//! Tile schedulers: every tile is made once, and the work is even.

use tilekit::prelude::*;

use crate::launch;

fn zeros_of(device: &Device, len: usize) -> Buffer<i32> {
    Buffer::zeros(device, len.max(1)).expect("memory of the host")
}

/// Each of two partitions marks the tiles that it sees.
#[kernel(warps = 4)]
fn dynamic(counter: Ptr<i32>, drawn: Ptr<i32>, wide: Ptr<i32>, narrow: Ptr<i32>, count: i32) {
    let tiles = DynamicTiles::new(counter, count, Consumers::warps(4 + 1));
    let see = |marks: Ptr<i32>| {
        let mut tile = tiles.start();
        while tile.number() < tiles.count() {
            marks.at(tile.number()).relaxed().atomic_add(1);
            tile = tiles.receive(tile);
        }
    };
    let draw = || {
        let mut tile = tiles.start();
        while tile.number() < tiles.count() {
            let next = tiles.draw();
            drawn.at(tile.number()).relaxed().atomic_add(1);
            tile = tiles.send(tile, next);
        }
        tiles.end(tile);
    };
    warp_specialize()
        .main(|| see(wide))
        .worker(Warps(1), draw)
        .worker(Warps(1), || see(narrow))
        .run();
}

#[test]
fn every_drawn_tile_reaches_all_partitions_once() {
    let device = Device::emulator();
    for count in [1, 2, 7, 20] {
        for programs in [1, 3, 8] {
            let [counter, drawn, wide, narrow] =
                [1, count, count, count].map(|len| zeros_of(&device, len));
            // The second launch finds the counter as the first one left it.
            for launches in 1..3 {
                let arguments = (&counter, &drawn, &wide, &narrow, count as i32);
                launch(&device, dynamic, grid(programs as u32), arguments).expect("it runs");
                for marks in [&drawn, &wide, &narrow] {
                    assert_eq!(marks.to_vec().expect("it has run"), vec![launches; count]);
                }
                assert_eq!(counter.to_vec().expect("it has run"), [0]);
            }
        }
    }
}

/// Each of three partitions of every CTA marks the tiles that it sees; the marks of a CTA are `count` apart.
#[kernel(warps = 4, cluster = CTAS)]
fn dynamic_of_clusters<const CTAS: usize>(
    counter: Ptr<i32>,
    marks: Ptr<i32>,
    far: Ptr<i32>,
    count: i32,
) {
    let tiles = DynamicTiles::of_cluster(counter, count, Consumers::warps(4 + 1), CTAS);
    let rank = cluster_rank();
    cluster_barrier_relaxed();
    let mark = |marks: Ptr<i32>, partition: usize, tile: &DynamicTile| {
        let place = (partition * CTAS + rank) * count + tile.number();
        marks.at(place).relaxed().atomic_add(1);
    };
    let see = |partition: usize| {
        let mut tile = tiles.start();
        while tile.number() < tiles.count() {
            mark(marks, partition, &tile);
            // The last CTA lags behind the one that draws.
            for step in range(0, rank * 20) {
                far.at(program_id(0)).relaxed().atomic_add(step);
            }
            tile = tiles.receive(tile);
        }
    };
    let draw = || {
        let mut tile = tiles.start();
        while tile.number() < tiles.count() {
            let next = tiles.draw();
            mark(marks, 2, &tile);
            tile = tiles.send(tile, next);
        }
        tiles.end(tile);
    };
    warp_specialize()
        .main(|| see(0))
        .worker(Warps(1), draw)
        .worker(Warps(1), || see(1))
        .run();
}

fn drawn_by_clusters<const CTAS: usize>() {
    for seed in 0..4 {
        let device = Device::emulator_with_seed(seed);
        for count in [1, 2, 7, 20] {
            for clusters in [1, 3] {
                let programs = clusters * CTAS;
                let [counter, marks, far] =
                    [1, 3 * CTAS * count, programs].map(|len| zeros_of(&device, len));
                for launches in 1..3 {
                    let arguments = (&counter, &marks, &far, count as i32);
                    let kernel = dynamic_of_clusters::<CTAS>;
                    launch(&device, kernel, grid(programs as u32), arguments).expect("it runs");
                    let marks = marks.to_vec().expect("it has run");
                    assert_eq!(marks, vec![launches; 3 * CTAS * count]);
                    assert_eq!(counter.to_vec().expect("it has run"), [0]);
                }
            }
        }
    }
}

#[test]
fn every_tile_drawn_by_a_cluster_reaches_all_ctas_once() {
    drawn_by_clusters::<2>();
    drawn_by_clusters::<4>();
}

/// Code for any cluster is that of a program where the cluster is one CTA.
#[test]
fn a_cluster_of_one_draws_every_tile_once() {
    drawn_by_clusters::<1>();
}

/// Tiles of a group that are marked: more than any has.
const ROWS: usize = 8;
const COLUMNS: usize = 3;

#[kernel(warps = 1)]
fn ragged(offsets: Ptr<i32>, marks: Ptr<i32>, bounds: Ptr<i32>, groups: i32, n: i32) {
    let tiles = RaggedTiles::new(offsets, groups, n, [16, 32]);
    let mut tile = tiles.start();
    while tile.group() < groups {
        let [row, column] = tile.place();
        let mark = (tile.group() * ROWS + row) * COLUMNS + column;
        marks.at(mark).relaxed().atomic_add(1);
        // Every tile of a group stores the same.
        bounds
            .at(tile.group() * 2)
            .relaxed()
            .atomic_store(tile.first_row());
        bounds
            .at(tile.group() * 2 + 1)
            .relaxed()
            .atomic_store(tile.end_row());
        tile = tiles.next(tile);
    }
}

#[test]
fn ragged_groups_are_covered_by_their_tiles_once() {
    let device = Device::emulator();
    let n = 2 * 32 + 5;
    for lengths in [
        vec![0],
        vec![1],
        vec![16, 0, 0, 17, 100],
        vec![0, 0, 3],
        vec![33, 0],
    ] {
        let mut offsets = vec![5_i32];
        for length in &lengths {
            offsets.push(offsets[offsets.len() - 1] + length);
        }
        let groups = lengths.len();
        let places = Buffer::from_slice(&device, &offsets).expect("memory of the host");
        for programs in [1, 2, 5, 40] {
            let marks = zeros_of(&device, groups * ROWS * COLUMNS);
            let bounds = zeros_of(&device, groups * 2);
            let arguments = (&places, &marks, &bounds, groups as i32, n);
            launch(&device, ragged, grid(programs as u32), arguments).expect("it runs");
            let marks = marks.to_vec().expect("it has run");
            let bounds = bounds.to_vec().expect("it has run");
            for (group, length) in lengths.iter().enumerate() {
                let rows = (*length as usize).div_ceil(16);
                for row in 0..ROWS {
                    let first = (group * ROWS + row) * COLUMNS;
                    let expected = [i32::from(row < rows); COLUMNS];
                    assert_eq!(
                        marks[first..first + COLUMNS],
                        expected,
                        "{lengths:?} {group} {row}"
                    );
                }
                if *length > 0 {
                    assert_eq!(bounds[group * 2..group * 2 + 2], offsets[group..group + 2]);
                }
            }
        }
    }
}

/// Marks each step that a program has, counts its steps, and marks tiles that one work has whole.
#[kernel(warps = 1)]
fn stream_k(marks: Ptr<i32>, made: Ptr<i32>, whole: Ptr<i32>, tiles: i32, steps: i32) {
    let shares = StreamK::new(tiles, steps);
    let mut work = shares.start();
    while work.steps_left() > 0 {
        for step in range(work.first(), work.end()) {
            marks.at(work.tile() * steps + step).relaxed().atomic_add(1);
        }
        made.at(program_id(0))
            .relaxed()
            .atomic_add(work.steps_left());
        if work.is_whole() {
            whole.at(work.tile()).relaxed().atomic_add(1);
        }
        work = shares.next(work);
    }
}

#[test]
fn stream_k_distributes_steps_evenly() {
    let device = Device::emulator();
    for (tiles, steps) in [(1, 1), (1, 9), (3, 4), (5, 1), (8, 3), (23, 5)] {
        for programs in [1, 2, 3, 4, 7, 11] {
            let (all, waves) = (tiles * steps, tiles / programs);
            let [marks, made, whole] = [all, programs, tiles].map(|len| zeros_of(&device, len));
            let arguments = (&marks, &made, &whole, tiles as i32, steps as i32);
            launch(&device, stream_k, grid(programs as u32), arguments).expect("it runs");
            let what = format!("{tiles} tiles of {steps} steps by {programs} programs");
            assert_eq!(marks.to_vec().expect("it has run"), vec![1; all], "{what}");
            // Whole waves but the last are data-parallel, and all of them where no rest is left.
            let rest = tiles % programs;
            let parallel = if rest == 0 {
                tiles
            } else {
                waves.saturating_sub(1) * programs
            };
            let whole = whole.to_vec().expect("it has run");
            assert!(
                whole[tiles - parallel..].iter().all(|&whole| whole == 1),
                "{what}"
            );
            // No program has more than its share.
            let share = (all - parallel * steps).div_ceil(programs) + parallel / programs * steps;
            let most = made.to_vec().expect("it has run").into_iter().max();
            assert!(most <= Some(share as i32), "{what}: {most:?} of {share}");
        }
    }
}

/// The first CTA of each cluster marks what its cluster makes: steps of [`StreamK`], and tiles of [`RaggedTiles`].
#[kernel(warps = 1, cluster = 2)]
fn of_clusters(offsets: Ptr<i32>, steps_made: Ptr<i32>, tiles_made: Ptr<i32>, groups: i32) {
    let shares = StreamK::of_cluster(scalar(7), scalar(3), 2);
    let mut work = shares.start();
    let is_first = cluster_rank() == 0;
    while work.steps_left() > 0 {
        for step in range(work.first(), work.end()) {
            let mark = steps_made.at(work.tile() * 3 + step).relaxed();
            mark.mask(is_first).atomic_add(1);
        }
        work = shares.next(work);
    }
    let tiles = RaggedTiles::new(offsets, groups, scalar(32), [16, 32]).of_cluster(2);
    let mut tile = tiles.start();
    while tile.group() < groups {
        let [row, _] = tile.place();
        let mark = tiles_made.at(tile.group() * ROWS + row).relaxed();
        mark.mask(is_first).atomic_add(1);
        tile = tiles.next(tile);
    }
}

#[test]
fn clusters_cover_every_tile_and_step_once() {
    let device = Device::emulator();
    let places = Buffer::from_slice(&device, &[0, 40, 40, 57]).expect("memory of the host");
    for clusters in [1_u32, 2, 3, 5] {
        let [steps, tiles] = [21, 3 * ROWS].map(|len| zeros_of(&device, len));
        let arguments = (&places, &steps, &tiles, 3);
        launch(&device, of_clusters, grid(clusters * 2), arguments).expect("it runs");
        assert_eq!(steps.to_vec().expect("it has run"), vec![1; 21]);
        let made = tiles.to_vec().expect("it has run");
        let rows = made
            .chunks(ROWS)
            .map(|marks| marks.iter().filter(|&&mark| mark == 1).count());
        assert_eq!(rows.collect::<Vec<_>>(), [3, 0, 2], "{clusters} clusters");
        assert_eq!(made.iter().sum::<i32>(), 5);
    }
}

/// Rows of the groups, of which each tile says those of its own.
#[kernel(warps = 1)]
fn ragged_within(offsets: Ptr<i32>, bounds: Ptr<i32>, groups: i32, rows: i32) {
    let tiles = RaggedTiles::new(offsets, groups, scalar(32), [16, 32]).within(rows);
    let mut tile = tiles.start();
    while tile.group() < groups {
        let of_group = bounds + tile.group() * 2;
        of_group.at(0).relaxed().atomic_store(tile.first_row());
        of_group.at(1).relaxed().atomic_store(tile.end_row());
        tile = tiles.next(tile);
    }
}

#[test]
fn offsets_within_rows_lead_nowhere_else() {
    let device = Device::emulator();
    for (offsets, expected) in [
        (vec![0, 20, 50], vec![0, 20, 20, 50]),
        (vec![-7, 20, 57], vec![0, 20, 20, 50]),
        (vec![i32::MIN, i32::MAX], vec![0, 50]),
        // Rows that a group has had are no other's.
        (vec![10, 30, 20, 40], vec![10, 30, 0, 0, 30, 40]),
        (vec![60, 70], vec![0, 0]),
    ] {
        let groups = offsets.len() - 1;
        let places = Buffer::from_slice(&device, &offsets).expect("memory of the host");
        let bounds = zeros_of(&device, groups * 2);
        let arguments = (&places, &bounds, groups as i32, 50);
        launch(&device, ragged_within, grid(2), arguments).expect("it runs");
        assert_eq!(
            bounds.to_vec().expect("it has run"),
            expected,
            "{offsets:?}"
        );
    }
}

/// The number of each tile, in groups of 6 rows and blocks of 2 by 3.
#[kernel(warps = 1)]
fn in_blocks(numbers: Ptr<i32>, rows: i32, columns: i32) {
    let tiles = GroupedRows::new([rows, columns], [1, 1], 6).in_blocks([2, 3]);
    for tile in tiles.of_program() {
        let [row, column] = tiles.place(tile);
        numbers.at(row * columns + column).store(tile);
    }
}

/// Blocks follow each other down a group, then along it, and every other group runs backwards.
#[test]
fn groups_are_in_blocks() {
    let device = Device::emulator();
    for [rows, columns] in [[6, 3], [1, 1], [13, 7], [5, 8], [20, 2]] {
        let mut expected = vec![-1; rows * columns];
        let mut number = 0;
        for (group, first) in (0..rows).step_by(6).enumerate() {
            let end = rows.min(first + 6);
            for band in (0..columns).step_by(3) {
                for block in (first..end).step_by(2) {
                    for column in band..columns.min(band + 3) {
                        for row in block..end.min(block + 2) {
                            let column = if group % 2 == 0 {
                                column
                            } else {
                                columns - 1 - column
                            };
                            expected[row * columns + column] = number;
                            number += 1;
                        }
                    }
                }
            }
        }
        let numbers = zeros_of(&device, rows * columns);
        let arguments = (&numbers, rows as i32, columns as i32);
        launch(&device, in_blocks, grid(3), arguments).expect("it runs");
        assert_eq!(
            numbers.to_vec().expect("it has run"),
            expected,
            "{rows} by {columns}"
        );
    }
}

#[kernel(warps = 1)]
fn in_no_blocks(numbers: Ptr<i32>, rows: i32) {
    let tiles = GroupedRows::new([rows, rows], [1, 1], 6).in_blocks([2, 0]);
    for tile in tiles.of_program() {
        numbers.at(tile).store(tile);
    }
}

#[test]
fn blocks_without_tiles_are_refused() {
    let device = Device::emulator();
    let numbers = zeros_of(&device, 4);
    let error = launch(&device, in_no_blocks, grid(1), (&numbers, 2)).expect_err("no block");
    let message = error.to_string();
    assert!(
        message.contains("blocks of 2 by 0 tiles hold none"),
        "{message}"
    );
}

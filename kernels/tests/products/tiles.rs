//! Tiles that calls are given, of any width and cluster.

use std::collections::HashMap;

use tilekit::prelude::*;
use tilekit_kernels::products::alternating::PersistentTile;
use tilekit_kernels::products::instances::{INSTANCES, Instance};
use tilekit_kernels::products::need::Need;
use tilekit_kernels::products::split_k::SplitTile;
use tilekit_kernels::products::{Dispatch, Options, Products};

use super::{Lies, Matrix, check};

#[test]
fn clusters_and_turns_take_operands_of_any_lie() {
    let device = Device::emulator();
    let [m, n, k] = [70, 136, 328];
    let along_k = INSTANCES.into_iter().filter_map(|instance| match instance {
        Instance::Cluster(tile) => Some(((0, tile.turned), instance)),
        Instance::Persistent(tile) if tile.along == [1, 1] && !tile.every_other_row => {
            Some(((1, tile.turned), instance))
        }
        _ => None,
    });
    // Of each kernel one whose tiles are exchanged, and one whose are not.
    let mut along_k: HashMap<(usize, bool), Instance> = along_k.collect();
    for turned in [false, true] {
        for (kernel, sizes) in [(2, [2, 2, 152]), (3, [3, 1, 160])] {
            let tile = PersistentTile::filled(sizes, turned);
            along_k.insert((kernel, turned), Instance::Persistent(tile));
        }
    }
    assert_eq!(along_k.len(), 8);
    for instance in along_k.into_values() {
        let mut dispatch = Dispatch::default();
        // A column-major C is the transpose of a product.
        for size in [[m, n, k], [n, m, k]] {
            dispatch.set(&Need::of_16_bits(size), instance);
        }
        let products = Products::with_dispatch(&device, dispatch);
        for lies in [Lies::Rows, Lies::Columns, Lies::Part(3, 5)] {
            check::<f16>(
                &products,
                &device,
                [m, n, k],
                [Lies::Rows, Lies::Columns, lies],
            );
            let of_b = if matches!(lies, Lies::Rows) {
                Lies::Columns
            } else {
                lies
            };
            check::<f16>(&products, &device, [m, n, k], [lies, of_b, Lies::Rows]);
        }
    }
}

/// Widths with one box, with as many as CTAs and with more, and edges within a cluster.
#[test]
fn persistent_tiles_have_any_width_and_any_cluster() {
    let device = Device::emulator();
    for (groups, instructions, columns, along) in [
        (1, 2, 64, [2, 4]),
        (1, 2, 136, [1, 1]),
        (1, 2, 184, [1, 2]),
        (1, 2, 96, [4, 2]),
        (1, 3, 104, [1, 4]),
        (1, 3, 120, [1, 2]),
        (1, 3, 128, [2, 2]),
        (1, 3, 96, [4, 1]),
        (2, 1, 256, [2, 1]),
        (2, 1, 136, [1, 2]),
        (2, 1, 288, [2, 1]),
        (2, 1, 320, [1, 4]),
        (2, 1, 336, [2, 1]),
        (2, 2, 88, [2, 1]),
        (2, 1, 184, [4, 2]),
        (1, 3, 104, [2, 1]),
        (2, 2, 152, [1, 4]),
        (2, 2, 192, [2, 2]),
        (3, 1, 96, [2, 4]),
        (3, 1, 112, [1, 1]),
        (3, 1, 160, [4, 1]),
        (3, 1, 176, [2, 1]),
        (3, 1, 208, [1, 2]),
    ] {
        for turned in [false, true] {
            let tile = PersistentTile::filled([groups, instructions, columns], turned);
            let tile = tile.by_clusters(along);
            let [rows, columns] = tile.shape();
            let extents = [along[0] * rows - 50, along[1] * columns + 8];
            let [m, n] = if tile.turned {
                [extents[1], extents[0].next_multiple_of(8)]
            } else {
                extents
            };
            let instance = Instance::Persistent(tile);
            let mut dispatch = Dispatch::default();
            dispatch.set(&Need::of_16_bits([m, n, 328]), instance);
            let chosen = dispatch.choose(&Need::of_16_bits([m, n, 328])).unwrap();
            assert_eq!(chosen.plan.instance, instance);
            let products = Products::with_dispatch(&device, dispatch);
            let lies = [Lies::Rows, Lies::Columns, Lies::Rows];
            check::<f16>(&products, &device, [m, n, 328], lies);
        }
    }
}

/// Two instructions beside each other, shares that are rounded up and blocks of tiles, whatever the order of warps and copies.
#[test]
fn wide_and_rounded_tiles_are_free_of_races() {
    for (sizes, along, turned, [m, n]) in [
        ([2, 1, 288], [2, 1], true, [300, 264]),
        ([2, 1, 320], [1, 1], false, [130, 328]),
        ([1, 2, 184], [2, 1], false, [260, 192]),
        ([2, 2, 88], [2, 2], false, [520, 104]),
        ([2, 2, 88], [1, 1], true, [270, 520]),
    ] {
        let tile = PersistentTile::filled(sizes, turned).by_clusters(along);
        let (need, instance) = (Need::of_16_bits([m, n, 328]), Instance::Persistent(tile));
        for seed in 1..=4 {
            let device = Device::emulator_with_seed(seed);
            let mut dispatch = Dispatch::default();
            dispatch.set(&need, instance);
            assert_eq!(dispatch.choose(&need).unwrap().plan.instance, instance);
            let products = Products::with_dispatch(&device, dispatch);
            let lies = [Lies::Rows, Lies::Columns, Lies::Rows];
            check::<f16>(&products, &device, need.size, lies);
        }
    }
}

/// Rows of 128 bytes are twice as many elements along K, and pieces of results as wide.
#[test]
fn wide_and_rounded_tiles_multiply_operands_of_8_bits() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    for (sizes, along, turned, [m, n]) in [
        ([2, 1, 288], [1, 2], true, [600, 136]),
        ([2, 1, 320], [2, 1], false, [200, 328]),
        ([1, 2, 144], [4, 1], true, [152, 400]),
        ([2, 2, 80], [4, 1], false, [780, 88]),
    ] {
        let tile = PersistentTile::filled(sizes, turned).by_clusters(along);
        let need = Need {
            element_bytes: [1, 2],
            ..Need::of_16_bits([m, n, 336])
        };
        let mut dispatch = Dispatch::default();
        dispatch.set(&need, Instance::Persistent(tile));
        let products = Products::with_dispatch(&device, dispatch);
        let [a, b] = [m, n].map(|rows| (0..rows * 336).map(|at| (at * 37 / 7 % 5) as f32 - 2.0));
        let [a, b] = [a, b].map(Iterator::collect::<Vec<f32>>);
        let [of_a, of_b] = [&a, &b].map(|numbers| {
            let numbers: Vec<E4m3> = numbers.iter().map(|&x| E4m3::from_f32(x)).collect();
            Buffer::from_slice(&device, &numbers).unwrap()
        });
        let (x, y) = (
            of_a.view([m, 336]),
            of_b.view([336, n]).with_strides([1, 336]),
        );
        let c = Buffer::from_slice(&device, &vec![bf16::from_f32(f32::NAN); m * n]).unwrap();
        let view = c.view([m, n]);
        let plan = products.plan(&x, &y, &view, &Options::default()).unwrap();
        assert_eq!(
            plan.product.unwrap().plan.instance,
            Instance::Persistent(tile)
        );
        products.multiply_into(&stream, &x, &y, &view).unwrap();
        stream.synchronize().unwrap();
        let found = c.to_vec().unwrap();
        for (at, found) in found.into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let want: f32 = (0..336).map(|k| a[i * 336 + k] * b[j * 336 + k]).sum();
            assert_eq!(found, bf16::from_f32(want), "{tile}: row {i}, column {j}");
        }
    }
}

/// Rows of C that begin at sectors and between them in turn, all at sectors, all between them, and anywhere; odd and even numbers of them; tiles of any width and cluster.
#[test]
fn tiles_of_every_other_row_have_any_width_and_any_place() {
    let device = Device::emulator();
    for (groups, instructions, columns, along, turned) in [
        (1, 2, 80, [1, 1], false),
        (1, 2, 176, [2, 1], false),
        (1, 3, 128, [1, 2], false),
        (2, 1, 256, [1, 1], false),
        (2, 2, 144, [2, 2], false),
        (1, 2, 72, [1, 1], true),
        (1, 3, 104, [1, 4], true),
        (2, 1, 288, [1, 1], false),
        (2, 1, 128, [2, 1], true),
        (2, 1, 320, [1, 2], true),
        (2, 2, 120, [1, 2], true),
        (3, 1, 144, [1, 1], false),
        (3, 1, 176, [2, 1], true),
    ] {
        let tile = PersistentTile::filled([groups, instructions, columns], turned);
        let tile = tile.by_clusters(along).of_every_other_row();
        let [rows, columns] = tile.shape();
        // Some rows beyond whole clusters of even rows, and less than a tile of columns more.
        let extents = [along[0] * rows, along[1] * columns];
        let [of_m, of_n] = if turned {
            [extents[1], extents[0]]
        } else {
            extents
        };
        let [m, n] = [2 * of_m + 3, of_n.next_multiple_of(16) + 24];
        let instance = Instance::Persistent(tile);
        let of_size = Need::of_16_bits([m, n, 136]);
        let mut dispatch = Dispatch::default();
        dispatch.set(&of_size, instance);
        assert_eq!(dispatch.choose(&of_size).unwrap().plan.instance, instance);
        let products = Products::with_dispatch(&device, dispatch);
        for (c, begins_between) in [
            (Lies::Rows, true),
            (Lies::Part(16, 16), true),
            (Lies::Part(8, 0), false),
            (Lies::Part(16, 8), false),
            // In a workspace.
            (Lies::Part(3, 5), true),
        ] {
            let lies = [Lies::Rows, Lies::Columns, c];
            let plan = plan_of(&products, &device, [m, n, 136], lies);
            let is_by_rows = plan.contains(", every other row");
            assert_eq!(is_by_rows, begins_between, "{c:?}: {plan}");
            check::<f16>(&products, &device, [m, n, 136], lies);
        }
    }
}

/// What a call of matrices of f16 that lie so is planned as.
fn plan_of(products: &Products, device: &Device, [m, n, k]: [usize; 3], lies: [Lies; 3]) -> String {
    let a = Matrix::<f16>::new(device, [m, k], lies[0], 1);
    let b = Matrix::<f16>::new(device, [k, n], lies[1], 2);
    let c = Matrix::<f16>::new(device, [m, n], lies[2], 3);
    let plan = products.plan(&a.view(), &b.view(), &c.view(), &Options::default());
    plan.unwrap().to_string()
}

/// Chunks of sums that fill no pair of them, and as many as there are, by clusters that share one operand or both.
#[test]
fn parts_along_k_have_tiles_of_any_width() {
    let device = Device::emulator();
    for (groups, columns, turned, along) in [
        (1, 192, false, [1, 1]),
        (1, 256, false, [2, 1]),
        (2, 192, false, [1, 2]),
        (1, 48, false, [2, 1]),
        (2, 144, false, [2, 1]),
        (1, 96, false, [4, 1]),
        (2, 144, false, [1, 4]),
        (1, 80, false, [2, 2]),
        (1, 80, true, [1, 1]),
        (1, 240, true, [2, 1]),
        (2, 96, true, [1, 2]),
        (2, 208, true, [2, 1]),
        (1, 64, true, [4, 2]),
        (1, 48, true, [2, 4]),
        (1, 64, true, [8, 1]),
    ] {
        let tile = SplitTile::filled([groups, columns]).by_clusters(along);
        let tile = if turned { tile.exchanged() } else { tile };
        let [along_rows, along_columns] = along;
        let extents = [
            groups * 64 * along_rows - 24,
            columns * along_columns.max(2) - columns + 8,
        ];
        let [m, n] = if turned {
            [extents[1], extents[0]]
        } else {
            extents
        };
        let (instance, size) = (Instance::Split(tile), [m, n, 1000]);
        let along_k = Need::of_16_bits(size);
        let along_m = Need {
            is_mn_major: [true, false],
            ..along_k
        };
        // Rows of A that CTAs do not share may follow each other along M.
        let is_taken_along_m = !turned && along_columns == 1;
        let needs = [along_k, along_m].into_iter();
        let needs = needs.take(1 + usize::from(is_taken_along_m));
        let mut dispatch = Dispatch::default();
        for need in needs.clone() {
            dispatch.set(&need, instance);
            let chosen = dispatch.choose(&need).unwrap();
            assert_eq!(chosen.plan.instance, instance);
        }
        let products = Products::with_dispatch(&device, dispatch);
        for need in needs {
            let [is_along_m, _] = need.is_mn_major;
            let of_a = if is_along_m {
                Lies::Columns
            } else {
                Lies::Rows
            };
            check::<f16>(&products, &device, size, [of_a, Lies::Columns, Lies::Rows]);
        }
    }
}

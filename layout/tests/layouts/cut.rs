//! Shapes whose sizes are no powers of two, against the definition: every element is held, and nothing else is.

use std::collections::{HashMap, HashSet};

use layout::convert::AccessKind;
use layout::local::{Direction, LocalPlan, Places, Storage, plan_access};
use layout::matrix::{MatrixTile, plan_matrix};
use layout::relate::{
    broadcast, buffer_size, expand_dims, permute, permute_shared, reduce, reshape, shared_bytes,
};
use layout::tma::{BoxKind, tma_box, tma_messages};
use layout::{Axis, Dims, Layout, LinearLayout, Nvmma, SharedLayout};
use target::SM_90A;

use crate::family::{CUT_SHAPES, MATRIX_LAYOUTS, layout, row_major};

fn cut_matrices() -> impl Iterator<Item = (Layout, Dims)> {
    let layouts = MATRIX_LAYOUTS.iter().step_by(2).map(|text| layout(text));
    layouts.flat_map(|layout| {
        CUT_SHAPES
            .iter()
            .map(move |shape| (layout.clone(), shape.into()))
    })
}

/// What each thread holds, register by register.
fn held(map: &LinearLayout) -> Vec<Vec<Dims>> {
    let unpack = |packed: Vec<u64>| packed.into_iter().map(|at| map.unpack_out(at)).collect();
    held_packed(map).into_iter().map(unpack).collect()
}

fn held_packed(map: &LinearLayout) -> Vec<Vec<u64>> {
    let registers = map.registers().into_iter();
    let registers: Vec<u64> = registers.map(|r| map.apply_packed(u64::from(r))).collect();
    let threads = 0..1_u64 << (map.in_bits(Axis::Lane) + map.in_bits(Axis::Warp));
    let of_thread = |thread: u64| {
        let own = map.apply_packed(thread << map.in_bits(Axis::Register));
        registers.iter().map(|at| at ^ own).collect()
    };
    threads.map(of_thread).collect()
}

#[test]
fn threads_hold_every_element_equally_often_and_nothing_else() {
    for (layout, shape) in cut_matrices() {
        let map = layout.linear(&shape).unwrap();
        assert_eq!(map.out_sizes(), shape, "{layout}");
        let mut found: HashMap<u64, u32> = HashMap::new();
        for packed in held_packed(&map).into_iter().flatten() {
            *found.entry(packed).or_default() += 1;
        }
        for coords in found.keys().map(|&packed| map.unpack_out(packed)) {
            let inside = coords.iter().zip(&shape).all(|(at, size)| at < size);
            assert!(inside, "{layout} on {shape} holds {coords}");
        }
        assert_eq!(found.len() as u64, shape.product(), "{layout} on {shape}");
        let copies: HashSet<u32> = found.values().copied().collect();
        assert_eq!(copies.len(), 1, "{layout} on {shape}: {copies:?}");
    }
}

/// A size is repetitions of its granule: threads hold of each what they hold of a tensor of that size alone, if the layout
/// reaches no further.
#[test]
fn threads_lie_as_on_the_granule() {
    for (layout, shape) in cut_matrices() {
        let granules: Dims = shape
            .iter()
            .map(|size| 1 << size.trailing_zeros())
            .collect();
        let (map, small) = (
            layout.linear(&shape).unwrap(),
            layout.linear(&granules).unwrap(),
        );
        for axis in [Axis::Lane, Axis::Warp] {
            let bases = |map: &LinearLayout| map.basis_coords(axis);
            let sizes = shape.iter().zip(&granules);
            let is_whole: Vec<bool> = sizes.map(|(size, granule)| size == granule).collect();
            for (have, alone) in bases(&map).iter().zip(bases(&small)) {
                let same = |dim: usize| is_whole[dim] || have[dim] == alone[dim];
                assert!((0..2).all(same), "{layout} on {shape}: {have}, {alone}");
            }
        }
    }
}

#[test]
fn parts_have_all_registers_once() {
    for (layout, shape) in cut_matrices() {
        let map = layout.linear(&shape).unwrap();
        let all = held(&map);
        let mut seen = vec![0; map.num_registers() as usize];
        for piece in map.pieces() {
            assert!(!piece.map.is_cut());
            let part = held(&piece.map);
            for (of_thread, of_whole) in part.iter().zip(&all) {
                for (coords, &register) in of_thread.iter().zip(&piece.registers) {
                    let moved: Dims = coords
                        .iter()
                        .zip(&piece.origin)
                        .map(|(a, b)| a + b)
                        .collect();
                    assert_eq!(moved, of_whole[register as usize], "{layout} on {shape}");
                }
            }
            for register in piece.registers {
                seen[register as usize] += 1;
            }
        }
        assert!(
            seen.iter().all(|&n| n == 1),
            "{layout} on {shape}: {seen:?}"
        );
    }
}

#[test]
fn an_instruction_has_the_registers_of_its_columns() {
    for n in [8, 24, 40, 80, 96, 112, 160, 176, 192, 240] {
        let layout = layout(&format!("Wgmma([4, 1], [64, {n}, 16])"));
        let one = layout.linear(&[64, n]).unwrap();
        assert_eq!(one.num_registers(), n / 2);
        let several = layout.linear(&[128, 3 * n]).unwrap();
        let (first, all) = (held(&one), held(&several));
        for (first, all) in first.iter().zip(&all) {
            for (at, coords) in all.iter().enumerate() {
                let (tile, within) = (at as u32 / (n / 2), at % (n / 2) as usize);
                let origin = [tile / 3 * 64, tile % 3 * n];
                let wanted: Dims = first[within]
                    .iter()
                    .zip(origin)
                    .map(|(a, b)| a + b)
                    .collect();
                assert_eq!(*coords, wanted, "register {at} of n = {n}");
            }
        }
    }
}

#[test]
fn relations_keep_every_element_where_it_is() {
    for (source, shape) in cut_matrices() {
        let before = held(&source.linear(&shape).unwrap());
        let turned = permute(&source, &shape, &[1, 0]).unwrap();
        let after = held(&turned.linear(&shape.permuted(&[1, 0])).unwrap());
        let wanted: Vec<Vec<Dims>> = before
            .iter()
            .map(|t| t.iter().map(|c| c.permuted(&[1, 0])).collect())
            .collect();
        assert_eq!(after, wanted, "{source} on {shape}");
        if shape[1].is_power_of_two() {
            for to in [vec![shape[0] * shape[1]], vec![shape[0], shape[1] / 2, 2]] {
                let result = reshape(&source, &shape, &to).unwrap();
                let after = held(&result.linear(&to).unwrap());
                for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
                    assert_eq!(
                        row_major(before, &shape),
                        row_major(after, &to),
                        "{source} on {shape}"
                    );
                }
            }
        }
        let to = [1, shape[0], 1, shape[1]];
        let result = reshape(&source, &shape, &to).unwrap();
        let after = held(&result.linear(&to).unwrap());
        for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
            assert_eq!(
                after[..],
                [0, before[0], 0, before[1]],
                "{source} on {shape}"
            );
        }
        for axis in 0..2 {
            let slice = reduce(&source, axis);
            let rest = shape.without(axis);
            let map = slice.linear(&rest).unwrap();
            let elements: HashSet<Dims> = held(&map).into_iter().flatten().collect();
            assert_eq!(elements.len() as u64, rest.product());
            assert_eq!(expand_dims(&slice, axis).unwrap(), source);
            let column = source.linear(&rest.with_inserted(axis, 1)).unwrap();
            let whole = source.linear(&shape).unwrap();
            let registers = broadcast(&column, &whole);
            let registers = registers.expect("a broadcast moves nothing");
            for (one, all) in held(&column).iter().zip(held(&whole)) {
                for (&register, coords) in registers.iter().zip(all) {
                    assert_eq!(
                        one[register as usize],
                        coords.with(axis, 0),
                        "{source} on {shape}"
                    );
                }
            }
        }
    }
}

const SHARED: &[&str] = &[
    "Nvmma(0, 16)",
    "Nvmma(32, 16)",
    "Nvmma(64, 16)",
    "Nvmma(128, 16)",
    "Nvmma(64, 32)",
    "Nvmma(128, 8)",
    "Nvmma(32, 16, transposed=true)",
    "Nvmma(128, 16, transposed=true)",
    "Swizzled(1, 1, 1, [1, 0])",
    "Swizzled(1, 1, 1, [0, 1])",
    "Swizzled(8, 1, 8, [1, 0])",
    "Swizzled(4, 2, 4, [0, 1])",
];

const BLOCKS: &[[u32; 2]] = &[
    [64, 80],
    [64, 176],
    [192, 64],
    [192, 96],
    [176, 128],
    [96, 160],
    [24, 48],
    [12, 64],
    [3, 32],
    [384, 64],
    [112, 112],
    [40, 24],
    [5, 3],
];

fn every_coordinate(shape: &Dims) -> Vec<Dims> {
    let mut all = vec![Dims::empty()];
    for &size in shape {
        let with = |coords: &Dims| {
            let mut coords = vec![coords.clone(); size as usize];
            coords.iter_mut().zip(0..).for_each(|(c, at)| c.push(at));
            coords
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// The layouts that fit a block, with bytes of an element.
fn shared_blocks() -> impl Iterator<Item = (SharedLayout, Dims, u32)> {
    SHARED.iter().flat_map(|text| {
        let shared: SharedLayout = text.parse().unwrap();
        let bytes = match &shared {
            SharedLayout::Nvmma(nvmma) => nvmma.element_bits / 8,
            _ => 2,
        };
        let blocks = BLOCKS.iter().map(Dims::from);
        blocks.filter_map(move |block| {
            shared
                .check(&block)
                .is_ok()
                .then(|| (shared.clone(), block, bytes))
        })
    })
}

#[test]
fn memory_holds_every_element_and_nothing_else() {
    let mut count = 0;
    for (shared, block, bytes) in shared_blocks() {
        let places = Places::new(&shared, &block).unwrap();
        let storage = Storage::new(&shared, &block, bytes).unwrap();
        let of = |coords: &Dims| storage.bytes(places.offset(coords));
        let mut found: Vec<u32> = every_coordinate(&block).iter().map(of).collect();
        found.sort_unstable();
        let wanted: Vec<u32> = (0..block.product() as u32).map(|at| at * bytes).collect();
        assert_eq!(found, wanted, "{shared} of {block}");
        let size = buffer_size(&shared, &block, bytes).unwrap().bytes;
        assert!((block.product() as u32 * bytes..).next() <= Some(size));
        // Several buffers, each aligned, follow one another with nothing between.
        let several = block.with_inserted(0, 3);
        assert_eq!(shared_bytes(&shared, &several, bytes).unwrap(), 3 * size);
        let (places, storage) = (
            Places::new(&shared, &several).unwrap(),
            Storage::new(&shared, &several, bytes).unwrap(),
        );
        for coords in every_coordinate(&block) {
            let second = storage.bytes(places.offset(&coords.with_inserted(0, 2)));
            assert_eq!(second, 2 * size + of(&coords), "{shared} of {several}");
        }
        count += 1;
    }
    assert!(count > 60, "{count} layouts fit");
}

/// Padding at intervals longer than a buffer stands behind none of its elements, and so behind none of several buffers.
#[test]
fn buffers_shorter_than_what_is_padded_follow_one_another() {
    for shared in [
        "Padded([[8, 8], [256, 8]], [0, 2, 1])",
        "Padded([[2, 4], [16, 8]], [2, 1, 0])",
        "Padded([[4, 4]], [2, 1, 0])",
    ] {
        let layout: SharedLayout = shared.parse().unwrap();
        let (block, several) = ([1, 2, 2], [5, 1, 2, 2]);
        for bytes in [1, 2, 4] {
            let size = buffer_size(&layout, &block, bytes).unwrap().bytes;
            let places = Places::new(&layout, &several).unwrap();
            let storage = Storage::new(&layout, &several, bytes).unwrap();
            let of = |buffer| storage.bytes(places.offset(&[buffer, 0, 0, 0]));
            let found: Vec<u32> = (0..5).map(of).collect();
            let wanted: Vec<u32> = (0..5).map(|buffer| buffer * size).collect();
            assert_eq!(found, wanted, "{shared}, elements of {bytes} bytes");
        }
    }
}

/// The layouts of TMA and `wgmma`, from their definition: boxes as wide as the swizzle, all rows of one before the next.
#[test]
fn swizzled_blocks_lie_as_tma_writes_them() {
    for (shared, block, bytes) in shared_blocks() {
        let SharedLayout::Nvmma(nvmma) = &shared else {
            continue;
        };
        if nvmma.swizzle_bytes == 0 {
            continue;
        }
        let (rows, width) = if nvmma.transposed {
            (block[1], 0)
        } else {
            (block[0], 1)
        };
        let pattern = rows * nvmma.swizzle_bytes;
        if column_boxes(nvmma, &block) > 1 && !pattern.is_multiple_of(8 * nvmma.swizzle_bytes) {
            // Boxes that begin within a pattern are for loads and stores alone.
            continue;
        }
        let places = Places::new(&shared, &block).unwrap();
        let storage = Storage::new(&shared, &block, bytes).unwrap();
        for coords in every_coordinate(&block) {
            let (row, column) = (coords[1 - width], coords[width] * bytes);
            let line = (column / nvmma.swizzle_bytes * rows + row) * nvmma.swizzle_bytes
                + column % nvmma.swizzle_bytes;
            let phase = line >> 7 & (nvmma.swizzle_bytes / 16 - 1);
            assert_eq!(
                storage.bytes(places.offset(&coords)),
                line ^ phase << 4,
                "{shared} of {block} at {coords}"
            );
        }
    }
}

fn column_boxes(nvmma: &Nvmma, block: &[u32]) -> u32 {
    let columns = block[usize::from(!nvmma.transposed)];
    columns * nvmma.element_bits / 8 / nvmma.swizzle_bytes
}

#[test]
fn turned_views_lie_where_their_blocks_do() {
    for (shared, block, bytes) in shared_blocks() {
        let turned = permute_shared(&shared, &block, &[1, 0]).unwrap();
        let shape = block.permuted(&[1, 0]);
        let (places, storage) = (
            Places::new(&shared, &block).unwrap(),
            Storage::new(&shared, &block, bytes).unwrap(),
        );
        let (there, stored) = (
            Places::new(&turned, &shape).unwrap(),
            Storage::new(&turned, &shape, bytes).unwrap(),
        );
        for coords in every_coordinate(&block) {
            let (own, other) = (
                storage.bytes(places.offset(&coords)),
                stored.bytes(there.offset(&coords.permuted(&[1, 0]))),
            );
            assert_eq!(own, other, "{shared} of {block} at {coords}");
        }
    }
}

/// The lane that gives the address of an element's row, and the element's place there, as the PTX ISA has matrices.
fn matrix_place(kind: AccessKind, lane: u32, at: u32, bytes: u32) -> (u32, u32) {
    let in_word = 4 / bytes;
    match kind {
        AccessKind::Vector => (lane, at * bytes),
        AccessKind::Matrix => (
            8 * (at / in_word) + lane / 4,
            4 * (lane % 4) + at % in_word * bytes,
        ),
        AccessKind::Transposed => (8 * (at / 2) + 2 * (lane % 4) + at % 2, lane / 4 * 2),
    }
}

fn check_local(
    map: &LinearLayout,
    shared: &SharedLayout,
    alloc: &[u32],
    bytes: u32,
    plan: &LocalPlan,
) {
    let places = Places::new(shared, alloc).unwrap();
    let storage = Storage::new(shared, alloc, bytes).unwrap();
    let all = held(map);
    let mut moved = HashSet::new();
    for (thread, held) in (0..).zip(&all) {
        let (lane, warp) = (thread & 31, thread & !31);
        for access in &plan.accesses {
            assert_eq!(access.registers.len() as u32, plan.vector);
            for (at, &register) in (0..).zip(&access.registers) {
                let (from, further) = matrix_place(plan.kind, lane, at, bytes);
                let entries = plan.thread.iter().enumerate();
                let set = entries.filter(|&(bit, _)| (from | warp) >> bit & 1 == 1);
                let offset = set.fold(access.offset, |sum, (_, entry)| sum ^ entry);
                let byte = storage.bytes(offset);
                let aligned = if plan.kind == AccessKind::Vector {
                    plan.vector * bytes
                } else {
                    16
                };
                assert!(byte.is_multiple_of(aligned), "{aligned} bytes at {byte}");
                let coords = &held[register as usize];
                assert_eq!(
                    byte + further,
                    storage.bytes(places.offset(coords)),
                    "{shared} of {coords}"
                );
                if thread & plan.copied_threads == 0 {
                    assert!(moved.insert(coords.clone()), "{coords} is moved twice");
                }
            }
        }
        for (register, &original) in plan.originals.iter().enumerate() {
            assert_eq!(held[register], held[original as usize]);
        }
    }
    assert_eq!(moved.len() as u64, map.out_sizes().product());
}

#[test]
fn tensors_move_between_registers_and_memory() {
    let mut kinds = HashSet::new();
    for (shared, block, bytes) in shared_blocks().filter(|(_, block, _)| block.product() <= 64 * 80)
    {
        for text in MATRIX_LAYOUTS.iter().step_by(8) {
            let map = layout(text).linear(&block).unwrap();
            for direction in [Direction::Load, Direction::Store] {
                let plan =
                    plan_access(&SM_90A, &map, &shared, &block, 8 * bytes, direction).unwrap();
                kinds.insert(format!("{:?} of {}", plan.kind, plan.vector));
                check_local(&map, &shared, &block, bytes, &plan);
            }
        }
    }
    assert!(kinds.len() > 5, "{kinds:?}");
}

#[test]
fn accumulators_are_stored_as_matrices() {
    for (columns, swizzle) in [
        (80, 32),
        (96, 64),
        (112, 32),
        (160, 64),
        (176, 32),
        (192, 128),
    ] {
        let map = layout(&format!("Wgmma([4, 1], [64, {columns}, 16])"))
            .linear(&[64, columns])
            .unwrap();
        let shared: SharedLayout = Nvmma::new(swizzle, 16).into();
        let plan =
            plan_access(&SM_90A, &map, &shared, &[64, columns], 16, Direction::Store).unwrap();
        assert_eq!(
            (plan.kind, plan.vector),
            (AccessKind::Matrix, 8),
            "{columns}"
        );
        check_local(&map, &shared, &[64, columns], 2, &plan);
    }
}

/// Every element of a tile lies where the tensor cores look for it: PTX ISA, strides of matrix descriptors.
#[track_caller]
fn check_matrix(shared: &str, shape: [u32; 2], mn_dim: usize, mn: u32) {
    let shared: SharedLayout = shared.parse().unwrap();
    let tile = MatrixTile {
        mn_dim,
        mn,
        k: 16,
        elem_bits: 16,
    };
    let found = plan_matrix(&shared, &shape, tile).unwrap();
    let (places, storage) = (
        Places::new(&shared, &shape).unwrap(),
        Storage::new(&shared, &shape, 2).unwrap(),
    );
    let width = found.swizzle_bytes.max(16) / 2;
    let (next_row, next_group) = if found.is_mn_major && found.swizzle_bytes == 0 {
        (found.stride_bytes, found.leading_bytes)
    } else {
        (found.leading_bytes, found.stride_bytes)
    };
    for at in 0..mn {
        for k in 0..16 {
            let (along, across) = if found.is_mn_major { (at, k) } else { (k, at) };
            let line = along / width * next_row
                + across / 8 * next_group
                + across % 8 * width * 2
                + along % width * 2;
            let phase = line >> 7 & (found.swizzle_bytes.max(16) / 16 - 1);
            let coords = Dims::filled(k, 2).with(mn_dim, at);
            assert_eq!(
                storage.bytes(places.offset(&coords)),
                line ^ phase << 4,
                "{shared} of {shape:?} at {coords}"
            );
        }
    }
}

#[test]
fn the_tensor_cores_read_tiles_of_any_multiple_of_8_columns() {
    for columns in [80, 96, 112, 160, 176, 192] {
        check_matrix(
            "Nvmma(128, 16, transposed=true)",
            [128, columns],
            1,
            columns,
        );
        check_matrix("Nvmma(32, 16)", [columns, columns], 1, columns);
        check_matrix("Nvmma(128, 16)", [columns, 128], 1, 128);
    }
    check_matrix("Nvmma(128, 16)", [64, 192], 1, 192);
    check_matrix("Nvmma(64, 16)", [64, 96], 1, 96);
    check_matrix("Nvmma(64, 16, transposed=true)", [96, 48], 1, 48);
    check_matrix("Nvmma(128, 16)", [192, 64], 0, 64);
}

#[test]
fn boxes_of_tma_cover_a_block() {
    for (shared, block, bytes) in shared_blocks() {
        let kind = BoxKind::Tiled;
        let (Ok(size), Ok(messages)) = (
            tma_box(&SM_90A, &block, &shared, 8 * bytes, kind),
            tma_messages(&SM_90A, &block, &shared, 8 * bytes, kind),
        ) else {
            continue;
        };
        let SharedLayout::Nvmma(nvmma) = &shared else {
            panic!("TMA writes Nvmma layouts")
        };
        let row_bytes = size[1] * bytes;
        let mut written = HashMap::new();
        for message in messages {
            for coords in every_coordinate(&size) {
                let line = coords[0] * row_bytes + coords[1] * bytes;
                let phase = match nvmma.swizzle_bytes {
                    0 => 0,
                    width => line >> 7 & (width / 16 - 1),
                };
                let element: Dims = coords
                    .iter()
                    .zip(&message.origin)
                    .map(|(a, b)| a + b)
                    .collect();
                let place = message.offset_bytes + (line ^ phase << 4);
                assert_eq!(written.insert(element, place), None, "{shared} of {block}");
            }
        }
        assert_eq!(written.len() as u64, block.product(), "{shared} of {block}");
        let places = Places::new(&shared, &block).unwrap();
        let storage = Storage::new(&shared, &block, bytes).unwrap();
        for (coords, place) in written {
            assert_eq!(
                place,
                storage.bytes(places.offset(&coords)),
                "{shared} of {block} at {coords}"
            );
        }
    }
    let size = |block: &[u32]| {
        tma_box(
            &SM_90A,
            block,
            &Nvmma::new(128, 16).into(),
            16,
            BoxKind::Tiled,
        )
        .unwrap()
        .to_string()
    };
    assert_eq!(
        [size(&[192, 64]), size(&[384, 128]), size(&[320, 64])],
        ["[192, 64]", "[192, 64]", "[160, 64]"]
    );
}

#[test]
fn what_cannot_be_cut_is_said() {
    let shared = |text: &str, block: &[u32], wanted: &str| {
        let error = text
            .parse::<SharedLayout>()
            .unwrap()
            .check(block)
            .unwrap_err();
        assert_eq!(error.to_string(), wanted);
    };
    shared(
        "Nvmma(128, 16)",
        &[64, 176],
        "the contiguous dimension of the block [64, 176] holds 352 bytes, no multiple of the swizzle of 128 bytes; a swizzle of 32 bytes fits",
    );
    shared(
        "Nvmma(32, 16)",
        &[64, 24],
        "the contiguous dimension of the block [64, 24] holds 48 bytes, no multiple of the swizzle of 32 bytes; only an unswizzled layout fits",
    );
    shared(
        "Swizzled(8, 1, 8, [1, 0])",
        &[64, 48],
        "Swizzled(8, 1, 8, [1, 0]) holds no block of [64, 48]: steps of 16 along dimension 1 of size 48 must lie one after another in memory, above what a swizzle moves",
    );
    shared(
        "Padded([[64, 8]], [1, 0])",
        &[64, 48],
        "Padded([[64, 8]], [1, 0]) holds no block of [64, 48]: padded layouts take powers of two",
    );
    shared(
        "Nvmma(128, 16, cta=[[1, 0]])",
        &[192, 64],
        "the CTAs of a cluster split dimensions of powers of two only, and Nvmma(128, 16, cta=[[1, 0]]) splits [192, 64] along another",
    );
    let registers = |text: &str, shape: &[u32], wanted: &str| {
        assert_eq!(layout(text).linear(shape).unwrap_err().to_string(), wanted);
    };
    registers(
        "Blocked([1, 1], [1, 32], [4, 1], [1, 0], cta=[[0, 1]])",
        &[64, 48],
        "the CTAs of a cluster split dimensions of powers of two only, and Blocked([1, 1], [1, 32], [4, 1], [1, 0], cta=[[0, 1]]) splits [64, 48] along another",
    );
    registers(
        "Wgmma([4, 2], [64, 96, 16])",
        &[64, 192],
        "instr_shape of Wgmma is [64, 96, 16], but n must be a power of two where warpgroups stand side by side along N",
    );
    let why = reshape(
        &layout("Blocked([1, 1], [1, 32], [4, 1], [1, 0])"),
        &[64, 48],
        &[3072],
    );
    assert!(
        why.unwrap_err()
            .to_string()
            .contains("only the first may be no power of two")
    );
}

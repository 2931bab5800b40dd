//! TMA copies of tensors against brute force: ranks, edges, fills, strides, swizzles, reductions, pixels.

use crate::kernel::Random;
use crate::reports;
use emulator::{Emulator, Fault, FaultKind, Launch, Program, encode_tensor_map};
use ptx::{L2Promotion, TensorAccess, TensorElement, TensorMap};
use target::SM_90A;

/// A kernel that copies a box into shared memory and then all of the tile to `out`, or the other way round.
fn kernel(rank: usize, load: bool, reduction: Option<&str>, im2col: bool) -> String {
    let coords: Vec<String> = (0..rank).map(|axis| format!("%c{axis}")).collect();
    let coords = coords.join(", ");
    let mode = if im2col { ".im2col" } else { ".tile" };
    let offsets = match (im2col, rank) {
        (false, _) => "",
        (true, 5) => ", {%w, %h, %w}",
        (true, _) => ", {%w, %h}",
    };
    let copy = match (load, reduction) {
        (true, _) => format!(
            "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %bytes;
            @%p0 cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%tile], [%map, {{{coords}}}], [%bar]{offsets};
            $wait:
            mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
            @!%p1 bra $wait;"
        ),
        (false, None) => format!(
            "fence.proxy.async.shared::cta;
            bar.sync 0;
            @%p0 cp.async.bulk.tensor.{rank}d.global.shared::cta{mode}.bulk_group [%map, {{{coords}}}], [%tile];
            @%p0 cp.async.bulk.commit_group;
            @%p0 cp.async.bulk.wait_group 0;"
        ),
        (false, Some(op)) => format!(
            "fence.proxy.async.shared::cta;
            bar.sync 0;
            @%p0 cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}{mode}.bulk_group [%map, {{{coords}}}], [%tile];
            @%p0 cp.async.bulk.commit_group;
            @%p0 cp.async.bulk.wait_group 0;"
        ),
    };
    let bring = "mov.u32 %i, %tid.x;
        $bring:
        shl.b32 %j, %i, 2; add.u32 %j, %j, %tile; mul.wide.u32 %at, %i, 4; add.u64 %at, %at, %other;
        ld.global.u32 %v, [%at]; st.shared.u32 [%j], %v;
        add.u32 %i, %i, 32; shl.b32 %j, %i, 2; setp.lt.u32 %p1, %j, %bytes; @%p1 bra $bring;";
    let take = bring.replace("$bring", "$take").replace(
        "ld.global.u32 %v, [%at]; st.shared.u32 [%j], %v;",
        "ld.shared.u32 %v, [%j]; st.global.u32 [%at], %v;",
    );
    let (before, after) = if load {
        (String::new(), take)
    } else {
        (bring.to_owned(), String::new())
    };
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64
        .extern .shared .align 1024 .b8 smem[];
        .visible .entry k(.param .align 64 .b8 tm[128], .param .u64 other, .param .u32 bytes, .param .b32 c0,
            .param .b32 c1, .param .b32 c2, .param .b32 c3, .param .b32 c4, .param .u32 off)
        {{
        .reg .pred %p<2>; .reg .b32 %tile, %bar, %bytes, %i, %j, %v, %c<5>, %o; .reg .b64 %map, %other, %at;
        .reg .b16 %w, %h;
        .shared .align 8 .b8 barrier[8];
        mov.u64 %map, tm; cvta.param.u64 %map, %map;
        ld.param.u64 %other, [other]; ld.param.u32 %bytes, [bytes]; ld.param.u32 %o, [off]; mov.b32 {{%w, %h}}, %o;
        ld.param.b32 %c0, [c0]; ld.param.b32 %c1, [c1]; ld.param.b32 %c2, [c2]; ld.param.b32 %c3, [c3];
        ld.param.b32 %c4, [c4];
        mov.u32 %tile, smem; mov.u32 %bar, barrier; mov.u32 %i, %tid.x; setp.eq.u32 %p0, %i, 0;
        @%p0 mbarrier.init.shared::cta.b64 [%bar], 1; @%p0 fence.mbarrier_init.release.cluster;
        bar.sync 0;
        {before}\n{copy}\n{after}
        ret;
        }}\n"
    )
}

struct Copy {
    map: TensorMap,
    coords: [i32; 5],
    offsets: [u16; 2],
}

/// A tensor with room around it: bytes, and the map with its address.
fn tensor(emulator: &Emulator, map: TensorMap, seed: u64) -> (TensorMap, Vec<u8>) {
    let rank = map.rank as usize;
    let last = map.dims[rank - 1];
    let bytes = if rank == 1 {
        last * u64::from(map.element.bytes())
    } else {
        map.strides[rank - 2] * last
    };
    let mut random = Random(seed);
    let data: Vec<u8> = (0..bytes).map(|_| random.next() as u8 & 0x3f).collect();
    let address = emulator.memory().alloc(bytes).unwrap();
    emulator.memory().write(address, &data).unwrap();
    (TensorMap { address, ..map }, data)
}

fn run(
    emulator: &Emulator,
    copy: &Copy,
    text: &str,
    other: u64,
    seed: u64,
) -> Result<(), Box<Fault>> {
    let program =
        Program::load(&ptx::Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")))
            .unwrap();
    let mut params = encode_tensor_map(&copy.map, &SM_90A).unwrap().to_vec();
    params.extend(other.to_le_bytes());
    params.extend(copy.map.tile_bytes().to_le_bytes());
    copy.coords
        .iter()
        .for_each(|coord| params.extend(coord.to_le_bytes()));
    params.extend((u32::from(copy.offsets[0]) | u32::from(copy.offsets[1]) << 16).to_le_bytes());
    let launch = Launch {
        dynamic_shared_bytes: copy.map.tile_bytes(),
        seed,
        ..Launch::default()
    };
    let done = emulator.launch(&program, "k", &launch, &params);
    let done = done.inspect_err(|fault| reports::check(&format!("{text}{params:?}"), fault));
    done.map(drop)
}

/// Where the bytes of element `index` of the tile lie in shared memory; the tile is aligned to 1024.
fn in_tile(map: &TensorMap, index: usize) -> usize {
    let at = index * map.element.bytes() as usize;
    let mask = (map.swizzle as usize / 16).saturating_sub(1);
    at ^ ((at >> 7 & mask) << 4)
}

/// Byte offset in the tensor of the element at a coordinate, when it is inside.
fn in_tensor(map: &TensorMap, at: &[i64]) -> Option<usize> {
    let inside = at
        .iter()
        .zip(map.dims)
        .all(|(&at, dim)| (0..dim as i64).contains(&at));
    let outer = || {
        at.iter()
            .skip(1)
            .zip(map.strides)
            .map(|(&at, stride)| at as u64 * stride)
            .sum::<u64>()
    };
    inside.then(|| outer() as usize + at[0] as usize * map.element.bytes() as usize)
}

/// Coordinates of every element of a box, in the order of the tile.
fn elements(copy: &Copy) -> Vec<Vec<i64>> {
    let tile = copy.map.tile_dims();
    (0..tile.iter().product::<u32>())
        .map(|index| {
            let mut rest = index;
            (0..tile.len())
                .map(|axis| {
                    let step = rest % tile[axis] * copy.map.element_strides[axis];
                    rest /= tile[axis];
                    i64::from(copy.coords[axis]) + i64::from(step)
                })
                .collect()
        })
        .collect()
}

fn check_load(copy: &Copy) {
    for seed in 0..3 {
        let emulator = Emulator::new();
        let (map, data) = tensor(&emulator, copy.map, 1 + seed);
        let copy = Copy { map, ..*copy };
        let out = emulator.memory().alloc(map.tile_bytes().into()).unwrap();
        run(
            &emulator,
            &copy,
            &kernel(map.rank as usize, true, None, false),
            out,
            seed,
        )
        .unwrap_or_else(|f| panic!("{f}"));
        let mut tile = vec![0; map.tile_bytes() as usize];
        emulator.memory().read(out, &mut tile).unwrap();
        check_tile(&map, &tile, &data, &elements(&copy));
    }
}

fn check_tile(map: &TensorMap, tile: &[u8], data: &[u8], places: &[Vec<i64>]) {
    let bytes = map.element.bytes() as usize;
    for (index, place) in places.iter().enumerate() {
        let found = &tile[in_tile(map, index)..][..bytes];
        match in_tensor(map, place) {
            Some(at) => assert_eq!(found, &data[at..at + bytes], "{map:?} {place:?}"),
            None if map.nan_fill => {
                let (last, rest) = found.split_last().expect("an element has bytes");
                let is_nan = *last == 0x7f && rest.iter().all(|&byte| byte == 0xff);
                assert!(is_nan, "{place:?}: {found:?}");
            }
            None => assert!(found.iter().all(|&byte| byte == 0), "{place:?}"),
        }
    }
}

fn map(element: TensorElement, dims: &[u64], box_dims: &[u32], swizzle: u32) -> TensorMap {
    let fill = |list: &[u64]| -> [u64; 5] {
        std::array::from_fn(|axis| list.get(axis).copied().unwrap_or(1))
    };
    let mut strides = [0; 4];
    let mut stride = (dims[0] * u64::from(element.bytes())).next_multiple_of(16) + 16;
    for axis in 0..dims.len() - 1 {
        strides[axis] = stride;
        stride *= dims[axis + 1];
    }
    let boxes: [u32; 5] = std::array::from_fn(|axis| box_dims.get(axis).copied().unwrap_or(1));
    TensorMap {
        element,
        rank: dims.len() as u32,
        address: 0,
        dims: fill(dims),
        strides,
        element_strides: [1; 5],
        access: TensorAccess::Tiled { box_dims: boxes },
        swizzle,
        nan_fill: false,
        l2_promotion: L2Promotion::None,
    }
}

fn copy(map: TensorMap, coords: &[i32]) -> Copy {
    let coords = std::array::from_fn(|axis| coords.get(axis).copied().unwrap_or(0));
    Copy {
        map,
        coords,
        offsets: [0; 2],
    }
}

#[test]
fn boxes_of_every_rank_are_filled_with_zeros_past_every_edge() {
    use TensorElement::{F16, F32, F64, U8};
    check_load(&copy(map(U8, &[200], &[128], 0), &[144]));
    for swizzle in [0, 32, 64, 128] {
        let inner = if swizzle == 0 { 24 } else { swizzle / 2 };
        check_load(&copy(map(F16, &[70, 9], &[inner, 8], swizzle), &[56, 5]));
        check_load(&copy(map(F16, &[70, 9], &[inner, 16], swizzle), &[-8, -3]));
    }
    check_load(&copy(map(F32, &[10, 5, 7], &[8, 4, 3], 32), &[4, 3, -1]));
    check_load(&copy(
        map(F64, &[6, 3, 4, 2], &[4, 2, 3, 2], 0),
        &[4, 2, 2, 1],
    ));
    check_load(&copy(
        map(F32, &[6, 3, 4, 2, 3], &[8, 2, 3, 1, 2], 0),
        &[-4, 2, 2, 1, 2],
    ));
    for element in [F16, F32, F64] {
        let filled = TensorMap {
            nan_fill: true,
            ..map(element, &[30, 5], &[8, 8], 64)
        };
        check_load(&copy(filled, &[24, 2]));
    }
    let strided = TensorMap {
        element_strides: [2, 3, 1, 1, 1],
        ..map(F32, &[40, 20], &[16, 12], 32)
    };
    check_load(&copy(strided, &[28, 13]));
}

#[test]
fn a_map_of_tf32_rounds_what_it_loads() {
    let emulator = Emulator::new();
    let (map, data) = tensor(
        &emulator,
        map(TensorElement::Tf32, &[16, 8], &[16, 8], 0),
        5,
    );
    let out = emulator.memory().alloc(map.tile_bytes().into()).unwrap();
    let text = kernel(2, true, None, false);
    run(&emulator, &copy(map, &[0, 0]), &text, out, 0).unwrap_or_else(|fault| panic!("{fault}"));
    let mut tile = vec![0; map.tile_bytes() as usize];
    emulator.memory().read(out, &mut tile).unwrap();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut rounded = 0;
    for at in (0..16 * 8).map(|index| index * 4) {
        let exact = f32::from_bits(word(
            &data,
            in_tensor(&map, &[at as i64 / 4 % 16, at as i64 / 64]).unwrap(),
        ));
        let found = f32::from_bits(word(&tile, at));
        assert_eq!(found.to_bits() & 0x1fff, 0, "10 bits of mantissa are left");
        let near =
            (found - exact).abs() <= exact.abs() / 2048.0 || exact.is_nan() || !exact.is_normal();
        assert!(near, "{exact} {found}");
        rounded += usize::from(found.to_bits() != exact.to_bits());
    }
    assert!(rounded > 100, "random bits are rarely a tf32");
}

#[test]
fn stores_are_clipped_at_the_edges() {
    for (seed, swizzle) in [0, 64, 128].into_iter().enumerate() {
        let emulator = Emulator::new();
        let inner = if swizzle == 0 { 24 } else { swizzle / 2 };
        let (map, mut data) = tensor(
            &emulator,
            map(TensorElement::Bf16, &[70, 9], &[inner, 8], swizzle),
            5,
        );
        let copy = copy(map, &[56, 4]);
        let (_, tile) = tensor(
            &emulator,
            self::map(TensorElement::U8, &[map.tile_bytes().into()], &[16], 0),
            9,
        );
        let source = emulator.memory().alloc(tile.len() as u64).unwrap();
        emulator.memory().write(source, &tile).unwrap();
        run(
            &emulator,
            &copy,
            &kernel(2, false, None, false),
            source,
            seed as u64,
        )
        .unwrap_or_else(|f| panic!("{f}"));
        // 70 elements of 2 bytes end inside a unit of 16 bytes, and TMA writes all of it, as the H200 does.
        let mut written = map;
        written.dims[0] = 72;
        for (index, place) in elements(&copy).iter().enumerate() {
            if let Some(at) = in_tensor(&written, place) {
                data[at..at + 2].copy_from_slice(&tile[in_tile(&map, index)..][..2]);
            }
        }
        let mut found = vec![0; data.len()];
        emulator.memory().read(map.address, &mut found).unwrap();
        assert_eq!(found, data);
    }
}

#[test]
fn reductions_combine_with_the_tensor() {
    for (op, combine) in [
        ("add", (|a, b| a.wrapping_add(b)) as fn(u32, u32) -> u32),
        ("max", |a, b| a.max(b)),
        ("min", |a, b| a.min(b)),
        ("and", |a, b| a & b),
        ("xor", |a, b| a ^ b),
    ] {
        let emulator = Emulator::new();
        let (map, data) = tensor(
            &emulator,
            map(TensorElement::U32, &[20, 6], &[16, 4], 64),
            5,
        );
        let copy = copy(map, &[12, 3]);
        let tile: Vec<u8> = (0..map.tile_bytes()).map(|i| (i * 7) as u8).collect();
        let source = emulator.memory().alloc(tile.len() as u64).unwrap();
        emulator.memory().write(source, &tile).unwrap();
        run(
            &emulator,
            &copy,
            &kernel(2, false, Some(op), false),
            source,
            0,
        )
        .unwrap_or_else(|f| panic!("{f}"));
        let mut found = vec![0; data.len()];
        emulator.memory().read(map.address, &mut found).unwrap();
        let word =
            |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut expected = data.clone();
        for (index, place) in elements(&copy).iter().enumerate() {
            if let Some(at) = in_tensor(&map, place) {
                let value = combine(word(&data, at), word(&tile, in_tile(&map, index)));
                expected[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
        assert_eq!(found, expected, "{op}");
    }
}

#[test]
fn im2col_loads_gather_the_pixels_under_a_tap() {
    // C, W, H, N; the filter is 3 x 3 with padding of one, so that its offsets are 0 to 2.
    let base = map(TensorElement::F32, &[8, 5, 4, 3], &[1], 32);
    let access = TensorAccess::Im2col {
        lower_corner: [-1, -1, 0],
        upper_corner: [-1, -1, 0],
        channels: 8,
        pixels: 32,
    };
    for offsets in [[0, 0], [2, 1], [1, 2]] {
        for start in [[0, -1, -1, 0], [0, 2, 1, 1]] {
            let emulator = Emulator::new();
            let (map, data) = tensor(&emulator, TensorMap { access, ..base }, 7);
            let copy = Copy {
                offsets,
                ..copy(map, &start)
            };
            let out = emulator.memory().alloc(map.tile_bytes().into()).unwrap();
            run(&emulator, &copy, &kernel(4, true, None, true), out, 0)
                .unwrap_or_else(|f| panic!("{f}"));
            let mut tile = vec![0; map.tile_bytes() as usize];
            emulator.memory().read(out, &mut tile).unwrap();
            // The bounding box of centres: W from -1 to 3, H from -1 to 2; images follow each other.
            let boxes = (0..).map(|i: i64| [i % 5 - 1, i / 5 % 4 - 1, i / 20]);
            let first = boxes
                .clone()
                .position(|p| p == [start[1], start[2], start[3]].map(i64::from))
                .unwrap();
            let places: Vec<Vec<i64>> = boxes
                .skip(first)
                .take(32)
                .flat_map(|[w, h, n]| {
                    (0..8).map(move |c| {
                        vec![c, w + i64::from(offsets[0]), h + i64::from(offsets[1]), n]
                    })
                })
                .collect();
            check_tile(&map, &tile, &data, &places);
        }
    }
}

#[test]
fn im2col_loads_step_over_pixels_and_through_volumes() {
    // Every other column; and D, whose offset is that of W, from 0 to 2.
    let access = TensorAccess::Im2col {
        lower_corner: [-1, -1, 0],
        upper_corner: [-1, -1, 0],
        channels: 8,
        pixels: 32,
    };
    let flat = TensorMap {
        access,
        element_strides: [1, 2, 1, 1, 1],
        ..map(TensorElement::F32, &[8, 5, 4, 3], &[1], 32)
    };
    let volume = TensorMap {
        access,
        ..map(TensorElement::F32, &[8, 5, 4, 3, 2], &[1], 32)
    };
    let columns = (0..).map(|i: i64| vec![i % 3 * 2 - 1, i / 3 % 4 - 1, i / 12]);
    let voxels = (0..).map(|i: i64| vec![i % 5 - 1, i / 5 % 4 - 1, i / 20 % 3, i / 60]);
    let columns: Vec<Vec<i64>> = columns.take(32).collect();
    let voxels: Vec<Vec<i64>> = voxels.take(32).collect();
    for (map, start, pixels) in [
        (flat, [0, -1, -1, 0, 0], columns),
        (volume, [0, -1, -1, 0, 0], voxels),
    ] {
        for offsets in [[0, 0], [2, 1]] {
            let emulator = Emulator::new();
            let (map, data) = tensor(&emulator, map, 7);
            let copy = Copy {
                offsets,
                ..copy(map, &start)
            };
            let rank = map.rank as usize;
            let out = emulator.memory().alloc(map.tile_bytes().into()).unwrap();
            run(&emulator, &copy, &kernel(rank, true, None, true), out, 0)
                .unwrap_or_else(|f| panic!("{f}"));
            let mut tile = vec![0; map.tile_bytes() as usize];
            emulator.memory().read(out, &mut tile).unwrap();
            let shift = [offsets[0], offsets[1], offsets[0]].map(i64::from);
            let places = pixels.iter().flat_map(|pixel| {
                (0..8).map(move |channel| {
                    let spatial = rank - 2;
                    let moved = pixel
                        .iter()
                        .enumerate()
                        .map(|(axis, at)| at + if axis < spatial { shift[axis] } else { 0 });
                    std::iter::once(channel).chain(moved).collect::<Vec<i64>>()
                })
            });
            check_tile(&map, &tile, &data, &places.collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_map_may_be_named_by_its_address_among_the_parameters() {
    let emulator = Emulator::new();
    let (map, data) = tensor(&emulator, map(TensorElement::F32, &[16, 8], &[8, 8], 0), 5);
    let out = emulator.memory().alloc(map.tile_bytes().into()).unwrap();
    let text = kernel(2, true, None, false).replace("cvta.param.u64 %map, %map;", "");
    let copy = copy(map, &[4, 0]);
    run(&emulator, &copy, &text, out, 0).unwrap_or_else(|fault| panic!("{fault}"));
    let mut tile = vec![0; map.tile_bytes() as usize];
    emulator.memory().read(out, &mut tile).unwrap();
    check_tile(&map, &tile, &data, &elements(&copy));
}

#[test]
fn a_kernel_writes_its_own_tensor_map() {
    let emulator = Emulator::new();
    let (good, data) = tensor(
        &emulator,
        map(TensorElement::F16, &[64, 8], &[32, 8], 64),
        5,
    );
    let out = emulator.memory().alloc(good.tile_bytes().into()).unwrap();
    let place = emulator.memory().alloc(128).unwrap();
    let fields = format!(
        "global_address.shared::cta.b1024.b64 [%made], {};
        rank.shared::cta.b1024.b32 [%made], 1;
        box_dim.shared::cta.b1024.b32 [%made], 0, 32;
        box_dim.shared::cta.b1024.b32 [%made], 1, 8;
        global_dim.shared::cta.b1024.b32 [%made], 0, 64;
        global_dim.shared::cta.b1024.b32 [%made], 1, 8;
        global_stride.shared::cta.b1024.b64 [%made], 0, {};
        element_stride.shared::cta.b1024.b32 [%made], 0, 1;
        element_stride.shared::cta.b1024.b32 [%made], 1, 1;
        elemtype.shared::cta.b1024.b32 [%made], 6;
        interleave_layout.shared::cta.b1024.b32 [%made], 0;
        swizzle_mode.shared::cta.b1024.b32 [%made], 2;
        fill_mode.shared::cta.b1024.b32 [%made], 0;",
        good.address, good.strides[0]
    );
    let replace: String = fields
        .lines()
        .map(|line| format!("@%p0 tensormap.replace.tile.{}\n", line.trim()))
        .collect();
    let making = format!(
        ".shared .align 128 .b8 blank[128]; .reg .b32 %made, %mine; .reg .b64 %mine64;
        mov.u32 %made, blank; shl.b32 %mine, %i, 2; add.u32 %mine, %mine, %made; st.shared.u32 [%mine], 0;
        bar.warp.sync -1;
        {replace}
        bar.warp.sync -1;
        mov.u64 %map, {place};
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%map], [%made], 128;
        fence.proxy.tensormap::generic.acquire.gpu [%map], 128;
        bar.sync 0;"
    );
    let text = kernel(2, true, None, false).replacen("bar.sync 0;", &making, 1);
    let copy = copy(good, &[16, 4]);
    run(&emulator, &copy, &text, out, 0).unwrap_or_else(|fault| panic!("{fault}"));
    let mut tile = vec![0; good.tile_bytes() as usize];
    emulator.memory().read(out, &mut tile).unwrap();
    check_tile(&good, &tile, &data, &elements(&copy));

    let fence = "fence.proxy.tensormap::generic.acquire.gpu [%map], 128;";
    let fault = run(&emulator, &copy, &text.replace(fence, ""), out, 0).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Race);
    let expected = "and the fence.proxy.tensormap to acquire it is missing";
    assert!(fault.message.ends_with(expected), "{}", fault.message);
    // A map that is changed where it is used must be released too.
    let changed = "@%p0 tensormap.replace.tile.rank.global.b1024.b32 [%map], 1;";
    let text = text.replace(fence, &format!("{changed} {fence}"));
    let fault = run(&emulator, &copy, &text, out, 0).unwrap_err();
    let expected = "and the fence.proxy.tensormap to release it is missing";
    assert!(fault.message.ends_with(expected), "{}", fault.message);
    let release = "fence.proxy.tensormap::generic.release.gpu;";
    let text = text.replace(changed, &format!("{changed} {release}"));
    run(&emulator, &copy, &text, out, 0).unwrap_or_else(|fault| panic!("{fault}"));

    // Changed again: once the copy is over, and while it may be in flight.
    let late = text.replacen("ret;", &format!("{changed} ret;"), 1);
    run(&emulator, &copy, &late, out, 0).unwrap_or_else(|fault| panic!("{fault}"));
    let issue = text
        .lines()
        .find(|line| line.contains("cp.async.bulk.tensor"))
        .unwrap();
    let early = text.replacen(issue, &format!("{issue}\n{changed}"), 1);
    let fault = run(&emulator, &copy, &early, out, 0).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Race);
    let expected = "through the tensor map there may be in flight; a wait for it is missing";
    assert!(fault.message.ends_with(expected), "{}", fault.message);
}

#[test]
fn wrong_maps_and_tensors_are_faults() {
    let emulator = Emulator::new();
    let (good, _) = tensor(
        &emulator,
        map(TensorElement::F16, &[64, 8], &[32, 8], 64),
        5,
    );
    let out = emulator.memory().alloc(4096).unwrap();
    let text = kernel(3, true, None, false);
    let message = run(&emulator, &copy(good, &[0; 5]), &text, out, 0)
        .unwrap_err()
        .message;
    assert_eq!(
        message,
        "the copy gives 3 coordinates, and its tensor map has 2 dimensions"
    );
    let long = TensorMap {
        dims: [64, 9, 1, 1, 1],
        ..good
    };
    let text = kernel(2, true, None, false);
    let message = run(&emulator, &copy(long, &[0, 1]), &text, out, 0)
        .unwrap_err()
        .message;
    assert!(
        message.starts_with("asynchronous load of 16 bytes in global memory at"),
        "{message}"
    );
    let crooked = text.replace(
        "mov.u32 %tile, smem;",
        "mov.u32 %tile, smem; add.u32 %tile, %tile, 16;",
    );
    let message = run(&emulator, &copy(good, &[0; 5]), &crooked, out, 0)
        .unwrap_err()
        .message;
    assert!(
        message.ends_with("is misaligned: the address must be a multiple of 128"),
        "{message}"
    );
    let message = run(&emulator, &copy(good, &[4, 0]), &text, out, 0)
        .unwrap_err()
        .message;
    assert_eq!(
        message,
        "the copy begins at element 4 of the innermost dimension, 2 bytes each; it must begin at a multiple of 16 bytes"
    );
    run(&emulator, &copy(good, &[-8, -1]), &text, out, 0).unwrap();
    for reduction in [None, Some("add")] {
        let store = kernel(2, false, reduction, false);
        let message = run(&emulator, &copy(good, &[8, -1]), &store, out, 0)
            .unwrap_err()
            .message;
        assert_eq!(
            message,
            "a TMA store to coordinate -1 of dimension 0, in front of the tensor; the hardware loads from there, and cannot store to there"
        );
        run(&emulator, &copy(good, &[8, 64]), &store, out, 0).unwrap();
    }
    let behind = TensorMap {
        address: good.address + (1 << 40),
        ..good
    };
    let message = run(&emulator, &copy(behind, &[0; 5]), &text, out, 0)
        .unwrap_err()
        .message;
    assert!(
        message.starts_with("a TMA load by a tensor map that begins at"),
        "{message}"
    );
    let elsewhere = text.replace("cvta.param.u64 %map, %map;", "ld.param.u64 %map, [other];");
    emulator.memory().fill(out, 4096, 1).unwrap();
    let message = run(&emulator, &copy(good, &[0; 5]), &elsewhere, out, 0)
        .unwrap_err()
        .message;
    assert!(message.ends_with("are not a tensor map"), "{message}");
}

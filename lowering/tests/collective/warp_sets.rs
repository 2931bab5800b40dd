//! Kernels whose warps are no power of two: sets of warps divide a dimension, or each of them holds the whole tensor.

use ir::elem::DType;

use crate::gathers::Case;
use crate::kernel::{Kernel, coordinates, from_bytes, noise, to_bytes};
use crate::partitions::check_partitions;
use crate::scans;

/// Layouts with their warps, and shapes that the sets divide along rows, along columns, or not at all.
const MATRICES: &[(&str, u32, [u32; 2])] = &[
    ("Blocked([1, 4], [4, 8], [12, 1], [1, 0])", 12, [192, 32]),
    ("Blocked([1, 4], [4, 8], [12, 1], [1, 0])", 12, [48, 96]),
    ("Blocked([1, 2], [8, 4], [2, 6], [0, 1])", 12, [32, 96]),
    ("Blocked([2, 1], [4, 8], [4, 3], [1, 0])", 12, [32, 96]),
    ("Blocked([1, 1], [1, 32], [12, 1], [1, 0])", 12, [16, 32]),
    ("Blocked([1, 2], [8, 4], [3, 2], [1, 0])", 6, [96, 16]),
    ("Blocked([1, 1], [1, 32], [1, 3], [1, 0])", 3, [4, 96]),
    ("Blocked([1, 2], [2, 16], [10, 1], [1, 0])", 10, [80, 32]),
    ("Wgmma([12, 1], [64, 32, 16])", 12, [192, 32]),
    ("Wgmma([12, 1], [64, 24, 16])", 12, [384, 24]),
    ("Mma([2, 6], [16, 8])", 12, [32, 96]),
    (
        "Slice(1, Blocked([1, 2, 2], [4, 2, 4], [6, 1, 2], [0, 2, 1]))",
        12,
        [96, 16],
    ),
    (
        "Slice(0, Blocked([1, 1, 4], [2, 4, 4], [3, 2, 2], [2, 1, 0]))",
        12,
        [32, 16],
    ),
    // The warps of a set stand on both sides of the lanes, and rows repeat in registers below those of the sets.
    (
        "Linear(register=[[0, 1], [16, 0]], lane=[[0, 2], [0, 4], [2, 0], [4, 0], [8, 0]], \
         warp=[[1, 0], [0, 8], [32, 0], [64, 0]], warps=12)",
        12,
        [96, 16],
    ),
];

#[test]
fn scans_run_along_sets_and_across_them() {
    for &(layout, warps, shape) in MATRICES {
        for axis in [0, 1] {
            for (dtype, is_reverse) in [(DType::I32, false), (DType::I64, true)] {
                scans::check(layout, warps, &shape, dtype, (axis, is_reverse));
            }
        }
    }
    scans::check(
        "Blocked([2], [32], [12], [0])",
        12,
        &[768],
        DType::I32,
        (0, false),
    );
    scans::check(
        "Blocked([1], [32], [3], [0])",
        3,
        &[192],
        DType::I32,
        (0, true),
    );
    scans::check(
        "Blocked([1], [32], [12], [0])",
        12,
        &[64],
        DType::I32,
        (0, false),
    );
}

/// CTAs of a cluster split one dimension, and sets of warps divide the other one, or hold copies.
#[test]
fn scans_and_reductions_run_along_sets_of_a_cluster() {
    for (layout, warps, ctas, shape) in [
        (
            "Blocked([1, 4], [4, 8], [12, 1], [1, 0], cta=[[0, 1]])",
            12,
            2,
            [96_u32, 64_u32],
        ),
        (
            "Blocked([1, 2], [8, 4], [1, 6], [1, 0], cta=[[1, 0]])",
            6,
            2,
            [32, 96],
        ),
        // Sets alone hold copies of what they send to four CTAs.
        (
            "Slice(0, Blocked([1, 1, 1], [1, 32, 1], [3, 4, 1], [2, 1, 0], cta=[[0, 0, 1], [0, 0, 2]]))",
            12,
            4,
            [128, 8],
        ),
        // Rows that are no power of two, of warps that are one.
        (
            "Blocked([1, 4], [4, 8], [4, 1], [1, 0], cta=[[0, 1]])",
            4,
            2,
            [96, 64],
        ),
    ] {
        for axis in [0, 1] {
            for is_reverse in [false, true] {
                let kernel = Kernel::in_cluster(warps, ctas);
                scans::check_kernel(kernel, layout, &shape, DType::I32, (axis, is_reverse));
            }
            check_sums(
                Kernel::in_cluster(warps, ctas),
                layout,
                shape,
                axis,
                DType::I32,
            );
        }
    }
}

/// Two of three extents are no powers of two, and CTAs split the third one.
#[test]
fn sums_of_two_cut_dimensions_cross_a_cluster() {
    let (layout, shape) = (
        "Blocked([1, 1, 1], [2, 2, 8], [3, 2, 1], [2, 1, 0], cta=[[0, 0, 1]])",
        [12_u32, 12, 32],
    );
    let mut kernel = Kernel::in_cluster(6, 2);
    let form = kernel.form("l", layout, &shape);
    let sums = kernel.form("r", &format!("Slice(2, {layout})"), &shape[..2]);
    kernel.load("x", DType::I32, &form);
    kernel.line("%s = reduce [%x_v] {axis=2} (%a: i32, %b: i32) {");
    kernel.line("  %c = binary %a, %b {op=add} : i32");
    kernel.line("  yield [%c]");
    kernel.line(&format!("}} : {}", sums.of("i32")));
    kernel.store("out", DType::I32, &sums, "s");
    let x: Vec<u64> = noise(12 * 12 * 32, 6).iter().map(|n| n >> 40).collect();
    let found = kernel.run(&[to_bytes(&x, DType::I32), vec![0; 4 * 144]]);
    let wanted: Vec<u64> = x.chunks(32).map(|row| row.iter().sum()).collect();
    assert_eq!(from_bytes(&found[1], DType::I32), wanted);
}

/// The sums of a matrix along an axis, each stored once and, in one CTA, added to a counter once.
fn check_sums(mut kernel: Kernel, layout: &str, shape: [u32; 2], axis: usize, dtype: DType) {
    let form = kernel.form("l", layout, &shape);
    let sums = kernel.form("r", &format!("Slice({axis}, {layout})"), &[shape[1 - axis]]);
    kernel.load("x", dtype, &form);
    kernel.line(&format!(
        "%s = reduce [%x_v] {{axis={axis}}} (%a: {dtype}, %b: {dtype}) {{"
    ));
    kernel.line(&format!("  %c = binary %a, %b {{op=add}} : {dtype}"));
    kernel.line("  yield [%c]");
    kernel.line(&format!("}} : {}", sums.of(dtype.name())));
    kernel.store("out", dtype, &sums, "s");
    let mut outputs = vec!["sums"];
    if kernel.ctas() == 1 {
        let ty = sums.of(dtype.name());
        kernel.pointers("count", dtype, &sums, &sums.numbers());
        kernel.line(&format!("%old = atomic_rmw %count_p, %s {{op=add}} : {ty}"));
        kernel.line(&format!("%both = binary %old, %s {{op=add}} : {ty}"));
        kernel.store("olds", dtype, &sums, "both");
        outputs.extend(["counters", "what was added to"]);
    }
    let mask = u64::MAX >> (64 - dtype.bits());
    let count = (shape[0] * shape[1]) as usize;
    let x: Vec<u64> = noise(count, 5).iter().map(|v| v & mask).collect();
    let mut wanted = vec![0_u64; shape[1 - axis] as usize];
    for (at, value) in x.iter().enumerate() {
        let sum = &mut wanted[coordinates(at, &shape)[1 - axis]];
        *sum = sum.wrapping_add(*value) & mask;
    }
    let blank = vec![0; wanted.len() * dtype.bytes() as usize];
    let mut buffers = vec![to_bytes(&x, dtype)];
    buffers.resize(1 + outputs.len(), blank);
    let found = kernel.run(&buffers);
    for (what, found) in outputs.into_iter().zip(&found[1..]) {
        assert_eq!(
            from_bytes(found, dtype),
            wanted,
            "{what} of {shape:?} {dtype} along {axis} in {layout}"
        );
    }
}

#[test]
fn reductions_run_along_sets_and_across_them() {
    for &(layout, warps, shape) in MATRICES {
        for axis in [0, 1] {
            for dtype in [DType::I32, DType::I64] {
                check_sums(Kernel::new(warps), layout, shape, axis, dtype);
            }
        }
    }
}

#[test]
fn gathers_look_into_other_sets() {
    for (at, &(source, warps, shape)) in MATRICES.iter().enumerate() {
        for &(indices, _, _) in MATRICES.iter().filter(|(_, w, _)| *w == warps).step_by(3) {
            Case {
                warps,
                axis: at % 2,
                source: (source, &shape),
                indices: (indices, &shape),
                dtype: [DType::I32, DType::I16, DType::I64][at % 3],
                index: DType::I32,
            }
            .check();
        }
    }
}

/// Each row of a matrix in order; the sets divide the rows, or each of them sorts all.
#[test]
fn sorts_run_within_a_set() {
    for (layout, warps, shape, count) in [
        (
            "Blocked([1, 1], [1, 32], [12, 1], [1, 0])",
            12,
            [24_u32, 64_u32],
            64,
        ),
        ("Blocked([1, 1], [4, 8], [3, 4], [1, 0])", 12, [12, 64], 64),
        ("Blocked([1, 1], [4, 8], [3, 4], [1, 0])", 12, [12, 64], 16),
        ("Blocked([1, 1], [4, 8], [6, 2], [1, 0])", 12, [8, 48], 48),
    ] {
        let mut kernel = Kernel::new(warps);
        let form = kernel.form("l", layout, &shape);
        kernel.load("x", DType::I32, &form);
        let kept = kernel.form("k", layout, &[shape[0], count]);
        kernel.line(&format!(
            "%s = sort [%x_v] {{axis=1, count={count}}} : {}",
            kept.of("i32")
        ));
        kernel.store("out", DType::I32, &kept, "s");
        let numbers = noise((shape[0] * shape[1]) as usize, 9);
        let x: Vec<u64> = numbers.iter().map(|n| n >> 34).collect();
        let out = vec![0; (shape[0] * count * 4) as usize];
        let found = kernel.run(&[to_bytes(&x, DType::I32), out]);
        let rows = x.chunks(shape[1] as usize);
        let wanted: Vec<u64> = rows
            .flat_map(|row| {
                let mut row = row.to_vec();
                row.sort_unstable();
                row.truncate(count as usize);
                row
            })
            .collect();
        assert_eq!(
            from_bytes(&found[1], DType::I32),
            wanted,
            "{layout} {shape:?}"
        );
    }
}

#[test]
fn histograms_count_each_element_once() {
    for (layout, warps, size) in [
        ("Blocked([1], [32], [12], [0])", 12, 768_u32),
        ("Blocked([1], [32], [12], [0])", 12, 64),
        ("Blocked([4], [32], [6], [0])", 6, 768),
    ] {
        let mut kernel = Kernel::new(warps);
        let form = kernel.form("l", layout, &[size]);
        let bins = kernel.form("b", layout, &[128]);
        kernel.load("x", DType::I32, &form);
        kernel.line(&format!("%h = histogram %x_v : {}", bins.of("i32")));
        kernel.store("out", DType::I32, &bins, "h");
        let x: Vec<u64> = noise(size as usize, 4).iter().map(|n| n % 128).collect();
        let found = kernel.run(&[to_bytes(&x, DType::I32), vec![0; 512]]);
        let mut wanted = vec![0; 128];
        for value in x {
            wanted[value as usize] += 1;
        }
        assert_eq!(
            from_bytes(&found[1], DType::I32),
            wanted,
            "{size} in {layout}"
        );
    }
}

/// What each partition does with elements, scratch and barriers of its own, and all of them before they part.
fn steps(tag: &str, warps: u32, base: u32, counter: u32) -> String {
    let len = warps * 64;
    let tile = format!("tensor<{len}xi32, #p{warps}>");
    let lines = [
        format!("%i = arange {{start=0, end={len}}} : {tile}"),
        format!("%last = constant {{value={}}} : {tile}", len - 1),
        format!("%mirror = binary %last, %i {{op=sub}} : {tile}"),
        format!("%found = gather %i, %mirror {{axis=0}} : {tile}"),
        format!("%far = convert_layout %found : tensor<{len}xi32, #q{warps}>"),
        format!("%near = convert_layout %far : {tile}"),
        format!("%steps = binary %last, %near {{op=sub}} : {tile}"),
        format!("%is_first = compare %steps, %zero{warps} {{op=eq}} : tensor<{len}xi1, #p{warps}>"),
        format!("%ones = select %is_first, %zero{warps}, %one{warps} : {tile}"),
        "%sums = scan [%ones] {axis=0} (%a: i32, %b: i32) {".into(),
        "%c = binary %a, %b {op=add} : i32".into(),
        "yield [%c]".into(),
        format!("}} : {tile}"),
        format!("%which = constant {{value={counter}}} : i32"),
        "%one = constant {value=1} : i32".into(),
        "%ticket = ptr_add %counters, %which : ptr<i32>".into(),
        "%old = atomic_rmw %ticket, %one {op=add} : i32".into(),
        format!("%olds = splat %old : {tile}"),
        format!("%base = constant {{value={base}}} : {tile}"),
        format!("%shifted = binary %sums, %base {{op=add}} : {tile}"),
        format!("%all = binary %shifted, %olds {{op=add}} : {tile}"),
        format!("%at = binary %i, %base {{op=add}} : {tile}"),
        format!("%to = splat %out : tensor<{len}xptr<i32>, #p{warps}>"),
        format!("%place = ptr_add %to, %at : tensor<{len}xptr<i32>, #p{warps}>"),
        "store %place, %all".into(),
    ];
    let own = |line: &String| {
        let mut tagged = line.replace('%', &format!("%{tag}_"));
        for shared in ["out", "counters"] {
            tagged = tagged.replace(&format!("%{tag}_{shared}"), &format!("%{shared}"));
        }
        format!("    {tagged}\n")
    };
    let constants = [("zero", 0), ("one", 1)].map(|(name, value)| {
        own(&format!(
            "%{name}{warps} = constant {{value={value}}} : {tile}"
        ))
    });
    constants.concat() + &lines.iter().map(own).collect::<String>()
}

#[track_caller]
fn check_sets(warps: &[u32]) {
    let layouts = |w| {
        format!(
            "#p{w} = Blocked([1], [32], [{w}], [0])\n#q{w} = Slice(0, Blocked([1, 2], [8, 4], [1, {w}], [1, 0]))\n"
        )
    };
    check_partitions(warps, layouts, steps, 0);
}

#[test]
fn partitions_of_any_number_of_warps_work_beside_each_other() {
    check_sets(&[12, 4]);
    check_sets(&[12, 1]);
    check_sets(&[4, 12]);
    check_sets(&[4, 3, 6, 1]);
    check_sets(&[12, 12, 4]);
    check_sets(&[20, 4]);
}

/// A matrix goes to shared memory and comes back in another layout, whose sets lie elsewhere.
#[test]
fn tiles_of_shared_memory_are_written_and_read_by_sets() {
    let layouts = [
        "Blocked([1, 8], [8, 4], [12, 1], [1, 0])",
        "Blocked([8, 1], [8, 4], [4, 3], [0, 1])",
        "Mma([12, 1], [16, 8])",
        "Wgmma([12, 1], [64, 32, 16])",
        "DotOperand(0, Mma([12, 1], [16, 8]), 2)",
    ];
    let shared = [
        "Nvmma(64, 16)",
        "Nvmma(64, 16, transposed=true)",
        "Swizzled(8, 1, 4, [1, 0])",
        "Swizzled(1, 1, 1, [0, 1])",
    ];
    for (turn, memory) in shared.iter().enumerate() {
        for (at, from) in layouts.iter().enumerate() {
            let to = layouts[(at + turn + 1) % layouts.len()];
            let shape = if turn % 2 == 0 { [192, 32] } else { [384, 32] };
            let mut kernel = Kernel::new(12);
            let source = kernel.form("f", from, &shape);
            let result = kernel.form("t", to, &shape);
            let tile = kernel.plain(memory, &shape);
            kernel.load("x", DType::I16, &source);
            let ty = tile.of("i16").replace("tensor<", "smem<");
            kernel.line(&format!("%m = smem_alloc init=%x_v : {ty}"));
            kernel.line(&format!("%r = smem_load %m : {}", result.of("i16")));
            kernel.store("out", DType::I16, &result, "r");
            let x: Vec<u64> = (0..shape[0] * shape[1])
                .map(|n| u64::from(n) & 0xffff)
                .collect();
            let found = kernel.run(&[to_bytes(&x, DType::I16), vec![0; 2 * x.len()]]);
            assert_eq!(
                from_bytes(&found[1], DType::I16),
                x,
                "{from} by {memory} to {to}"
            );
        }
    }
}

//! Operations along dimensions that the CTAs of a cluster split: reductions and scans here, by layouts that all have in common.

mod elements;
mod shared;

use ir::elem::DType;

use crate::assembler;
use crate::kernel::{
    Kernel, coordinates, from_bytes, noise, number, ptx_of, run_with_seed, to_bytes,
};
use crate::sorts::{self, Sort};
use crate::{gathers, scans};

/// Layouts of matrices, with their warps and CTAs: split along rows, along columns, along both, copied, in any order.
const MATRICES: &[(&str, u32, u32)] = &[
    (
        "Blocked([1, 4], [4, 8], [4, 1], [1, 0], cta=[[0, 1]])",
        4,
        2,
    ),
    (
        "Blocked([1, 4], [4, 8], [2, 2], [1, 0], cta=[[1, 0]])",
        4,
        2,
    ),
    (
        "Blocked([4, 1], [8, 4], [1, 4], [0, 1], cta=[[0, 1], [0, 2]])",
        4,
        4,
    ),
    (
        "Blocked([1, 2], [2, 16], [1, 2], [1, 0], cta=[[0, 1], [1, 0]])",
        2,
        4,
    ),
    (
        "Blocked([2, 2], [32, 1], [1, 4], [0, 1], cta=[[0, 0], [0, 1]])",
        4,
        4,
    ),
    (
        "Blocked([1, 1], [1, 32], [1, 1], [1, 0], cta=[[0, 1], [0, 2], [0, 4]])",
        1,
        8,
    ),
    (
        "Blocked([1, 2], [8, 4], [2, 4], [1, 0], cta=[[1, 0], [0, 1], [0, 0]])",
        8,
        8,
    ),
    ("Wgmma([4, 1], [64, 16, 16], cta=[[0, 1]])", 4, 2),
    // The CTA's rank is the lowest bit of the column, then stands between warps and lanes of the row.
    (
        "Linear(register=[[0, 2]], lane=[[0, 4], [8, 0], [0, 8], [1, 0], [0, 16]], warp=[[2, 0], [0, 32]], block=[[0, 1], [4, 0]])",
        4,
        4,
    ),
    (
        "Linear(register=[[4, 0], [0, 8]], lane=[[0, 0], [1, 0], [0, 1], [0, 2], [0, 4]], warp=[[0, 0], [2, 0]], block=[[0, 16], [8, 0]])",
        4,
        4,
    ),
];

/// Layouts of vectors, with their warps and CTAs.
const VECTORS: &[(&str, u32, u32)] = &[
    ("Blocked([4], [32], [4], [0], cta=[[1]])", 4, 2),
    ("Blocked([1], [32], [2], [0], cta=[[0], [1]])", 2, 4),
    ("Blocked([2], [32], [1], [0], cta=[[1], [2], [4]])", 1, 8),
    (
        "Slice(0, Blocked([1, 2], [8, 4], [2, 2], [1, 0], cta=[[1, 0], [0, 1]]))",
        4,
        4,
    ),
];

/// How two elements become one: the lines of the region over `%a` and `%b`, and the same on the host.
struct Combine {
    line: &'static str,
    host: fn(u64, u64) -> u64,
}

const MAX: Combine = Combine {
    line: "binary %a, %b {op=max}",
    host: u64::max,
};
const XOR: Combine = Combine {
    line: "binary %a, %b {op=xor}",
    host: |a, b| a ^ b,
};
const ADD: Combine = Combine {
    line: "binary %a, %b {op=add}",
    host: u64::wrapping_add,
};

/// What is left of a shape without a dimension.
fn without(shape: &[u32], axis: usize) -> Vec<u32> {
    let kept = shape.iter().enumerate().filter(|(dim, _)| *dim != axis);
    kept.map(|(_, size)| *size).collect()
}

/// Reduces noise along `axis`, stores the results, and puts them in the place of all that they are made of, so that every
/// CTA says what it holds.
#[track_caller]
fn check_reduce(
    (layout, warps, ctas): (&str, u32, u32),
    shape: &[u32],
    dtype: DType,
    axis: usize,
    combine: &Combine,
) -> Kernel {
    let mut kernel = Kernel::in_cluster(warps, ctas);
    let form = kernel.form("l", layout, shape);
    kernel.load("x", dtype, &form);
    let kept = without(shape, axis);
    let result = kernel.form("r", &format!("Slice({axis}, {layout})"), &kept);
    kernel.line(&format!(
        "%m = reduce [%x_v] {{axis={axis}}} (%a: {dtype}, %b: {dtype}) {{"
    ));
    kernel.line(&format!("  %c = {} : {dtype}", combine.line));
    kernel.line("  yield [%c]");
    kernel.line(&format!("}} : {}", result.of(dtype.name())));
    kernel.store("out", dtype, &result, "m");
    let column = kernel.expanded_of("m", axis, &form, &result, dtype.name());
    let all = form.of(dtype.name());
    kernel.line(&format!("%all = broadcast %{column} : {all}"));
    kernel.store("everywhere", dtype, &form, "all");
    let count = shape.iter().product::<u32>() as usize;
    let data = cut(noise(count, 7), dtype);
    let blank = |count: usize| vec![0; count * dtype.bytes() as usize];
    let results = kept.iter().product::<u32>() as usize;
    let buffers = [to_bytes(&data, dtype), blank(results), blank(count)];
    let found = kernel.run(&buffers);
    let mut wanted: Vec<Option<u64>> = vec![None; results];
    for (at, &value) in data.iter().enumerate() {
        let to = &mut wanted[result_of(at, shape, axis)];
        *to = Some(to.map_or(value, |sum| (combine.host)(sum, value)));
    }
    let wanted = cut(wanted.into_iter().flatten().collect(), dtype);
    let what = format!("{dtype} {shape:?} over {axis} in {layout}");
    assert_eq!(from_bytes(&found[1], dtype), wanted, "{what}");
    let everywhere = (0..count).map(|at| wanted[result_of(at, shape, axis)]);
    assert!(
        from_bytes(&found[2], dtype).into_iter().eq(everywhere),
        "not everywhere: {what}"
    );
    kernel
}

/// The number of the result that an element goes into.
fn result_of(at: usize, shape: &[u32], axis: usize) -> usize {
    let mut coords = coordinates(at, shape);
    coords.remove(axis);
    number(&coords, &without(shape, axis))
}

/// The bits of a type; of floats, those of numbers from 0 below 2, whose order is that of their bits.
fn cut(values: Vec<u64>, dtype: DType) -> Vec<u64> {
    let spare = if dtype.is_float() { 2 } else { 0 };
    let mask = u64::MAX >> (64 - dtype.bits() + spare);
    values.into_iter().map(|v| v & mask).collect()
}

#[test]
fn matrices_along_both_axes() {
    let dtypes = [
        (DType::U32, &ADD),
        (DType::U64, &MAX),
        (DType::U8, &XOR),
        (DType::U16, &ADD),
        (DType::I1, &XOR),
    ];
    for (at, &layout) in MATRICES.iter().enumerate() {
        for (turn, shape) in [[16, 64], [64, 32], [2, 256]].iter().enumerate() {
            for axis in [0, 1] {
                let (dtype, combine) = dtypes[(at + turn + axis) % dtypes.len()];
                check_reduce(layout, shape, dtype, axis, combine);
            }
        }
    }
}

/// Reduces vectors of pairs (number, place) to the largest and where it stands first, `times` times in a loop, each time
/// with the numbers moved by one; every CTA stores what it found in a place of its own. Gives the text.
fn places_of_largest(layout: &str, warps: u32, ctas: u32, length: u32, times: u32) -> String {
    let mut kernel = Kernel::in_cluster(warps, ctas);
    let form = kernel.form("l", layout, &[length]);
    kernel.load("x", DType::F32, &form);
    kernel.pointer("out", DType::I32);
    let ints = form.of("i32");
    kernel.line("%rank = cluster_rank : i32");
    kernel.line("%zero = constant {value=0} : i32");
    kernel.line("%one = constant {value=1} : i32");
    kernel.line(&format!("%times = constant {{value={times}}} : i32"));
    kernel.line("%first = binary %rank, %times {op=mul} : i32");
    kernel.line("for %zero, %times, %one, [] (%turn: i32) {");
    for line in [
        format!("%turns = splat %turn : {ints}"),
        format!("%moved = binary %l_at, %turns {{op=add}} : {ints}"),
        format!("%mask = constant {{value={}}} : {ints}", length - 1),
        format!("%place = binary %moved, %mask {{op=and}} : {ints}"),
        "%best, %where = reduce [%x_v, %place] {axis=0} (%a: f32, %i: i32, %b: f32, %j: i32) {"
            .into(),
        "%more = compare %a, %b {op=gt} : i1".into(),
        "%same = compare %a, %b {op=eq} : i1".into(),
        "%before = compare %i, %j {op=lt} : i1".into(),
        "%tie = binary %same, %before {op=and} : i1".into(),
        "%left = binary %more, %tie {op=or} : i1".into(),
        "%m = select %left, %a, %b : f32".into(),
        "%k = select %left, %i, %j : i32".into(),
        "yield [%m, %k]".into(),
        "} : f32, i32".into(),
        "%at = binary %first, %turn {op=add} : i32".into(),
        "%to = ptr_add %out, %at : ptr<i32>".into(),
        "store %to, %where".into(),
        "yield []".into(),
    ] {
        kernel.line(&line);
    }
    kernel.line("}");
    kernel.text()
}

#[test]
fn vectors_again_and_again_in_any_order() {
    const TIMES: u32 = 5;
    for &(layout, warps, ctas) in VECTORS {
        for length in [8, 512, 2048] {
            let text = places_of_largest(layout, warps, ctas, length, TIMES);
            let data: Vec<f32> = noise(length as usize, 3)
                .iter()
                .map(|v| (v % 301) as f32)
                .collect();
            let bytes: Vec<u8> = data.iter().flat_map(|v| v.to_le_bytes()).collect();
            let largest = data.iter().fold(0.0_f32, |a, &b| a.max(b));
            let place = |turn: u32| {
                let at = (0..length).filter(|&at| data[at as usize].to_bits() == largest.to_bits());
                at.map(|at| (at + turn) % length).min().map(u64::from)
            };
            let of_cta: Vec<u64> = (0..TIMES).filter_map(place).collect();
            let wanted = of_cta.repeat(ctas as usize);
            for seed in 0..4 {
                let blank = vec![0; wanted.len() * 4];
                let found = run_with_seed(&text, ctas, seed, &[bytes.clone(), blank]);
                let found = from_bytes(&found[1], DType::I32);
                assert_eq!(found, wanted, "{length} in {layout}, seed {seed}");
            }
        }
    }
}

#[test]
fn the_rank_in_a_cluster_of_two_dimensions_counts() {
    let (layout, warps, ctas) = VECTORS[3];
    let text = places_of_largest(layout, warps, ctas, 512, 3);
    let square = text.replace("cluster(4, 1, 1)", "cluster(2, 2, 1)");
    assert_ne!(text, square);
    let numbers = noise(512, 5).into_iter().map(|v| (v % 1000) as f32);
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    let run = |text: &str| run_with_seed(text, ctas, 1, &[bytes.clone(), vec![0; 48]]);
    assert_eq!(run(&square), run(&text));
}

#[test]
fn scans_along_both_axes_and_both_ways() {
    let dtypes = [DType::U32, DType::U64, DType::I8, DType::I16];
    for (at, &(layout, warps, ctas)) in MATRICES.iter().enumerate() {
        for (turn, shape) in [[16, 64], [64, 32], [1, 256]].iter().enumerate() {
            for axis in [0, 1] {
                let kernel = Kernel::in_cluster(warps, ctas);
                let dtype = dtypes[(at + turn) % dtypes.len()];
                let scan = (axis, (at + turn + axis) % 2 == 1);
                scans::check_kernel(kernel, layout, shape, dtype, scan);
            }
        }
    }
}

#[test]
fn scans_of_vectors() {
    for &(layout, warps, ctas) in VECTORS {
        for length in [8, 64, 2048] {
            for is_reverse in [false, true] {
                let kernel = Kernel::in_cluster(warps, ctas);
                scans::check_kernel(kernel, layout, &[length], DType::U32, (0, is_reverse));
            }
        }
    }
}

#[test]
fn floats_of_all_widths() {
    for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
        for &layout in &MATRICES[..5] {
            for axis in [0, 1] {
                check_reduce(layout, &[16, 64], dtype, axis, &MAX).assemble();
            }
        }
    }
}

/// Layouts whose CTAs split the rows alone, so that columns stay within each.
const ROWS: &[(&str, u32, u32)] = &[
    (
        "Blocked([1, 4], [4, 8], [2, 2], [1, 0], cta=[[1, 0]])",
        4,
        2,
    ),
    (
        "Blocked([2, 1], [2, 16], [1, 4], [0, 1], cta=[[1, 0], [2, 0]])",
        4,
        4,
    ),
    (
        "Blocked([1, 2], [8, 4], [2, 1], [1, 0], cta=[[1, 0], [0, 0]])",
        2,
        4,
    ),
    (
        "Linear(register=[[0, 1]], lane=[[0, 8], [0, 2], [1, 0], [0, 4], [0, 32]], warp=[[4, 0], [0, 16]], block=[[2, 0], [8, 0]])",
        4,
        4,
    ),
];

#[test]
fn what_stays_within_a_cta_needs_no_other() {
    for (at, &(layout, warps, ctas)) in ROWS.iter().enumerate() {
        let kernel = || Kernel::in_cluster(warps, ctas);
        let dtype = [DType::I32, DType::U16, DType::I64, DType::U8][at % 4];
        for (count, is_descending) in [(64, false), (8, true)] {
            let sort = Sort {
                axis: 1,
                count,
                is_descending,
            };
            sorts::check_kernel(kernel(), layout, &[16, 64], &[dtype], sort);
        }
        let case = gathers::Case {
            warps,
            axis: 1,
            source: (layout, &[16, 64]),
            indices: (layout, &[16, 16]),
            dtype,
            index: DType::I32,
        };
        case.check_in_cluster(ctas);
        check_reduce((layout, warps, ctas), &[16, 64], dtype, 1, &XOR);
        let scan = scans::check_kernel(kernel(), layout, &[16, 64], dtype, (1, at % 2 == 0));
        assert!(!scan.ptx().contains("st.async"), "{layout}");
    }
}

#[test]
fn each_element_of_a_cluster_is_added_once() {
    for &(layout, warps, ctas) in ROWS.iter().filter(|(l, ..)| !l.contains("[0, 0]]")) {
        let mut kernel = Kernel::in_cluster(warps, ctas);
        let form = kernel.form("l", layout, &[16, 64]);
        let ints = form.of("i32");
        kernel.line(&format!("%ten = constant {{value=10}} : {ints}"));
        kernel.line(&format!("%slot = binary %l_at, %ten {{op=rem}} : {ints}"));
        kernel.pointers("counters", DType::I32, &form, "slot");
        kernel.line(&format!(
            "%old = atomic_rmw %counters_p, %l_at {{op=add, semantics=relaxed}} : {ints}"
        ));
        kernel.store("out", DType::I32, &form, "old");
        let found = kernel.run(&[vec![0; 40], vec![0xff; 4096]]);
        let wanted: Vec<u64> = (0..10)
            .map(|slot| (0..1024).filter(|at| at % 10 == slot).sum())
            .collect();
        assert_eq!(from_bytes(&found[0], DType::I32), wanted, "{layout}");
        // What was there before is known to all, and is less than the sum.
        let old = from_bytes(&found[1], DType::I32);
        assert!(
            old.iter()
                .enumerate()
                .all(|(at, old)| *old + at as u64 <= wanted[at % 10])
        );
    }
}

/// A partition that sums a vector spread over two CTAs `times` times, and stores what each CTA found from `start` on.
fn summing(tag: &str, warps: u32, times: u32, start: u32) -> String {
    let length = warps * 128;
    let tile = format!("tensor<{length}xi32, #w{warps}>");
    let lines = [
        format!("%i = arange {{start=0, end={length}}} : {tile}"),
        "%zero = constant {value=0} : i32".into(),
        "%one = constant {value=1} : i32".into(),
        format!("%times = constant {{value={times}}} : i32"),
        format!("%start = constant {{value={start}}} : i32"),
        "%rank = cluster_rank : i32".into(),
        "%own = binary %rank, %times {op=mul} : i32".into(),
        "%first = binary %start, %own {op=add} : i32".into(),
        "for %zero, %times, %one, [] (%turn: i32) {".into(),
        format!("%turns = splat %turn : {tile}"),
        format!("%v = binary %i, %turns {{op=add}} : {tile}"),
        "%sum = reduce [%v] {axis=0} (%a: i32, %b: i32) {".into(),
        "%c = binary %a, %b {op=add} : i32".into(),
        "yield [%c]".into(),
        "} : i32".into(),
        "%at = binary %first, %turn {op=add} : i32".into(),
        "%to = ptr_add %out, %at : ptr<i32>".into(),
        "store %to, %sum".into(),
        "yield []".into(),
        "}".into(),
    ];
    let own = |line: &String| {
        let tagged = line.replace('%', &format!("%{tag}_"));
        format!("  {}\n", tagged.replace(&format!("%{tag}_out"), "%out"))
    };
    lines.iter().map(own).collect()
}

#[test]
fn partitions_of_two_ctas_exchange_at_their_own_pace() {
    let mut text: String = [1, 2, 4]
        .iter()
        .map(|w| format!("#w{w} = Blocked([2], [32], [{w}], [0], cta=[[1]])\n"))
        .collect();
    text += "kernel @k(%out: ptr<i32> {divisor=16}) warps(4) cluster(2, 1, 1) {\n";
    let parts = [("before", 4, 2), ("main", 4, 5), ("a", 2, 3), ("b", 1, 7)];
    let mut wanted: Vec<u64> = Vec::new();
    for (at, (tag, warps, times)) in parts.into_iter().enumerate() {
        if at == 1 {
            text += "  warp_specialize {warps=[4, 2, 1], registers=[0, 0, 0]} ";
        }
        let body = summing(tag, warps, times, wanted.len() as u32);
        text += &match at {
            0 => body,
            _ => format!("() {{\n{body}  yield []\n}} "),
        };
        let length = u64::from(warps) * 128;
        let sums = (0..u64::from(times)).map(|turn| length * (length - 1) / 2 + length * turn);
        let sums: Vec<u64> = sums.collect();
        wanted.extend(sums.repeat(2));
    }
    text += "\n  return\n}\n";
    assembler::accepts(&ptx_of(&text));
    for seed in 0..6 {
        let found = run_with_seed(&text, 2, seed, &[vec![0; wanted.len() * 4]]);
        assert_eq!(from_bytes(&found[0], DType::I32), wanted, "seed {seed}");
    }
}

#[test]
fn an_assembler_takes_exchanges_between_ctas() {
    for &layout in &MATRICES[..4] {
        for dtype in [DType::U8, DType::I1, DType::U64] {
            check_reduce(layout, &[16, 64], dtype, 1, &XOR).assemble();
        }
        let kernel = Kernel::in_cluster(layout.1, layout.2);
        scans::check_kernel(kernel, layout.0, &[16, 64], DType::I16, (1, false)).assemble();
    }
    let (layout, warps, ctas) = VECTORS[0];
    let ptx = ptx_of(&places_of_largest(layout, warps, ctas, 512, 3));
    assembler::accepts(&ptx);
    // The values and the places of two warps each go to both CTAs: a thread for each CTA, and nobody flushes memory.
    assert_eq!(ptx.matches("st.async").count(), 2, "{ptx}");
    assert!(!ptx.contains("barrier.cluster.arrive.release"), "{ptx}");
}

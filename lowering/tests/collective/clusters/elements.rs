//! Gathers, sorts and histograms, whose elements go to other CTAs one by one.

use ir::elem::DType;

use super::{MATRICES, VECTORS};
use crate::kernel::{Kernel, from_bytes, noise, run_with_seed, to_bytes};
use crate::sorts::{self, Sort};
use crate::{assembler, gathers};

#[test]
fn gathers_along_both_axes() {
    let dtypes = [
        DType::F32,
        DType::U8,
        DType::I64,
        DType::F16,
        DType::I1,
        DType::E4m3,
    ];
    for (at, &(layout, warps, ctas)) in MATRICES.iter().enumerate() {
        for (turn, (source, length)) in [([16, 64], 16), ([64, 32], 128), ([8, 8], 8)]
            .into_iter()
            .enumerate()
        {
            for axis in [0, 1] {
                let mut indices = source;
                indices[axis] = length;
                gathers::Case {
                    warps,
                    axis,
                    source: (layout, &source),
                    indices: (layout, &indices),
                    dtype: dtypes[(at + turn + axis) % dtypes.len()],
                    index: [DType::I32, DType::I64, DType::U16][turn],
                }
                .check_in_cluster(ctas);
            }
        }
    }
}

#[test]
fn sorts_along_both_axes() {
    let dtypes = [DType::I32, DType::U64, DType::I16, DType::U8];
    for (at, &(layout, warps, ctas)) in MATRICES.iter().enumerate() {
        for (turn, shape) in [[16, 32], [8, 128], [64, 4]].iter().enumerate() {
            let axis = (at + turn) % 2;
            let dtype = dtypes[(at + turn) % dtypes.len()];
            for count in [shape[axis], shape[axis] / 4, 1] {
                let sort = Sort {
                    axis,
                    count,
                    is_descending: turn == 1,
                };
                let kernel = Kernel::in_cluster(warps, ctas);
                sorts::check_kernel(kernel, layout, shape, &[dtype], sort);
            }
        }
    }
}

#[test]
fn sorts_of_vectors_with_what_moves_along() {
    for &(layout, warps, ctas) in VECTORS {
        for (length, count, is_descending) in [(1024, 1024, false), (512, 16, true), (8, 2, true)] {
            let sort = Sort {
                axis: 0,
                count,
                is_descending,
            };
            let kernel = Kernel::in_cluster(warps, ctas);
            let dtypes = [DType::I32, DType::U32];
            sorts::check_kernel(kernel, layout, &[length], &dtypes, sort);
        }
    }
}

#[test]
fn gathers_again_and_again_in_any_order() {
    // Every turn looks up what the last one found.
    const TURNS: u32 = 6;
    for &(layout, warps, ctas) in VECTORS {
        let mut kernel = Kernel::in_cluster(warps, ctas);
        let form = kernel.form("l", layout, &[512]);
        kernel.load("x", DType::I32, &form);
        let ints = form.of("i32");
        for line in [
            "%zero = constant {value=0} : i32".into(),
            "%one = constant {value=1} : i32".into(),
            format!("%turns = constant {{value={TURNS}}} : i32"),
            format!("%end = for %zero, %turns, %one, [%l_at] (%turn: i32, %at: {ints}) {{"),
            format!("  %next = gather %x_v, %at {{axis=0}} : {ints}"),
            "  yield [%next]".into(),
            format!("}} : {ints}"),
        ] {
            kernel.line(&line);
        }
        kernel.store("out", DType::I32, &form, "end");
        let data: Vec<u64> = noise(512, 13).iter().map(|v| v >> 5 & 511).collect();
        let step = |at: u64| data[at as usize];
        let wanted: Vec<u64> = (0..512)
            .map(|at| (0..TURNS).fold(at, |at, _| step(at)))
            .collect();
        for seed in 0..4 {
            let buffers = [to_bytes(&data, DType::I32), vec![0; 2048]];
            let found = run_with_seed(&kernel.text(), ctas, seed, &buffers);
            let found = from_bytes(&found[1], DType::I32);
            assert_eq!(found, wanted, "{layout}, seed {seed}");
        }
    }
}

#[test]
fn the_assembler_takes_gathers_and_histograms() {
    for &(layout, warps, ctas) in MATRICES {
        let case = gathers::Case {
            warps,
            axis: 1,
            source: (layout, &[16, 64]),
            indices: (layout, &[16, 64]),
            dtype: DType::F16,
            index: DType::I32,
        };
        assembler::accepts(&case.ptx_in_cluster(ctas));
    }
    for &vector in VECTORS {
        check_histogram(vector, 512, 64, 1).assemble();
    }
}

/// Counts noise in a vector of each of some turns, as all CTAs see it, or as each sees its part; gives the kernel.
fn check_histogram(vector: (&str, u32, u32), length: u32, bins: u32, turns: u32) -> Kernel {
    let (_, warps, ctas) = vector;
    let bases = |bases: Vec<String>| {
        let bases = bases.join(", ");
        format!("Blocked([2], [32], [{warps}], [0], cta=[{bases}])")
    };
    let bits = 0..ctas.trailing_zeros();
    let split = bases(bits.clone().map(|bit| format!("[{}]", 1 << bit)).collect());
    check_counters(vector, &split, length, bins, turns);
    // The lowest bit of the rank tells of copies alone.
    let half = bits
        .clone()
        .map(|bit| format!("[{}]", if bit == 0 { 0 } else { 1 << (bit - 1) }));
    check_counters(vector, &bases(half.collect()), length, bins, turns);
    let copied = bases(bits.map(|_| "[0]".into()).collect());
    check_counters(vector, &copied, length, bins, turns)
}

fn check_counters(
    (layout, warps, ctas): (&str, u32, u32),
    counted: &str,
    length: u32,
    bins: u32,
    turns: u32,
) -> Kernel {
    let mut kernel = Kernel::in_cluster(warps, ctas);
    let form = kernel.form("l", layout, &[length]);
    let result = kernel.form("b", counted, &[bins]);
    // Each CTA tells a part of the bins.
    let steps: Vec<String> = (0..ctas.trailing_zeros())
        .map(|bit| format!("[{}]", 1 << bit))
        .collect();
    let split = format!(
        "Blocked([1], [32], [{warps}], [0], cta=[{}])",
        steps.join(", ")
    );
    let parts = kernel.form("p", &split, &[bins]);
    kernel.load("x", DType::I32, &form);
    let (ints, counts) = (form.of("i32"), result.of("i32"));
    for line in [
        "%zero = constant {value=0} : i32".into(),
        "%one = constant {value=1} : i32".into(),
        format!("%turns = constant {{value={turns}}} : i32"),
        format!("%none = constant {{value=0}} : {counts}"),
        format!("%sum = for %zero, %turns, %one, [%none] (%turn: i32, %old: {counts}) {{"),
        format!("  %by = splat %turn : {ints}"),
        format!("  %moved = binary %x_v, %by {{op=add}} : {ints}"),
        format!(
            "  %limit = constant {{value={}}} : {ints}",
            length - length / 8
        ),
        format!(
            "  %mask = compare %l_at, %limit {{op=lt}} : {}",
            form.of("i1")
        ),
        format!("  %new = histogram %moved, mask=%mask : {counts}"),
        format!("  %both = binary %old, %new {{op=add}} : {counts}"),
        "  yield [%both]".into(),
        format!("}} : {counts}"),
        format!("%part = convert_layout %sum : {}", parts.of("i32")),
    ] {
        kernel.line(&line);
    }
    kernel.store("out", DType::I32, &parts, "part");
    let data: Vec<u64> = noise(length as usize, 9)
        .iter()
        .map(|v| v % u64::from(bins + 3))
        .collect();
    let mut wanted = vec![0; bins as usize];
    for turn in 0..u64::from(turns) {
        for number in &data[..(length - length / 8) as usize] {
            if let Some(count) = wanted.get_mut((number + turn) as usize) {
                *count += 1;
            }
        }
    }
    for seed in 0..2 {
        let buffers = [to_bytes(&data, DType::I32), vec![0; wanted.len() * 4]];
        let found = run_with_seed(&kernel.text(), ctas, seed, &buffers);
        let found = from_bytes(&found[1], DType::I32);
        assert_eq!(
            found, wanted,
            "{length} in {layout}, {bins} bins in {counted}"
        );
    }
    kernel
}

#[test]
fn histograms_of_vectors_that_are_split() {
    let copied = [
        ("Blocked([1], [32], [4], [0], cta=[[0]])", 4, 2),
        ("Blocked([1], [32], [2], [0], cta=[[0], [1], [0]])", 2, 8),
    ];
    for &vector in VECTORS.iter().chain(&copied) {
        for (length, bins) in [(512, 64), (2048, 512), (8, 1), (64, 1024)] {
            check_histogram(vector, length, bins, 1);
        }
        check_histogram(vector, 512, 64, 5);
    }
}

/// The last step of a sort across CTAs may be one between warps, which the next op's writes must wait for too.
#[test]
fn a_sort_may_follow_a_sort() {
    const LENGTH: u32 = 2048;
    let layout =
        "Linear(register=[[1], [4]], lane=[[0], [0], [0], [0], [0]], warp=[[2]], block=[[8]])";
    let mut kernel = Kernel::in_cluster(2, 2);
    let form = kernel.form("l", layout, &[LENGTH]);
    let [some, few] = [8, 2].map(|length| kernel.plain(layout, &[length]).of("i32"));
    kernel.load("x", DType::I32, &form);
    kernel.line(&format!("%some = sort [%x_v] {{axis=0, count=8}} : {some}"));
    kernel.line(&format!(
        "%few = sort [%some] {{axis=0, count=2, is_descending=true}} : {few}"
    ));
    let result = kernel.form("r", layout, &[2]);
    kernel.store("out", DType::I32, &result, "few");
    let data: Vec<u64> = noise(LENGTH as usize, 3).iter().map(|v| v >> 40).collect();
    let mut sorted = data.clone();
    sorted.sort_unstable();
    let buffers = [to_bytes(&data, DType::I32), vec![0; 8]];
    for seed in 0..16 {
        let found = run_with_seed(&kernel.text(), 2, seed, &buffers);
        let found = from_bytes(&found[1], DType::I32);
        assert_eq!(found, [sorted[7], sorted[6]], "seed {seed}");
    }
}

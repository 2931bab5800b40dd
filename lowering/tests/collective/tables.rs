//! As many combinations as Gluon's own tests of its lowering go through, and more: reductions (1584), scans (176),
//! conversions within a warp (392), histograms (5) and gathers (9). Its tables vary the checks of overflow, which this
//! language has not; here 64-bit elements and reverse scans take their place.

use half::f16;
use ir::elem::DType;

use crate::kernel::{Form, Kernel, coordinates, noise, to_bytes};
use crate::{gathers, scans};

const REDUCED: &[&str] = &[
    "Blocked([1, 4], [4, 8], [4, 1], [0, 1])",
    "Blocked([1, 4], [8, 4], [4, 1], [0, 1])",
    "Blocked([4, 4], [2, 16], [2, 2], [1, 0])",
    "Mma([4, 1], [16, 8])",
    "Mma([2, 2], [16, 8])",
    "Wgmma([4, 1], [64, 16, 16])",
    "DotOperand(0, Mma([2, 2], [16, 8]), 2)",
    "DotOperand(1, Mma([2, 2], [16, 8]), 2)",
    "Slice(1, Blocked([1, 4, 1], [2, 4, 4], [2, 1, 2], [2, 0, 1]))",
    "Linear(register=[[0, 2], [1, 0]], lane=[[0, 1], [0, 4], [2, 0], [4, 0], [8, 0]], warp=[[16, 0], [0, 8]])",
];

const SHAPES: [[u32; 2]; 4] = [[128, 16], [32, 128], [32, 32], [16, 16]];
const DTYPES: [DType; 4] = [DType::I32, DType::I64, DType::F32, DType::F16];
const OPS: [&str; 2] = ["add", "max"];

/// A small number as an element; sums of them are exact in every type.
fn bits(number: i64, dtype: DType) -> u64 {
    match dtype {
        DType::F32 => (number as f32).to_bits().into(),
        DType::F16 => f16::from_f64(number as f64).to_bits().into(),
        _ => number as u64 & (u64::MAX >> (64 - dtype.bits())),
    }
}

/// Appends a reduction, under names that begin with `tag`.
fn reduce(
    kernel: &mut Kernel,
    tag: &str,
    operand: &str,
    axis: usize,
    op: &str,
    dtype: DType,
    ty: &str,
) {
    kernel.line(&format!(
        "%{tag} = reduce [%{operand}] {{axis={axis}}} (%{tag}_a: {dtype}, %{tag}_b: {dtype}) {{"
    ));
    kernel.line(&format!(
        "  %{tag}_c = binary %{tag}_a, %{tag}_b {{op={op}}} : {dtype}"
    ));
    kernel.line(&format!("  yield [%{tag}_c]"));
    kernel.line(&format!("}} : {ty}"));
}

/// Along one axis to a vector; along both to a scalar; and along one, with the axis put back, along the other.
fn three_reductions(
    kernel: &mut Kernel,
    matrix: &Form,
    forms: (&Form, &Form),
    axis: usize,
    op: &str,
    dtype: DType,
) {
    let tag = format!("{op}_{dtype}");
    let (vector, one) = forms;
    let operand = format!("x_{dtype}_v");
    let name = dtype.name();
    reduce(
        kernel,
        &format!("v_{tag}"),
        &operand,
        axis,
        op,
        dtype,
        &vector.of(name),
    );
    kernel.store(&format!("vector_{tag}"), dtype, vector, &format!("v_{tag}"));
    reduce(
        kernel,
        &format!("s_{tag}"),
        &format!("v_{tag}"),
        0,
        op,
        dtype,
        name,
    );
    kernel.pointer(&format!("scalar_{tag}"), dtype);
    kernel.line(&format!("store %scalar_{tag}, %s_{tag}"));
    let back = kernel.expanded_of(&format!("v_{tag}"), axis, matrix, vector, name);
    reduce(
        kernel,
        &format!("o_{tag}"),
        &back,
        1 - axis,
        op,
        dtype,
        &one.of(name),
    );
    kernel.store(&format!("one_{tag}"), dtype, one, &format!("o_{tag}"));
}

#[track_caller]
fn check_reductions(layout: &str, shape: [u32; 2], axis: usize) -> usize {
    let mut kernel = Kernel::new(4);
    let matrix = kernel.form("m", layout, &shape);
    let vector = kernel.form("v", &format!("Slice({axis}, {layout})"), &[shape[1 - axis]]);
    let one = kernel.form("o", &format!("Slice({}, {layout})", 1 - axis), &[1]);
    let count = (shape[0] * shape[1]) as usize;
    let numbers: Vec<i64> = noise(count, 31)
        .iter()
        .map(|n| (n >> 11) as i64 % 9 - 4)
        .collect();
    let sums = |op: &str, members: &mut dyn Iterator<Item = i64>| -> i64 {
        match op {
            "add" => members.sum(),
            _ => members.max().unwrap(),
        }
    };
    let (mut buffers, mut wanted) = (Vec::new(), Vec::new());
    for dtype in DTYPES {
        kernel.load(&format!("x_{dtype}"), dtype, &matrix);
        let raw: Vec<u64> = numbers.iter().map(|&n| bits(n, dtype)).collect();
        buffers.push(to_bytes(&raw, dtype));
        wanted.push(buffers.last().unwrap().clone());
        for op in OPS {
            three_reductions(&mut kernel, &matrix, (&vector, &one), axis, op, dtype);
            let line = |at: usize| {
                let member =
                    |(i, n): (usize, &i64)| (coordinates(i, &shape)[1 - axis] == at).then_some(*n);
                sums(op, &mut numbers.iter().enumerate().filter_map(member))
            };
            let lines: Vec<i64> = (0..shape[1 - axis] as usize).map(line).collect();
            let all = sums(op, &mut lines.iter().copied());
            for results in [lines, vec![all], vec![all]] {
                let raw: Vec<u64> = results.iter().map(|&n| bits(n, dtype)).collect();
                let bytes = to_bytes(&raw, dtype);
                buffers.push(vec![0x55; bytes.len()]);
                wanted.push(bytes);
            }
        }
    }
    assert_eq!(
        kernel.run(&buffers),
        wanted,
        "{shape:?} in {layout}, axis {axis}"
    );
    3 * DTYPES.len() * OPS.len()
}

#[test]
fn reductions() {
    let mut combinations = 0;
    for layout in REDUCED {
        for shape in SHAPES {
            for axis in [0, 1] {
                combinations += check_reductions(layout, shape, axis);
            }
        }
    }
    assert!(combinations >= 1584, "{combinations}");
}

#[test]
fn scans_as_many() {
    let layouts = [
        "Blocked([1, 4], [4, 8], [4, 1], [0, 1])",
        "Blocked([1, 4], [8, 4], [4, 1], [0, 1])",
        "Blocked([4, 1], [4, 8], [1, 4], [0, 1])",
        "Blocked([2, 2], [4, 8], [2, 2], [0, 1])",
        "Blocked([2, 2], [8, 4], [2, 2], [0, 1])",
        "Blocked([1, 4], [4, 8], [4, 1], [1, 0])",
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
        "Blocked([4, 1], [4, 8], [1, 4], [1, 0])",
        "Blocked([2, 2], [4, 8], [2, 2], [1, 0])",
        "Blocked([2, 2], [8, 4], [2, 2], [1, 0])",
        "Blocked([1, 2], [1, 32], [1, 4], [1, 0])",
    ];
    let mut combinations = 0;
    for layout in layouts {
        for shape in [[32, 16], [32, 32], [32, 64], [64, 32]] {
            for scan in [(0, false), (0, true), (1, false), (1, true)] {
                scans::check(layout, 4, &shape, DType::I32, scan);
                combinations += 1;
            }
        }
    }
    assert_eq!(combinations, 176);
}

#[test]
fn conversions_that_stay_in_their_warp() {
    // Every warp holds the same 16 rows of 32 elements in each layout.
    let mut layouts = Vec::new();
    for rows in [1, 2, 4, 8, 16] {
        let cols = 16 / rows;
        for order in ["[1, 0]", "[0, 1]"] {
            let lanes = [16 / rows, 32 / cols];
            layouts.push(format!(
                "Blocked([{rows}, {cols}], {lanes:?}, [4, 1], {order})"
            ));
        }
    }
    let dtypes = [DType::I8, DType::F16, DType::I32, DType::F32, DType::I64];
    let mut combinations = 0;
    for from in &layouts {
        for to in layouts.iter().filter(|to| *to != from) {
            for dtype in dtypes {
                let mut kernel = Kernel::new(4);
                let source = kernel.form("s", from, &[64, 32]);
                let target = kernel.form("t", to, &[64, 32]);
                kernel.load("x", dtype, &source);
                let ty = target.of(dtype.name());
                kernel.line(&format!("%c = convert_layout %x_v : {ty}"));
                kernel.store("out", dtype, &target, "c");
                let mask = u64::MAX >> (64 - dtype.bits());
                let raw: Vec<u64> = noise(2048, 41).iter().map(|v| v & mask).collect();
                let bytes = to_bytes(&raw, dtype);
                let found = kernel.run(&[bytes.clone(), vec![0; bytes.len()]]);
                assert_eq!(found[1], bytes, "{dtype} from {from} to {to}");
                let ptx = kernel.ptx();
                assert!(
                    !ptx.contains("bar.sync"),
                    "{from} to {to} stays in the warp\n{ptx}"
                );
                combinations += 1;
            }
        }
    }
    assert!(combinations >= 392, "{combinations}");
}

#[test]
fn histograms_and_gathers() {
    let plain = ("Blocked([1], [32], [4], [0])", 4);
    for size in [(2048, 2), (8, 512), (32, 32)] {
        gathers::check_histogram(plain, plain.0, size, false);
    }
    let linear =
        "Linear(register=[[1], [256]], lane=[[2], [4], [8], [16], [32]], warp=[[64], [128]])";
    for size in [(512, 64), (1024, 512)] {
        gathers::check_histogram((linear, 4), plain.0, size, true);
    }
    let layouts = [
        "Blocked([1, 4], [4, 8], [4, 1], [1, 0])",
        "Blocked([1, 4], [8, 4], [2, 2], [0, 1])",
        "Mma([4, 1], [16, 8])",
    ];
    for layout in layouts {
        for (axis, source, indices) in [
            (0, [32, 64], [32, 64]),
            (1, [32, 64], [32, 32]),
            (0, [128, 16], [256, 16]),
        ] {
            gathers::Case {
                warps: 4,
                axis,
                source: (layout, &source),
                indices: (layout, &indices),
                dtype: DType::F32,
                index: DType::I32,
            }
            .check();
        }
    }
}

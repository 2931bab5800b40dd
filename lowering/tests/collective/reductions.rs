//! What reductions are emitted as (the table of `bench/results/reductions.md`, which a test holds to the compiler), and in
//! which order they combine.

use std::fmt::Write;
use std::path::Path;

use ir::elem::DType;
use layout::{Axis, Layout, relate};

use crate::kernel::{Kernel, noise, number};

/// A reduction, and what it took while every lane shuffled every partial result in every step.
struct Row {
    what: &'static str,
    dtype: DType,
    shape: [u32; 2],
    warps: u32,
    layout: &'static str,
    axis: usize,
    /// The lines of the combination of `%a` and `%b` to `%c`.
    combine: &'static str,
    before: &'static str,
}

const SUM: &str = "%c = binary %a, %b {op=add} : f32";
const EXACT: &str = "%c = binary %a, %b {op=add} : f64";
const LARGEST: &str = "%more = compare %a, %b {op=gt} : i1
    %same = compare %a, %b {op=eq} : i1
    %before = compare %i, %j {op=lt} : i1
    %tie = binary %same, %before {op=and} : i1
    %left = binary %more, %tie {op=or} : i1
    %c = select %left, %a, %b : f32
    %k = select %left, %i, %j : i32";

const TABLE: [Row; 9] = [
    Row {
        what: "one row a warp",
        dtype: DType::F32,
        shape: [4, 128],
        warps: 4,
        layout: "Blocked([1, 4], [1, 32], [4, 1], [1, 0])",
        axis: 1,
        combine: SUM,
        before: "shuffles 5, all of the kernel 33",
    },
    Row {
        what: "two rows a warp",
        dtype: DType::F32,
        shape: [8, 128],
        warps: 4,
        layout: "Blocked([2, 4], [1, 32], [4, 1], [1, 0])",
        axis: 1,
        combine: SUM,
        before: "shuffles 10, all of the kernel 48",
    },
    Row {
        what: "eight rows a warp",
        dtype: DType::F32,
        shape: [32, 128],
        warps: 4,
        layout: "Blocked([8, 4], [1, 32], [4, 1], [1, 0])",
        axis: 1,
        combine: SUM,
        before: "shuffles 40, all of the kernel 133",
    },
    Row {
        what: "thirty-two rows a warp",
        dtype: DType::F32,
        shape: [128, 32],
        warps: 4,
        layout: "Blocked([32, 1], [1, 32], [4, 1], [1, 0])",
        axis: 1,
        combine: SUM,
        before: "shuffles 160, all of the kernel 377",
    },
    Row {
        what: "the place of the largest, eight rows a warp",
        dtype: DType::F32,
        shape: [32, 128],
        warps: 4,
        layout: "Blocked([8, 4], [1, 32], [4, 1], [1, 0])",
        axis: 1,
        combine: LARGEST,
        before: "shuffles 80, selects 128, all of the kernel 593",
    },
    Row {
        what: "four rows across four warps",
        dtype: DType::F32,
        shape: [4, 512],
        warps: 4,
        layout: "Blocked([4, 4], [1, 32], [1, 4], [1, 0])",
        axis: 1,
        combine: SUM,
        before: "shuffles 20, stores 4, loads 4, barriers 1, all of the kernel 98",
    },
    Row {
        what: "columns, eight a thread",
        dtype: DType::F32,
        shape: [128, 64],
        warps: 4,
        layout: "Blocked([1, 8], [4, 8], [4, 1], [1, 0])",
        axis: 0,
        combine: SUM,
        before: "shuffles 16, stores 8, loads 8, barriers 1, all of the kernel 176",
    },
    Row {
        what: "columns of f64, eight a thread",
        dtype: DType::F64,
        shape: [128, 64],
        warps: 4,
        layout: "Blocked([1, 8], [4, 8], [4, 1], [1, 0])",
        axis: 0,
        combine: EXACT,
        before: "shuffles 32, stores 8, loads 16, barriers 1, all of the kernel 266",
    },
    Row {
        what: "rows of an accumulator of wgmma",
        dtype: DType::F32,
        shape: [64, 128],
        warps: 4,
        layout: "Wgmma([4, 1], [64, 128, 16])",
        axis: 1,
        combine: SUM,
        before: "shuffles 4, all of the kernel 126",
    },
];

impl Row {
    /// A kernel that loads, reduces and stores.
    fn kernel(&self) -> Kernel {
        let layout: Layout = self.layout.parse().unwrap();
        let mut kernel = Kernel::new(self.warps);
        let form = kernel.form("f", self.layout, &self.shape);
        let kept = self.shape[1 - self.axis];
        let of_results = relate::reduce(&layout, self.axis).to_string();
        let results = kernel.form("r", &of_results, &[kept]);
        kernel.load("x", self.dtype, &form);
        let (dtype, axis) = (self.dtype, self.axis);
        let has_places = self.combine == LARGEST;
        let (values, params, yields) = if has_places {
            let numbers = form.numbers();
            (
                format!("%x_v, %{numbers}"),
                format!("%a: {dtype}, %i: i32, %b: {dtype}, %j: i32"),
                "%c, %k",
            )
        } else {
            ("%x_v".into(), format!("%a: {dtype}, %b: {dtype}"), "%c")
        };
        let types = if has_places {
            format!("{}, {}", results.of("f32"), results.of("i32"))
        } else {
            results.of(dtype.name())
        };
        let names = if has_places { "%s, %at" } else { "%s" };
        kernel.line(&format!(
            "{names} = reduce [{values}] {{axis={axis}}} ({params}) {{\n    {}\n    yield [{yields}]\n  }} : {types}",
            self.combine
        ));
        kernel.store("out", dtype, &results, "s");
        if has_places {
            kernel.store("places", DType::I32, &results, "at");
        }
        kernel
    }
}

fn counted(ptx: &str) -> String {
    let count = |words: &[&str]| {
        let is_one = |line: &&str| words.iter().any(|word| line.contains(word));
        ptx.lines().filter(is_one).count()
    };
    let kinds: [(&str, &[&str]); 6] = [
        ("shuffles", &["shfl.sync"]),
        ("selects", &["selp"]),
        ("stores", &["st.shared"]),
        ("loads", &["ld.shared"]),
        ("barriers", &["bar.sync"]),
        ("all of the kernel", &[";"]),
    ];
    let counts = kinds.map(|(kind, words)| (kind, count(words)));
    let found = counts.iter().filter(|(_, count)| *count > 0);
    let listed: Vec<String> = found
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    listed.join(", ")
}

fn table() -> String {
    let mut text = String::from(
        "# What reductions cost\n\n\
        Instructions of a thread in the PTX of a kernel that loads a tensor, reduces it and stores the results. Before, lanes\n\
        exchanged all of their results in every step; now two lanes go on with a half of them each, where that takes less,\n\
        and results that go through shared memory are stored by the lanes that have them. Elements are combined in the same\n\
        order: sums of floats have the same bits. The test `reductions_are_emitted_as_the_table_says` holds this file to the\n\
        compiler; `UPDATE_TABLE=1 cargo test -p tilekit-lowering --test collective table_says` writes it.\n\n\
        | reduction | element, shape, warps | layout | axis | now | before |\n\
        | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in &TABLE {
        let [rows, columns] = row.shape;
        writeln!(
            text,
            "| {} | {}, {rows} x {columns}, {} | `{}` | {} | {} | {} |",
            row.what,
            row.dtype,
            row.warps,
            row.layout,
            row.axis,
            counted(&row.kernel().assemble()),
            row.before
        )
        .unwrap();
    }
    text
}

#[test]
fn reductions_are_emitted_as_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results/reductions.md");
    let text = table();
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "the table is now\n{text}");
}

/// Sums of pairs, of pairs of pairs, and so on.
fn in_pairs(mut parts: Vec<f32>) -> f32 {
    while parts.len() > 1 {
        let pairs = parts.chunks(2);
        parts = pairs
            .map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap())
            .collect();
    }
    parts[0]
}

/// The sum of a line of a matrix in the order that its layout gives: registers, then bit by bit of the lane, then warps,
/// pairs first each time.
fn sum_by_layout(x: &[f32], shape: [u32; 2], layout: &Layout, axis: usize, line: usize) -> f32 {
    let map = layout.linear(&shape).unwrap();
    let steps = |input: Axis| -> Vec<[u32; 2]> {
        let mut steps = vec![[0, 0]];
        for basis in map.basis_coords(input).iter().filter(|b| b[axis] != 0) {
            let further = steps.iter().map(|s| [s[0] ^ basis[0], s[1] ^ basis[1]]);
            steps = steps.iter().copied().chain(further).collect();
        }
        steps
    };
    let at = |places: [&[u32; 2]; 3]| {
        let mut coords = [0, 1].map(|dim| places.iter().fold(0, |c, p| c ^ p[dim]) as usize);
        coords[1 - axis] = line;
        x[number(&coords, &shape)]
    };
    let [registers, lanes, warps] = [Axis::Register, Axis::Lane, Axis::Warp].map(steps);
    let of_lane = |warp, lane| in_pairs(registers.iter().map(|r| at([r, lane, warp])).collect());
    let of_warp = |warp| in_pairs(lanes.iter().map(|lane| of_lane(warp, lane)).collect());
    in_pairs(warps.iter().map(of_warp).collect())
}

#[test]
fn sums_of_floats_have_one_order() {
    for row in TABLE.iter().filter(|row| row.combine == SUM) {
        let layout: Layout = row.layout.parse().unwrap();
        let (kernel, kept) = (row.kernel(), row.shape[1 - row.axis] as usize);
        let numbers = noise((row.shape[0] * row.shape[1]) as usize, 7);
        let x: Vec<f32> = numbers.iter().map(|n| (n >> 40) as f32 * 1e-3).collect();
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let found = kernel.run(&[bytes, vec![0; 4 * kept]]);
        for (line, found) in found[1].chunks(4).enumerate() {
            let wanted = sum_by_layout(&x, row.shape, &layout, row.axis, line);
            assert_eq!(found, wanted.to_le_bytes(), "line {line}: {}", row.what);
        }
    }
}

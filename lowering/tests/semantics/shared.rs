//! Tiles in shared memory: every distributed layout with every shared layout, and views of views.

use ir::elem::DType;

use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;
use ir::text::parse;
use lowering::{Options, compile};

use crate::machine::{run, run_func};
use crate::tiles::LAYOUTS;
use crate::values::{bytes, samples};
use crate::views::numbers;

/// Layouts of a tile of 32 x 64 in shared memory, for elements of any size up to 64 bits.
const SHARED: [&str; 9] = [
    "Swizzled(1, 1, 1, [1, 0])",
    "Swizzled(1, 1, 1, [0, 1])",
    "Swizzled(4, 2, 8, [1, 0])",
    "Swizzled(2, 1, 4, [0, 1])",
    "Swizzled(1, 1, 32, [1, 0])",
    "Padded([[16, 4]], [1, 0])",
    "Padded([[32, 1], [128, 2]], [0, 1])",
    "SharedLinear(offset=[[0, 1], [1, 0], [0, 2], [2, 0], [0, 4], [4, 0], [0, 8], [8, 0], [0, 16], [16, 0], [0, 32]])",
    "SharedLinear(offset=[[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 9], [2, 18], [4, 36], [8, 8], [16, 16]])",
];

/// The Nvmma layouts of a tile of 32 x 64.
fn nvmma(dtype: DType) -> Vec<String> {
    let bits = dtype.bytes() * 8;
    let swizzles = [0, 32, 64, 128].into_iter();
    let fits = swizzles.filter(|s| 32 * bits >= s * 8);
    fits.flat_map(|s| {
        [
            format!("Nvmma({s}, {bits})"),
            format!("Nvmma({s}, {bits}, transposed=true)"),
        ]
    })
    .collect()
}

fn shared_layouts(dtype: DType) -> Vec<String> {
    let named = SHARED.iter().map(ToString::to_string);
    named.chain(nvmma(dtype)).collect()
}

/// Row-major pointers to a tensor of any shape.
fn pointers(base: &str, dtype: DType, shape: &[u32], layout: &str, tag: &str) -> String {
    let dims = shape
        .iter()
        .fold(String::new(), |all, d| all + &format!("{d}x"));
    let len: u32 = shape.iter().product();
    format!(
        "  %{tag}i = arange {{start=0, end={len}}} : tensor<{len}xi32, auto>\n  %{tag}r = reshape %{tag}i : tensor<{dims}i32, auto>\n  %{tag}at = set_layout %{tag}r : tensor<{dims}i32, {layout}>\n  %{tag}s = splat %{base} : tensor<{dims}ptr<{dtype}>, {layout}>\n  %{tag}p = ptr_add %{tag}s, %{tag}at : tensor<{dims}ptr<{dtype}>, {layout}>\n"
    )
}

/// A kernel of four warps that loads `%v` of 32 x 64 from `%x` in the layout `#from`, runs `body`, and stores `%r` of `shape`
/// in the layout `#to`.
fn kernel(dtype: DType, layouts: &[(&str, &str)], body: &str, shape: &[u32]) -> String {
    let names = layouts
        .iter()
        .fold(String::new(), |all, (n, l)| all + &format!("#{n} = {l}\n"));
    format!(
        "{names}kernel @k(%x: ptr<{dtype}> {{divisor=16}}, %out: ptr<{dtype}> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64x{dtype}, #from>\n{body}{}  store %tp, %r\n  return\n}}\n",
        pointers("x", dtype, &[32, 64], "#from", "f"),
        pointers("out", dtype, shape, "#to", "t"),
    )
}

fn data(dtype: DType) -> Vec<u8> {
    let data: Vec<u64> = (0..8).flat_map(|seed| samples(dtype, 20 + seed)).collect();
    bytes(&data, dtype)
}

#[test]
fn what_is_stored_is_loaded_in_every_pair_of_layouts() {
    for dtype in [
        DType::I1,
        DType::I8,
        DType::I16,
        DType::Bf16,
        DType::F32,
        DType::I64,
        DType::F64,
    ] {
        let raw = data(dtype);
        for shared in shared_layouts(dtype) {
            for (at, from) in LAYOUTS.iter().enumerate() {
                let to = LAYOUTS[(at + 3) % LAYOUTS.len()];
                let body = format!(
                    "  %s = smem_alloc : smem<32x64x{dtype}, #shared>\n  smem_store %s, %v\n  %r = smem_load %s : tensor<32x64x{dtype}, #to>\n"
                );
                let layouts = [("from", *from), ("to", to), ("shared", &*shared)];
                let text = kernel(dtype, &layouts, &body, &[32, 64]);
                let found = run(&text, &[&raw], raw.len());
                assert!(found == raw, "{dtype} from {from} to {to} by {shared}");
            }
        }
    }
}

/// Layouts of the tensor cores, their operands, and slices, of a tile of 32 x 64 over four warps.
const FRAGMENTS: [&str; 8] = [
    "Wgmma([4, 1], [64, 32, 16])",
    "Mma([2, 2], [16, 8])",
    "Mma([1, 4], [16, 8])",
    "DotOperand(0, Mma([2, 2], [16, 8]), 2)",
    "DotOperand(1, Mma([2, 2], [16, 8]), 4)",
    "DotOperand(0, Wgmma([4, 1], [64, 32, 16]), 2)",
    "Slice(1, Blocked([1, 2, 4], [4, 2, 4], [2, 2, 1], [2, 1, 0]))",
    "Linear(register=[[0, 8], [0, 4], [8, 0], [0, 32]], lane=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], warp=[[0, 16], [16, 0]])",
];

#[test]
fn fragments_of_the_tensor_cores_load_from_every_shared_layout() {
    for dtype in [DType::E4m3, DType::Bf16, DType::F32] {
        let raw = data(dtype);
        for shared in shared_layouts(dtype) {
            for (at, from) in FRAGMENTS.iter().enumerate() {
                let to = FRAGMENTS[(at + 3) % FRAGMENTS.len()];
                let body = format!(
                    "  %s = smem_alloc init=%v : smem<32x64x{dtype}, #shared>\n  %r = smem_load %s : tensor<32x64x{dtype}, #to>\n"
                );
                let layouts = [("from", *from), ("to", to), ("shared", &*shared)];
                let text = kernel(dtype, &layouts, &body, &[32, 64]);
                let found = run(&text, &[&raw], raw.len());
                assert!(found == raw, "{dtype} from {from} to {to} by {shared}");
            }
        }
    }
}

/// The accesses to shared memory of a kernel that stores and loads a tile, by their spelling.
fn accesses(dtype: DType, from: &str, shared: &str, to: &str) -> Vec<String> {
    let body = format!(
        "  %s = smem_alloc : smem<32x64x{dtype}, #shared>\n  smem_store %s, %v\n  %r = smem_load %s : tensor<32x64x{dtype}, #to>\n"
    );
    let layouts = [("from", from), ("to", to), ("shared", shared)];
    let text = kernel(dtype, &layouts, &body, &[32, 64]);
    let func = parse("test.tile", &text).unwrap();
    let ptx = compile(func, &Options::default()).unwrap().module.to_text();
    let mut found: Vec<(String, u32)> = Vec::new();
    let words = ptx
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    for word in words.filter(|w| w.contains(".shared") && !w.starts_with('.')) {
        match found.last_mut() {
            Some((last, count)) if last == word => *count += 1,
            _ => found.push((word.to_owned(), 1)),
        }
    }
    found.iter().map(|(w, n)| format!("{n} {w}")).collect()
}

#[test]
fn the_accesses_are_as_wide_as_the_layouts_allow() {
    let rows = "Blocked([1, 8], [4, 8], [4, 1], [1, 0])";
    let accumulator = "Mma([2, 2], [16, 8])";
    let found = |dtype, from, shared, to| accesses(dtype, from, shared, to).join(", ");
    assert_eq!(
        found(DType::Bf16, accumulator, "Nvmma(128, 16)", rows),
        "2 stmatrix.sync.aligned.m8n8.x4.shared.b16, 2 ld.shared.v4.b32"
    );
    assert_eq!(
        found(
            DType::Bf16,
            accumulator,
            "Nvmma(64, 16, transposed=true)",
            rows
        ),
        "2 stmatrix.sync.aligned.m8n8.x4.trans.shared.b16, 16 ld.shared.b16"
    );
    assert_eq!(
        found(
            DType::Bf16,
            rows,
            "Nvmma(128, 16)",
            "DotOperand(0, Mma([2, 2], [16, 8]), 2)"
        ),
        "2 st.shared.v4.b32, 4 ldmatrix.sync.aligned.m8n8.x4.shared.b16"
    );
    assert_eq!(
        found(DType::F32, rows, "Padded([[64, 4]], [1, 0])", rows),
        "4 st.shared.v4.f32, 4 ld.shared.v4.f32"
    );
}

/// A tile written as halves in a swizzle, and read as the bytes that it is, in two buffers.
#[kernel(warps = 4)]
fn taken_as_bytes(x: Ptr<bf16>, out: Ptr<u8>) {
    let rows = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
    let line = Blocked::new([16], [32], [4], [0]);
    let bytes = Smem::<u8>::alloc([2 * 8192], Swizzled::plain([0]));
    let tiles = bytes.reinterpret::<bf16>([2, 64, 64], Nvmma::new(128, 16));
    let at = numbers(&[64, 64], &rows.into());
    for buffer in 0..2 {
        tiles.index(buffer).store(x.at(at + buffer * 4096).load());
    }
    let at = numbers(&[2 * 8192], &line.clone().into());
    out.at(at).store(bytes.load(line));
}

#[test]
fn bytes_are_taken_as_another_tile() {
    let x: Vec<u8> = (0..8192_u16).flat_map(u16::to_le_bytes).collect();
    let map = SharedLayout::from(Nvmma::new(128, 16))
        .linear(&[64, 64])
        .unwrap();
    let wanted: Vec<u8> = (0..8192_u32)
        .flat_map(|at| {
            let place = map.apply(&[(layout::Axis::Offset, at % 4096)]);
            let number = at / 4096 * 4096 + place[0] * 64 + place[1];
            (number as u16).to_le_bytes()
        })
        .collect();
    let func = KernelFn::trace(taken_as_bytes)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    assert!(run_func(func, &[&x], wanted.len()) == wanted);
}

//! Ranges of a dimension, and tensors put together: in awkward layouts, of extents that are powers of two and of others.

use ir::elem::DType;
use layout::relate::{Part, part, whole};
use layout::{Dims, Layout};

use crate::machine::run;
use crate::tiles::LAYOUTS;
use crate::values::{bytes, values};

/// Layouts that spread extents of 48 and 80 evenly over four warps.
const CUT_LAYOUTS: [&str; 3] = [
    "Blocked([1, 2], [4, 8], [4, 1], [1, 0])",
    "Blocked([2, 1], [8, 4], [1, 4], [0, 1])",
    "Blocked([16, 1], [1, 16], [1, 1], [1, 0])",
];

/// Pointers to the elements of a matrix in layout `#name`, whose rows lie `stride` elements apart.
fn pointers(base: &str, dtype: DType, name: &str, shape: &[u32], stride: u32) -> String {
    let (rows, cols) = (shape[0], shape[1]);
    let of = |elem: &str| format!("tensor<{rows}x{cols}x{elem}, #{name}>");
    let (i, p) = (of("i32"), of(&format!("ptr<{dtype}>")));
    format!(
        "  %{name}_ri = arange {{start=0, end={rows}}} : tensor<{rows}xi32, #{name}_rows>
  %{name}_ci = arange {{start=0, end={cols}}} : tensor<{cols}xi32, #{name}_cols>
  %{name}_r1 = expand_dims %{name}_ri {{axis=1}} : tensor<{rows}x1xi32, #{name}>
  %{name}_c1 = expand_dims %{name}_ci {{axis=0}} : tensor<1x{cols}xi32, #{name}>
  %{name}_r2 = broadcast %{name}_r1 : {i}
  %{name}_c2 = broadcast %{name}_c1 : {i}
  %{name}_w = constant {{value={stride}}} : {i}
  %{name}_r3 = binary %{name}_r2, %{name}_w {{op=mul}} : {i}
  %{name}_at = binary %{name}_r3, %{name}_c2 {{op=add}} : {i}
  %{name}_s = splat %{base} : {p}
  %{name}_p = ptr_add %{name}_s, %{name}_at : {p}
"
    )
}

fn aliases(name: &str, layout: &Layout) -> String {
    format!(
        "#{name} = {layout}\n#{name}_rows = Slice(1, {layout})\n#{name}_cols = Slice(0, {layout})\n"
    )
}

/// A matrix of numbers that tell its elements apart.
fn numbers(shape: &[u32], dtype: DType) -> Vec<u64> {
    let mask = u64::MAX >> (64 - dtype.bits());
    (0..u64::from(shape[0] * shape[1]))
        .map(|at| (at * 40_503 + 7) & mask)
        .collect()
}

/// Elements `range` of a dimension of a row-major matrix.
fn part_of(all: &[u64], shape: &[u32], range: Part) -> Vec<u64> {
    let is_inside = |at: &usize| {
        let cols = shape[1] as usize;
        let place = [at / cols, at % cols][range.axis] as u32;
        (range.start..range.start + range.length).contains(&place)
    };
    (0..all.len()).filter(is_inside).map(|at| all[at]).collect()
}

/// Slices a matrix and stores the slice; `false` where its elements would have to move.
fn check_slice(layout: &Layout, shape: &Dims, range: Part, dtype: DType) -> bool {
    let Ok(own) = part(layout, shape, range) else {
        return false;
    };
    let part_shape = shape.with(range.axis, range.length);
    let (m, n) = (shape[0], shape[1]);
    let (rows, cols) = (part_shape[0], part_shape[1]);
    let text = format!(
        "{}{}kernel @k(%x: ptr<{dtype}> {{divisor=16}}, %out: ptr<{dtype}> {{divisor=16}}) warps(4) {{
{}  %v = load %a_p : tensor<{m}x{n}x{dtype}, #a>
  %s = slice %v {{axis={}, start={}, length={}}} : tensor<{rows}x{cols}x{dtype}, #b>
{}  store %b_p, %s\n  return\n}}\n",
        aliases("a", layout),
        aliases("b", &own),
        pointers("x", dtype, "a", shape, n),
        range.axis,
        range.start,
        range.length,
        pointers("out", dtype, "b", &part_shape, part_shape[1]),
    );
    let all = numbers(shape, dtype);
    let wanted = part_of(&all, shape, range);
    let raw = bytes(&wanted, dtype);
    let found = run(&text, &[&bytes(&all, dtype)], raw.len());
    assert_eq!(
        values(&found, dtype),
        wanted,
        "{range:?} of {shape} in {layout}: {own}"
    );
    true
}

#[test]
fn slices_hold_the_elements_of_their_ranges() {
    let ranges = [
        (0, 16),
        (16, 16),
        (0, 32),
        (32, 32),
        (16, 48),
        (8, 8),
        (0, 48),
        (4, 2),
    ];
    let dtypes = [DType::I32, DType::F16, DType::I8, DType::F64, DType::Bf16];
    let (mut done, mut refused) = (0, 0);
    let whole = LAYOUTS.iter().map(|l| (l, Dims::from([32, 64])));
    let cut = CUT_LAYOUTS.iter().map(|l| (l, Dims::from([48, 80])));
    for (at, (text, shape)) in whole.chain(cut).enumerate() {
        let layout: Layout = text.parse().unwrap();
        for axis in 0..2 {
            for (start, length) in ranges {
                let range = Part {
                    axis,
                    start,
                    length,
                };
                if start + length > shape[axis] {
                    continue;
                }
                let dtype = dtypes[(at + start as usize) % dtypes.len()];
                if check_slice(&layout, &shape, range, dtype) {
                    done += 1;
                } else {
                    refused += 1;
                }
            }
        }
    }
    assert!(done > 60 && refused > 40, "{done} done, {refused} refused");
}

/// Takes a matrix apart along a dimension at some place, and puts it together the other way round.
fn check_turned(layout: &Layout, shape: &Dims, (axis, at): (usize, u32), dtype: DType) -> bool {
    let extent = shape[axis];
    let ranges = [(0, at), (at, extent - at)].map(|(start, length)| Part {
        axis,
        start,
        length,
    });
    let parts = ranges.map(|range| part(layout, shape, range));
    let [Ok(first), Ok(second)] = &parts else {
        return false;
    };
    let [low, high] = ranges.map(|range| shape.with(axis, range.length));
    let turned = Part {
        axis,
        start: 0,
        length: extent - at,
    };
    let Ok(all) = whole(second, &high, turned, extent) else {
        return false;
    };
    let after = Part {
        axis,
        start: extent - at,
        length: at,
    };
    if !part(&all, shape, after).is_ok_and(|there| there.same_on(first, &low)) {
        return false;
    }
    let (m, n) = (shape[0], shape[1]);
    let text = format!(
        "{}{}#c = {first}\n#d = {second}
kernel @k(%x: ptr<{dtype}> {{divisor=16}}, %out: ptr<{dtype}> {{divisor=16}}) warps(4) {{
{}  %v = load %a_p : tensor<{m}x{n}x{dtype}, #a>
  %low = slice %v {{axis={axis}, start=0, length={at}}} : tensor<{}x{}x{dtype}, #c>
  %high = slice %v {{axis={axis}, start={at}, length={}}} : tensor<{}x{}x{dtype}, #d>
  %t = cat [%high, %low] {{axis={axis}}} : tensor<{m}x{n}x{dtype}, #b>
{}  store %b_p, %t\n  return\n}}\n",
        aliases("a", layout),
        aliases("b", &all),
        pointers("x", dtype, "a", shape, n),
        low[0],
        low[1],
        extent - at,
        high[0],
        high[1],
        pointers("out", dtype, "b", shape, n),
    );
    let numbers = numbers(shape, dtype);
    let [low, high] = ranges.map(|range| part_of(&numbers, shape, range));
    let wanted: Vec<u64> = if axis == 0 {
        [high, low].concat()
    } else {
        let (left, right) = (extent as usize - at as usize, at as usize);
        let rows = high.chunks(left).zip(low.chunks(right));
        rows.flat_map(|(high, low)| [high, low].concat()).collect()
    };
    let found = run(
        &text,
        &[&bytes(&numbers, dtype)],
        bytes(&wanted, dtype).len(),
    );
    assert_eq!(
        values(&found, dtype),
        wanted,
        "{shape} in {layout} turned at {at} of {axis}: {all}"
    );
    true
}

#[test]
fn parts_are_put_together_where_they_lie() {
    let dtypes = [DType::I16, DType::F32, DType::I1, DType::I64];
    let mut done = 0;
    let whole = LAYOUTS.iter().map(|l| (l, Dims::from([32, 64])));
    let cut = CUT_LAYOUTS.iter().map(|l| (l, Dims::from([48, 80])));
    for (number, (text, shape)) in whole.chain(cut).enumerate() {
        let layout: Layout = text.parse().unwrap();
        for axis in 0..2 {
            for at in [16, 32, 48] {
                if at >= shape[axis] {
                    continue;
                }
                let dtype = dtypes[(number + axis) % dtypes.len()];
                done += usize::from(check_turned(&layout, &shape, (axis, at), dtype));
            }
        }
    }
    assert!(done > 15, "{done} done");
}

//! Reductions over every axis of every layout, of one operand and of several.

use ir::elem::DType;

use crate::machine::run;
use crate::tiles::{LAYOUTS, aliases, pointers};
use crate::values::{Number, bytes, decode, encode, samples, values};

#[test]
fn reductions_over_both_axes_of_all_layouts() {
    for dtype in [DType::I8, DType::I32, DType::U64, DType::F16] {
        for layout in LAYOUTS {
            for axis in [0, 1] {
                let kept = if axis == 0 {
                    ("cols", 64)
                } else {
                    ("rows", 32)
                };
                let (slice, len) = kept;
                let text = format!(
                    "{}kernel @k(%x: ptr<{dtype}> {{divisor=16}}, %out: ptr<{dtype}> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64x{dtype}, #l>\n  %m = reduce [%v] {{axis={axis}}} (%a: {dtype}, %b: {dtype}) {{\n    %c = binary %a, %b {{op=max}} : {dtype}\n    yield [%c]\n  }} : tensor<{len}x{dtype}, #l_{slice}>\n  %i = arange {{start=0, end={len}}} : tensor<{len}xi32, #l_{slice}>\n  %s = splat %out : tensor<{len}xptr<{dtype}>, #l_{slice}>\n  %p = ptr_add %s, %i : tensor<{len}xptr<{dtype}>, #l_{slice}>\n  store %p, %m\n  return\n}}\n",
                    aliases("l", layout),
                    pointers("x", dtype, "l", "f"),
                );
                let data: Vec<u64> = (0..8)
                    .flat_map(|seed| samples(dtype, 40 + seed))
                    .map(|bits| {
                        if decode(bits, dtype).float().is_nan() {
                            0
                        } else {
                            bits
                        }
                    })
                    .collect();
                let found = values(
                    &run(&text, &[&bytes(&data, dtype)], len * dtype.bytes() as usize),
                    dtype,
                );
                for (at, have) in found.into_iter().enumerate() {
                    let members = (0..2048).filter(|i| {
                        if axis == 0 {
                            i % 64 == at
                        } else {
                            i / 64 == at
                        }
                    });
                    let largest =
                        members
                            .map(|i| decode(data[i], dtype))
                            .max_by(|a, b| match (a, b) {
                                (Number::Int(a), Number::Int(b)) => a.cmp(b),
                                (a, b) => a.float().total_cmp(&b.float()),
                            });
                    let want = encode(largest.unwrap(), dtype);
                    assert_eq!(
                        have, want,
                        "element {at} of {dtype} over axis {axis} in {layout}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_place_of_the_largest_is_found_with_it() {
    for layout in LAYOUTS {
        let text = format!(
            "{}kernel @k(%x: ptr<f32> {{divisor=16}}, %out: ptr<i32> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64xf32, #l>\n  %best, %at = reduce [%v, %fc2] {{axis=1}} (%a: f32, %i: i32, %b: f32, %j: i32) {{\n    %more = compare %a, %b {{op=gt}} : i1\n    %same = compare %a, %b {{op=eq}} : i1\n    %first = compare %i, %j {{op=lt}} : i1\n    %tie = binary %same, %first {{op=and}} : i1\n    %left = binary %more, %tie {{op=or}} : i1\n    %m = select %left, %a, %b : f32\n    %k = select %left, %i, %j : i32\n    yield [%m, %k]\n  }} : tensor<32xf32, #l_rows>, tensor<32xi32, #l_rows>\n  %s = splat %out : tensor<32xptr<i32>, #l_rows>\n  %p = ptr_add %s, %fri : tensor<32xptr<i32>, #l_rows>\n  store %p, %at\n  return\n}}\n",
            aliases("l", layout),
            pointers("x", DType::F32, "l", "f"),
        );
        let number = |at: usize| ((at * 7919) % 613) as f32;
        let data: Vec<u8> = (0..2048).flat_map(|at| number(at).to_le_bytes()).collect();
        let found = values(&run(&text, &[&data], 32 * 4), DType::I32);
        for (row, have) in found.into_iter().enumerate() {
            let largest = (0..64)
                .rev()
                .max_by(|&a, &b| number(row * 64 + a).total_cmp(&number(row * 64 + b)));
            assert_eq!(have, largest.unwrap() as u64, "row {row} in {layout}");
        }
    }
}

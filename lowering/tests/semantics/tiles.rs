//! Tiles of two dimensions in awkward layouts: conversions between all pairs, operations on shapes.

use ir::elem::DType;
use layout::{Layout, relate};

use crate::machine::run;
use crate::values::{bytes, samples, values};

/// Layouts of a tensor of 32 x 64 over four warps, from plain to awkward: copies in lanes, warps and registers.
pub(crate) const LAYOUTS: [&str; 8] = [
    "Blocked([1, 1], [1, 32], [4, 1], [1, 0])",
    "Blocked([1, 4], [4, 8], [2, 2], [1, 0])",
    "Blocked([4, 1], [8, 4], [1, 4], [0, 1])",
    "Blocked([2, 2], [32, 1], [4, 1], [0, 1])",
    "Blocked([1, 8], [1, 32], [1, 4], [1, 0])",
    "Blocked([1, 16], [16, 2], [4, 1], [1, 0])",
    "Blocked([8, 2], [2, 16], [2, 2], [0, 1])",
    "Blocked([1, 2], [8, 4], [4, 1], [1, 0])",
];

/// Pointers to row-major elements of a 32 x 64 tensor in layout `#name`.
pub(crate) fn pointers(base: &str, dtype: DType, name: &str, tag: &str) -> String {
    let t = |elem: &str| format!("tensor<32x64x{elem}, #{name}>");
    format!(
        "  %{tag}ri = arange {{start=0, end=32}} : tensor<32xi32, #{name}_rows>\n  %{tag}ci = arange {{start=0, end=64}} : tensor<64xi32, #{name}_cols>\n  %{tag}r1 = expand_dims %{tag}ri {{axis=1}} : tensor<32x1xi32, #{name}>\n  %{tag}c1 = expand_dims %{tag}ci {{axis=0}} : tensor<1x64xi32, #{name}>\n  %{tag}r2 = broadcast %{tag}r1 : {ti}\n  %{tag}c2 = broadcast %{tag}c1 : {ti}\n  %{tag}w = constant {{value=64}} : {ti}\n  %{tag}r3 = binary %{tag}r2, %{tag}w {{op=mul}} : {ti}\n  %{tag}at = binary %{tag}r3, %{tag}c2 {{op=add}} : {ti}\n  %{tag}s = splat %{base} : {tp}\n  %{tag}p = ptr_add %{tag}s, %{tag}at : {tp}\n",
        ti = t("i32"),
        tp = t(&format!("ptr<{dtype}>")),
    )
}

pub(crate) fn aliases(name: &str, layout: &str) -> String {
    format!(
        "#{name} = {layout}\n#{name}_rows = Slice(1, {layout})\n#{name}_cols = Slice(0, {layout})\n"
    )
}

#[test]
fn conversions_between_all_pairs_of_layouts() {
    for dtype in [DType::I8, DType::Bf16, DType::F32, DType::F64, DType::I1] {
        for from in LAYOUTS {
            for to in LAYOUTS {
                let text = format!(
                    "{}{}kernel @k(%x: ptr<{dtype}> {{divisor=16}}, %out: ptr<{dtype}> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64x{dtype}, #from>\n  %c = convert_layout %v : tensor<32x64x{dtype}, #to>\n{}  store %tp, %c\n  return\n}}\n",
                    aliases("from", from),
                    aliases("to", to),
                    pointers("x", dtype, "from", "f"),
                    pointers("out", dtype, "to", "t"),
                );
                let data: Vec<u64> = (0..8).flat_map(|seed| samples(dtype, 20 + seed)).collect();
                let raw = bytes(&data, dtype);
                assert_eq!(
                    run(&text, &[&raw], raw.len()),
                    raw,
                    "{dtype} from {from} to {to}"
                );
            }
        }
    }
}

#[test]
fn shape_operations_move_no_element() {
    for layout in LAYOUTS {
        // Transposed and back, folded to one dimension and back, joined with itself, and cut apart again.
        let l: Layout = layout.parse().unwrap();
        let turned = relate::permute(&l, &[32, 64], &[1, 0]).unwrap();
        let back = relate::permute(&turned, &[64, 32], &[1, 0]).unwrap();
        let flat = relate::reshape(&back, &[32, 64], &[2048]).unwrap();
        let whole = relate::reshape(&flat, &[2048], &[32, 64]).unwrap();
        let joined = relate::join(&whole, &[32, 64]).unwrap();
        let half = relate::split(&joined, &[32, 64, 2]).unwrap();
        let text = format!(
            "#turned = {turned}\n#back = {back}\n#flat = {flat}\n#whole = {whole}\n#joined = {joined}\n#half = {half}\n{}kernel @k(%x: ptr<i16> {{divisor=16}}, %out: ptr<i16> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64xi16, #l>\n  %t = permute %v {{order=[1, 0]}} : tensor<64x32xi16, #turned>\n  %b = permute %t {{order=[1, 0]}} : tensor<32x64xi16, #back>\n  %f = reshape %b : tensor<2048xi16, #flat>\n  %g = reshape %f : tensor<32x64xi16, #whole>\n  %n = unary %g {{op=neg}} : tensor<32x64xi16, #whole>\n  %j = join %g, %n : tensor<32x64x2xi16, #joined>\n  %lhs, %rhs = split %j : tensor<32x64xi16, #half>, tensor<32x64xi16, #half>\n  %d = binary %lhs, %rhs {{op=sub}} : tensor<32x64xi16, #half>\n  %c = convert_layout %d : tensor<32x64xi16, #l>\n  store %fq, %c\n  return\n}}\n",
            aliases("l", layout),
            pointers("x", DType::I16, "l", "f")
                + "  %fo = splat %out : tensor<32x64xptr<i16>, #l>\n  %fq = ptr_add %fo, %fat : tensor<32x64xptr<i16>, #l>\n",
        );
        let data: Vec<u64> = (0..8)
            .flat_map(|seed| samples(DType::I16, 70 + seed))
            .collect();
        let raw = bytes(&data, DType::I16);
        let wanted: Vec<u64> = data.iter().map(|v| (v * 2) & 0xffff).collect();
        let found = values(&run(&text, &[&raw], raw.len()), DType::I16);
        assert_eq!(found, wanted, "{layout}");
    }
}

//! Sparse products on the tensor cores: every type, operand A in shared memory and in registers, several tiles and
//! warpgroups, and shapes that are no powers of two.

use ir::elem::DType;
use layout::{Layout, Wgmma, elements_of_metadata};

use crate::machine::run;
use crate::tensor_cores::{TYPES, of};
use crate::values::{bytes, decode, encode, values};

/// A sparse product as a kernel computes it once; K is counted in elements of B.
struct Sparse {
    types: [DType; 3],
    shape: [u32; 3],
    warps: [u32; 2],
    /// Columns of one instruction.
    n: u32,
    a_layout: String,
    b_layout: String,
    promote_every: u32,
}

impl Sparse {
    fn new(types: [DType; 3], shape: [u32; 3]) -> Sparse {
        let bits = types[0].bits();
        let swizzle = |k: u32| (k * bits / 8).min(128);
        Sparse {
            types,
            shape,
            warps: [4, 1],
            n: shape[1],
            a_layout: format!("Nvmma({}, {bits})", swizzle(shape[2] / 2)),
            b_layout: format!("Nvmma({}, {bits}, transposed=true)", swizzle(shape[2])),
            promote_every: 0,
        }
    }

    fn metadata_columns(&self) -> u32 {
        self.shape[2] / elements_of_metadata(self.types[0].bits())
    }

    /// The kernel, with what multiplies `%va` by `%sb`.
    fn kernel(&self, body: &str) -> String {
        let ([m, n, k], [a, b, sum]) = (self.shape, self.types);
        let (kept, columns) = (k / 2, self.metadata_columns());
        let warps = self.warps[0] * self.warps[1];
        let bits = a.bits();
        let sums = Wgmma::new(self.warps, [64, self.n, 256 / bits]);
        let rows = format!("Blocked([1, 1], [1, 32], [{warps}, 1], [1, 0])");
        let places = Layout::from(sums.sparse_metadata(bits, [m, columns]));
        format!(
            "#b = {rows}\n#acc = {sums}\n#places = {places}\n#dot = DotOperand(0, {sums}, {})\n#as = {}\n#bs = {}\nkernel @k(%a: ptr<{a}> {{divisor=16}}, %b: ptr<{b}> {{divisor=16}}, %m: ptr<u16> {{divisor=16}}, %out: ptr<{sum}> {{divisor=16}}) warps({warps}) {{\n{}  %va = load %ap : tensor<{m}x{kept}x{a}, #b>\n{}  %vb = load %bp : tensor<{k}x{n}x{b}, #b>\n{}  %vm = load %mp : tensor<{m}x{columns}xu16, #places>\n  %sb = smem_alloc init=%vb : smem<{k}x{n}x{b}, #bs>\n  %zero = constant {{value={}}} : tensor<{m}x{n}x{sum}, #acc>\n  %begin = accumulator %zero : in_flight<{m}x{n}x{sum}, #acc>\n{body}{}  store %op, %r\n  return\n}}\n",
            32 / bits,
            self.a_layout,
            self.b_layout,
            pointers("a", "a", a, [m, kept], "#b"),
            pointers("b", "b", b, [k, n], "#b"),
            pointers("m", "m", DType::U16, [m, columns], "#places"),
            if sum.is_float() { "0.0" } else { "0" },
            pointers("o", "out", sum, [m, n], "#acc"),
        )
    }

    fn tile(&self) -> String {
        let [m, n, _] = self.shape;
        format!("{m}x{n}x{}, #acc", self.types[2])
    }

    /// What is multiplied: from shared memory, or from registers.
    fn left(&self, in_registers: bool) -> String {
        let ([m, _, k], a) = (self.shape, self.types[0]);
        let kept = k / 2;
        if in_registers {
            format!("  %l = convert_layout %va : tensor<{m}x{kept}x{a}, #dot>\n")
        } else {
            format!("  %l = smem_alloc init=%va : smem<{m}x{kept}x{a}, #as>\n")
        }
    }

    fn attributes(&self) -> String {
        let precision = if self.types[0] == DType::F32 {
            "precision=tf32, "
        } else {
            ""
        };
        format!("{{{precision}promote_every={}}}", self.promote_every)
    }

    fn plain(&self, in_registers: bool) -> String {
        let t = self.tile();
        format!(
            "{}  %f = wgmma %l, %sb, %begin, metadata=%vm {} : in_flight<{t}>\n  %r = wgmma_wait [%f] {{pending=0}} : tensor<{t}>\n",
            self.left(in_registers),
            self.attributes()
        )
    }

    /// Runs the kernel on small whole numbers, whose sums are exact; each must be `times` the product.
    #[track_caller]
    fn check(&self, body: &str, times: f64) {
        let [m, n, k] = self.shape.map(|d| d as usize);
        let [a, b, sum] = self.types;
        let number = |at: usize, dtype: DType| {
            let number = ((at * 7 + at / 5 + at / 64) % 5) as f64;
            if dtype == DType::U8 {
                number
            } else {
                number - 2.0
            }
        };
        let data = |count: usize, dtype: DType| -> Vec<u64> {
            let one = |at| encode(of(number(at, dtype), dtype), dtype);
            (0..count).map(one).collect()
        };
        let (places, metadata) = self.metadata();
        let inputs = [
            bytes(&data(m * k / 2, a), a),
            bytes(&data(k * n, b), b),
            bytes(&metadata, DType::U16),
        ];
        let text = self.kernel(body);
        let inputs: Vec<&[u8]> = inputs.iter().map(|bytes| &bytes[..]).collect();
        let out = run(&text, &inputs, m * n * sum.bytes() as usize);
        let found = values(&out, sum);
        for row in 0..m {
            for column in 0..n {
                let terms = (row * k / 2..(row + 1) * k / 2)
                    .map(|at| number(at, a) * number(places[at] * n + column, b));
                let want = times * terms.sum::<f64>();
                let have = decode(found[row * n + column], sum).float();
                assert!(
                    have == want,
                    "[{row}, {column}] is {have}, not {want}\n{text}"
                );
            }
        }
    }

    /// The row of B of each kept element, and the metadata that says so.
    fn metadata(&self) -> (Vec<usize>, Vec<u64>) {
        let [m, _, k] = self.shape.map(|d| d as usize);
        let (mut places, mut numbers) = (Vec::new(), Vec::new());
        for row in 0..m {
            for number in 0..self.metadata_columns() as usize {
                let mut bits = 0;
                for group in 0..4 {
                    let at = number * 4 + group;
                    let seed = row * 5 + at * 3 + row / 7;
                    if self.types[0] == DType::F32 {
                        places.push(2 * at + seed % 2);
                        bits |= [0x4, 0xe][seed % 2] << (4 * group);
                    } else {
                        let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
                        let (i, j) = pairs[seed % 6];
                        places.extend([4 * at + i, 4 * at + j]);
                        bits |= ((i | j << 2) as u64) << (4 * group);
                    }
                }
                numbers.push(bits);
            }
        }
        assert_eq!(places.len(), m * k / 2);
        (places, numbers)
    }
}

/// The pointers `%{name}p` to a row-major matrix behind `%{base}`.
fn pointers(
    name: &str,
    base: &str,
    dtype: DType,
    [rows, columns]: [u32; 2],
    layout: &str,
) -> String {
    let t = format!("tensor<{rows}x{columns}x");
    format!(
        "  %{name}r = arange {{start=0, end={rows}}} : tensor<{rows}xi32, auto>
  %{name}re = expand_dims %{name}r {{axis=1}} : tensor<{rows}x1xi32, auto>
  %{name}w = constant {{value={columns}}} : tensor<{rows}x1xi32, auto>
  %{name}first = binary %{name}re, %{name}w {{op=mul}} : tensor<{rows}x1xi32, auto>
  %{name}rb = broadcast %{name}first : {t}i32, auto>
  %{name}c = arange {{start=0, end={columns}}} : tensor<{columns}xi32, auto>
  %{name}ce = expand_dims %{name}c {{axis=0}} : tensor<1x{columns}xi32, auto>
  %{name}cb = broadcast %{name}ce : {t}i32, auto>
  %{name}sum = binary %{name}rb, %{name}cb {{op=add}} : {t}i32, auto>
  %{name}at = set_layout %{name}sum : {t}i32, {layout}>
  %{name}s = splat %{base} : {t}ptr<{dtype}>, {layout}>
  %{name}p = ptr_add %{name}s, %{name}at : {t}ptr<{dtype}>, {layout}>
"
    )
}

#[test]
fn every_type_is_multiplied_sparse() {
    for types in TYPES {
        // Two instructions deep, 128 bytes of B.
        let product = Sparse::new(types, [64, 16, 1024 / types[0].bits()]);
        product.check(&product.plain(false), 1.0);
        product.check(&product.plain(true), 1.0);
    }
}

#[test]
fn sparse_tiles_share_warpgroups_and_registers() {
    let half = [DType::F16, DType::F16, DType::F32];
    for (types, shape, warps, n) in [
        (half, [128, 32, 64], [4, 1], 16),
        (half, [256, 32, 128], [8, 1], 32),
        (half, [64, 64, 32], [4, 2], 32),
        (half, [64, 8, 32], [8, 1], 8),
        // Three rows of tiles, and a K of three instructions: no powers of two.
        (half, [192, 24, 96], [4, 1], 24),
        (
            [DType::I8, DType::I8, DType::I32],
            [192, 16, 192],
            [4, 1],
            16,
        ),
        (
            [DType::F32, DType::F32, DType::F32],
            [128, 16, 48],
            [8, 1],
            16,
        ),
    ] {
        let mut product = Sparse::new(types, shape);
        (product.warps, product.n) = (warps, n);
        let swizzle = |k: u32| {
            let bytes = k * types[0].bits() / 8;
            1 << bytes.trailing_zeros().min(7)
        };
        let bits = types[0].bits();
        product.a_layout = format!("Nvmma({}, {bits})", swizzle(shape[2] / 2));
        product.b_layout = format!("Nvmma({}, {bits}, transposed=true)", swizzle(shape[2]));
        product.check(&product.plain(false), 1.0);
        product.check(&product.plain(true), 1.0);
    }
}

#[test]
fn sparse_operands_lie_in_every_order() {
    let types = [DType::Bf16, DType::Bf16, DType::F32];
    for (a, b) in [
        ("Nvmma(32, 16, transposed=true)", "Nvmma(64, 16)"),
        ("Nvmma(128, 16, transposed=true)", "Nvmma(128, 16)"),
        ("Nvmma(64, 16)", "Nvmma(32, 16)"),
        ("Nvmma(32, 16)", "Nvmma(64, 16, transposed=true)"),
    ] {
        let mut product = Sparse::new(types, [64, 64, 64]);
        (product.a_layout, product.b_layout) = (a.into(), b.into());
        product.check(&product.plain(false), 1.0);
    }
}

#[test]
fn sparse_sums_of_fp8_are_promoted() {
    for promote_every in [64, 128] {
        let types = [DType::E4m3, DType::E4m3, DType::F32];
        let mut product = Sparse::new(types, [64, 16, 256]);
        product.promote_every = promote_every;
        product.check(&product.plain(false), 1.0);
    }
}

#[test]
fn dense_and_sparse_products_add_to_the_same_sums() {
    let product = Sparse::new([DType::Bf16, DType::Bf16, DType::F32], [64, 32, 64]);
    let t = product.tile();
    let body = format!(
        "{}  %lo = constant {{value=0}} : i32\n  %hi = constant {{value=5}} : i32\n  %one = constant {{value=1}} : i32\n  %sum = for %lo, %hi, %one, [%begin] (%i: i32, %acc: in_flight<{t}>) {{\n    %keep = compare %i, %one {{op=ne}} : i1\n    %next = wgmma %l, %sb, %acc, use_accumulator=%keep, metadata=%vm {{promote_every=0}} : in_flight<{t}>\n    %waited = wgmma_wait [%next] {{pending=1}} : in_flight<{t}>\n    yield [%waited]\n  }} : in_flight<{t}>\n  %half = smem_slice %sb {{starts=[0, 0], lengths=[32, 32]}} : smem<32x32xbf16, #bs, alloc=[64, 32]>\n  %minus = wgmma %l, %half, %sum {{promote_every=0}} : in_flight<{t}>\n  %plus = wgmma_wait [%minus] {{pending=0}} : tensor<{t}>\n  %begun = accumulator %zero : in_flight<{t}>\n  %dense = wgmma %l, %half, %begun {{promote_every=0}} : in_flight<{t}>\n  %alone = wgmma_wait [%dense] {{pending=0}} : tensor<{t}>\n  %r = binary %plus, %alone {{op=sub}} : tensor<{t}>\n",
        product.left(false)
    );
    product.check(&body, 4.0);
}

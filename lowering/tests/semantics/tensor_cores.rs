//! Products on the tensor cores: every type, every way that an operand may lie, several tiles and several products.

use ir::elem::DType;

use crate::machine::{ptx_of, run};
use crate::values::{Number, bytes, decode, encode, values};

/// A product as a kernel computes it once.
struct Product {
    a: DType,
    b: DType,
    sum: DType,
    shape: [u32; 3],
    warps: [u32; 2],
    /// Columns of one instruction.
    n: u32,
    a_layout: String,
    b_layout: String,
    attributes: &'static str,
}

impl Product {
    fn new(dtypes: [DType; 3], shape: [u32; 3]) -> Product {
        let [a, b, sum] = dtypes;
        let bits = a.bits();
        let swizzle = (shape[2] * bits / 8).min(128);
        Product {
            a,
            b,
            sum,
            shape,
            warps: [4, 1],
            n: shape[1],
            a_layout: format!("Nvmma({swizzle}, {bits})"),
            b_layout: format!("Nvmma({swizzle}, {bits}, transposed=true)"),
            attributes: if a == DType::F32 {
                " {precision=tf32, promote_every=0}"
            } else {
                " {promote_every=0}"
            },
        }
    }

    fn k_of_instruction(&self) -> u32 {
        256 / self.a.bits()
    }

    /// A kernel that multiplies `%va` by `%vb`, as `body` says, into `%r`.
    fn kernel(&self, body: &str) -> String {
        let [m, n, k] = self.shape;
        let warps = self.warps[0] * self.warps[1];
        let (a, b, sum) = (self.a, self.b, self.sum);
        format!(
            "#b = Blocked([1, 1], [1, 32], [{warps}, 1], [1, 0])\n#acc = Wgmma({:?}, [64, {}, {}])\n#dot = DotOperand(0, Wgmma({:?}, [64, {}, {}]), {})\n#as = {}\n#bs = {}\nkernel @k(%a: ptr<{a}> {{divisor=16}}, %b: ptr<{b}> {{divisor=16}}, %out: ptr<{sum}> {{divisor=16}}) warps({warps}) {{\n{}  %va = load %ap : tensor<{m}x{k}x{a}, #b>\n{}  %vb = load %bp : tensor<{k}x{n}x{b}, #b>\n  %zero = constant {{value={}}} : tensor<{m}x{n}x{sum}, #acc>\n  %begin = accumulator %zero : in_flight<{m}x{n}x{sum}, #acc>\n{body}{}  store %op, %r\n  return\n}}\n",
            self.warps,
            self.n,
            self.k_of_instruction(),
            self.warps,
            self.n,
            self.k_of_instruction(),
            32 / a.bits(),
            self.a_layout,
            self.b_layout,
            pointers("a", a, [m, k], "#b"),
            pointers("b", b, [k, n], "#b"),
            if sum.is_float() { "0.0" } else { "0" },
            pointers("out", sum, [m, n], "#acc")
                .replace("%out", "%o")
                .replace("splat %o ", "splat %out "),
        )
    }

    fn in_shared(&self) -> String {
        let [m, n, k] = self.shape;
        format!(
            "  %sa = smem_alloc init=%va : smem<{m}x{k}x{}, #as>\n  %sb = smem_alloc init=%vb : smem<{k}x{n}x{}, #bs>\n",
            self.a, self.b
        )
    }

    fn tile(&self) -> String {
        let [m, n, _] = self.shape;
        format!("{m}x{n}x{}, #acc", self.sum)
    }

    /// One product, both operands in shared memory.
    fn plain(&self) -> String {
        let t = self.tile();
        format!(
            "{}  %f = wgmma %sa, %sb, %begin{} : in_flight<{t}>\n  %r = wgmma_wait [%f] {{pending=0}} : tensor<{t}>\n",
            self.in_shared(),
            self.attributes
        )
    }

    /// Operand A goes to the tensor cores from registers.
    fn left_in_registers(&self) -> String {
        let ([m, n, k], t) = (self.shape, self.tile());
        format!(
            "  %sb = smem_alloc init=%vb : smem<{k}x{n}x{}, #bs>\n  %d = convert_layout %va : tensor<{m}x{k}x{}, #dot>\n  %f = wgmma %d, %sb, %begin{} : in_flight<{t}>\n  %r = wgmma_wait [%f] {{pending=0}} : tensor<{t}>\n",
            self.b, self.a, self.attributes
        )
    }

    /// Runs the kernel on small whole numbers, whose sums are exact; each must be `times` the product.
    #[track_caller]
    fn check(&self, body: &str, times: f64) {
        let [m, n, k] = self.shape.map(|d| d as usize);
        let sample = |at: usize, dtype: DType| -> f64 {
            let number = (at * 7 + at / 5 + at / 64) % 5;
            if dtype == DType::U8 {
                number as f64
            } else {
                number as f64 - 2.0
            }
        };
        let data = |count: usize, dtype: DType, salt: usize| -> Vec<u64> {
            let number = |at| encode(of(sample(at + salt, dtype), dtype), dtype);
            (0..count).map(number).collect()
        };
        let (a, b) = (data(m * k, self.a, 3), data(k * n, self.b, 11));
        let text = self.kernel(body);
        let out = run(
            &text,
            &[&bytes(&a, self.a), &bytes(&b, self.b)],
            m * n * self.sum.bytes() as usize,
        );
        let found = values(&out, self.sum);
        for row in 0..m {
            for column in 0..n {
                let terms = (0..k)
                    .map(|i| sample(row * k + i + 3, self.a) * sample(i * n + column + 11, self.b));
                let want = times * terms.sum::<f64>();
                let have = decode(found[row * n + column], self.sum).float();
                assert!(
                    have == want,
                    "[{row}, {column}] is {have}, not {want}\n{text}"
                );
            }
        }
    }
}

pub(crate) fn of(number: f64, dtype: DType) -> Number {
    if dtype.is_float() {
        Number::Float(number)
    } else {
        Number::Int(number as i128)
    }
}

pub(crate) fn pointers(
    base: &str,
    dtype: DType,
    [rows, columns]: [u32; 2],
    layout: &str,
) -> String {
    let len = rows * columns;
    format!(
        "  %{base}i = arange {{start=0, end={len}}} : tensor<{len}xi32, auto>\n  %{base}r = reshape %{base}i : tensor<{rows}x{columns}xi32, auto>\n  %{base}at = set_layout %{base}r : tensor<{rows}x{columns}xi32, {layout}>\n  %{base}s = splat %{base} : tensor<{rows}x{columns}xptr<{dtype}>, {layout}>\n  %{base}p = ptr_add %{base}s, %{base}at : tensor<{rows}x{columns}xptr<{dtype}>, {layout}>\n"
    )
}

pub(crate) const TYPES: [[DType; 3]; 11] = [
    [DType::Bf16, DType::Bf16, DType::F32],
    [DType::F16, DType::F16, DType::F32],
    [DType::F16, DType::F16, DType::F16],
    [DType::F32, DType::F32, DType::F32],
    [DType::E4m3, DType::E4m3, DType::F32],
    [DType::E5m2, DType::E4m3, DType::F32],
    [DType::E4m3, DType::E5m2, DType::F16],
    [DType::I8, DType::I8, DType::I32],
    [DType::U8, DType::U8, DType::I32],
    [DType::I8, DType::U8, DType::I32],
    [DType::U8, DType::I8, DType::I32],
];

#[test]
fn every_type_is_multiplied_from_shared_memory_and_registers() {
    for dtypes in TYPES {
        let product = Product::new(dtypes, [64, 16, 2048 / dtypes[0].bits()]);
        product.check(&product.plain(), 1.0);
        product.check(&product.left_in_registers(), 1.0);
    }
}

#[test]
fn operands_lie_in_every_order_and_swizzle() {
    let dtypes = [DType::Bf16, DType::Bf16, DType::F32];
    for swizzle in [32, 64, 128] {
        for (a, b) in [
            ("", ", transposed=true"),
            (", transposed=true", ""),
            ("", ""),
            (", transposed=true", ", transposed=true"),
        ] {
            let mut product = Product::new(dtypes, [128, 64, 64]);
            product.a_layout = format!("Nvmma({swizzle}, 16{a})");
            product.b_layout = format!("Nvmma({swizzle}, 16{b})");
            product.check(&product.plain(), 1.0);
        }
    }
}

#[test]
fn warpgroups_and_tiles_share_the_accumulator() {
    let dtypes = [DType::F16, DType::F16, DType::F32];
    for (shape, warps, n) in [
        ([128, 64, 32], [4, 1], 64),
        ([128, 64, 32], [4, 1], 16),
        ([128, 64, 32], [8, 1], 32),
        ([256, 32, 64], [8, 1], 32),
        ([64, 128, 32], [4, 2], 32),
        ([128, 128, 16], [4, 2], 64),
        ([64, 8, 16], [8, 1], 8),
        ([64, 256, 16], [4, 1], 256),
        ([192, 64, 32], [12, 1], 64),
        ([384, 32, 64], [12, 1], 32),
        ([384, 64, 32], [12, 1], 16),
        ([64, 32, 32], [12, 1], 32),
    ] {
        let mut product = Product::new(dtypes, shape);
        (product.warps, product.n) = (warps, n);
        product.check(&product.plain(), 1.0);
        product.check(&product.left_in_registers(), 1.0);
    }
}

#[test]
fn a_loop_adds_in_place_with_a_group_in_flight() {
    let product = Product::new([DType::Bf16, DType::Bf16, DType::F32], [64, 32, 64]);
    let t = product.tile();
    let body = format!(
        "{}  %lo = constant {{value=0}} : i32\n  %hi = constant {{value=5}} : i32\n  %one = constant {{value=1}} : i32\n  %sum = for %lo, %hi, %one, [%begin] (%i: i32, %acc: in_flight<{t}>) {{\n    %next = wgmma %sa, %sb, %acc {{promote_every=0}} : in_flight<{t}>\n    %waited = wgmma_wait [%next] {{pending=1}} : in_flight<{t}>\n    yield [%waited]\n  }} : in_flight<{t}>\n  %r = wgmma_wait [%sum] {{pending=0}} : tensor<{t}>\n",
        product.in_shared()
    );
    product.check(&body, 5.0);
}

/// Two rounds of a loop whose products begin at zero, the second without any product; `use_old` may ask for what was there.
fn rounds_of_products(product: &Product, use_old: &str) -> String {
    let t = product.tile();
    format!(
        "{}  %lo = constant {{value=0}} : i32\n  %two = constant {{value=2}} : i32\n  %one = num_programs {{axis=x}} : i32\n  %yes = compare %one, %lo {{op=gt}} : i1\n  %r = for %lo, %two, %one, [%zero] (%i: i32, %before: tensor<{t}>) {{\n    %first = accumulator %zero : in_flight<{t}>\n    %trips = binary %one, %i {{op=sub}} : i32\n    %sum = for %lo, %trips, %one, [%first] (%j: i32, %acc: in_flight<{t}>) {{\n      %next = wgmma %sa, %sb, %acc{use_old} {{promote_every=0}} : in_flight<{t}>\n      %waited = wgmma_wait [%next] {{pending=1}} : in_flight<{t}>\n      yield [%waited]\n    }} : in_flight<{t}>\n    %got = wgmma_wait [%sum] {{pending=0}} : tensor<{t}>\n    %all = binary %before, %got {{op=add}} : tensor<{t}>\n    yield [%all]\n  }} : tensor<{t}>\n",
        product.in_shared()
    )
}

#[test]
fn sums_of_no_products_are_zero() {
    for dtypes in [
        [DType::Bf16, DType::Bf16, DType::F32],
        [DType::F16, DType::F16, DType::F16],
        [DType::I8, DType::I8, DType::I32],
    ] {
        let product = Product::new(dtypes, [64, 32, 64]);
        product.check(&rounds_of_products(&product, ""), 1.0);
        product.check(&rounds_of_products(&product, ", use_accumulator=%yes"), 1.0);
    }
}

/// How many zeroes the kernel writes into registers of floats, outside of cold code.
#[track_caller]
fn check_zeroes(product: &Product, body: &str, wanted: usize) {
    let ptx = ptx_of(&product.kernel(body));
    let hot = ptx.split("\tret;").next().unwrap_or_default();
    let zeroes = hot.lines().filter(|line| {
        let line = line.trim_start();
        line.starts_with("mov.f32") && line.ends_with(", 0f00000000;")
    });
    assert_eq!(zeroes.count(), wanted, "{ptx}");
}

#[test]
fn accumulators_that_begin_at_zero_are_not_written() {
    let product = Product::new([DType::Bf16, DType::Bf16, DType::F32], [64, 32, 64]);
    let t = product.tile();
    check_zeroes(&product, &product.plain(), 0);
    // The outer loop carries a tensor, which does begin with zeroes.
    check_zeroes(&product, &rounds_of_products(&product, ""), 16);
    // Nobody waits for the sums before another loop takes them.
    let looped = |inits: &str| {
        format!(
            "for %lo, %hi, %hi, [{inits}] (%i: i32, %acc: in_flight<{t}>) {{\n    %next = wgmma %sa, %sb, %acc {{promote_every=0}} : in_flight<{t}>\n    yield [%next]\n  }} : in_flight<{t}>\n"
        )
    };
    let body = format!(
        "{}  %lo = constant {{value=0}} : i32\n  %hi = num_programs {{axis=x}} : i32\n  %f = {}  %g = {}  %r = wgmma_wait [%g] {{pending=0}} : tensor<{t}>\n",
        product.in_shared(),
        looped("%begin"),
        looped("%f")
    );
    check_zeroes(&product, &body, 16);
    product.check(&body, 2.0);
}

#[test]
fn a_predicate_drops_what_was_there() {
    let product = Product::new([DType::Bf16, DType::Bf16, DType::F32], [64, 32, 64]);
    let t = product.tile();
    let body = format!(
        "{}  %lo = constant {{value=0}} : i32\n  %hi = constant {{value=5}} : i32\n  %one = constant {{value=1}} : i32\n  %three = constant {{value=3}} : i32\n  %sum = for %lo, %hi, %one, [%begin] (%i: i32, %acc: in_flight<{t}>) {{\n    %keep = compare %i, %three {{op=ne}} : i1\n    %next = wgmma %sa, %sb, %acc, use_accumulator=%keep {{promote_every=0}} : in_flight<{t}>\n    yield [%next]\n  }} : in_flight<{t}>\n  %r = wgmma_wait [%sum] {{pending=0}} : tensor<{t}>\n",
        product.in_shared()
    );
    product.check(&body, 2.0);
}

#[test]
fn two_accumulators_are_in_flight_at_once() {
    let product = Product::new([DType::F16, DType::F16, DType::F16], [64, 32, 64]);
    let t = product.tile();
    let body = format!(
        "{}  %f = wgmma %sa, %sb, %begin {{promote_every=0}} : in_flight<{t}>\n  %other = accumulator %zero : in_flight<{t}>\n  %g = wgmma %sa, %sb, %other {{promote_every=0}} : in_flight<{t}>\n  %p = wgmma_wait [%f] {{pending=1}} : tensor<{t}>\n  %q = wgmma_wait [%g] {{pending=0}} : tensor<{t}>\n  %r = binary %p, %q {{op=add}} : tensor<{t}>\n",
        product.in_shared()
    );
    product.check(&body, 2.0);
}

#[test]
fn sums_of_fp8_are_promoted() {
    let mut product = Product::new([DType::E4m3, DType::E4m3, DType::F32], [128, 16, 128]);
    for attributes in [
        " {promote_every=32}",
        " {promote_every=64}",
        " {promote_every=256}",
    ] {
        product.attributes = attributes;
        product.check(&product.plain(), 1.0);
        product.check(&product.left_in_registers(), 1.0);
    }
}

/// ptxas mixes up what is computed from registers that two products write with a wait between them.
#[test]
fn sums_made_apart_have_registers_of_their_own() {
    let mut product = Product::new([DType::E4m3, DType::E4m3, DType::F32], [128, 16, 128]);
    product.attributes = " {promote_every=32}";
    let ptx = ptx_of(&product.kernel(&product.plain()));
    let sums = ptx.lines().filter(|line| line.contains("wgmma.mma_async"));
    let sums: Vec<&str> = sums
        .filter_map(|line| line.split(['{', '}']).nth(1))
        .collect();
    let different: std::collections::BTreeSet<&str> = sums.iter().copied().collect();
    assert_eq!((sums.len(), different.len()), (8, 8), "{ptx}");
}

/// Unrolled by ptxas, the products of a loop would write the same registers.
#[test]
fn loops_around_loops_of_products_stay_rolled() {
    let product = Product::new([DType::Bf16, DType::Bf16, DType::F32], [64, 32, 64]);
    let ptx = ptx_of(&product.kernel(&rounds_of_products(&product, "")));
    assert_eq!(ptx.matches(".pragma \"nounroll\"").count(), 2, "{ptx}");
}

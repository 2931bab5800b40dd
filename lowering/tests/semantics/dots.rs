//! Products of tiles in registers: every type, shape and way from memory to the operands.

use ir::elem::DType;
use ir::text::parse;
use lowering::{Options, compile};

use crate::machine::run;
use crate::values::{Number, bytes, decode, encode, values};

/// `C = A · B + C` of one CTA, perhaps of each batch.
#[derive(Clone)]
struct Dot {
    op: &'static str,
    dtypes: [DType; 3],
    /// Batches, where there is such a dimension.
    batch: Option<u32>,
    /// M, N and K.
    shape: [u32; 3],
    warps: u32,
    parent: &'static str,
    k_width: u32,
    /// The layouts of the operands in shared memory, if they pass through it.
    shared: Option<[&'static str; 2]>,
}

impl Dot {
    fn mma(dtypes: [DType; 3], shape: [u32; 3]) -> Dot {
        Dot {
            op: "mma_v2",
            dtypes,
            batch: None,
            shape,
            warps: 4,
            parent: "Mma([2, 2], [16, 8])",
            k_width: (32 / dtypes[0].bits()).max(1),
            shared: None,
        }
    }

    fn fma(dtypes: [DType; 3], shape: [u32; 3]) -> Dot {
        Dot {
            op: "dot_fma",
            parent: "Blocked([2, 4], [4, 8], [4, 1], [1, 0])",
            k_width: 0,
            ..Dot::mma(dtypes, shape)
        }
    }

    fn batches(&self) -> usize {
        self.batch.unwrap_or(1) as usize
    }

    /// The type of a tile of these last two dimensions.
    fn ty(&self, kind: &str, [rows, columns]: [u32; 2], dtype: &str, layout: &str) -> String {
        let batch = self.batch.map_or(String::new(), |b| format!("{b}x"));
        format!("{kind}<{batch}{rows}x{columns}x{dtype}, {layout}>")
    }

    /// Pointers to a row-major tensor.
    fn pointers(&self, base: &str, size: [u32; 2], dtype: DType, layout: &str) -> String {
        let all = size[0] * size[1] * self.batches() as u32;
        let int = |layout| self.ty("tensor", size, "i32", layout);
        let ptr = self.ty("tensor", size, &format!("ptr<{dtype}>"), layout);
        format!(
            "  %{base}i = arange {{start=0, end={all}}} : tensor<{all}xi32, auto>\n  %{base}r = reshape %{base}i : {}\n  %{base}at = set_layout %{base}r : {}\n  %{base}s = splat %{base} : {ptr}\n  %{base}p = ptr_add %{base}s, %{base}at : {ptr}\n",
            int("auto"),
            int(layout)
        )
    }

    /// An operand called `name`, from global memory or through shared memory.
    fn operand(&self, name: &str, number: usize, size: [u32; 2], dtype: DType) -> String {
        let layout = ["#left", "#right"][number];
        let (dtype_text, wanted) = (dtype.to_string(), |l: &str| {
            self.ty("tensor", size, &dtype.to_string(), l)
        });
        if self.shared.is_none() {
            return format!(
                "{}  %v{name} = load %{name}p : {}\n",
                self.pointers(name, size, dtype, layout),
                wanted(layout)
            );
        }
        format!(
            "{}  %g{name} = load %{name}p : {}\n  %m{name} = smem_alloc init=%g{name} : {}\n  %v{name} = smem_load %m{name} : {}\n",
            self.pointers(name, size, dtype, "#rows"),
            wanted("#rows"),
            self.ty("smem", size, &dtype_text, ["#a_tile", "#b_tile"][number]),
            wanted(layout)
        )
    }

    fn kernel(&self) -> String {
        let ([a, b, sum], [m, n, k]) = (self.dtypes, self.shape);
        let (parent, width, warps) = (self.parent, self.k_width, self.warps);
        let rows = match self.batch {
            None => format!("Blocked([1, 1], [1, 32], [{warps}, 1], [1, 0])"),
            Some(_) => format!("Blocked([1, 1, 1], [1, 1, 32], [1, {warps}, 1], [2, 1, 0])"),
        };
        let tile = self.ty("tensor", [m, n], &sum.to_string(), "#acc");
        let precision = if self.op == "mma_v2" && a == DType::F32 {
            " {precision=tf32}"
        } else {
            ""
        };
        format!(
            "{}#rows = {rows}\n#acc = {parent}\n#left = DotOperand(0, {parent}, {width})\n#right = DotOperand(1, {parent}, {width})\nkernel @k(%a: ptr<{a}> {{divisor=16}}, %b: ptr<{b}> {{divisor=16}}, %c: ptr<{sum}> {{divisor=16}}, %out: ptr<{sum}> {{divisor=16}}) warps({warps}) {{\n{}{}{}  %vc = load %cp : {tile}\n  %r = {} %va, %vb, %vc{precision} : {tile}\n{}  store %outp, %r\n  return\n}}\n",
            self.shared.map_or(String::new(), |[a, b]| format!(
                "#a_tile = {a}\n#b_tile = {b}\n"
            )),
            self.operand("a", 0, [m, k], a),
            self.operand("b", 1, [k, n], b),
            self.pointers("c", [m, n], sum, "#acc"),
            self.op,
            self.pointers("out", [m, n], sum, "#acc"),
        )
    }

    /// Runs it on small whole numbers, whose sums are exact.
    #[track_caller]
    fn check(&self) {
        let ([m, n, k], batches) = (self.shape.map(|d| d as usize), self.batches());
        let [a, b, sum] = self.dtypes;
        let sample = |at: usize, dtype: DType, salt: usize| -> f64 {
            let number = ((at + salt) * 7 + at / 5 + at / 64) % 5;
            let is_unsigned = !dtype.is_float() && !dtype.is_signed_int();
            number as f64 - if is_unsigned { 0.0 } else { 2.0 }
        };
        let data = |count: usize, dtype: DType, salt: usize| -> Vec<u8> {
            let number = |at| encode(of(sample(at, dtype, salt), dtype), dtype);
            bytes(&(0..count).map(number).collect::<Vec<u64>>(), dtype)
        };
        let inputs = [
            data(batches * m * k, a, 3),
            data(batches * k * n, b, 11),
            data(batches * m * n, sum, 5),
        ];
        let text = self.kernel();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let out = run(&text, &inputs, batches * m * n * sum.bytes() as usize);
        let found = values(&out, sum);
        for (at, &bits) in found.iter().enumerate() {
            let (batch, row, column) = (at / n / m, at / n % m, at % n);
            let terms = (0..k).map(|i| {
                sample((batch * m + row) * k + i, a, 3)
                    * sample((batch * k + i) * n + column, b, 11)
            });
            let exact = terms.sum::<f64>() + sample(at, sum, 5);
            let want = decode(encode(of(exact, sum), sum), sum).float();
            let have = decode(bits, sum).float();
            assert!(
                have == want,
                "[{batch}, {row}, {column}] is {have}, not {want}\n{text}"
            );
        }
    }
}

fn of(number: f64, dtype: DType) -> Number {
    if dtype.is_float() {
        Number::Float(number)
    } else {
        Number::Int(number as i128)
    }
}

const MMA: [[DType; 3]; 13] = [
    [DType::Bf16, DType::Bf16, DType::F32],
    [DType::F16, DType::F16, DType::F32],
    [DType::F16, DType::F16, DType::F16],
    [DType::F32, DType::F32, DType::F32],
    [DType::F64, DType::F64, DType::F64],
    [DType::E4m3, DType::E4m3, DType::F32],
    [DType::E5m2, DType::E4m3, DType::F32],
    [DType::E4m3, DType::E5m2, DType::F16],
    [DType::E5m2, DType::E5m2, DType::F32],
    [DType::I8, DType::I8, DType::I32],
    [DType::U8, DType::U8, DType::I32],
    [DType::I8, DType::U8, DType::I32],
    [DType::U8, DType::I8, DType::I32],
];

#[test]
fn tensor_cores_of_a_warp_multiply_every_type_at_every_depth() {
    for dtypes in MMA {
        let least = 4 * (32 / dtypes[0].bits()).max(1);
        for steps in [1, 2, 4] {
            Dot::mma(dtypes, [32, 16, steps * least]).check();
        }
    }
}

#[test]
fn tiles_of_a_warp_repeat_and_broadcast() {
    for shape in [
        [64, 64, 32],
        [16, 8, 16],
        [8, 8, 16],
        [4, 2, 16],
        [1, 1, 16],
        [128, 16, 64],
        [16, 128, 8],
    ] {
        for parent in [
            "Mma([2, 2], [16, 8])",
            "Mma([4, 1], [16, 8])",
            "Mma([1, 4], [16, 8])",
        ] {
            let product = Dot::mma([DType::F16, DType::F16, DType::F32], shape);
            Dot { parent, ..product }.check();
        }
    }
}

#[test]
fn every_k_width_of_whole_words_will_do() {
    for dtypes in MMA {
        let least = (32 / dtypes[0].bits()).max(1);
        for k_width in [least, 2 * least, 8].into_iter().filter(|w| *w <= 8) {
            let product = Dot::mma(dtypes, [32, 32, 64]);
            Dot { k_width, ..product }.check();
        }
    }
}

#[test]
fn batches_multiply_apart() {
    for parent in ["Mma([1, 2, 2], [1, 16, 8])", "Mma([2, 1, 2], [1, 16, 8])"] {
        let product = Dot::mma([DType::Bf16, DType::Bf16, DType::F32], [32, 16, 32]);
        let batch = Some(4);
        Dot {
            batch,
            parent,
            ..product
        }
        .check();
    }
    let product = Dot::fma([DType::F32; 3], [8, 32, 32]);
    let (batch, parent) = (
        Some(4),
        "Blocked([1, 2, 4], [1, 4, 8], [2, 2, 1], [2, 1, 0])",
    );
    Dot {
        batch,
        parent,
        ..product
    }
    .check();
}

#[test]
fn sets_of_warps_share_a_product() {
    let shared = Some(["Swizzled(8, 1, 8, [1, 0])", "Swizzled(8, 1, 8, [0, 1])"]);
    for (parent, shape) in [
        ("Mma([12, 1], [16, 8])", [192, 64, 64]),
        ("Mma([6, 2], [16, 8])", [96, 64, 64]),
        ("Mma([4, 3], [16, 8])", [64, 8, 64]),
    ] {
        let product = Dot {
            warps: 12,
            parent,
            ..Dot::mma([DType::F16, DType::F16, DType::F32], shape)
        };
        product.check();
        Dot { shared, ..product }.check();
    }
    for (warps, parent, shape) in [
        (12, "Blocked([2, 4], [4, 8], [12, 1], [1, 0])", [96, 32, 16]),
        (6, "Blocked([2, 4], [4, 8], [3, 2], [1, 0])", [24, 64, 16]),
    ] {
        let product = Dot::fma([DType::F32; 3], shape);
        Dot {
            warps,
            parent,
            ..product
        }
        .check();
    }
}

#[test]
fn operands_come_from_shared_memory() {
    let layouts = [
        ["Swizzled(8, 1, 8, [1, 0])", "Swizzled(8, 1, 8, [1, 0])"],
        ["Swizzled(8, 1, 8, [0, 1])", "Swizzled(8, 1, 8, [0, 1])"],
        ["Nvmma(128, 16)", "Nvmma(128, 16, transposed=true)"],
        ["Padded([[64, 8]], [1, 0])", "Padded([[64, 8]], [1, 0])"],
    ];
    for shared in layouts {
        let product = Dot::mma([DType::F16, DType::F16, DType::F32], [64, 64, 64]);
        Dot {
            shared: Some(shared),
            ..product
        }
        .check();
    }
    for dtypes in MMA {
        let shared = Some(["Swizzled(4, 1, 4, [1, 0])", "Swizzled(4, 1, 4, [0, 1])"]);
        Dot {
            shared,
            ..Dot::mma(dtypes, [32, 32, 64])
        }
        .check();
    }
}

/// How often the kernel has `ldmatrix` and `ldmatrix.trans`, and whether it has other loads from shared memory.
fn matrix_loads(product: &Dot) -> (usize, usize, bool) {
    let text = product.kernel();
    let func = parse("test.tile", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let ptx = compiled.module.to_text();
    let trans = ptx
        .matches("ldmatrix.sync.aligned.m8n8.x4.trans.shared")
        .count();
    let plain = ptx.matches("ldmatrix.sync.aligned.m8n8.x4.shared").count();
    (plain, trans, ptx.contains("ld.shared"))
}

#[test]
fn operands_of_either_major_are_loaded_by_ldmatrix() {
    let rows = "Swizzled(8, 1, 8, [1, 0])";
    let columns = "Swizzled(8, 1, 8, [0, 1])";
    // Each warp has 32 by 64 of A and 64 by 32 of B: four matrices of 8 by 8 an access.
    for (shared, wanted) in [
        ([rows, columns], (16, 0, false)),
        ([rows, rows], (8, 8, false)),
        ([columns, columns], (8, 8, false)),
        ([columns, rows], (0, 16, false)),
    ] {
        let product = Dot::mma([DType::Bf16, DType::Bf16, DType::F32], [64, 64, 64]);
        let shared = Some(shared);
        assert_eq!(matrix_loads(&Dot { shared, ..product }), wanted);
    }
    // Of other sizes, rows along K are matrices too.
    for (dtype, shared) in [
        (
            DType::I8,
            ["Swizzled(16, 1, 4, [1, 0])", "Swizzled(16, 1, 4, [0, 1])"],
        ),
        (
            DType::E4m3,
            ["Swizzled(16, 1, 4, [1, 0])", "Swizzled(16, 1, 4, [0, 1])"],
        ),
        (
            DType::F32,
            ["Swizzled(4, 1, 8, [1, 0])", "Swizzled(4, 1, 8, [0, 1])"],
        ),
    ] {
        let sum = if dtype == DType::I8 {
            DType::I32
        } else {
            DType::F32
        };
        let product = Dot::mma([dtype, dtype, sum], [64, 64, 64]);
        let (plain, trans, has_others) = matrix_loads(&Dot {
            shared: Some(shared),
            ..product
        });
        assert_eq!(
            (plain, trans, has_others),
            (4 * dtype.bytes() as usize * 2, 0, false),
            "{dtype}"
        );
    }
}

#[test]
fn threads_multiply_every_type() {
    use DType::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    for dtypes in [
        [F32, F32, F32],
        [F64, F64, F64],
        [F16, F16, F16],
        [F16, F16, F32],
        [Bf16, Bf16, Bf16],
        [Bf16, Bf16, F32],
        [I32, I32, I32],
        [U32, U32, U32],
        [I64, I64, I64],
        [U64, U64, U64],
        [I16, I16, I16],
        [U16, I16, I32],
        [U8, U8, U8],
        [I8, I8, I8],
        [I8, U8, I32],
    ] {
        Dot::fma(dtypes, [16, 32, 16]).check();
    }
}

#[test]
fn threads_multiply_every_shape() {
    for shape in [
        [32, 32, 32],
        [64, 16, 8],
        [1, 64, 2],
        [16, 1, 4],
        [4, 4, 1],
        [128, 8, 1],
    ] {
        for parent in [
            "Blocked([2, 4], [4, 8], [4, 1], [1, 0])",
            "Blocked([4, 1], [8, 4], [1, 4], [0, 1])",
            "Blocked([1, 1], [1, 32], [2, 2], [1, 0])",
        ] {
            Dot {
                parent,
                ..Dot::fma([DType::F32; 3], shape)
            }
            .check();
        }
    }
}

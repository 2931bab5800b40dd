//! Matrix moves and products of every type and shape against the host.

use crate::kernel::{Kernel, Random};
use crate::warpgroup::{WarpgroupProduct, accumulators, check_twice, fragment_of_rows, words};
use emulator::FaultKind;

/// Elements of a type: random patterns that are small numbers, and their values.
pub(crate) fn elements(ty: &str, count: usize, seed: u64) -> (Vec<u8>, Vec<f64>) {
    let mut random = Random(seed);
    let mut bytes = Vec::new();
    let mut values = Vec::new();
    for _ in 0..count {
        let small = (random.next() % 9) as i32 - 4;
        match ty {
            "bf16" => {
                bytes.extend(((f32::from(small as i16).to_bits() >> 16) as u16).to_le_bytes());
            }
            "f16" => bytes.extend(f16_bits(small).to_le_bytes()),
            "tf32" => bytes.extend(f32::from(small as i16).to_bits().to_le_bytes()),
            "e4m3" => bytes.push(fp8_bits(small, 3, 7)),
            "e5m2" => bytes.push(fp8_bits(small, 2, 15)),
            "s8" => bytes.push(small as u8),
            "u8" => bytes.push((small + 4) as u8),
            _ => panic!("no elements of {ty}"),
        }
        values.push(f64::from(if ty == "u8" { small + 4 } else { small }));
    }
    (bytes, values)
}

/// Small integers as f16: the exponent is that of the leading bit.
pub(crate) fn f16_bits(value: i32) -> u16 {
    let magnitude = value.unsigned_abs() as u16;
    if magnitude == 0 {
        return 0;
    }
    let top = 15 - magnitude.leading_zeros() as u16;
    u16::from(value < 0) << 15 | (top + 15) << 10 | (magnitude << (10 - top)) & 0x3ff
}

fn fp8_bits(value: i32, mantissa: u32, bias: u32) -> u8 {
    let magnitude = value.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let top = magnitude.ilog2();
    let fraction = if top <= mantissa {
        magnitude << (mantissa - top)
    } else {
        magnitude >> (top - mantissa)
    };
    u8::from(value < 0) << 7 | ((top + bias) << mantissa | fraction & ((1 << mantissa) - 1)) as u8
}

#[test]
fn matrices_move_between_shared_memory_and_registers() {
    // Each row of four 8x8 matrices is 16 bytes; lane i names row i.
    let body = |load: &str, store: &str| {
        format!(
            ".shared .align 16 .b8 from[512]; .shared .align 16 .b8 to[512];
            mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, from; add.u32 %r3, %r3, %r2;
            mov.u32 %r4, to; add.u32 %r4, %r4, %r2;
            mul.wide.u32 %rd1, %r1, 16; add.u64 %rd2, %in0, %rd1;
            ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd2];
            st.shared.v4.u32 [%r3], {{%r10, %r11, %r12, %r13}};
            bar.warp.sync -1;
            ldmatrix.sync.aligned.m8n8.x4{load}.shared.b16 {{%r20, %r21, %r22, %r23}}, [%r3];
            stmatrix.sync.aligned.m8n8.x4{store}.shared.b16 [%r4], {{%r20, %r21, %r22, %r23}};
            ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r4];
            add.u64 %rd3, %in1, %rd1;
            st.global.v4.u32 [%rd3], {{%r10, %r11, %r12, %r13}};
            add.u64 %rd3, %in2, %rd1;
            st.global.v4.u32 [%rd3], {{%r20, %r21, %r22, %r23}};"
        )
    };
    let input = || (0..128).map(|i| 2 * i | (2 * i + 1) << 16);
    let run = |load, store| {
        Kernel::new(&body(load, store))
            .words(input())
            .out(512)
            .out(512)
            .run()
    };
    for trans in ["", ".trans"] {
        assert_eq!(run(trans, trans).words(1), input().collect::<Vec<_>>());
    }
    let half = |words: &[u32], index: usize| words[index / 2] >> (16 * (index % 2)) & 0xffff;
    let transposed = run(".trans", "").words(1);
    for matrix in 0..4 {
        for row in 0..8 {
            for column in 0..8 {
                assert_eq!(
                    half(&transposed, matrix * 64 + row * 8 + column),
                    (matrix * 64 + column * 8 + row) as u32
                );
            }
        }
    }
    let fragments = run("", "").words(2);
    // Lane 5 holds elements 2 and 3 of row 1 of each matrix.
    assert_eq!(
        fragments[5 * 4 + 2],
        (2 * 64 + 8 + 2) | (2 * 64 + 8 + 3) << 16
    );
    let fault = Kernel::new("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; .shared .align 16 .b8 x[128]; mov.u32 %r2, x;
        @%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];").fault();
    assert_eq!(
        fault.message,
        "ldmatrix must be executed by all 32 lanes of a warp, and lanes 8-31 do not execute it"
    );
}

/// `mma.sync` with fragments that each lane gathers from global memory by the layouts of the ISA.
fn check_mma(n: usize, k: usize, types: [&str; 4]) {
    let [d_ty, a_ty, b_ty, c_ty] = types;
    let m = 16;
    let (a_bytes, a) = elements(a_ty, m * k, 3);
    let (b_bytes, b) = elements(b_ty, n * k, 7);
    let size = a_bytes.len() / (m * k);
    let per = 4 / size;
    let (a_regs, b_regs) = (m * k / 32 / per, n * k / 32 / per);
    // The host lays the fragments out: one word for each lane and register.
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut a_words = Vec::new();
    let mut b_words = Vec::new();
    for lane in 0..32 {
        for i in 0..a_regs {
            let (row, column) = (lane / 4 + 8 * (i % 2), lane % 4 * per + 4 * per * (i / 2));
            a_words.push(word(&a_bytes, (row * k + column) * size));
        }
        for i in 0..b_regs {
            // B is kept by columns, so that its elements along K are neighbours.
            let (column, depth) = (lane / 4, lane % 4 * per + 4 * per * i);
            b_words.push(word(&b_bytes, (column * k + depth) * size));
        }
    }
    let c_regs = if c_ty == "f16" { 2 } else { 4 };
    let list = |class: &str, count: usize| {
        (0..count)
            .map(|i| format!("%{class}{i}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let loads = |class: &str, pointer: &str, count: usize| {
        let mut text = format!(
            "mul.wide.u32 %rd1, %r60, {}; add.u64 %rd2, {pointer}, %rd1;\n",
            4 * count
        );
        (0..count).for_each(|i| text += &format!("ld.global.b32 %{class}{i}, [%rd2+{}];\n", 4 * i));
        text
    };
    let body = format!(
        ".reg .b32 %a<8>; .reg .b32 %b<4>; .reg .b32 %c<4>;\nmov.u32 %r60, %tid.x;\n{}{}{}
        mma.sync.aligned.m16n8k{k}.row.col.{d_ty}.{a_ty}.{b_ty}.{c_ty} {{{}}}, {{{}}}, {{{}}}, {{{}}};
        mul.wide.u32 %rd1, %r60, {}; add.u64 %rd2, %in3, %rd1;\n{}",
        loads("a", "%in0", a_regs),
        loads("b", "%in1", b_regs),
        loads("c", "%in2", c_regs),
        list("c", c_regs),
        list("a", a_regs),
        list("b", b_regs),
        list("c", c_regs),
        4 * c_regs,
        (0..c_regs).map(|i| format!("st.global.b32 [%rd2+{}], %c{i};\n", 4 * i)).collect::<String>()
    );
    let body = body.replace(
        ".reg .b32 %c<4>",
        if d_ty == "f32" {
            ".reg .f32 %c<4>"
        } else {
            ".reg .b32 %c<4>"
        },
    );
    // What is added to the product: small numbers, which differ.
    let c = |lane: usize, i: usize| (lane * 4 + i) as i32 % 9 - 4;
    let c_words = (0..32).flat_map(|lane| {
        (0..c_regs).map(move |i| match c_ty {
            "f16" => {
                let [low, high] = [2 * i, 2 * i + 1].map(|i| u32::from(f16_bits(c(lane, i))));
                low | high << 16
            }
            "s32" => c(lane, i) as u32,
            _ => (c(lane, i) as f32).to_bits(),
        })
    });
    let outcome = Kernel::new(&body)
        .words(a_words)
        .words(b_words)
        .words(c_words)
        .out(128 * c_regs)
        .run();
    let found = outcome.words(3);
    for lane in 0..32 {
        for i in 0..4 {
            let (row, column) = (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2);
            let product: f64 = (0..k)
                .map(|depth| a[row * k + depth] * b[column * k + depth])
                .sum();
            let expected = product + f64::from(c(lane, i));
            let value = match d_ty {
                "f16" => {
                    assert_eq!(
                        found[lane * 2 + i / 2] >> (16 * (i % 2)) & 0xffff,
                        f16_bits(expected as i32).into(),
                        "{types:?}"
                    );
                    continue;
                }
                "s32" => f64::from(found[lane * 4 + i] as i32),
                _ => f32::from_bits(found[lane * 4 + i]).into(),
            };
            assert_eq!(value, expected, "{types:?} row {row} column {column}");
        }
    }
}

#[test]
fn mma_sync_agrees_with_the_host_for_every_type() {
    check_mma(8, 16, ["f32", "bf16", "bf16", "f32"]);
    check_mma(8, 8, ["f32", "bf16", "bf16", "f32"]);
    check_mma(8, 16, ["f32", "f16", "f16", "f32"]);
    check_mma(8, 16, ["f16", "f16", "f16", "f16"]);
    check_mma(8, 8, ["f32", "tf32", "tf32", "f32"]);
    check_mma(8, 4, ["f32", "tf32", "tf32", "f32"]);
    check_mma(8, 32, ["s32", "s8", "s8", "s32"]);
    check_mma(8, 16, ["s32", "u8", "s8", "s32"]);
    check_mma(8, 32, ["f32", "e4m3", "e5m2", "f32"]);
}

/// `mma.sync` of f64, an element a register, on 8 or 16 rows.
fn check_mma_of_f64(m: usize, k: usize) {
    let (a_regs, b_regs, c_regs) = (m * k / 32, k / 4, m / 4);
    let number = |seed: usize, at: usize| ((seed + 7 * at) % 23) as f64 - 11.0;
    let list = |class: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|i| format!("%{class}{i}")).collect();
        names.join(", ")
    };
    // Every register of a lane has its own word of each input.
    let loads = |class: &str, pointer: &str, count: usize| {
        let mut text = format!(
            "mul.wide.u32 %rd1, %r60, {}; add.u64 %rd2, {pointer}, %rd1;\n",
            8 * count
        );
        (0..count).for_each(|i| text += &format!("ld.global.f64 %{class}{i}, [%rd2+{}];\n", 8 * i));
        text
    };
    let stores: String = (0..c_regs)
        .map(|i| format!("st.global.f64 [%rd2+{}], %d{i};\n", 8 * i))
        .collect();
    let body = format!(
        ".reg .f64 %a<8>; .reg .f64 %b<4>; .reg .f64 %c<4>; .reg .f64 %d<4>;\nmov.u32 %r60, %tid.x;\n{}{}{}
        mma.sync.aligned.m{m}n8k{k}.row.col.f64.f64.f64.f64 {{{}}}, {{{}}}, {{{}}}, {{{}}};
        add.u64 %rd2, %in3, %rd1;\n{stores}",
        loads("a", "%in0", a_regs),
        loads("b", "%in1", b_regs),
        loads("c", "%in2", c_regs),
        list("d", c_regs),
        list("a", a_regs),
        list("b", b_regs),
        list("c", c_regs),
    );
    let words =
        |seed: usize, count: usize| (0..32 * count).map(move |at| number(seed, at).to_bits());
    let outcome = Kernel::new(&body)
        .doubles(words(1, a_regs))
        .doubles(words(5, b_regs))
        .doubles(words(9, c_regs))
        .out(256 * c_regs)
        .run();
    // Where the ISA puts an element: 9.7.14.5.1, and 9.7.14.5.9 to 9.7.14.5.11 for 16 rows.
    let a = |row: usize, depth: usize| {
        let index = row / 8 + m / 8 * (depth / 4);
        number(1, (row % 8 * 4 + depth % 4) * a_regs + index)
    };
    let b = |depth: usize, column: usize| number(5, (column * 4 + depth % 4) * b_regs + depth / 4);
    for lane in 0..32 {
        for i in 0..c_regs {
            let (row, column) = (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2);
            let product: f64 = (0..k).map(|depth| a(row, depth) * b(depth, column)).sum();
            let expected = product + number(9, lane * c_regs + i);
            let found = f64::from_bits(outcome.doubles(3)[lane * c_regs + i]);
            assert_eq!(found, expected, "m{m} k{k} row {row} column {column}");
        }
    }
}

#[test]
fn mma_sync_of_f64_agrees_with_the_host() {
    check_mma_of_f64(8, 4);
    for k in [4, 8, 16] {
        check_mma_of_f64(16, k);
    }
}

#[test]
fn products_of_integers_wrap_around_or_stay_at_the_largest() {
    let run = |satfinite: &str, start: i32| {
        let body = format!(
            "mov.u32 %r1, 0x01010101; mov.s32 %r2, {start};
            mma.sync.aligned.m16n8k32.row.col{satfinite}.s32.s8.s8.s32 {{%r10, %r11, %r12, %r13}}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}}, {{%r2, %r2, %r2, %r2}};
            mov.u32 %r3, %tid.x; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd1, %in0; st.global.u32 [%rd1], %r13;"
        );
        Kernel::new(&body).out(128).run().words(0)[31] as i32
    };
    assert_eq!(run("", i32::MAX - 2), i32::MIN + 29);
    assert_eq!(run(".satfinite", i32::MAX - 2), i32::MAX);
    assert_eq!(run(".satfinite", -40), -8);
}

#[test]
fn a_matrix_in_registers_is_transposed() {
    let body = "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 1; add.u32 %r3, %r2, 1; shl.b32 %r3, %r3, 16; or.b32 %r2, %r2, %r3;
        movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r2;
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %in0; st.global.u32 [%rd1], %r4;";
    let found = Kernel::new(body).out(128).run().words(0);
    // Element (row, column) is 8 row + column, and lane 4 row + column / 2 holds two of a row.
    let expected = (0..32).map(|lane| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        (8 * column + row) | (8 * (column + 1) + row) << 16
    });
    assert_eq!(found, expected.collect::<Vec<u32>>());
}

#[test]
fn rows_of_matrices_lie_in_shared_memory_at_multiples_of_16_bytes() {
    let moves = |count: u32, address: &str| {
        let list: Vec<String> = (0..count).map(|i| format!("%r{}", 20 + i)).collect();
        Kernel::new(&format!(
            ".shared .align 16 .b8 rows[512]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, rows; add.u32 %r2, %r2, %r3;
            st.shared.v4.u32 [%r2], {{%r1, %r1, %r1, %r1}}; bar.warp.sync -1; cvta.global.u64 %rd2, %in0;
            {address} ldmatrix.sync.aligned.m8n8.x{count}.b16 {{{}}}, [%rd1];
            mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %in0; st.global.u32 [%rd1], %r20;",
            list.join(", ")
        ))
        .words([0; 64])
    };
    let shared = "cvt.u64.u32 %rd1, %r2; cvta.shared.u64 %rd1, %rd1;";
    for count in [1, 2, 4] {
        // Lane 8 i + j names row j of matrix i; what other lanes name does not matter.
        let others = format!(
            "{shared} setp.ge.u32 %p1, %r1, {}; @%p1 add.u64 %rd1, %rd2, 3;",
            8 * count
        );
        let found = moves(count, &others).run().words(0);
        assert_eq!(
            found[..32],
            (0..32).map(|lane| lane / 4).collect::<Vec<u32>>()[..]
        );
        let crooked = format!(
            "{shared} setp.eq.u32 %p1, %r1, {}; @%p1 add.u64 %rd1, %rd1, 8;",
            8 * count - 1
        );
        let fault = moves(count, &crooked).fault();
        assert_eq!(
            (fault.kind, fault.lanes),
            (FaultKind::Misaligned, 1 << (8 * count - 1)),
            "{fault}"
        );
        let global = format!(
            "{shared} setp.eq.u32 %p1, %r1, {}; @%p1 mov.u64 %rd1, %rd2;",
            8 * count - 1
        );
        let fault = moves(count, &global).fault();
        assert!(
            fault.message.contains("ldmatrix works on shared memory"),
            "{fault}"
        );
    }
}

/// Where element (`row`, `depth`) of an operand lies in shared memory, as TMA puts it there.
pub(crate) struct Layout {
    pub(crate) swizzle: usize,
    pub(crate) transposed: bool,
    pub(crate) rows: usize,
}

impl Layout {
    fn offset(&self, row: usize, depth: usize, size: usize) -> usize {
        let at = match (self.swizzle, self.transposed) {
            // Core matrices of 8 rows of 16 bytes, K innermost: neighbours along K first, 128 bytes apart.
            (0, false) => {
                let chunk = depth * size / 16;
                row / 8 * 256 + chunk * 128 + row % 8 * 16 + depth * size % 16
            }
            (0, true) => {
                let chunk = row * size / 16;
                depth / 8 * (self.rows * size * 8) + chunk * 128 + depth % 8 * 16 + row * size % 16
            }
            (span, false) => row * span + depth * size,
            // Columns of `span` bytes along M or N, each with all 16 depths.
            (span, true) => row * size / span * (span * 16) + depth * span + row * size % span,
        };
        let mask = (self.swizzle / 16).saturating_sub(1);
        at ^ ((at >> 7 & mask) << 4)
    }

    pub(crate) fn descriptor(&self, start: u64, size: usize) -> u64 {
        let (leading, stride) = match (self.swizzle, self.transposed) {
            (0, false) => (128, 256),
            (0, true) => (self.rows * size * 8, 128),
            (span, false) => (16, 8 * span),
            (span, true) => (span * 16, span * 8),
        };
        let mode = match self.swizzle {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0u64,
        };
        start >> 4 | (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | mode << 62
    }

    pub(crate) fn image(&self, bytes: &[u8], depth: usize, size: usize) -> Vec<u8> {
        let mut image = vec![0; 65536];
        let mut end = 0;
        for row in 0..self.rows {
            for k in 0..depth {
                let at = self.offset(row, k, size);
                image[at..at + size].copy_from_slice(&bytes[(row * depth + k) * size..][..size]);
                end = end.max(at + size);
            }
        }
        image.truncate(end.next_multiple_of(1024));
        image
    }
}

/// One `wgmma`, twice on the same accumulators, with operands in the layouts given.
fn check_wgmma(n: usize, types: [&str; 3], layouts: [(usize, bool); 2], registers: bool) {
    let [d_ty, a_ty, b_ty] = types;
    let size = elements(a_ty, 1, 1).0.len();
    let k = 32 / size;
    let (a_bytes, a) = elements(a_ty, 64 * k, 11);
    let (b_bytes, b) = elements(b_ty, n * k, 13);
    let a_layout = Layout {
        swizzle: layouts[0].0,
        transposed: layouts[0].1,
        rows: 64,
    };
    let b_layout = Layout {
        swizzle: layouts[1].0,
        transposed: layouts[1].1,
        rows: n,
    };
    let (a_image, b_image) = (
        a_layout.image(&a_bytes, k, size),
        b_layout.image(&b_bytes, k, size),
    );
    let b_start = 1024 + a_image.len();
    let image: Vec<u32> = words(&a_image).into_iter().chain(words(&b_image)).collect();
    let fragment = if registers {
        fragment_of_rows(size)
    } else {
        String::new()
    };
    let a_operand = if registers {
        "{%r30, %r31, %r32, %r33}".to_owned()
    } else {
        "%rd10".to_owned()
    };
    let is_16_bit = matches!(a_ty, "f16" | "bf16");
    let scales = if d_ty == "s32" { "" } else { ", 1, 1" };
    let transposes = match (is_16_bit, registers) {
        (false, _) => String::new(),
        (true, true) => format!(", {}", u8::from(layouts[1].1)),
        (true, false) => format!(", {}, {}", u8::from(layouts[0].1), u8::from(layouts[1].1)),
    };
    let warpgroup = WarpgroupProduct {
        d_ty,
        n,
        image: image.len(),
        loads: &fragment,
        descriptors: [
            a_layout.descriptor(1024, size),
            b_layout.descriptor(b_start as u64, size),
        ],
    };
    let body = warpgroup.body(|list, scale| {
        format!(
            "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d_ty}.{a_ty}.{b_ty} {{{list}}}, {a_operand}, %rd11, {scale}{scales}{transposes};\n"
        )
    });
    let kernel = Kernel::new(&body)
        .threads(128)
        .words(image)
        .out(512 * accumulators(d_ty, n))
        .words(words(&a_bytes));
    let once = |row: usize, column: usize| {
        let terms = (0..k).map(|depth| a[row * k + depth] * b[column * k + depth]);
        terms.sum()
    };
    let what = format!("{types:?} {layouts:?}");
    check_twice((d_ty, n), &kernel.run().words(1), once, &what);
}

#[test]
fn products_of_a_warpgroup_in_every_layout() {
    for swizzle in [0, 32, 64, 128] {
        for a_transposed in [false, true] {
            for b_transposed in [false, true] {
                check_wgmma(
                    64,
                    ["f32", "bf16", "bf16"],
                    [(swizzle, a_transposed), (swizzle, b_transposed)],
                    false,
                );
            }
        }
    }
    check_wgmma(128, ["f32", "f16", "f16"], [(128, false), (64, true)], true);
}

#[test]
fn products_of_a_warpgroup_of_every_type_and_width() {
    for n in [8, 24, 96, 192, 256] {
        check_wgmma(
            n,
            ["f32", "f16", "f16"],
            [(128, false), (128, false)],
            false,
        );
    }
    check_wgmma(
        64,
        ["f16", "f16", "f16"],
        [(128, false), (128, false)],
        false,
    );
    check_wgmma(
        32,
        ["f32", "tf32", "tf32"],
        [(128, false), (32, false)],
        false,
    );
    check_wgmma(
        64,
        ["f32", "e4m3", "e5m2"],
        [(64, false), (128, false)],
        false,
    );
    check_wgmma(
        64,
        ["f16", "e5m2", "e4m3"],
        [(64, false), (128, false)],
        true,
    );
    check_wgmma(64, ["s32", "s8", "s8"], [(128, false), (0, false)], false);
    check_wgmma(32, ["s32", "u8", "s8"], [(32, false), (128, false)], true);
}

#[test]
fn wgmma_by_a_warp_outside_of_a_warpgroup_is_a_fault() {
    let list: Vec<String> = (0..4).map(|i| format!("%f{i}")).collect();
    let body = format!(
        "mov.u64 %rd1, 0; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{}}}, %rd1, %rd1, 0, 1, 1, 0, 0;",
        list.join(", ")
    );
    let fault = Kernel::new(&body).threads(64).fault();
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (
            FaultKind::Wgmma,
            "warp 0 is in no warpgroup: the CTA has 2 warps"
        )
    );
}

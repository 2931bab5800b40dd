//! Sparse products of a warpgroup, `wgmma.mma_async.sp`, against the host.

use crate::kernel::{Kernel, Random};
use crate::matrices::{Layout, elements, f16_bits};
use emulator::FaultKind;

/// A sparse product: its types, A in registers or not, and the sparsity selector.
struct Sparse {
    types: [&'static str; 3],
    n: usize,
    swizzles: [usize; 2],
    in_registers: bool,
    selector: usize,
}

/// The operands as the host has them.
struct Operands {
    /// K, in elements of B.
    k: usize,
    size: usize,
    a: (Vec<u8>, Vec<f64>),
    b: (Vec<u8>, Vec<f64>),
    /// The place in its row of each packed element of A.
    places: Vec<usize>,
    /// A word for each thread.
    metadata: Vec<u32>,
}

impl Sparse {
    fn operands(&self, seed: u64) -> Operands {
        let [_, a_ty, b_ty] = self.types;
        let size = elements(a_ty, 1, 1).0.len();
        let k = 64 / size;
        let mut random = Random(seed);
        // Lanes that give no metadata hold what is undefined elsewhere.
        let mut metadata = vec![0; 128];
        let mut places = Vec::new();
        for row in 0..64 {
            for chunk in 0..k / if size == 4 { 2 } else { 4 } {
                let (bits, chosen) = if size == 4 {
                    [(0x4, vec![0]), (0xe, vec![1])][random.next() as usize % 2].clone()
                } else {
                    let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
                    let (i, j) = pairs[random.next() as usize % 6];
                    (i | j << 2, vec![i as usize, j as usize])
                };
                let width = if size == 4 { 2 } else { 4 };
                places.extend(chosen.iter().map(|place| chunk * width + place));
                let (thread, bit) = self.source(size, row, chunk);
                metadata[thread] |= bits << bit;
            }
        }
        Operands {
            k,
            size,
            a: elements(a_ty, 32 * k, seed + 1),
            b: elements(b_ty, self.n * k, seed + 2),
            places,
            metadata,
        }
    }

    /// The thread and the bit at which the metadata of a chunk begins (PTX ISA 9.7.15.6.2).
    fn source(&self, size: usize, row: usize, chunk: usize) -> (usize, usize) {
        let first = row / 16 * 32 + row % 8 * 4;
        let lower = row % 16 / 8;
        if size == 1 {
            // Thread 0 of four has K of 0 to 31 of the upper row, thread 1 of the lower, 2 and 3 those of 32 to 63.
            (first + lower + 2 * (chunk / 8), 4 * (chunk % 8))
        } else {
            (
                first + 2 * self.selector + chunk / 4,
                16 * lower + 4 * (chunk % 4),
            )
        }
    }

    fn kernel(&self, of: &Operands) -> Kernel {
        let [d_ty, a_ty, b_ty] = self.types;
        let layout = |swizzle, rows| Layout {
            swizzle,
            transposed: false,
            rows,
        };
        let (a, b) = (
            layout(self.swizzles[0], 64),
            layout(self.swizzles[1], self.n),
        );
        let mut image = a.image(&of.a.0, of.k / 2, of.size);
        let b_start = 1024 + image.len() as u64;
        image.extend(b.image(&of.b.0, of.k, of.size));
        let accumulators = self.accumulators();
        let list: Vec<String> = (0..accumulators).map(|i| format!("%d{i}")).collect();
        let class = if d_ty == "f32" { "f32" } else { "b32" };
        let a_operand = if self.in_registers {
            "{%r30, %r31, %r32, %r33}"
        } else {
            "%rd10"
        };
        let immediates = match (a_ty, self.in_registers) {
            ("f16" | "bf16", false) => ", 1, 1, 0, 0",
            ("f16" | "bf16", true) => ", 1, 1, 0",
            ("s8" | "u8", _) => "",
            _ => ", 1, 1",
        };
        let product = |scale: &str| {
            format!(
                "wgmma.mma_async.sp.sync.aligned.m64n{}k{}.{d_ty}.{a_ty}.{b_ty} {{{}}}, {a_operand}, %rd11, %r40, {}, {scale}{immediates};\n",
                self.n,
                of.k,
                list.join(", "),
                self.selector
            )
        };
        let stores: String = (list.iter().enumerate())
            .map(|(i, register)| format!("st.global.b32 [%rd6+{}], {register};\n", 4 * i))
            .collect();
        let body = format!(
            ".reg .{class} %d<{accumulators}>;
            .shared .align 1024 .b8 image[{}];
            mov.u32 %r1, %tid.x;
            mov.u32 %r2, image;
            shl.b32 %r3, %r1, 2;
            cvt.u64.u32 %rd1, %r3;
            add.u64 %rd3, %in3, %rd1;
            ld.global.u32 %r40, [%rd3];
            add.u32 %r4, %r2, %r3;
            mov.u32 %r5, 0;
            add.u64 %rd2, %in0, %rd1;
            $copy:
            ld.global.u32 %r6, [%rd2];
            st.shared.u32 [%r4], %r6;
            add.u32 %r4, %r4, 512;
            add.u64 %rd2, %rd2, 512;
            add.u32 %r5, %r5, 128;
            setp.lt.u32 %p1, %r5, {};
            @%p1 bra $copy;
            {}
            fence.proxy.async.shared::cta;
            bar.sync 0;
            mov.b64 %rd10, {};
            mov.b64 %rd11, {};
            setp.ne.u32 %p2, %r1, %r1;
            wgmma.fence.sync.aligned;
            {}{}
            wgmma.commit_group.sync.aligned;
            wgmma.wait_group.sync.aligned 0;
            mul.wide.u32 %rd5, %r1, {};
            add.u64 %rd6, %in1, %rd5;
            {stores}",
            image.len(),
            image.len() / 4,
            fragment_of_rows(of.size),
            a.descriptor(1024, of.size) as i64,
            b.descriptor(b_start, of.size) as i64,
            product("%p2"),
            product("1"),
            4 * accumulators,
        );
        Kernel::new(&body)
            .threads(128)
            .words(words(&image))
            .out(512 * accumulators)
            .words(words(&of.a.0))
            .words(of.metadata.clone())
    }

    fn accumulators(&self) -> usize {
        self.n / 2 / if self.types[0] == "f16" { 2 } else { 1 }
    }

    /// The product, twice on the same accumulators.
    fn check(&self) {
        let of = self.operands(17);
        let found = self.kernel(&of).run().words(1);
        let (kept, accumulators) = (of.k / 2, self.accumulators());
        for thread in 0..128 {
            for i in 0..self.n / 2 {
                let row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2);
                let column = i / 4 * 8 + thread % 4 * 2 + i % 2;
                let packed = row * kept..(row + 1) * kept;
                let once: f64 = packed
                    .map(|at| of.a.1[at] * of.b.1[column * of.k + of.places[at]])
                    .sum();
                let word = |register: usize| found[thread * accumulators + register];
                let got = match self.types[0] {
                    "f16" => {
                        let bits = word(i / 2) >> (16 * (i % 2)) & 0xffff;
                        assert_eq!(bits, f16_bits(2 * once as i32).into());
                        continue;
                    }
                    "s32" => f64::from(word(i) as i32),
                    _ => f64::from(f32::from_bits(word(i))),
                };
                assert_eq!(
                    got,
                    2.0 * once,
                    "{:?} row {row} column {column}",
                    self.types
                );
            }
        }
    }
}

/// Rows of 32 bytes, lane by lane, as `ldmatrix` would bring them.
fn fragment_of_rows(size: usize) -> String {
    let per = 4 / size;
    let load = |i: usize| {
        format!(
            "shr.u32 %r20, %r1, 5; and.b32 %r20, %r20, 3; shl.b32 %r20, %r20, 4; and.b32 %r21, %r1, 31; shr.u32 %r21, %r21, 2;
            add.u32 %r20, %r20, %r21; add.u32 %r20, %r20, {}; mul.lo.u32 %r20, %r20, 32; and.b32 %r21, %r1, 3;
            mad.lo.u32 %r20, %r21, {}, %r20; add.u32 %r20, %r20, {}; cvt.u64.u32 %rd5, %r20; add.u64 %rd5, %in2, %rd5;
            ld.global.b32 %r{}, [%rd5];\n",
            8 * (i % 2),
            per * size,
            4 * per * size * (i / 2),
            30 + i
        )
    };
    (0..4).map(load).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

#[test]
fn sparse_products_of_every_type() {
    let of = |types, swizzles, in_registers, selector| Sparse {
        types,
        n: 32,
        swizzles,
        in_registers,
        selector,
    };
    for in_registers in [false, true] {
        for selector in [0, 1] {
            of(["f32", "bf16", "bf16"], [32, 64], in_registers, selector).check();
            of(["f16", "f16", "f16"], [128, 128], in_registers, selector).check();
            of(["f32", "tf32", "tf32"], [64, 128], in_registers, selector).check();
        }
        of(["f32", "e4m3", "e5m2"], [32, 64], in_registers, 0).check();
        of(["f16", "e5m2", "e4m3"], [128, 64], in_registers, 0).check();
        of(["s32", "s8", "u8"], [64, 128], in_registers, 0).check();
    }
    let mut wide = of(["f32", "bf16", "bf16"], [128, 128], false, 1);
    wide.n = 256;
    wide.check();
}

/// One wrong group of four, in the first chunk of a row.
#[track_caller]
fn check_fault(types: [&'static str; 3], bits: u32, expected: Option<&str>) {
    let sparse = Sparse {
        types,
        n: 8,
        swizzles: [32, 64],
        in_registers: false,
        selector: 0,
    };
    let mut of = sparse.operands(5);
    let (thread, bit) = sparse.source(of.size, 19, 1);
    of.metadata[thread] = of.metadata[thread] & !(0xf << bit) | bits << bit;
    let kernel = sparse.kernel(&of);
    match expected {
        None => drop(kernel.run()),
        Some(expected) => {
            let fault = kernel.fault();
            assert_eq!(
                (fault.kind, fault.message.as_str()),
                (FaultKind::Wgmma, expected)
            );
        }
    }
}

#[test]
fn undefined_metadata_is_a_fault() {
    let half = ["f32", "bf16", "bf16"];
    for bits in 0..16_u32 {
        let is_ascending = bits & 3 < bits >> 2;
        let message = format!(
            "the metadata {bits:#06b} of chunk 1 of row 3 of the warp does not name different elements in ascending order, which is undefined"
        );
        check_fault(half, bits, (!is_ascending).then_some(&message));
        let is_one = matches!(bits, 0b0100 | 0b1110);
        check_fault(["f32", "tf32", "tf32"], bits, (!is_one).then_some(&message));
    }
}

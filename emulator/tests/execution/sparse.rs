//! Sparse products of a warpgroup, `wgmma.mma_async.sp`, against the host.

use crate::kernel::{Kernel, Random};
use crate::matrices::{Layout, elements};
use crate::warpgroup::{WarpgroupProduct, accumulators, check_twice, fragment_of_rows, words};
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
        self.kernel_with(of, "")
    }

    /// The same with these instructions behind each product, in front of the wait.
    fn kernel_with(&self, of: &Operands, behind: &str) -> Kernel {
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
        let loads = "add.u64 %rd3, %in3, %rd1; ld.global.u32 %r40, [%rd3];\n".to_owned()
            + &fragment_of_rows(of.size);
        let warpgroup = WarpgroupProduct {
            d_ty,
            n: self.n,
            image: image.len() / 4,
            loads: &loads,
            descriptors: [a.descriptor(1024, of.size), b.descriptor(b_start, of.size)],
        };
        let body = warpgroup.body(|list, scale| {
            format!(
                "wgmma.mma_async.sp.sync.aligned.m64n{}k{}.{d_ty}.{a_ty}.{b_ty} {{{list}}}, {a_operand}, %rd11, %r40, {}, {scale}{immediates};\n{behind}",
                self.n, of.k, self.selector
            )
        });
        Kernel::new(&body)
            .threads(128)
            .words(words(&image))
            .out(512 * accumulators(d_ty, self.n))
            .words(words(&of.a.0))
            .words(of.metadata.clone())
    }

    /// The product, twice on the same accumulators.
    fn check(&self) {
        let of = self.operands(17);
        let found = self.kernel(&of).run().words(1);
        let kept = of.k / 2;
        let once = |row: usize, column: usize| {
            let packed = row * kept..(row + 1) * kept;
            let terms = packed.map(|at| of.a.1[at] * of.b.1[column * of.k + of.places[at]]);
            terms.sum()
        };
        let what = format!("{:?}", self.types);
        check_twice((self.types[0], self.n), &found, once, &what);
    }
}

#[test]
fn sparse_products_of_every_type_are_exact() {
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

/// On an H200 products whose metadata was loaded anew while they were in flight were wrong: the register is read until they have completed.
#[test]
fn metadata_of_a_product_in_flight_is_not_written() {
    let sparse = Sparse {
        types: ["f32", "bf16", "bf16"],
        n: 8,
        swizzles: [32, 64],
        in_registers: false,
        selector: 0,
    };
    let of = sparse.operands(5);
    let fault = sparse
        .kernel_with(&of, "mov.u32 %r40, 0x44444444;\n")
        .fault();
    let expected = "while that product is in flight; wgmma.wait_group must precede the write";
    assert!(
        fault.kind == FaultKind::Wgmma && fault.message.ends_with(expected),
        "{fault}"
    );
    // It may be read, and what it has may be written again, as where a loop packs the same metadata anew.
    for harmless in ["mov.u32 %r41, %r40;\n", "mov.u32 %r40, %r40;\n"] {
        drop(sparse.kernel_with(&of, harmless).run());
    }
}

//! Scans along every axis of every layout, both ways. The functions combined are affine maps, whose composition is
//! associative and not commutative, so that a wrong order shows.

use ir::elem::DType;

use crate::family::{MATRICES, SOLIDS, VECTORS};
use crate::kernel::{Kernel, coordinates, from_bytes, noise, number, to_bytes};

/// Makes a kernel scan maps `x -> a x + b`, given by two tensors of a type.
fn affine(
    mut kernel: Kernel,
    layout: &str,
    shape: &[u32],
    dtype: DType,
    scan: (usize, bool),
) -> Kernel {
    let (axis, is_reverse) = scan;
    let form = kernel.form("l", layout, shape);
    kernel.load("a", dtype, &form);
    kernel.load("b", dtype, &form);
    let reverse = if is_reverse { ", is_reverse=true" } else { "" };
    let others = shape.iter().enumerate().filter(|(dim, _)| *dim != axis);
    let others: Vec<u32> = others.map(|(_, size)| *size).collect();
    let of_totals = match &others[..] {
        [] => None,
        left => Some(kernel.form("t", &format!("Slice({axis}, {layout})"), left)),
    };
    let total = of_totals
        .as_ref()
        .map_or_else(|| dtype.to_string(), |form| form.of(dtype.name()));
    kernel.line(&format!(
        "%sa, %sb, %ta, %tb = scan [%a_v, %b_v] {{axis={axis}{reverse}, has_totals=true}} (%la: {dtype}, %lb: {dtype}, %ra: {dtype}, %rb: {dtype}) {{"
    ));
    kernel.line(&format!("  %p = binary %la, %ra {{op=mul}} : {dtype}"));
    kernel.line(&format!("  %q = binary %lb, %ra {{op=mul}} : {dtype}"));
    kernel.line(&format!("  %t = binary %q, %rb {{op=add}} : {dtype}"));
    kernel.line("  yield [%p, %t]");
    let ty = form.of(dtype.name());
    kernel.line(&format!("}} : {ty}, {ty}, {total}, {total}"));
    kernel.store("outa", dtype, &form, "sa");
    kernel.store("outb", dtype, &form, "sb");
    for name in ["ta", "tb"] {
        if let Some(form) = &of_totals {
            kernel.store(&format!("out{name}"), dtype, form, name);
        } else {
            kernel.pointer(&format!("out{name}"), dtype);
            kernel.line(&format!("store %out{name}, %{name}"));
        }
    }
    kernel
}

/// What a scan gives: each element combined with all that come before it.
fn scanned<T: Copy>(
    values: &[T],
    shape: &[u32],
    (axis, is_reverse): (usize, bool),
    combine: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut found = values.to_vec();
    let size = shape[axis] as usize;
    let along = |step: usize| if is_reverse { size - 1 - step } else { step };
    let all: Vec<_> = (0..values.len()).map(|at| coordinates(at, shape)).collect();
    for step in 1..size {
        for at in 0..values.len() {
            if all[at][axis] == along(step) {
                let mut coords = all[at].clone();
                coords[axis] = along(step - 1);
                found[at] = combine(found[number(&coords, shape)], values[at]);
            }
        }
    }
    found
}

/// Scans noise, and compares with the host.
#[track_caller]
pub(crate) fn check(layout: &str, warps: u32, shape: &[u32], dtype: DType, scan: (usize, bool)) {
    check_kernel(Kernel::new(warps), layout, shape, dtype, scan);
}

/// The same by a kernel of some warps and CTAs; gives the kernel.
#[track_caller]
pub(crate) fn check_kernel(
    kernel: Kernel,
    layout: &str,
    shape: &[u32],
    dtype: DType,
    scan: (usize, bool),
) -> Kernel {
    let count = shape.iter().product::<u32>() as usize;
    let mask = u64::MAX >> (64 - dtype.bits());
    let cut = |values: Vec<u64>| -> Vec<u64> { values.iter().map(|v| v & mask).collect() };
    let (a, b) = (cut(noise(count, 1)), cut(noise(count, 2)));
    let blank = vec![0; count * dtype.bytes() as usize];
    let kernel = affine(kernel, layout, shape, dtype, scan);
    let of_totals = vec![0; blank.len() / shape[scan.0] as usize];
    let buffers = [
        to_bytes(&a, dtype),
        to_bytes(&b, dtype),
        blank.clone(),
        blank,
        of_totals.clone(),
        of_totals,
    ];
    let found = kernel.run(&buffers);
    let pairs: Vec<(u64, u64)> = a.into_iter().zip(b).collect();
    let wanted = scanned(&pairs, shape, scan, |l, r| {
        (
            l.0.wrapping_mul(r.0) & mask,
            l.1.wrapping_mul(r.0).wrapping_add(r.1) & mask,
        )
    });
    let pairs = |at: usize| -> Vec<(u64, u64)> {
        let firsts = from_bytes(&found[at], dtype).into_iter();
        firsts.zip(from_bytes(&found[at + 1], dtype)).collect()
    };
    assert_eq!(
        pairs(2),
        wanted,
        "{scan:?} of {shape:?} {dtype} in {layout}"
    );
    let last = if scan.1 {
        0
    } else {
        shape[scan.0] as usize - 1
    };
    let is_last = |at: &usize| coordinates(*at, shape)[scan.0] == last;
    let totals: Vec<(u64, u64)> = (0..count).filter(is_last).map(|at| wanted[at]).collect();
    assert_eq!(
        pairs(4),
        totals,
        "totals, {scan:?} of {shape:?} {dtype} in {layout}"
    );
    kernel
}

#[test]
fn matrices_along_both_axes_and_both_ways() {
    for (at, &(layout, warps)) in MATRICES.iter().enumerate() {
        for (turn, shape) in [[32, 64], [4, 16], [1, 128], [64, 1]].iter().enumerate() {
            let dtypes = [DType::I32, DType::U64, DType::I8, DType::I16];
            let dtype = dtypes[(at + turn) % dtypes.len()];
            for axis in [0, 1] {
                check(
                    layout,
                    warps,
                    shape,
                    dtype,
                    (axis, (at + turn + axis) % 2 == 1),
                );
                check(
                    layout,
                    warps,
                    &[16, 32],
                    DType::U32,
                    (axis, (at + turn + axis) % 2 == 0),
                );
            }
        }
    }
}

#[test]
fn vectors_of_all_lengths() {
    for &(layout, warps) in VECTORS {
        for length in [1, 2, 8, 64, 256, 2048] {
            for is_reverse in [false, true] {
                check(layout, warps, &[length], DType::U32, (0, is_reverse));
            }
        }
    }
}

#[test]
fn three_dimensions() {
    for &(layout, warps) in SOLIDS {
        for axis in 0..3 {
            check(layout, warps, &[8, 16, 4], DType::I32, (axis, axis == 1));
        }
    }
}

#[test]
fn floats_and_booleans() {
    for &(layout, warps) in MATRICES {
        for (dtype, op) in [
            (DType::F32, "add"),
            (DType::F64, "max"),
            (DType::F16, "max"),
            (DType::I1, "xor"),
        ] {
            let mut kernel = Kernel::new(warps);
            let shape = [16, 32];
            let form = kernel.form("l", layout, &shape);
            kernel.load("x", dtype, &form);
            kernel.line(&format!(
                "%s = scan [%x_v] {{axis=1}} (%a: {dtype}, %b: {dtype}) {{"
            ));
            kernel.line(&format!("  %c = binary %a, %b {{op={op}}} : {dtype}"));
            kernel.line("  yield [%c]");
            kernel.line(&format!("}} : {}", form.of(dtype.name())));
            kernel.store("out", dtype, &form, "s");
            // Small integers add up without rounding, so that the order does not matter here.
            let numbers: Vec<i64> = noise(512, 3)
                .iter()
                .map(|n| (n >> 20) as i64 % 100)
                .collect();
            let bits = |n: i64| match dtype {
                DType::F32 => u64::from((n as f32).to_bits()),
                DType::F64 => (n as f64).to_bits(),
                DType::F16 => u64::from(half::f16::from_f64(n as f64).to_bits()),
                _ => (n & 1) as u64,
            };
            let combined = |a: i64, b: i64| match op {
                "add" => a + b,
                "max" => a.max(b),
                _ => a ^ b,
            };
            let raw: Vec<u64> = numbers.iter().map(|&n| bits(n)).collect();
            let found = kernel.run(&[to_bytes(&raw, dtype), vec![0; 512 * dtype.bytes() as usize]]);
            let wanted: Vec<u64> = scanned(&numbers, &shape, (1, false), combined)
                .into_iter()
                .map(bits)
                .collect();
            assert_eq!(
                from_bytes(&found[1], dtype),
                wanted,
                "{op} of {dtype} in {layout}"
            );
        }
    }
}

#[test]
fn the_assembler_takes_every_kind() {
    for &(layout, warps) in MATRICES {
        for axis in [0, 1] {
            affine(
                Kernel::new(warps),
                layout,
                &[32, 64],
                DType::I32,
                (axis, axis == 1),
            )
            .assemble();
        }
    }
}

#[test]
fn what_a_scan_gives_is_not_alike_where_its_operand_is() {
    // Ones are alike in every place, and their sums are not: as pointers they reach every element.
    let mut kernel = Kernel::new(4);
    let form = kernel.form("l", "Blocked([4], [32], [4], [0])", &[512]);
    kernel.line(&format!("%one = constant {{value=1}} : {}", form.of("i32")));
    kernel.line("%s = scan [%one] {axis=0} (%a: i32, %b: i32) {");
    kernel.line("  %c = binary %a, %b {op=add} : i32");
    kernel.line("  yield [%c]");
    kernel.line(&format!("}} : {}", form.of("i32")));
    kernel.line(&format!(
        "%at = binary %s, %one {{op=sub}} : {}",
        form.of("i32")
    ));
    kernel.line(&format!(
        "%bound = constant {{value=257}} : {}",
        form.of("i32")
    ));
    kernel.line(&format!(
        "%inside = compare %at, %bound {{op=lt}} : {}",
        form.of("i1")
    ));
    kernel.pointers("out", DType::I32, &form, "at");
    kernel.line("store %out_p, %s, mask=%inside");
    let found = kernel.run(&[vec![0; 2048]]);
    let wanted: Vec<u64> = (0..512)
        .map(|at| if at < 257 { at + 1 } else { 0 })
        .collect();
    assert_eq!(from_bytes(&found[0], DType::I32), wanted);
}

#[test]
fn extents_that_are_no_powers_of_two() {
    for (layout, warps, shape) in [
        ("Blocked([4], [32], [4], [0])", 4, &[384_u32][..]),
        ("Blocked([1], [32], [4], [0])", 4, &[176]),
        ("Blocked([2], [32], [2], [0])", 2, &[7]),
        ("Blocked([1, 4], [4, 8], [2, 1], [1, 0])", 2, &[48, 80]),
        ("Blocked([2, 2], [8, 4], [1, 2], [0, 1])", 2, &[24, 96]),
        (
            "Slice(1, Blocked([1, 4, 1], [2, 4, 4], [2, 1, 1], [2, 0, 1]))",
            2,
            &[12, 40],
        ),
        ("Wgmma([4, 1], [64, 176, 16])", 4, &[64, 176]),
    ] {
        for axis in 0..shape.len() {
            for (dtype, is_reverse) in [(DType::I32, false), (DType::I64, true), (DType::I16, true)]
            {
                check(layout, warps, shape, dtype, (axis, is_reverse));
            }
        }
    }
}

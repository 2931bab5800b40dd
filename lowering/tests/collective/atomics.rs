//! Atomics: each element once whatever holds it, what was there told to everyone, and order between CTAs.

use half::{bf16, f16};
use ir::elem::DType;
use ir::ops::atomic::AtomicOp;

use crate::family::{MATRICES, VECTORS};
use crate::kernel::{Kernel, from_bytes, noise, to_bytes};

const I32: DType = DType::I32;

#[test]
fn each_element_counts_once() {
    for &(layout, warps) in MATRICES {
        for shape in [[16, 32], [4, 4], [1, 64], [1, 1]] {
            let count = (shape[0] * shape[1]) as usize;
            let mut kernel = Kernel::new(warps);
            let form = kernel.form("l", layout, &shape);
            kernel.line(&format!(
                "%seven = constant {{value=7}} : {}",
                form.of("i32")
            ));
            kernel.line(&format!("%one = constant {{value=1}} : {}", form.of("i32")));
            kernel.line(&format!(
                "%slot = binary %l_at, %seven {{op=rem}} : {}",
                form.of("i32")
            ));
            kernel.pointers("counters", I32, &form, "slot");
            kernel.line(&format!(
                "%old = atomic_rmw %counters_p, %one {{op=add, semantics=relaxed}} : {}",
                form.of("i32")
            ));
            kernel.store("out", I32, &form, "old");
            let found = kernel.run(&[vec![0; 28], vec![0xff; count * 4]]);
            let mut tickets: Vec<Vec<u64>> = vec![Vec::new(); 7];
            for (at, old) in from_bytes(&found[1], I32).into_iter().enumerate() {
                tickets[at % 7].push(old);
            }
            for (slot, mut seen) in tickets.into_iter().enumerate() {
                seen.sort_unstable();
                let members = (0..count).filter(|at| at % 7 == slot).count() as u64;
                assert_eq!(
                    seen,
                    (0..members).collect::<Vec<_>>(),
                    "slot {slot} of {shape:?} in {layout}"
                );
                assert_eq!(
                    from_bytes(&found[0], I32)[slot],
                    members,
                    "slot {slot} of {shape:?} in {layout}"
                );
            }
        }
    }
}

/// The operation on the bits of two elements.
fn reference(op: AtomicOp, dtype: DType, old: u64, value: u64) -> u64 {
    let mask = u64::MAX >> (64 - dtype.bits());
    let float = |bits: u64| match dtype {
        DType::F16 => f16::from_bits(bits as u16).to_f64(),
        DType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    };
    let signed = |bits: u64| (bits << (64 - dtype.bits())) as i64;
    let is_less = |a: u64, b: u64| {
        if dtype.is_float() {
            float(a).total_cmp(&float(b)).is_lt()
        } else if dtype.is_signed_int() {
            signed(a) < signed(b)
        } else {
            a < b
        }
    };
    match op {
        AtomicOp::Add => match dtype {
            DType::F16 => f16::from_f64(float(old) + float(value)).to_bits().into(),
            DType::Bf16 => bf16::from_f64(float(old) + float(value)).to_bits().into(),
            DType::F32 => (f32::from_bits(old as u32) + f32::from_bits(value as u32))
                .to_bits()
                .into(),
            DType::F64 => (float(old) + float(value)).to_bits(),
            _ => old.wrapping_add(value) & mask,
        },
        AtomicOp::Min => {
            if is_less(value, old) {
                value
            } else {
                old
            }
        }
        AtomicOp::Max => {
            if is_less(old, value) {
                value
            } else {
                old
            }
        }
        AtomicOp::And => old & value,
        AtomicOp::Or => old | value,
        AtomicOp::Xor => old ^ value,
        AtomicOp::Exchange => value,
    }
}

/// Elements without NaN: for floats, numbers of both signs and both zeros.
fn elements(dtype: DType, count: usize, seed: u64) -> Vec<u64> {
    let numbers = noise(count, seed).into_iter().map(|n| {
        let number = ((n >> 30) % 4001) as f64 / 8.0 - 250.0;
        let number = if n % 11 == 0 {
            0.0_f64.copysign(number)
        } else {
            number
        };
        match dtype {
            DType::F16 => u64::from(f16::from_f64(number).to_bits()),
            DType::Bf16 => u64::from(bf16::from_f64(number).to_bits()),
            DType::F32 => u64::from((number as f32).to_bits()),
            DType::F64 => number.to_bits(),
            _ => n & (u64::MAX >> (64 - dtype.bits())),
        }
    });
    numbers.collect()
}

#[test]
fn all_operations_on_all_types() {
    for op in AtomicOp::ALL.iter().copied() {
        for dtype in DType::ALL.into_iter().filter(|d| op.accepts(*d)) {
            for (at, &(layout, warps)) in VECTORS.iter().enumerate() {
                let is_used = at % 2 == 0;
                let mut kernel = Kernel::new(warps);
                let form = kernel.form("l", layout, &[64]);
                kernel.load("x", dtype, &form);
                kernel.pointers("memory", dtype, &form, "l_at");
                kernel.line(&format!(
                    "%three = constant {{value=3}} : {}",
                    form.of("i32")
                ));
                kernel.line(&format!(
                    "%third = binary %l_at, %three {{op=rem}} : {}",
                    form.of("i32")
                ));
                kernel.line(&format!(
                    "%mask = compare %third, %l_z {{op=ne}} : {}",
                    form.of("i1")
                ));
                let semantics = ["acq_rel", "acquire", "release", "relaxed"][at % 4];
                kernel.line(&format!(
                    "%old = atomic_rmw %memory_p, %x_v, mask=%mask {{op={op}, semantics={semantics}}} : {}",
                    form.of(dtype.name())
                ));
                if is_used {
                    kernel.store("out", dtype, &form, "old");
                }
                let (x, memory) = (elements(dtype, 64, 5), elements(dtype, 64, 6));
                let size = 64 * dtype.bytes() as usize;
                let mut buffers = vec![to_bytes(&x, dtype), to_bytes(&memory, dtype)];
                if is_used {
                    buffers.push(vec![0xee; size]);
                }
                let found = kernel.run(&buffers);
                let is_done = |at: usize| at % 3 != 0;
                let wanted: Vec<u64> = (0..64)
                    .map(|i| {
                        if is_done(i) {
                            reference(op, dtype, memory[i], x[i])
                        } else {
                            memory[i]
                        }
                    })
                    .collect();
                assert_eq!(
                    from_bytes(&found[1], dtype),
                    wanted,
                    "{op} of {dtype} in {layout}"
                );
                if is_used {
                    let old: Vec<u64> = (0..64)
                        .map(|i| if is_done(i) { memory[i] } else { 0 })
                        .collect();
                    assert_eq!(
                        from_bytes(&found[2], dtype),
                        old,
                        "old of {op} of {dtype} in {layout}"
                    );
                }
                if at < 2 {
                    kernel.assemble();
                }
            }
        }
    }
}

#[test]
fn compare_and_swap_on_all_widths() {
    let dtypes = DType::ALL.into_iter().filter(|d| d.bits() >= 16);
    for dtype in dtypes {
        for (at, &(layout, warps)) in VECTORS.iter().enumerate() {
            let mut kernel = Kernel::new(warps);
            let form = kernel.form("l", layout, &[32]);
            kernel.load("expected", dtype, &form);
            kernel.load("x", dtype, &form);
            kernel.pointers("memory", dtype, &form, "l_at");
            kernel.line(&format!(
                "%old = atomic_cas %memory_p, %expected_v, %x_v {{scope=sys}} : {}",
                form.of(dtype.name())
            ));
            kernel.store("out", dtype, &form, "old");
            let (memory, x) = (elements(dtype, 32, 7), elements(dtype, 32, 8));
            let expected: Vec<u64> = (0..32)
                .map(|i| if i % 2 == 0 { memory[i] } else { x[i] ^ 1 })
                .collect();
            let blank = vec![0; 32 * dtype.bytes() as usize];
            let found = kernel.run(&[
                to_bytes(&expected, dtype),
                to_bytes(&x, dtype),
                to_bytes(&memory, dtype),
                blank,
            ]);
            let wanted: Vec<u64> = (0..32)
                .map(|i| {
                    if memory[i] == expected[i] {
                        x[i]
                    } else {
                        memory[i]
                    }
                })
                .collect();
            assert_eq!(from_bytes(&found[2], dtype), wanted, "{dtype} in {layout}");
            assert_eq!(
                from_bytes(&found[3], dtype),
                memory,
                "old of {dtype} in {layout}"
            );
            if at == 0 {
                kernel.assemble();
            }
        }
    }
}

#[test]
fn loads_and_stores_of_all_types() {
    for dtype in DType::ALL {
        for (at, &(layout, warps)) in VECTORS.iter().enumerate() {
            let mut kernel = Kernel::new(warps);
            let form = kernel.form("l", layout, &[64]);
            kernel.pointers("x", dtype, &form, "l_at");
            let (load, store) = [("acquire", "release"), ("relaxed", "relaxed")][at % 2];
            let scope = ["gpu", "cta", "cluster", "sys"][at % 4];
            kernel.line(&format!(
                "%v = atomic_load %x_p {{semantics={load}, scope={scope}}} : {}",
                form.of(dtype.name())
            ));
            kernel.pointers("out", dtype, &form, "l_at");
            kernel.line(&format!(
                "atomic_store %out_p, %v {{semantics={store}, scope={scope}}}"
            ));
            let x: Vec<u64> = elements(dtype, 64, 9);
            let raw = to_bytes(&x, dtype);
            let found = kernel.run(&[raw.clone(), vec![0xee; raw.len()]]);
            assert_eq!(found[1], raw, "{dtype} in {layout}");
            if at < 4 {
                kernel.assemble();
            }
        }
    }
}

#[test]
fn results_of_atomics_are_broadcast_to_all_copies() {
    // A row of results is repeated over a matrix, so that the copies of it are what is stored.
    for &(layout, warps) in MATRICES {
        for (axis, length) in [(0, 32), (1, 16)] {
            let mut kernel = Kernel::new(warps);
            let matrix = kernel.form("m", layout, &[16, 32]);
            let vector = kernel.form("v", &format!("Slice({axis}, {layout})"), &[length]);
            kernel.line(&format!(
                "%one = constant {{value=1}} : {}",
                vector.of("i32")
            ));
            kernel.pointers("counters", I32, &vector, "v_at");
            kernel.line(&format!(
                "%old = atomic_rmw %counters_p, %one {{op=add}} : {}",
                vector.of("i32")
            ));
            let column = kernel.expanded("old", axis, &matrix, length);
            kernel.line(&format!(
                "%all = broadcast %{column} : {}",
                matrix.of("i32")
            ));
            kernel.store("out", I32, &matrix, "all");
            let counters: Vec<u64> = (0..length).map(|i| u64::from(i) * 3 + 1).collect();
            let found = kernel.run(&[to_bytes(&counters, I32), vec![0; 2048]]);
            let wanted: Vec<u64> = (0..512)
                .map(|i| counters[if axis == 0 { i % 32 } else { i / 32 }])
                .collect();
            assert_eq!(
                from_bytes(&found[1], I32),
                wanted,
                "axis {axis} of {layout}"
            );
            let after: Vec<u64> = counters.iter().map(|c| c + 1).collect();
            assert_eq!(from_bytes(&found[0], I32), after, "axis {axis} of {layout}");
        }
    }
}

#[test]
fn ctas_take_tickets() {
    for warps in [1, 4] {
        let mut kernel = Kernel::new(warps);
        kernel.pointer("counter", I32);
        let form = kernel.form("l", &format!("Blocked([1], [32], [{warps}], [0])"), &[64]);
        kernel.line("%one = constant {value=1} : i32");
        kernel.line("%ticket = atomic_rmw %counter, %one {op=add, semantics=relaxed} : i32");
        kernel.line("%width = constant {value=64} : i32");
        kernel.line("%start = binary %ticket, %width {op=mul} : i32");
        kernel.line(&format!("%starts = splat %start : {}", form.of("i32")));
        kernel.line(&format!(
            "%place = binary %starts, %l_at {{op=add}} : {}",
            form.of("i32")
        ));
        kernel.pointers("out", I32, &form, "place");
        kernel.line("store %out_p, %place");
        let found = kernel.run_in(8, &[vec![0; 4], vec![0xff; 8 * 64 * 4]]);
        assert_eq!(from_bytes(&found[0], I32), [8]);
        assert_eq!(from_bytes(&found[1], I32), (0..512).collect::<Vec<_>>());
        kernel.assemble();
    }
}

#[test]
fn one_cta_hands_a_tile_to_another() {
    // CTA 0 writes a tile and releases a flag; CTA 1 waits for the flag and copies the tile.
    let text = "#l = Blocked([1], [32], [4], [0])
kernel @k(%tile: ptr<i32> {divisor=16}, %flag: ptr<i32>, %out: ptr<i32> {divisor=16}) warps(4) {
  %me = program_id {axis=x} : i32
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %i = arange {start=0, end=512} : tensor<512xi32, #l>
  %ts = splat %tile : tensor<512xptr<i32>, #l>
  %tp = ptr_add %ts, %i : tensor<512xptr<i32>, #l>
  %first = compare %me, %zero {op=eq} : i1
  if %first () {
    store %tp, %i
    atomic_store %flag, %one {semantics=release}
    yield []
  } () {
    while [] () {
      %seen = atomic_load %flag {semantics=acquire} : i32
      %wait = compare %seen, %zero {op=eq} : i1
      condition %wait, []
    } () {
      yield []
    }
    %v = load %tp : tensor<512xi32, #l>
    %os = splat %out : tensor<512xptr<i32>, #l>
    %op = ptr_add %os, %i : tensor<512xptr<i32>, #l>
    store %op, %v
    yield []
  }
  return
}
";
    let found = crate::kernel::run(text, 2, &[vec![0; 2048], vec![0; 4], vec![0xff; 2048]]);
    assert_eq!(from_bytes(&found[2], I32), (0..512).collect::<Vec<_>>());
}

#[test]
fn neighbouring_floats_are_added_together() {
    for (dtype, wide) in [
        (DType::F32, "red.relaxed.gpu.global.add.v4.f32"),
        (DType::F16, "red.relaxed.gpu.global.add.noftz.v4.f16x2"),
        (DType::Bf16, "red.relaxed.gpu.global.add.noftz.v4.bf16x2"),
    ] {
        for (layout, warps) in [
            ("Blocked([8], [32], [2], [0])", 2),
            ("Slice(1, Blocked([8, 1], [16, 2], [2, 2], [1, 0]))", 4),
        ] {
            // In no run, in whole runs, and within a run the mask ends.
            for end in [1024, 512, 301] {
                let mut kernel = Kernel::new(warps);
                let form = kernel.form("l", layout, &[1024]);
                kernel.load("x", dtype, &form);
                kernel.pointers("memory", dtype, &form, "l_at");
                let mut mask = "";
                if end < 1024 {
                    kernel.line(&format!(
                        "%bound = constant {{value={end}}} : {}",
                        form.of("i32")
                    ));
                    kernel.line(&format!(
                        "%mask = compare %l_at, %bound {{op=lt}} : {}",
                        form.of("i1")
                    ));
                    mask = ", mask=%mask";
                }
                kernel.line(&format!(
                    "%old = atomic_rmw %memory_p, %x_v{mask} {{op=add, semantics=relaxed}} : {}",
                    form.of(dtype.name())
                ));
                let (x, memory) = (elements(dtype, 1024, 15), elements(dtype, 1024, 16));
                let found = kernel.run(&[to_bytes(&x, dtype), to_bytes(&memory, dtype)]);
                let wanted: Vec<u64> = (0..1024)
                    .map(|i| {
                        let is_done = i < end;
                        if is_done {
                            reference(AtomicOp::Add, dtype, memory[i], x[i])
                        } else {
                            memory[i]
                        }
                    })
                    .collect();
                assert_eq!(from_bytes(&found[1], dtype), wanted, "{dtype} in {layout}");
                let ptx = kernel.assemble();
                assert!(ptx.contains(wide), "{dtype} in {layout}\n{ptx}");
            }
        }
    }
}

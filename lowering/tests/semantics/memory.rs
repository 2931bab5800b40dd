//! Loads and stores of global memory under masks.

use gluon_lang::elem::DType;

use crate::machine::{LEN, elementwise, run};
use crate::values::{bytes, samples, values};

#[test]
fn ragged_masks_keep_what_is_outside() {
    for dtype in [
        DType::I8,
        DType::U16,
        DType::Bf16,
        DType::F32,
        DType::I64,
        DType::I1,
    ] {
        for inside in [0, 1, 3, 37, 128, 255, 256] {
            let body = format!(
                "  %n = constant {{value={inside}}} : tensor<{LEN}xi32, #b>\n  %m = compare %i, %n {{op=lt}} : tensor<{LEN}xi1, #b>\n  %z = load %a1, mask=%m, other=%x0 : tensor<{LEN}x{dtype}, #b>\n  %r = select %m, %z, %x0 : tensor<{LEN}x{dtype}, #b>\n"
            );
            let data = [samples(dtype, 12), samples(dtype, 13)];
            let text = elementwise(&[dtype, dtype], dtype, &body);
            let raw: Vec<Vec<u8>> = data.iter().map(|s| bytes(s, dtype)).collect();
            let found = values(
                &run(&text, &[&raw[0], &raw[1]], LEN * dtype.bytes() as usize),
                dtype,
            );
            let wanted: Vec<u64> = (0..LEN)
                .map(|at| data[usize::from(at < inside)][at])
                .collect();
            assert_eq!(found, wanted, "{dtype}, {inside} inside");
        }
    }
}

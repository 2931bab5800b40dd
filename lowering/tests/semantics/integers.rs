//! Integers of every width and sign: arithmetic, shifts, division by anything.

use ir::elem::DType;

use crate::machine::{LEN, binary_body, check};
use crate::values::{INTS, Number, mask, samples, wrap};

fn int_reference(op: &str, dtype: DType, a: i128, b: i128) -> i128 {
    let bits = i128::from(dtype.bits());
    // A count is a number of the element's type; a negative one is past every width.
    let count = if (0..bits).contains(&b) {
        Some(b as u32)
    } else {
        None
    };
    let value = match op {
        "add" => a + b,
        "sub" => a - b,
        "mul" => a.wrapping_mul(b),
        "mul_high" if dtype == DType::U64 => ((a as u128 * b as u128) >> 64) as i128,
        "mul_high" => (a * b) >> bits,
        "div" => a / b,
        "rem" => a % b,
        "min" => a.min(b),
        "max" => a.max(b),
        "and" => a & b,
        "or" => a | b,
        "xor" => a ^ b,
        "shl" => count.map_or(0, |c| a << c),
        "shr" => a >> count.unwrap_or(bits as u32),
        other => panic!("no reference for {other}"),
    };
    wrap(value, dtype)
}

#[test]
fn integers_compute_as_on_the_host() {
    for dtype in INTS {
        for op in [
            "add", "sub", "mul", "mul_high", "div", "rem", "min", "max", "and", "or", "xor", "shl",
            "shr",
        ] {
            let a = samples(dtype, 1);
            let mut b = samples(dtype, 2);
            if op == "div" || op == "rem" {
                // Divisors 0 and -1 have no quotient for some numbers.
                b.iter_mut()
                    .filter(|b| **b == 0 || **b == mask(dtype))
                    .for_each(|b| *b = 3);
            }
            check(
                &[dtype, dtype],
                dtype,
                &binary_body(op, dtype),
                &[a, b],
                |x| match x {
                    [Number::Int(a), Number::Int(b)] => {
                        Number::Int(int_reference(op, dtype, *a, *b))
                    }
                    _ => panic!("integers"),
                },
            );
        }
    }
}

#[test]
fn division_by_constants_is_division() {
    for dtype in INTS {
        for divisor in [
            1_i128,
            2,
            3,
            5,
            7,
            10,
            16,
            60,
            100,
            127,
            128,
            641,
            1000,
            65535,
            -1,
            -2,
            -3,
            -7,
            -16,
            -100,
            i128::from(i32::MAX),
            i128::from(u32::MAX),
            i128::from(i64::MAX),
            1 << 63,
            -128,
            i128::from(i32::MIN),
            i128::from(i64::MIN),
        ] {
            if wrap(divisor, dtype) != divisor {
                continue;
            }
            for op in ["div", "rem"] {
                let body = format!(
                    "  %d = constant {{value={divisor}}} : tensor<{LEN}x{dtype}, #b>\n  %r = binary %x0, %d {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n"
                );
                check(&[dtype], dtype, &body, &[samples(dtype, 5)], |x| match x {
                    [Number::Int(a)] => Number::Int(int_reference(op, dtype, *a, divisor)),
                    _ => panic!("integers"),
                });
            }
        }
    }
}

#[test]
fn numbers_that_are_never_negative_divide_by_any_constant() {
    for dtype in INTS.into_iter().filter(|dtype| dtype.is_signed_int()) {
        let least = -(1_i128 << (dtype.bits() - 1));
        for divisor in [3, 16, -1, -3, -16, least + 1, least] {
            for op in ["div", "rem"] {
                let body = format!(
                    "  %m = constant {{value=127}} : tensor<{LEN}x{dtype}, #b>\n  %low = binary %x0, %m {{op=and}} : tensor<{LEN}x{dtype}, #b>\n  %d = constant {{value={divisor}}} : tensor<{LEN}x{dtype}, #b>\n  %r = binary %low, %d {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n"
                );
                check(&[dtype], dtype, &body, &[samples(dtype, 6)], |x| match x {
                    [Number::Int(a)] => Number::Int(int_reference(op, dtype, a & 127, divisor)),
                    _ => panic!("integers"),
                });
            }
        }
    }
}

//! What is done alike to integers and floats: comparisons, unary operations, inline PTX.

use ir::elem::DType;

use crate::machine::{LEN, check};
use crate::values::{FLOATS, INTS, Number, samples, wrap};

#[test]
fn comparisons_know_signs_and_nan() {
    for dtype in INTS.into_iter().chain(FLOATS) {
        for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
            let body = format!("  %r = compare %x0, %x1 {{op={op}}} : tensor<{LEN}xi1, #b>\n");
            let (a, b) = (samples(dtype, 6), samples(dtype, 7));
            check(&[dtype, dtype], DType::I1, &body, &[a, b], |x| {
                let holds = match (x[0], x[1]) {
                    (Number::Int(a), Number::Int(b)) => match op {
                        "eq" => a == b,
                        "ne" => a != b,
                        "lt" => a < b,
                        "le" => a <= b,
                        "gt" => a > b,
                        _ => a >= b,
                    },
                    (a, b) => {
                        let (a, b) = (a.float(), b.float());
                        match op {
                            "eq" => a == b,
                            "ne" => a != b,
                            "lt" => a < b,
                            "le" => a <= b,
                            "gt" => a > b,
                            _ => a >= b,
                        }
                    }
                };
                Number::Int(holds.into())
            });
        }
    }
}

#[test]
fn unary_operations_of_all_types() {
    for dtype in INTS {
        for op in ["neg", "abs", "not"] {
            let body = format!("  %r = unary %x0 {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n");
            check(&[dtype], dtype, &body, &[samples(dtype, 9)], |x| match x {
                [Number::Int(a)] => Number::Int(wrap(
                    match op {
                        "neg" => -a,
                        "abs" => a.abs(),
                        _ => !a,
                    },
                    dtype,
                )),
                _ => panic!("integers"),
            });
        }
    }
    for dtype in FLOATS {
        for op in ["neg", "abs", "floor", "ceil"] {
            let body = format!("  %r = unary %x0 {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n");
            check(&[dtype], dtype, &body, &[samples(dtype, 9)], |x| {
                let x = x[0].float();
                Number::Float(match op {
                    "neg" => -x,
                    "abs" => x.abs(),
                    "floor" => x.floor(),
                    _ => x.ceil(),
                })
            });
        }
    }
}

#[test]
fn inline_ptx_runs_for_each_element() {
    let body = format!(
        "  %r = inline_ptx [%x0, %x1] {{text=\"{{ .reg .b32 t; mul.lo.s32 t, $1, $2; add.s32 $0, t, 7; }}\", is_pure=true}} : tensor<{LEN}xi32, #b>\n"
    );
    let data = [samples(DType::I32, 60), samples(DType::I32, 61)];
    check(&[DType::I32; 2], DType::I32, &body, &data, |x| match x {
        [Number::Int(a), Number::Int(b)] => Number::Int(wrap(a * b + 7, DType::I32)),
        _ => panic!("integers"),
    });
}

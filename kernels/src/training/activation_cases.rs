//! Cases of activations and their gradients, against f64.

use tilekit::prelude::*;

use super::activation::{BLOCK, gelu, gelu_backward, swiglu, swiglu_backward};
use super::rows_case::close;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What `of` makes of the elements of several tensors.
fn each<T: DeviceElement, const N: usize>(
    tensors: [&Input<T>; N],
    of: impl Fn([f64; N]) -> f64,
) -> Vec<f64> {
    let element = |at: usize| of(tensors.map(|x| x.host()[at].number().to_f64()));
    (0..tensors[0].host().len()).map(element).collect()
}

fn swiglu_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let [gate, up] = ["gate", "up"].map(|name| case.normal::<T>(name, [n]));
    let out = case.output::<T>("out", [n]);
    case.launch_programmatic(swiglu::<T>, n.div_ceil(BLOCK), (&gate, &up, &out, n as i64))?;
    let reference = || each([&gate, &up], |[gate, up]| gate * sigmoid(gate) * up);
    case.expect_all(&out, reference, close::<T>(1e-6))?;
    case.moves_bytes(3 * n * size_of::<T>());
    Ok(())
}

fn swiglu_backward_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let [gate, up, dout] = ["gate", "up", "dout"].map(|name| case.normal::<T>(name, [n]));
    let [dgate, dup] = ["dgate", "dup"].map(|name| case.output::<T>(name, [n]));
    let arguments = (&gate, &up, &dout, &dgate, &dup, n as i64);
    case.launch_programmatic(swiglu_backward::<T>, n.div_ceil(BLOCK), arguments)?;
    let of_gate = || {
        each([&gate, &up, &dout], |[gate, up, dout]| {
            let s = sigmoid(gate);
            dout * up * s * (1.0 + gate * (1.0 - s))
        })
    };
    case.expect_all(&dgate, of_gate, close::<T>(2e-6))?;
    let of_up = || each([&gate, &dout], |[gate, dout]| dout * gate * sigmoid(gate));
    case.expect_all(&dup, of_up, close::<T>(1e-6))?;
    case.moves_bytes(5 * n * size_of::<T>());
    Ok(())
}

fn gelu_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.uniform::<T>("x", [n], -6.0..6.0);
    let out = case.output::<T>("out", [n]);
    case.launch_programmatic(gelu::<T>, n.div_ceil(BLOCK), (&x, &out, n as i64))?;
    let reference = || {
        each([&x], |[x]| {
            0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        })
    };
    case.expect_all(&out, reference, close::<T>(1e-6))?;
    case.moves_bytes(2 * n * size_of::<T>());
    Ok(())
}

fn gelu_backward_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    gelu_backward_up_to::<T>(case, 6.0)
}

/// Of numbers from `-most` to `most`.
fn gelu_backward_up_to<T: Float + DeviceElement>(case: &mut Case, most: f64) -> CaseResult {
    let n = case.size("n");
    let x = case.uniform::<T>("x", [n], -most..most);
    let dout = case.uniform::<T>("dout", [n], -6.0..6.0);
    let dx = case.output::<T>("dx", [n]);
    case.launch_programmatic(
        gelu_backward::<T>,
        n.div_ceil(BLOCK),
        (&x, &dout, &dx, n as i64),
    )?;
    let reference = || {
        each([&x, &dout], |[x, dout]| {
            let scale = (2.0 / PI).sqrt();
            let tanh = (scale * (x + 0.044_715 * x.powi(3))).tanh();
            let slope = scale * (1.0 + 3.0 * 0.044_715 * x * x);
            dout * 0.5 * (1.0 + tanh + x * (1.0 - tanh * tanh) * slope)
        })
    };
    // Far below 0 the two terms cancel.
    case.expect_all(&dx, reference, close::<T>(1e-5))?;
    case.moves_bytes(3 * n * size_of::<T>());
    Ok(())
}

macro_rules! cases {
    ($($name:ident: $of:ident<$ty:ty>;)*) => {$(
        #[case(sizes(n = [5000, 8, 1]))]
        fn $name(case: &mut Case) -> CaseResult {
            $of::<$ty>(case)
        }
    )*};
}

cases! {
    swiglu_bf16: swiglu_of<bf16>;
    swiglu_f16: swiglu_of<f16>;
    swiglu_f32: swiglu_of<f32>;
    swiglu_backward_bf16: swiglu_backward_of<bf16>;
    swiglu_backward_f32: swiglu_backward_of<f32>;
    gelu_bf16: gelu_of<bf16>;
    gelu_f32: gelu_of<f32>;
    gelu_backward_bf16: gelu_backward_of<bf16>;
    gelu_backward_f32: gelu_backward_of<f32>;
}

/// Their squares are infinite.
#[case(sizes(n = [100]))]
fn gelu_backward_f32_of_large(case: &mut Case) -> CaseResult {
    gelu_backward_up_to::<f32>(case, 1e30)
}

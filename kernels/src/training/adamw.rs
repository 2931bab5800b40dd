//! The step of `AdamW` (Loshchilov and Hutter, 2019) over contiguous tensors.

use tilekit::prelude::*;

use super::rows_case::close;

/// Elements of a program, eight for each of its threads.
const BLOCK: usize = 1024;

/// One step, elementwise over `n` elements, computed in f32:
///
/// ```text
/// m = beta1 * m + (1 - beta1) * g          v = beta2 * v + (1 - beta2) * g²
/// p = p * (1 - rate * decay) - step * m / (sqrt(v) * root + epsilon)
/// ```
///
/// with `g = scale * grad`. After step `t`, `step = rate / (1 - beta1^t)`, `root = 1 / sqrt(1 - beta2^t)`, and `keep = 1 - rate * decay`. The
/// results may take the place of what they are made of.
#[kernel(warps = 4, instances(<f32, f32>, <bf16, f32>, <bf16, bf16>), signature(
    param: [n],
    grad: [n],
    m: [n],
    v: [n],
    new_param: [n],
    new_m: [n],
    new_v: [n],
    grid = cdiv(n, BLOCK),
))]
pub fn adamw<T: Float, S: Float>(
    param: Ptr<T>,
    grad: Ptr<T>,
    m: Ptr<S>,
    v: Ptr<S>,
    new_param: Ptr<T>,
    new_m: Ptr<S>,
    new_v: Ptr<S>,
    n: i64,
    keep: f32,
    beta1: f32,
    beta2: f32,
    step: f32,
    root: f32,
    epsilon: f32,
    scale: f32,
) {
    launch_dependents();
    launch_wait();
    let first = program_id(0).cast::<i64>() * BLOCK;
    // One access of 16 bytes to the wider of the two types.
    let wide = 16
        / const {
            if size_of::<T>() > size_of::<S>() {
                size_of::<T>()
            } else {
                size_of::<S>()
            }
        };
    let at = arange(0..BLOCK, Blocked::new([wide], [32], [4], [0]));
    let inside = at < minimum(n - first, BLOCK).cast::<i32>();
    let of_t = |x: Ptr<T>| {
        (x + first)
            .at(at)
            .mask(inside)
            .other(0)
            .load()
            .cast::<f32>()
    };
    let of_s = |x: Ptr<S>| {
        (x + first)
            .at(at)
            .mask(inside)
            .other(0)
            .load()
            .cast::<f32>()
    };
    let (p, g) = (of_t(param), of_t(grad) * scale);
    let (old_m, old_v) = (of_s(m), of_s(v));
    let m = old_m + (g - old_m) * (1.0 - beta1);
    let v = old_v * beta2 + g * g * (1.0 - beta2);
    let p = p * keep - m * step / (v.sqrt() * root + epsilon);
    (new_param + first).at(at).mask(inside).store(p.cast::<T>());
    for (out, x) in [(new_m, m), (new_v, v)] {
        (out + first).at(at).mask(inside).store(x.cast::<S>());
    }
}

fn adamw_of<T: Float + DeviceElement, S: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let [param, grad] = ["param", "grad"].map(|name| case.normal::<T>(name, [n]));
    let m = case.normal::<S>("m", [n]);
    let v = case.uniform::<S>("v", [n], 0.0..1.0);
    let new_param = case.output::<T>("new_param", [n]);
    let [new_m, new_v] = ["new_m", "new_v"].map(|name| case.output::<S>(name, [n]));
    // After three steps at a rate of 1e-2.
    let (rate, decay, beta1, beta2, epsilon, scale) =
        (1e-2_f64, 0.1_f64, 0.9_f64, 0.99_f64, 1e-8_f64, 0.5_f64);
    let (keep, step, root) = (
        1.0 - rate * decay,
        rate / (1.0 - beta1.powi(3)),
        1.0 / (1.0 - beta2.powi(3)).sqrt(),
    );
    let numbers = [keep, beta1, beta2, step, root, epsilon, scale].map(|x| x as f32);
    let [keep, beta1, beta2, step, root, epsilon, scale] = numbers;
    let arguments = (
        &param, &grad, &m, &v, &new_param, &new_m, &new_v, n as i64, keep, beta1, beta2, step,
        root, epsilon, scale,
    );
    case.launch_programmatic(adamw::<T, S>, n.div_ceil(BLOCK), arguments)?;
    let [keep, beta1, beta2, step, root, epsilon, scale] = numbers.map(f64::from);
    let of = |at: usize| {
        let [p, g] = [&param, &grad].map(|x| x.host()[at].number().to_f64());
        let [m, v] = [&m, &v].map(|x| x.host()[at].number().to_f64());
        let g = g * scale;
        let (m, v) = (
            m + (g - m) * (1.0 - beta1),
            v * beta2 + g * g * (1.0 - beta2),
        );
        [p * keep - step * m / (v.sqrt() * root + epsilon), m, v]
    };
    let all = |which: usize| (0..n).map(|at| of(at)[which]).collect::<Vec<f64>>();
    // Where `v` is almost 0 the quotient magnifies its rounding.
    case.expect_all(&new_param, || all(0), close::<T>(1e-5))?;
    case.expect_all(&new_m, || all(1), close::<S>(1e-6))?;
    case.expect_all(&new_v, || all(2), close::<S>(1e-7))?;
    case.moves_bytes(n * (3 * size_of::<T>() + 4 * size_of::<S>()));
    Ok(())
}

#[case(sizes(n = [5000, 1]))]
fn adamw_f32(case: &mut Case) -> CaseResult {
    adamw_of::<f32, f32>(case)
}

#[case(sizes(n = [5000]))]
fn adamw_bf16(case: &mut Case) -> CaseResult {
    adamw_of::<bf16, bf16>(case)
}

#[case(sizes(n = [5000]))]
fn adamw_bf16_of_f32_moments(case: &mut Case) -> CaseResult {
    adamw_of::<bf16, f32>(case)
}

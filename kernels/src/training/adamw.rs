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
    let numbers = Numbers {
        keep,
        beta1,
        beta2,
        step,
        root,
        epsilon,
    };
    let held = [of_t(param), of_t(grad) * scale, of_s(m), of_s(v)];
    let [p, m, v] = numbers.step(held);
    (new_param + first).at(at).mask(inside).store(p.cast::<T>());
    for (out, x) in [(new_m, m), (new_v, v)] {
        (out + first).at(at).mask(inside).store(x.cast::<S>());
    }
}

/// The numbers of a step.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) keep: Scalar<f32>,
    pub(super) beta1: Scalar<f32>,
    pub(super) beta2: Scalar<f32>,
    pub(super) step: Scalar<f32>,
    pub(super) root: Scalar<f32>,
    pub(super) epsilon: Scalar<f32>,
}

impl Numbers {
    /// New parameters and moments from parameters, gradients and moments.
    #[device]
    pub(super) fn step(self, [p, g, m, v]: [Tensor<f32>; 4]) -> [Tensor<f32>; 3] {
        let m = m + (g - m) * (1.0 - self.beta1);
        let v = v * self.beta2 + g * g * (1.0 - self.beta2);
        let p = p * self.keep - m * self.step / (v.sqrt() * self.root + self.epsilon);
        [p, m, v]
    }
}

/// The numbers of a case, after three steps at a rate of 1e-2, and what they make of an element.
#[derive(Clone, Copy)]
pub(super) struct Reference {
    pub(super) keep: f32,
    pub(super) beta1: f32,
    pub(super) beta2: f32,
    pub(super) step: f32,
    pub(super) root: f32,
    pub(super) epsilon: f32,
}

impl Reference {
    pub(super) fn new() -> Reference {
        let (rate, decay, beta1, beta2) = (1e-2_f64, 0.1_f64, 0.9_f64, 0.99_f64);
        Reference {
            keep: (1.0 - rate * decay) as f32,
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            step: (rate / (1.0 - beta1.powi(3))) as f32,
            root: (1.0 / (1.0 - beta2.powi(3)).sqrt()) as f32,
            epsilon: 1e-8,
        }
    }

    pub(super) fn step(self, [p, g, m, v]: [f64; 4]) -> [f64; 3] {
        let [keep, beta1, beta2] = [self.keep, self.beta1, self.beta2].map(f64::from);
        let [step, root, epsilon] = [self.step, self.root, self.epsilon].map(f64::from);
        let (m, v) = (
            m + (g - m) * (1.0 - beta1),
            v * beta2 + g * g * (1.0 - beta2),
        );
        [p * keep - step * m / (v.sqrt() * root + epsilon), m, v]
    }
}

fn adamw_of<T: Float + DeviceElement, S: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let [param, grad] = ["param", "grad"].map(|name| case.normal::<T>(name, [n]));
    let m = case.normal::<S>("m", [n]);
    let v = case.uniform::<S>("v", [n], 0.0..1.0);
    let new_param = case.output::<T>("new_param", [n]);
    let [new_m, new_v] = ["new_m", "new_v"].map(|name| case.output::<S>(name, [n]));
    let reference = Reference::new();
    let Reference {
        keep,
        beta1,
        beta2,
        step,
        root,
        epsilon,
    } = reference;
    let scale = 0.5_f32;
    let arguments = (
        &param, &grad, &m, &v, &new_param, &new_m, &new_v, n as i64, keep, beta1, beta2, step,
        root, epsilon, scale,
    );
    case.launch_programmatic(adamw::<T, S>, n.div_ceil(BLOCK), arguments)?;
    let of = |at: usize| {
        let [p, g] = [&param, &grad].map(|x| x.host()[at].number().to_f64());
        let [m, v] = [&m, &v].map(|x| x.host()[at].number().to_f64());
        reference.step([p, g * f64::from(scale), m, v])
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

//! The step of `AdamW` over lists of tensors in one launch, and clipping by the norm of all gradients together. Where tensors lie is a table in
//! device memory: offsets from the first tensor of each list.

use tilekit::prelude::*;

use super::adamw::{Numbers, Reference};
use super::rows_case::close;

/// Elements of a program.
const CHUNK: usize = 4096;

/// Elements at a time, eight for each of its threads.
const BLOCK: usize = 1024;

/// Numbers of a tensor in the table: the offsets of parameter, gradient and moments, and its elements.
const FIELDS: usize = 5;

/// What a program takes of a list: which elements of which tensor.
#[derive(Clone, Copy)]
struct Chunk {
    /// Where the tensor's numbers are in the table.
    entry: Scalar<i32>,
    /// Its first element.
    first: Scalar<i64>,
    elements: Scalar<i64>,
}

impl Chunk {
    #[device]
    fn of_program(table: Ptr<i64>, chunks: Ptr<i32>) -> Chunk {
        let tensor = chunks.at(program_id(0) * 2).load();
        let part = chunks.at(program_id(0) * 2 + 1).load();
        let entry = tensor * FIELDS;
        Chunk {
            entry,
            first: part.cast::<i64>() * CHUNK,
            elements: table.at(entry + (FIELDS - 1)).load(),
        }
    }

    /// The chunk of the list whose first tensor is at `base`; `field` says which list it is.
    #[device]
    fn of_list<T: Float>(self, base: Ptr<T>, table: Ptr<i64>, field: usize) -> Ptr<T> {
        let offset = table.at(self.entry + field).load();
        base + (offset + self.first).multiple_of(16 / size_of::<T>())
    }

    /// Which elements of block `block` the tensor has.
    #[device]
    fn inside(self, at: Tensor<i32>, block: usize) -> Tensor<bool> {
        at < minimum(self.elements - self.first - block * BLOCK, BLOCK).cast::<i32>()
    }
}

/// One step of [`adamw`](super::adamw()) of the tensors of four lists, in place. `table[t, :]` has the offsets of tensor `t` from `param`, `grad`, `m` and `v`, the
/// first of their lists, in elements, and how many it has; every tensor begins at a multiple of 16 bytes. `chunks[program, :]` says which tensor
/// a program takes and which 4096 elements of it. `scale`, one number in device memory, multiplies gradients.
#[kernel(warps = 4, instances(<f32, f32>, <bf16, f32>, <bf16, bf16>), signature(
    param: [params],
    grad: [grads],
    m: [ms],
    v: [vs],
    table: [tensors, FIELDS],
    chunks: [programs, 2],
    scale: [1],
    grid = programs,
))]
pub fn adamw_list<T: Float, S: Float>(
    param: Ptr<T>,
    grad: Ptr<T>,
    m: Ptr<S>,
    v: Ptr<S>,
    table: Ptr<i64>,
    chunks: Ptr<i32>,
    scale: Ptr<f32>,
    keep: f32,
    beta1: f32,
    beta2: f32,
    step: f32,
    root: f32,
    epsilon: f32,
) {
    launch_dependents();
    launch_wait();
    let chunk = Chunk::of_program(table, chunks);
    let (param, grad) = (
        chunk.of_list(param, table, 0),
        chunk.of_list(grad, table, 1),
    );
    let (m, v) = (chunk.of_list(m, table, 2), chunk.of_list(v, table, 3));
    let scale = scale.at(0).load();
    let numbers = Numbers {
        keep,
        beta1,
        beta2,
        step,
        root,
        epsilon,
    };
    // One access of 16 bytes to the wider of the two types.
    let wide = const {
        if size_of::<T>() > size_of::<S>() {
            16 / size_of::<T>()
        } else {
            16 / size_of::<S>()
        }
    };
    let at = arange(0..BLOCK, Blocked::new([wide], [32], [4], [0]));
    for block in 0..CHUNK / BLOCK {
        let inside = chunk.inside(at, block);
        let at = at + block * BLOCK;
        let [p, g] = [param, grad].map(|x| x.at(at).mask(inside).other(0).load().cast::<f32>());
        let [old_m, old_v] = [m, v].map(|x| x.at(at).mask(inside).other(0).load().cast::<f32>());
        let [p, new_m, new_v] = numbers.step([p, g * scale, old_m, old_v]);
        param.at(at).mask(inside).store(p.cast::<T>());
        m.at(at).mask(inside).store(new_m.cast::<S>());
        v.at(at).mask(inside).store(new_v.cast::<S>());
    }
}

/// `partial[program]` is the sum of squares, in f32, of the elements that the program takes of a list of gradients; `table` and `chunks` are those of
/// [`adamw_list`].
#[kernel(warps = 4, instances(<f32>, <bf16>), signature(
    grad: [grads],
    table: [tensors, FIELDS],
    chunks: [programs, 2],
    partial: [programs],
    grid = programs,
))]
pub fn squares_list<T: Float>(grad: Ptr<T>, table: Ptr<i64>, chunks: Ptr<i32>, partial: Ptr<f32>) {
    launch_dependents();
    launch_wait();
    let chunk = Chunk::of_program(table, chunks);
    let grad = chunk.of_list(grad, table, 1);
    let at = arange(
        0..BLOCK,
        Blocked::new([16 / size_of::<T>()], [32], [4], [0]),
    );
    let parts: [Tensor<T>; CHUNK / BLOCK] = std::array::from_fn(|block| {
        let source = grad.at(at + block * BLOCK);
        source.mask(chunk.inside(at, block)).other(0).load()
    });
    let [a, b, c, d] = parts.map(|g| g.cast::<f32>() * g.cast::<f32>());
    let sum = (a + b) + (c + d);
    partial.at(program_id(0)).store(sum.sum(0).scalar());
}

/// `norm[0]` is the root of the sum of `partial`, and `factor[0]` what clips it: `min(1, most / (norm + 1e-6))`, NaN of a norm of NaN.
#[kernel(warps = 8, signature(
    partial: [programs],
    norm: [1],
    factor: [1],
    grid = 1,
))]
pub fn clip_factor(partial: Ptr<f32>, norm: Ptr<f32>, factor: Ptr<f32>, programs: i32, most: f32) {
    launch_dependents();
    launch_wait();
    let at = arange(0..2048, Blocked::new([8], [32], [8], [0]));
    let mut sum = full([2048], 0.0, Blocked::new([8], [32], [8], [0]));
    for first in range(0, programs).step(2048) {
        let inside = at < programs - first;
        sum += partial.at(at + first).mask(inside).other(0).load();
    }
    let total = sum.sum(0).scalar().sqrt();
    norm.at(0).store(total);
    let factor_of_norm = most / (total + 1e-6);
    factor.at(0).store(factor_of_norm.minimum_nan(1.0));
}

/// Ragged tensors, each at a multiple of 16 bytes of every type, one after the other with gaps.
const ELEMENTS: [usize; 5] = [5000, 1, 4096, 8, 9001];

/// A list of a case: where each tensor begins, and the elements of all.
fn places() -> (Vec<usize>, usize) {
    let mut end = 0;
    let places = ELEMENTS.map(|elements| {
        let first = end;
        end += elements.next_multiple_of(8) + 8;
        first
    });
    (places.to_vec(), end)
}

/// The table and the chunks of a case.
fn tables(case: &mut Case) -> (Input<i64>, Input<i32>, usize) {
    let (places, _) = places();
    let numbers: Vec<i64> = places
        .iter()
        .zip(ELEMENTS)
        .flat_map(|(&first, elements)| [first, first, first, first, elements])
        .map(|number| number as i64)
        .collect();
    let of_tensor =
        |(tensor, n): (usize, usize)| (0..n.div_ceil(CHUNK)).map(move |part| [tensor, part]);
    let chunks: Vec<[usize; 2]> = ELEMENTS
        .into_iter()
        .enumerate()
        .flat_map(of_tensor)
        .collect();
    let programs = chunks.len();
    let table = case.input::<i64>("table", [ELEMENTS.len(), FIELDS], move |at| numbers[at]);
    let chunks = case.input::<i32>("chunks", [programs, 2], move |at| {
        chunks[at / 2][at % 2] as i32
    });
    (table, chunks, programs)
}

/// Copies an input over an output, which is then changed in place.
#[kernel(warps = 4)]
fn copy<T: Float>(x: Ptr<T>, out: Ptr<T>, n: i32) {
    let at = program_id(0) * 1024 + arange(0..1024, Coalesced);
    let inside = at < n;
    out.at(at)
        .mask(inside)
        .store(x.at(at).mask(inside).other(0).load());
}

fn adamw_list_of<T: Float + DeviceElement, S: Float + DeviceElement>(
    case: &mut Case,
) -> CaseResult {
    let (places, n) = places();
    let (table, chunks, programs) = tables(case);
    let [param, grad] = ["param", "grad"].map(|name| case.normal::<T>(name, [n]));
    let m = case.normal::<S>("m", [n]);
    let v = case.uniform::<S>("v", [n], 0.0..1.0);
    let scale = case.input::<f32>("scale", [1], |_| 0.5);
    let new_param = case.output::<T>("new_param", [n]);
    let [new_m, new_v] = ["new_m", "new_v"].map(|name| case.output::<S>(name, [n]));
    let blocks = grid(n.div_ceil(1024));
    case.launch(copy::<T>, blocks, (&param, &new_param, n as i32))?;
    case.launch(copy::<S>, blocks, (&m, &new_m, n as i32))?;
    case.launch(copy::<S>, blocks, (&v, &new_v, n as i32))?;
    let reference = Reference::new();
    let Reference {
        keep,
        beta1,
        beta2,
        step,
        root,
        epsilon,
    } = reference;
    let arguments = (
        &new_param, &grad, &new_m, &new_v, &table, &chunks, &scale, keep, beta1, beta2, step, root,
        epsilon,
    );
    case.launch_programmatic(adamw_list::<T, S>, programs, arguments)?;
    let of = |at: usize| {
        let [p, g] = [&param, &grad].map(|x| x.host()[at].number().to_f64());
        let [m, v] = [&m, &v].map(|x| x.host()[at].number().to_f64());
        // What lies between two tensors is left as it is.
        let mut both = places.iter().zip(ELEMENTS);
        if both.any(|(&first, elements)| (first..first + elements).contains(&at)) {
            reference.step([p, g * 0.5, m, v])
        } else {
            [p, m, v]
        }
    };
    let all = |which: usize| (0..n).map(|at| of(at)[which]).collect::<Vec<f64>>();
    case.expect_all(&new_param, || all(0), close::<T>(1e-5))?;
    case.expect_all(&new_m, || all(1), close::<S>(1e-6))?;
    case.expect_all(&new_v, || all(2), close::<S>(1e-7))?;
    let elements: usize = ELEMENTS.iter().sum();
    case.moves_bytes(elements * (3 * size_of::<T>() + 4 * size_of::<S>()));
    Ok(())
}

#[case]
fn adamw_list_f32(case: &mut Case) -> CaseResult {
    adamw_list_of::<f32, f32>(case)
}

#[case]
fn adamw_list_bf16(case: &mut Case) -> CaseResult {
    adamw_list_of::<bf16, bf16>(case)
}

#[case]
fn adamw_list_bf16_of_f32_moments(case: &mut Case) -> CaseResult {
    adamw_list_of::<bf16, f32>(case)
}

fn clipping_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let (places, n) = places();
    let (table, chunks, programs) = tables(case);
    let most = case.size("most") as f32;
    let grad = case.normal::<T>("grad", [n]);
    let partial = case.output::<f32>("partial", [programs]);
    let [norm, factor] = ["norm", "factor"].map(|name| case.output::<f32>(name, [1]));
    case.launch_programmatic(
        squares_list::<T>,
        programs,
        (&grad, &table, &chunks, &partial),
    )?;
    let arguments = (&partial, &norm, &factor, programs as i32, most);
    case.launch_programmatic(clip_factor, 1, arguments)?;
    let of_norm = || {
        let of_tensor = |(&first, elements): (&usize, usize)| {
            let squares = grad.host()[first..first + elements].iter();
            squares.map(|g| g.number().to_f64().powi(2)).sum::<f64>()
        };
        places
            .iter()
            .zip(ELEMENTS)
            .map(of_tensor)
            .sum::<f64>()
            .sqrt()
    };
    case.expect_all(&norm, || vec![of_norm()], close::<f32>(0.0))?;
    let of_factor = || vec![(f64::from(most) / (of_norm() + 1e-6)).min(1.0)];
    case.expect_all(&factor, of_factor, close::<f32>(0.0))?;
    case.moves_bytes(ELEMENTS.iter().sum::<usize>() * size_of::<T>());
    Ok(())
}

#[case(sizes(most = [1, 1000]))]
fn clipping_f32(case: &mut Case) -> CaseResult {
    clipping_of::<f32>(case)
}

/// A factor of 1 of a norm that is no number let a step go on.
#[case]
fn clipping_by_no_number(case: &mut Case) -> CaseResult {
    let partial = case.input::<f32>("partial", [3], |at| if at == 1 { f32::NAN } else { 4.0 });
    let [norm, factor] = ["norm", "factor"].map(|name| case.output::<f32>(name, [1]));
    case.launch_programmatic(clip_factor, 1, (&partial, &norm, &factor, 3, 1.0_f32))?;
    case.expect_all(&norm, || vec![f64::NAN], close::<f32>(0.0))?;
    case.expect_all(&factor, || vec![f64::NAN], close::<f32>(0.0))?;
    case.moves_bytes(12);
    Ok(())
}

#[case(sizes(most = [3]))]
fn clipping_bf16(case: &mut Case) -> CaseResult {
    clipping_of::<bf16>(case)
}

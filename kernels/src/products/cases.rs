//! Cases of products, against f64.

use std::cell::OnceCell;

use tilekit::prelude::*;
use tilekit::{Arguments, TensorSource};

use super::cluster_tiles::cluster_tiles;
use super::dense::dense;
use super::epilogue::{Epilogue, Plain};
use super::factor::{Operand, ResultOf, unit};
use super::few_tiles::few_tiles;
use super::form::{Form, Side};
use super::instances::{INSTANCES, Instance};
use super::one_wave::one_wave;
use super::options::Precision;
use super::plan::{Division, Need, Plan};
use super::precise::precise;
use super::precise_parts::precise_parts;
use super::split_k::split_k;

/// How the products of a case lie.
#[derive(Clone, Copy)]
pub(super) struct Lies {
    pub(super) sides: [Side; 2],
    /// Products of a batch; 1 without one.
    pub(super) batches: usize,
}

impl Lies {
    /// One product, of operands that are contiguous along K.
    pub(super) const ALONG_K: Lies = Lies {
        sides: [Side {
            is_mn_major: false,
            is_batched: false,
        }; 2],
        batches: 1,
    };
}

/// The tensors of a case's products `C[M, N] = A[M, K] · B[N, K]ᵀ`. Rows begin at multiples of 16 bytes, as tensor maps want.
pub(super) struct Product<T, O> {
    pub(super) size: [usize; 3],
    lies: Lies,
    precision: Precision,
    factors: [Input<T>; 2],
    c: Output<O>,
    pub(super) source: Input<O>,
    pub(super) bias: Input<O>,
    pub(super) scales: [Input<f32>; 2],
}

/// Elements from one row to the next.
fn stride<T>(columns: usize) -> usize {
    columns.next_multiple_of(unit::<T>())
}

/// Extents of a matrix of M or N by K as it lies.
fn shape_of([rows, k]: [usize; 2], side: Side) -> [usize; 2] {
    if side.is_mn_major {
        [k, rows]
    } else {
        [rows, k]
    }
}

/// What a case passes for what epilogues read.
pub(super) type CaseData<'c, O> = (
    f32,
    f32,
    &'c Input<O>,
    i32,
    i64,
    &'c Input<O>,
    [&'c Input<f32>; 2],
);

/// Sums of parts and their counts, which `split_k` alone takes.
type Workspace<T> = (Input<<T as Operand>::Sum>, Input<i32>);

/// A kernel as a case launches it.
#[derive(Clone, Copy)]
enum Role {
    Main,
    Beside,
}

impl<T: Operand, O: ResultOf<T>> Product<T, O> {
    pub(super) fn new(case: &mut Case, lies: Lies) -> Self {
        let size = ["m", "n", "k"].map(|name| case.size(name));
        let [m, n, k] = size;
        let mut factor = |name: &str, rows: usize, side: Side| {
            let [outer, inner] = shape_of([rows, k], side);
            let batches = if side.is_batched { lies.batches } else { 1 };
            let shape = [batches * outer, stride::<T>(inner)];
            if size_of::<T::Sum>() == 4 && T::DTYPE == i8::DTYPE {
                return case.integers::<T>(name, shape, -128..128);
            }
            case.normal::<T>(name, shape)
        };
        let factors = [factor("a", m, lies.sides[0]), factor("b", n, lies.sides[1])];
        let rows = [lies.batches * m, stride::<O>(n)];
        Product {
            size,
            lies,
            precision: Precision::Tf32,
            factors,
            c: case.output::<O>("c", rows),
            source: case.normal::<O>("source", rows),
            bias: case.normal::<O>("bias", [m.max(n)]),
            scales: [
                case.uniform::<f32>("a_scales", [m], 0.5..1.5),
                case.uniform::<f32>("b_scales", [n], 0.5..1.5),
            ],
        }
    }

    /// By three products of tf32.
    pub(super) fn precisely(self) -> Self {
        Product {
            precision: Precision::Tf32x3,
            ..self
        }
    }

    fn factor(&self, number: usize) -> TensorView<'_, T, Input<T>> {
        let side = self.lies.sides[number];
        let shape = shape_of([self.size[number], self.size[2]], side);
        let batches = side.is_batched.then_some(self.lies.batches);
        let factor = place(self.factors[number].view(), shape, batches);
        match self.precision {
            Precision::Tf32 => T::loaded(factor),
            Precision::Tf32x3 => factor,
        }
    }

    fn result(&self) -> TensorView<'_, O, Output<O>> {
        let batches = (self.lies.batches > 1).then_some(self.lies.batches);
        place(self.c.view(), [self.size[0], self.size[1]], batches)
    }

    pub(super) fn need(&self) -> Need {
        Need {
            size: self.size,
            batches: self.lies.batches,
            element_bytes: [size_of::<T>(), size_of::<O>()],
            is_mn_major: self.lies.sides.map(|side| side.is_mn_major),
            precision: self.precision,
            loose: None,
            ends_early: false,
        }
    }

    /// Launches a kernel, or has it timed beside what was launched.
    fn begin<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        case: &mut Case,
        plan: &Plan,
        role: Role,
        kernel: K,
        arguments: A,
    ) -> CaseResult {
        let tolerance = Close {
            relative: 8e-3,
            absolute: 0.05,
        };
        match role {
            Role::Main => case.launch_programmatic(kernel, plan.grid, arguments),
            Role::Beside => case.rival(&plan.to_string(), tolerance, kernel, plan.grid, arguments),
        }
    }

    fn run<E: Epilogue<O>>(
        &self,
        case: &mut Case,
        (plan, role): (&Plan, Role),
        epilogue: E,
        workspace: Option<&Workspace<T>>,
    ) -> CaseResult {
        let [m, n, k] = self.size.map(|extent| extent as i32);
        let pitch = stride::<O>(self.size[1]);
        let of_batch = if self.lies.batches > 1 {
            (self.size[0] * pitch) as i64
        } else {
            0
        };
        let pitch = pitch as i32;
        let (sides, is_batched) = (self.lies.sides, self.lies.batches > 1);
        let (a, b) = (self.factor(0), self.factor(1));
        let data = self.data((pitch, of_batch));
        match plan.instance {
            Instance::Many(tile) | Instance::Wave(tile) => {
                let form = Form {
                    tile,
                    sides,
                    is_batched,
                    epilogue,
                };
                let (c, batches) = (self.result(), self.lies.batches as i32);
                let arguments = (a, b, c, m, n, k, batches, data);
                if let Instance::Many(_) = plan.instance {
                    let kernel = fixed(dense::<T, O, E>, form);
                    return Self::begin(case, plan, role, kernel, arguments);
                }
                let kernel = fixed(one_wave::<T, O, E>, form);
                Self::begin(case, plan, role, kernel, arguments)
            }
            Instance::Few(tile) => {
                let form = Form {
                    tile,
                    sides,
                    is_batched,
                    epilogue,
                };
                let (form, x, y, rows, columns) = if tile.turned {
                    (form.turned(), b, a, n, m)
                } else {
                    (form, a, b, m, n)
                };
                let kernel = fixed(few_tiles::<T, O, E>, form);
                let c = &self.c;
                let arguments = (x, y, c, pitch, of_batch, rows, columns, k, data);
                Self::begin(case, plan, role, kernel, arguments)
            }
            Instance::Precise(tile) => {
                let form = Form {
                    tile,
                    sides,
                    is_batched,
                    epilogue,
                };
                let (form, x, y, rows, columns) = if tile.turned {
                    (form.turned(), b, a, n, m)
                } else {
                    (form, a, b, m, n)
                };
                let (kernel, c) = (fixed(precise::<T, O, E>, form), &self.c);
                let arguments = (x, y, c, pitch, of_batch, rows, columns, k, data);
                Self::begin(case, plan, role, kernel, arguments)
            }
            Instance::PreciseParts(tile) => {
                let (x, y, rows, columns) = if tile.turned {
                    (b, a, n, m)
                } else {
                    (a, b, m, n)
                };
                let (c, [parts, each]) = (&self.c, self.divided(plan));
                let (sums, counts) = workspace.expect("made for all plans");
                let arguments = (
                    x, y, c, pitch, rows, columns, k, parts, each, data, sums, counts,
                );
                let kernel = fixed(precise_parts::<T, O, E>, Form::new(tile, epilogue));
                Self::begin(case, plan, role, kernel, arguments)
            }
            Instance::Cluster(tile) => {
                let (x, y, rows, columns) = if tile.turned {
                    (b, a, n, m)
                } else {
                    (a, b, m, n)
                };
                let kernel = fixed(cluster_tiles::<T, O, E>, Form::new(tile, epilogue));
                let c = &self.c;
                let arguments = (x, y, c, pitch, rows, columns, k, data);
                Self::begin(case, plan, role, kernel, arguments)
            }
            Instance::Any(_) | Instance::Copied(_) => {
                unreachable!("rows of cases begin where tensor maps want them")
            }
            Instance::Split(tile) => {
                let form = Form {
                    tile,
                    sides,
                    is_batched,
                    epilogue,
                };
                let (c, [parts, each]) = (&self.c, self.divided(plan));
                let (sums, counts) = workspace.expect("made for all plans");
                let arguments = (a, b, c, pitch, m, n, k, parts, each, data, sums, counts);
                let kernel = fixed(split_k::<T, O, E>, form);
                Self::begin(case, plan, role, kernel, arguments)
            }
        }
    }

    /// What epilogues read, of a source with this pitch and step from one product to the next.
    fn data(&self, (pitch, of_batch): (i32, i64)) -> CaseData<'_, O> {
        let scales = self.scales.each_ref();
        let (source, bias) = (&self.source, &self.bias);
        (ALPHA, BETA, source, pitch, of_batch, bias, scales)
    }

    /// Parts of a tile and steps of each, of a plan that divides K.
    fn divided(&self, plan: &Plan) -> [i32; 2] {
        let divided = Division::of(plan.instance, &self.need());
        let Division { parts, each, .. } = divided.expect("the plan of a kernel that divides K");
        [parts, each].map(|count| count as i32)
    }

    /// Memory of `split_k` for the largest of these plans, if one is of it. Inputs, since kernels beside it write nothing there; launches leave counts as they were.
    fn workspace(&self, case: &mut Case, plans: Vec<Plan>) -> Option<Workspace<T>> {
        let need = self.need();
        let of_plan = |plan: Plan| {
            let tile = match plan.instance {
                Instance::Split(tile) => tile,
                Instance::PreciseParts(tile) => tile.exchange(),
                _ => return None,
            };
            let divided = Division::of(plan.instance, &need)?;
            Some(tile.workspace([divided.tiles, divided.parts]))
        };
        let larger = |x: [usize; 2], y: [usize; 2]| [x[0].max(y[0]), x[1].max(y[1])];
        let [sums, counts] = plans.into_iter().filter_map(of_plan).reduce(larger)?;
        let sums = case.integers::<T::Sum>("sums", [sums], 0..1);
        Some((sums, case.input::<i32>("counts", [counts], |_| 0)))
    }

    /// The product as a library takes it, where it is one.
    fn gemm(&self) -> Gemm {
        let [a, b] = &self.factors;
        let gemm = Gemm::new(a, b, &self.c).with_size(self.size);
        let gemm = match self.precision {
            Precision::Tf32 => gemm,
            Precision::Tf32x3 => gemm.in_f32(),
        };
        let [of_a, of_b] = self.lies.sides.map(|side| side.is_mn_major);
        let gemm = if of_a { gemm.transposed_a() } else { gemm };
        if of_b { gemm } else { gemm.transposed_b() }
    }

    /// The sums in f64, one product after the other.
    fn sums(&self) -> Vec<f64> {
        if self.lies.batches == 1 {
            return self.gemm().reference();
        }
        let [m, n, k] = self.size;
        let rows = |number: usize, batch: usize| -> Vec<f64> {
            let (side, tensor) = (self.lies.sides[number], &self.factors[number]);
            let [outer, inner] = shape_of([self.size[number], k], side);
            let first = if side.is_batched { batch * outer } else { 0 };
            let number = |i: usize, j: usize| tensor[[first + i, j]].number().to_f64();
            let in_order = (0..outer).flat_map(|i| (0..inner).map(move |j| (i, j)));
            let elements: Vec<f64> = in_order.map(|(i, j)| number(i, j)).collect();
            if side.is_mn_major {
                let turned = (0..inner).flat_map(|j| (0..outer).map(move |i| i * inner + j));
                turned.map(|at| elements[at]).collect()
            } else {
                elements
            }
        };
        let product = |batch: usize| {
            let (a, b) = (rows(0, batch), rows(1, batch));
            let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
            let dot = |(i, j): (usize, usize)| {
                let (x, y) = (&a[i * k..][..k], &b[j * k..][..k]);
                x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>()
            };
            places.map(dot).collect::<Vec<f64>>()
        };
        (0..self.lies.batches).flat_map(product).collect()
    }
}

/// The factors that epilogues of cases use.
pub(super) const ALPHA: f32 = 0.75;
pub(super) const BETA: f32 = -0.5;

/// A matrix, or a batch of them one after the other, whose rows begin at multiples of 16 bytes.
fn place<T: DeviceElement, B: TensorSource<T>>(
    view: TensorView<'_, T, B>,
    [rows, columns]: [usize; 2],
    batches: Option<usize>,
) -> TensorView<'_, T, B> {
    let pitch = stride::<T>(columns);
    match batches {
        None => view.with_shape([rows, columns]).with_strides([pitch, 1]),
        Some(batches) => {
            view.with_shape([batches, rows, columns])
                .with_strides([rows * pitch, pitch, 1])
        }
    }
}

/// How far results of three products of tf32 may be off together, of their norm.
const NORM: f64 = 1e-6;

/// Half a step of a result's type for a rounding, and the rounding of `k` terms accumulated.
pub(super) fn tolerance<T: Operand, O: ResultOf<T>>(k: usize) -> Tolerance {
    let is_exact = O::DTYPE == i32::DTYPE;
    if is_exact {
        return Exactly;
    }
    let relative = match size_of::<O>() {
        2 => 4e-3,
        _ => 1e-4,
    };
    if size_of::<T>() == 1 {
        // Tensor cores keep 14 bits of a sum of 8-bit floats: an instruction of 32 along K cuts its 33 terms off at 2^-13 of the largest. By K / 32 of them a sum is off by sqrt(K / 32 * 33 / 12) * 2^-13 of its size
        // in the standard deviation, if it were of that size all the way, and by 0.6 of that if it grows evenly: the relative part has 3 of these, and the absolute one those of a sum that comes back to 0.
        // At K = 8192 an H100 was off by 3.4 at 300, in the worst of 67 million elements.
        let absolute = k as f64 * 2_f64.powi(-12) + 0.02;
        let relative = relative + (k as f64).sqrt() * 2_f64.powi(-14);
        return Close { relative, absolute };
    }
    let of_term = match size_of::<T>() {
        // Operands are rounded to 11 bits: some 5 standard deviations.
        4 => 2.5e-3,
        _ => 1e-4,
    };
    Close {
        relative,
        absolute: of_term * (k as f64).sqrt(),
    }
}

/// Runs products by the instance of that number, or by the model's plan if it is 0; when it is timed, so many of the plans
/// that the model says are fastest stand beside it. `after` is what the epilogue makes of a sum, by product, row and column.
pub(super) fn product<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    case: &mut Case,
    lies: Lies,
    epilogue: E,
    after: impl Fn(&Product<T, O>, [usize; 3], f64) -> f64,
) -> CaseResult {
    Product::<T, O>::new(case, lies).compute_planned(case, epilogue, after)
}

impl<T: Operand, O: ResultOf<T>> Product<T, O> {
    /// [`product`] of these tensors.
    pub(super) fn compute_planned<E: Epilogue<O>>(
        &self,
        case: &mut Case,
        epilogue: E,
        after: impl Fn(&Product<T, O>, [usize; 3], f64) -> f64,
    ) -> CaseResult {
        let need = self.need();
        let plan = match case.size("instance") {
            0 => Plan::best(&need),
            number => {
                let instance = INSTANCES[number - 1].fitted(&need);
                let instance = instance.expect("a case names an instance that computes it");
                Plan::of(instance, &need)
            }
        };
        let rivals = case.size("rivals");
        let beside: Vec<Plan> = Plan::all(&need).into_iter().take(rivals).collect();
        self.compute(case, (&plan, &beside), epilogue, after)
    }

    /// How far results may be off.
    fn tolerance(&self) -> Tolerance {
        let k = self.size[2];
        match self.precision {
            Precision::Tf32 => tolerance::<T, O>(k),
            // Steps of 32 along K are added in f32: sums around sqrt(K) rounded K / 32 times, and products of a step, whose sum is cut off. Both together are off by 4e-9 K in the standard deviation
            // (found on an H100 at K = 4096 to 16384), of which 67 million elements have 5.7 somewhere. What is said of all of them is `NORM`.
            Precision::Tf32x3 => Close {
                relative: 1e-6,
                absolute: 1e-6 * (k as f64).sqrt() + 2.5e-8 * k as f64,
            },
        }
    }

    /// Runs by `plan`, beside cuBLAS and these plans, and compares.
    pub(super) fn compute<E: Epilogue<O>>(
        &self,
        case: &mut Case,
        (plan, beside): (&Plan, &[Plan]),
        epilogue: E,
        after: impl Fn(&Product<T, O>, [usize; 3], f64) -> f64,
    ) -> CaseResult {
        let ([m, n, k], need) = (self.size, self.need());
        let batches = self.lies.batches;
        if batches == 1 && epilogue.is_plain() {
            case.peer(Peer::Cublas(self.gemm()));
        }
        let workspace = self.workspace(case, [&[*plan], beside].concat());
        self.run(case, (plan, Role::Main), epilogue, workspace.as_ref())?;
        for beside in beside
            .iter()
            .filter(|beside| beside.instance != plan.instance)
        {
            self.run(case, (beside, Role::Beside), epilogue, workspace.as_ref())?;
        }
        let known = OnceCell::new();
        let want = || {
            let finished = || {
                let sums = self.sums().into_iter().enumerate();
                let finish = |(at, sum)| after(self, [at / n / m, at / n % m, at % n], sum);
                sums.map(finish).collect()
            };
            Vec::clone(known.get_or_init(finished))
        };
        let part = [batches * m, n];
        case.expect_part_in_units(&self.c, part, want, self.tolerance())?;
        if self.precision == Precision::Tf32x3 {
            case.expect_part_in_units(&self.c, part, want, Frobenius(NORM))?;
        }
        case.does_tensor_flops::<T>(2 * batches * m * n * k);
        case.moves_bytes(need.bytes() as usize);
        Ok(())
    }
}

/// Products that are stored as they are.
fn plain<T: Operand, O: ResultOf<T>>(case: &mut Case, lies: Lies) -> CaseResult {
    product::<T, O, Plain>(case, lies, Plain, |_, _, sum| sum)
}

#[case(sizes(
    m = [320, 200, 400, 320, 300, 200, 200, 129, 200],
    n = [520, 264, 200, 328, 200, 360, 136, 65, 456],
    k = [328, 72, 200, 264, 520, 200, 264, 1, 328],
    instance = [1, 1, 2, 3, 4, 5, 6, 0, 112],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

#[case(sizes(
    m = [16, 24, 88, 1, 32, 40, 104, 1, 64, 72, 136, 1, 64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 128, 132, 1, 129],
    n = [64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 16, 24, 88, 1, 32, 40, 104, 1, 64, 72, 136, 1, 128, 136, 200, 1, 128, 136, 200, 1],
    k = [576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096],
    instance = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_of_few_tiles_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Parts of tiles, one of each program, of one step and of many, as many as an H200 has multiprocessors and fewer; and whole tiles, of which a program has several.
#[case(sizes(
    m = [128, 300, 65, 130, 1, 200, 1, 200, 136, 65],
    n = [136, 264, 400, 1, 24, 264, 520, 264, 264, 72],
    k = [520, 328, 264, 1096, 72, 200, 72, 200, 328, 1096],
    instance = [39, 39, 40, 39, 40, 40, 40, 41, 42, 43],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_split_k_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

#[case(sizes(m = [132], n = [136], k = [1096], instance = [39], rivals = [0]))]
fn product_split_k_i8(case: &mut Case) -> CaseResult {
    plain::<i8, i32>(case, Lies::ALONG_K)
}

/// A tile a program: rings that wrap and rings that are not filled, edges of both dimensions.
#[case(sizes(
    m = [64, 136, 65, 1, 200, 132, 129, 300, 128, 250, 136, 200, 200],
    n = [72, 264, 200, 65, 40, 72, 200, 136, 328, 200, 264, 72, 264],
    k = [1224, 776, 72, 520, 1096, 72, 712, 1, 520, 456, 392, 584, 456],
    instance = [44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_one_wave_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Pairs of tiles, the last without rows or with some; rings that wrap, several tiles a pair.
#[case(sizes(
    m = [400, 300, 264, 200, 65, 136, 300, 140, 260, 129, 300, 200, 65, 300],
    n = [520, 264, 200, 264, 72, 136, 104, 136, 200, 264, 264, 400, 264, 264],
    k = [328, 200, 264, 72, 1224, 712, 72, 584, 330, 1, 328, 264, 328, 264],
    instance = [62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 113],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_pairs_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Tiles that divide what others do not; rings that wrap, several tiles of a program.
#[case(sizes(
    m = [260, 65, 520, 300],
    n = [264, 104, 464, 500],
    k = [328, 776, 328, 136],
    instance = [121, 122, 130, 130],
    rivals = [0, 0, 0, 0]
))]
fn product_more_tiles_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::ALONG_K)
}

/// Cases of other element types: of each kernel an instance or two.
macro_rules! of_types {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [320, 16, 128, 65, 1],
            n = [328, 64, 128, 129, 1],
            k = [200, 576, 576, 72, 1],
            instance = [1, 8, 35, 35, 8],
            rivals = [0, 0, 0, 0, 0]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            plain::<$operand, $result>(case, Lies::ALONG_K)
        }
    )*};
}

of_types! {
    product_f16: f16 => f16;
    product_bf16_f32: bf16 => f32;
    product_f16_f32: f16 => f32;
    product_e4m3_bf16: E4m3 => bf16;
    product_e5m2_f16: E5m2 => f16;
    product_i8_i32: i8 => i32;
    product_tf32: f32 => f32;
}

/// Operands that are contiguous along M or N, by case's sizes.
fn majors<T: Operand, O: ResultOf<T>>(case: &mut Case) -> CaseResult {
    let sides = ["along_m", "along_n"].map(|name| Side {
        is_mn_major: case.size(name) == 1,
        is_batched: false,
    });
    plain::<T, O>(case, Lies { sides, batches: 1 })
}

#[case(sizes(
    m = [320, 200, 400, 136, 16, 88, 65, 132, 1, 24, 264],
    n = [520, 264, 200, 136, 68, 1, 24, 136, 1, 200, 200],
    k = [328, 72, 200, 264, 520, 1096, 200, 520, 1, 1096, 1096],
    instance = [1, 1, 2, 6, 8, 9, 20, 36, 0, 30, 39],
    along_m = [1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1],
    along_n = [0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_major_bf16(case: &mut Case) -> CaseResult {
    majors::<bf16, bf16>(case)
}

#[case(sizes(
    m = [200, 68],
    n = [264, 24],
    k = [136, 520],
    instance = [1, 8],
    along_m = [1, 1],
    along_n = [1, 1],
    rivals = [0, 0]
))]
fn product_major_f16(case: &mut Case) -> CaseResult {
    majors::<f16, f32>(case)
}

/// Batches, of which either operand or both may be one for all.
#[case(sizes(
    m = [136, 130, 24, 65, 1],
    n = [264, 136, 68, 129, 1],
    k = [136, 72, 520, 72, 1],
    batches = [3, 2, 3, 2, 5],
    a_batched = [1, 0, 1, 1, 0],
    b_batched = [1, 1, 0, 1, 1],
    along_m = [0, 1, 0, 1, 0],
    along_n = [0, 0, 1, 1, 0],
    instance = [1, 6, 8, 32, 0],
    rivals = [0, 0, 0, 0, 0]
))]
fn product_batched_bf16(case: &mut Case) -> CaseResult {
    let side = |batched: &str, along: &str| Side {
        is_mn_major: case.size(along) == 1,
        is_batched: case.size(batched) == 1,
    };
    let lies = Lies {
        sides: [side("a_batched", "along_m"), side("b_batched", "along_n")],
        batches: case.size("batches"),
    };
    plain::<bf16, bf16>(case, lies)
}

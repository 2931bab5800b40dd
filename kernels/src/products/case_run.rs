//! Launches of a case's products by the instances that it names, and beside it by others.

use std::cell::OnceCell;

use tilekit::prelude::*;
use tilekit::{Argument, Arguments};

use super::alternating::alternating;
use super::case_product::{Lies, Product, stride};
use super::cluster_tiles::cluster_tiles;
use super::cooperative::cooperative;
use super::dense::dense;
use super::division::Division;
use super::epilogue::Epilogue;
use super::every_other_row::{STEPS, every_other_row, first_columns};
use super::factor::{Operand, ResultOf};
use super::few_tiles::few_tiles;
use super::form::Form;
use super::instances::{INSTANCES, Instance};
use super::numbers::PLANNED;
use super::one_wave::one_wave;
use super::options::Precision;
use super::output_handles::NoOutputs;
use super::plan::Plan;
use super::precise::precise;
use super::precise_parts::precise_parts;
use super::split_k::split_k;

/// Sums of parts and their counts, which `split_k` alone takes.
type Workspace<T> = (Input<<T as Operand>::Sum>, Input<u32>);

/// A kernel as a case launches it.
#[derive(Clone, Copy)]
enum Role {
    Main,
    Beside,
}

/// How far results of three products of tf32 may be off together, of their norm.
const NORM: f64 = 1e-6;

/// Runs products by the instance that the case names, or by the model's plan ([`PLANNED`]); when it is timed, so many of the plans
/// that the model says are fastest stand beside it. `after` is what the epilogue makes of a sum, by product, row and column.
pub(super) fn product<
    T: Operand,
    O: ResultOf<T, Addend = O>,
    E: Epilogue<O, Outputs = NoOutputs>,
>(
    case: &mut Case,
    lies: Lies,
    epilogue: E,
    after: impl Fn(&Product<T, O>, [usize; 3], f64) -> f64,
) -> CaseResult {
    Product::<T, O>::new(case, lies).compute_planned(case, epilogue, after)
}

impl<T: Operand, O: ResultOf<T, Addend = O>> Product<T, O> {
    /// [`product`] of these tensors.
    pub(super) fn compute_planned<E: Epilogue<O, Outputs = NoOutputs>>(
        &self,
        case: &mut Case,
        epilogue: E,
        after: impl Fn(&Product<T, O>, [usize; 3], f64) -> f64,
    ) -> CaseResult {
        let need = self.need();
        let plan = match case.size("instance") {
            PLANNED => Plan::best(&need).expect("a case is one that a call may need"),
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

    /// Runs by `plan`, beside cuBLAS and these plans, and compares.
    pub(super) fn compute<E: Epilogue<O, Outputs = NoOutputs>>(
        &self,
        case: &mut Case,
        plans: (&Plan, &[Plan]),
        epilogue: E,
        after: impl Fn(&Product<T, O>, [usize; 3], f64) -> f64,
    ) -> CaseResult {
        self.compute_storing(case, plans, (epilogue, NoOutputs), after)
    }

    /// The same of an epilogue that stores more than the result, for which this is passed.
    pub(super) fn compute_storing<E: Epilogue<O>>(
        &self,
        case: &mut Case,
        (plan, beside): (&Plan, &[Plan]),
        (epilogue, outputs): (E, impl Argument<E::Outputs> + Copy),
        after: impl Fn(&Product<T, O>, [usize; 3], f64) -> f64,
    ) -> CaseResult {
        let ([m, n, k], need) = (self.size, self.need());
        let batches = self.lies.batches;
        if batches == 1 && epilogue.is_plain() {
            case.peer(Peer::Cublas(self.gemm()));
        }
        let workspace = self.workspace(case, [&[*plan], beside].concat());
        let ending = (epilogue, outputs);
        self.run(case, (plan, Role::Main), ending, workspace.as_ref())?;
        for beside in beside
            .iter()
            .filter(|beside| beside.instance != plan.instance)
        {
            self.run(case, (beside, Role::Beside), ending, workspace.as_ref())?;
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

    /// Launches a kernel, or has it timed beside what was launched.
    fn begin<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        &self,
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
            Role::Main if plan.overlaps(&self.need()) => {
                case.launch_programmatic(kernel, plan.grid, arguments)
            }
            Role::Main => case.launch(kernel, plan.grid, arguments),
            Role::Beside => case.rival(&plan.to_string(), tolerance, kernel, plan.grid, arguments),
        }
    }

    fn run<E: Epilogue<O>>(
        &self,
        case: &mut Case,
        (plan, role): (&Plan, Role),
        (epilogue, outputs): (E, impl Argument<E::Outputs> + Copy),
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
        let batches = self.lies.batches as i32;
        let (a, b) = (self.factor(0), self.factor(1));
        let data = self.data((pitch, of_batch), outputs);
        let exchanged = |is_turned: bool| {
            if is_turned {
                (self.factor(1), self.factor(0), n, m)
            } else {
                (self.factor(0), self.factor(1), m, n)
            }
        };
        let c = &self.c;
        match plan.instance {
            Instance::Many(tile) => {
                let (form, c) = (self.form(tile, epilogue), self.result());
                let arguments = (a, b, c, m, n, k, batches, data);
                self.begin(case, plan, role, fixed(dense::<T, O, E>, form), arguments)
            }
            Instance::Wave(tile) => {
                let (form, c) = (self.form(tile, epilogue), self.result());
                let arguments = (a, b, c, m, n, k, batches, data);
                let kernel = fixed(one_wave::<T, O, E>, form);
                self.begin(case, plan, role, kernel, arguments)
            }
            Instance::Few(tile) => {
                let form = self.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let (x, y, rows, columns) = exchanged(tile.turned);
                let arguments = (x, y, c, pitch, of_batch, rows, columns, k, data);
                let kernel = fixed(few_tiles::<T, O, E>, form);
                self.begin(case, plan, role, kernel, arguments)
            }
            Instance::Precise(tile) => {
                let form = self.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let (x, y, rows, columns) = exchanged(tile.turned);
                let arguments = (x, y, c, pitch, of_batch, rows, columns, k, data);
                self.begin(case, plan, role, fixed(precise::<T, O, E>, form), arguments)
            }
            Instance::PreciseParts(tile) => {
                let (x, y, rows, columns) = exchanged(tile.turned);
                let [parts, each] = self.divided(plan);
                let (sums, counts) = workspace.expect("made for all plans");
                let arguments = (
                    x, y, c, pitch, rows, columns, k, parts, each, data, sums, counts,
                );
                let kernel = fixed(precise_parts::<T, O, E>, Form::new(tile, epilogue));
                self.begin(case, plan, role, kernel, arguments)
            }
            Instance::Cluster(tile) => {
                let (x, y, rows, columns) = exchanged(tile.turned);
                let form = self.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let kernel = fixed(cluster_tiles::<T, O, E>, form);
                let arguments = (x, y, c, pitch, rows, columns, k, data);
                self.begin(case, plan, role, kernel, arguments)
            }
            Instance::Persistent(tile) => {
                let form = self.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                if tile.every_other_row {
                    let (x, y, rows, columns) = exchanged(tile.turned);
                    let [x_steps, y_steps] = tile.steps();
                    let (x, y) = (x.with_steps(&x_steps), y.with_steps(&y_steps));
                    let [c, first] = [self.result(), self.result()].map(|c| c.with_steps(&STEPS));
                    let of_first = [self.size[0], first_columns::<O>(tile, self.size[1])];
                    let first = first.with_shape(of_first).with_strides([pitch as usize, 1]);
                    let kernel = fixed(every_other_row::<T, O, E>, form);
                    let arguments = (x, y, c, first, rows, columns, k, data);
                    return self.begin(case, plan, role, kernel, arguments);
                }
                let (x, y, rows, columns) = exchanged(tile.turned);
                let arguments = (x, y, self.result(), rows, columns, k, data);
                if tile.groups > 1 {
                    let kernel = fixed(cooperative::<T, O, E>, form);
                    self.begin(case, plan, role, kernel, arguments)
                } else {
                    let kernel = fixed(alternating::<T, O, E>, form);
                    self.begin(case, plan, role, kernel, arguments)
                }
            }
            Instance::Split(tile) => {
                let [parts, each] = self.divided(plan);
                let (sums, counts) = workspace.expect("made for all plans");
                let (x, y, rows, columns) = exchanged(tile.turned);
                let form = self.form(tile, epilogue);
                let form = if tile.turned { form.turned() } else { form };
                let kernel = fixed(split_k::<T, O, E>, form);
                let arguments = (
                    x, y, c, pitch, rows, columns, k, parts, each, data, sums, counts,
                );
                self.begin(case, plan, role, kernel, arguments)
            }
            Instance::Any(_) | Instance::Copied(_) => {
                unreachable!("rows of cases begin where tensor maps want them")
            }
        }
    }

    /// A kernel's form for how these products lie.
    fn form<S, E>(&self, tile: S, epilogue: E) -> Form<S, E> {
        Form {
            tile,
            sides: self.lies.sides,
            is_batched: self.lies.batches > 1,
            epilogue,
        }
    }

    /// Parts of a tile and steps of each, of a plan that divides K.
    fn divided(&self, plan: &Plan) -> [i32; 2] {
        let divided = Division::of(plan.instance, &self.need());
        let Division { parts, each, .. } = divided.expect("the plan of a kernel that divides K");
        [parts, each].map(|count| count as i32)
    }

    /// Memory of `split_k` for the largest of these plans, if one is of it. Inputs, since kernels beside it write nothing there; launches leave no arrivals in counts.
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
        Some((sums, case.input::<u32>("counts", [counts], |_| 0)))
    }
}

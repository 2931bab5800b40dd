//! Cases of products, against f64.

use tilekit::prelude::*;
use tilekit::{Arguments, TensorSource};

use super::few_tiles::few_tiles;
use super::many_tiles::many_tiles;
use super::plan::{INSTANCES, Instance, Plan};

/// The tensors of one product `C[M, N] = A[M, K] · B[N, K]ᵀ`. Rows begin at multiples of 16 bytes, as tensor maps want.
struct Product<T> {
    size: [usize; 3],
    a: Input<T>,
    b: Input<T>,
    c: Output<T>,
}

/// Elements from one row to the next.
fn stride<T>(columns: usize) -> usize {
    columns.next_multiple_of(16 / size_of::<T>())
}

impl<T: Float + Factor<T, f32> + DeviceElement> Product<T> {
    fn new(case: &mut Case) -> Self {
        let size = ["m", "n", "k"].map(|name| case.size(name));
        let [m, n, k] = size;
        Product {
            size,
            a: case.normal::<T>("a", [m, stride::<T>(k)]),
            b: case.normal::<T>("b", [n, stride::<T>(k)]),
            c: case.output::<T>("c", [m, stride::<T>(n)]),
        }
    }

    fn view<B: TensorSource<T>>(
        view: TensorView<'_, T, B>,
        shape: [usize; 2],
    ) -> TensorView<'_, T, B> {
        view.with_shape(shape)
            .with_strides([stride::<T>(shape[1]), 1])
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
            Role::Main if matches!(plan.instance, Instance::Few { .. }) => {
                case.launch_programmatic(kernel, plan.grid, arguments)
            }
            Role::Main => case.launch(kernel, plan.grid, arguments),
            Role::Beside => case.rival(&plan.to_string(), tolerance, kernel, plan.grid, arguments),
        }
    }

    fn many<const GROUPS: usize, const ROWS: usize, const BN: usize, const STAGES: usize>(
        &self,
        case: &mut Case,
        plan: &Plan,
        role: Role,
    ) -> CaseResult {
        let [m, n, k] = self.size;
        Self::begin(
            case,
            plan,
            role,
            many_tiles::<T, GROUPS, ROWS, BN, STAGES>,
            (
                Self::view(self.a.view(), [m, k]),
                Self::view(self.b.view(), [n, k]),
                Self::view(self.c.view(), [m, n]),
                m as i32,
                n as i32,
                k as i32,
            ),
        )
    }

    fn few<
        const CTAS: usize,
        const GROUPS: usize,
        const BN: usize,
        const STAGES: usize,
        const TURNED: bool,
    >(
        &self,
        case: &mut Case,
        plan: &Plan,
        role: Role,
    ) -> CaseResult {
        let [m, n, k] = self.size;
        let a = Self::view(self.a.view(), [m, k]);
        let b = Self::view(self.b.view(), [n, k]);
        let (x, y, rows, columns) = if TURNED { (b, a, n, m) } else { (a, b, m, n) };
        Self::begin(
            case,
            plan,
            role,
            few_tiles::<T, CTAS, GROUPS, BN, STAGES, TURNED>,
            (
                x,
                y,
                &self.c,
                stride::<T>(n) as i32,
                rows as i32,
                columns as i32,
                k as i32,
            ),
        )
    }

    fn run(&self, case: &mut Case, plan: &Plan, role: Role) -> CaseResult {
        macro_rules! split {
            ($ctas:expr, $groups:literal, $columns:literal, $stages:literal, $turned:literal) => {
                match $ctas {
                    1 => self.few::<1, $groups, $columns, $stages, $turned>(case, plan, role),
                    2 => self.few::<2, $groups, $columns, $stages, $turned>(case, plan, role),
                    4 => self.few::<4, $groups, $columns, $stages, $turned>(case, plan, role),
                    _ => self.few::<8, $groups, $columns, $stages, $turned>(case, plan, role),
                }
            };
        }
        match plan.instance {
            Instance::Many {
                groups,
                rows,
                columns,
            } => match (groups, rows, columns) {
                (2, 64, 256) => self.many::<2, 64, 256, 4>(case, plan, role),
                (3, 64, 192) => self.many::<3, 64, 192, 3>(case, plan, role),
                (2, 128, 160) => self.many::<2, 128, 160, 3>(case, plan, role),
                (2, 64, 192) => self.many::<2, 64, 192, 4>(case, plan, role),
                (3, 64, 176) => self.many::<3, 64, 176, 3>(case, plan, role),
                _ => self.many::<2, 64, 128, 6>(case, plan, role),
            },
            Instance::Few {
                ctas,
                groups,
                columns,
                turned,
            } => match (groups, columns, turned) {
                (1, 16, true) => split!(ctas, 1, 16, 8, true),
                (1, 32, true) => split!(ctas, 1, 32, 8, true),
                (1, 64, true) => split!(ctas, 1, 64, 8, true),
                (1, 16, false) => split!(ctas, 1, 16, 8, false),
                (1, 32, false) => split!(ctas, 1, 32, 8, false),
                (1, 64, false) => split!(ctas, 1, 64, 8, false),
                (1, 128, false) => split!(ctas, 1, 128, 6, false),
                _ if ctas == 1 => self.few::<1, 2, 128, 6, false>(case, plan, role),
                _ => split!(ctas, 2, 128, 3, false),
            },
        }
    }
}

/// A kernel as a case launches it.
#[derive(Clone, Copy)]
enum Role {
    Main,
    Beside,
}

/// Runs one product, by the instance of that number, or by the model's plan if it is 0; when it is timed, so many of the plans
/// that the model says are fastest stand beside it.
fn product<T: Float + Factor<T, f32> + DeviceElement>(case: &mut Case) -> CaseResult {
    let product = Product::<T>::new(case);
    let [m, n, k] = product.size;
    let plan = match case.size("instance") {
        0 => Plan::best(product.size),
        number => Plan::of(INSTANCES[number - 1], product.size),
    };
    let gemm = Gemm::new(&product.a, &product.b, &product.c);
    let gemm = gemm.transposed_b().with_size(product.size);
    case.peer(Peer::Cublas(gemm.clone()));
    product.run(case, &plan, Role::Main)?;
    for beside in Plan::all(product.size).iter().take(case.size("rivals")) {
        if beside.instance != plan.instance {
            product.run(case, beside, Role::Beside)?;
        }
    }
    // Half a step of the output's type, and the rounding of k terms accumulated in f32.
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-4 * (k as f64).sqrt(),
    };
    case.expect_part_in_units(&product.c, [m, n], || gemm.reference(), tolerance)?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    case.moves_bytes(size_of::<T>() * (m * k + n * k + m * n));
    Ok(())
}

#[case(sizes(
    m = [320, 200, 400, 320, 300, 200, 200, 129],
    n = [520, 264, 200, 328, 200, 360, 136, 65],
    k = [328, 72, 200, 264, 520, 200, 264, 1],
    instance = [1, 1, 2, 3, 4, 5, 6, 0],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case)
}

#[case(sizes(
    m = [16, 24, 88, 1, 32, 40, 104, 1, 64, 72, 136, 1, 64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 128, 132, 1, 129],
    n = [64, 68, 1, 65, 64, 68, 1, 65, 64, 68, 1, 65, 16, 24, 88, 1, 32, 40, 104, 1, 64, 72, 136, 1, 128, 136, 200, 1, 128, 136, 200, 1],
    k = [576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096, 576, 520, 1096, 1096],
    instance = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_of_few_tiles_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case)
}

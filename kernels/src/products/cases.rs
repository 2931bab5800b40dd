//! Cases of products, against f64.

use tilekit::prelude::*;
use tilekit::{Arguments, TensorSource};

use super::instances::with_instance;
use super::plan::{INSTANCES, Instance, Plan};
use super::repack::{TILE, repack};

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

impl<T: Float + WgmmaOperand<T, f32> + DeviceElement> Product<T> {
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

    fn run(&self, case: &mut Case, plan: &Plan, role: Role) -> CaseResult {
        let [m, n, k] = self.size;
        let [rows, columns, depth] = self.size.map(|extent| extent as i32);
        let a = Self::view(self.a.view(), [m, k]);
        let b = Self::view(self.b.view(), [n, k]);
        let is_turned = matches!(plan.instance, Instance::Few { turned: true, .. });
        with_instance!(
            T,
            plan.instance,
            many kernel => {
                let c = Self::view(self.c.view(), [m, n]);
                Self::begin(case, plan, role, kernel, (a, b, c, rows, columns, depth))
            },
            few kernel => {
                let pitch = stride::<T>(n) as i32;
                let c = &self.c;
                if is_turned {
                    Self::begin(case, plan, role, kernel, (b, a, c, pitch, columns, rows, depth))
                } else {
                    Self::begin(case, plan, role, kernel, (a, b, c, pitch, rows, columns, depth))
                }
            }
        )
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
fn product<T: Float + WgmmaOperand<T, f32> + DeviceElement>(case: &mut Case) -> CaseResult {
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

/// Of each kernel an instance or two.
#[case(sizes(
    m = [320, 16, 128, 65],
    n = [328, 64, 128, 129],
    k = [200, 576, 576, 72],
    instance = [1, 8, 35, 0],
    rivals = [0, 0, 0, 0]
))]
fn product_f16(case: &mut Case) -> CaseResult {
    product::<f16>(case)
}

/// A matrix whose columns lie along memory, copied to rows or to columns.
fn repacked<const TO: usize>(case: &mut Case) -> CaseResult {
    let [m, n] = ["m", "n"].map(|name| case.size(name));
    let x = case.normal::<bf16>("x", [n, m]);
    let out = case.output::<bf16>("out", if TO == 1 { [m, n] } else { [n, m] });
    let (row, column) = if TO == 1 { (n, 1) } else { (1, m) };
    case.launch(
        repack::<bf16, 0, TO>,
        [m.div_ceil(TILE), n.div_ceil(TILE)],
        (
            &x,
            0_i64,
            1_i64,
            m as i64,
            &out,
            0_i64,
            row as i64,
            column as i64,
            m as i32,
            n as i32,
            1,
        ),
    )?;
    let want = |[i, j]: [usize; 2]| if TO == 1 { x[[j, i]] } else { x[[i, j]] };
    case.expect(&out, want, Exactly)?;
    case.moves_bytes(2 * size_of::<bf16>() * m * n);
    Ok(())
}

#[case(sizes(m = [200, 1, 64], n = [72, 65, 130]))]
fn repack_to_rows(case: &mut Case) -> CaseResult {
    repacked::<1>(case)
}

#[case(sizes(m = [200, 1, 64], n = [72, 65, 130]))]
fn repack_to_columns(case: &mut Case) -> CaseResult {
    repacked::<0>(case)
}

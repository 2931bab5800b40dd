//! Cases of sparse products, against f64.

use std::sync::{Arc, LazyLock};

use tilekit::prelude::*;
use tilekit::reference::products_of_rows;

use super::few::sparse_few;
use super::form::SparseForm;
use super::layout::{kept, kept_pitch, numbers};
use super::plan::SparsePlan;
use super::product::sparse_product;
use super::tiles::{FEW, MANY, SparseTile};
use super::{HostSparse, Pruning, SparseOperand};
use crate::products::case_product::{ALPHA, BETA, tolerance};
use crate::products::dense::dense;
use crate::products::epilogue::{Activation, Axis, Epilogue, Plain, Scales, Standard};
use crate::products::epilogue_kind::{Finishing, Together};
use crate::products::factor::{ResultOf, unit};
use crate::products::form::{Form, Side};
use crate::products::instances::{INSTANCES, Instance};
use crate::products::need::Need;
use crate::products::options::Precision;
use crate::products::output_handles::NoOutputs;
use crate::products::plan::Plan;

/// How B lies, and C.
#[derive(Clone, Copy, Default)]
struct Lies {
    b_along_n: bool,
    turned: bool,
}

/// The tensors of a product. Rows begin at multiples of 16 bytes.
struct Sparse<T, O> {
    /// M, N, K.
    size: [usize; 3],
    lies: Lies,
    /// What is compressed, with zeros where nothing is kept.
    whole: Input<T>,
    kept: Input<T>,
    places: Input<u16>,
    b: Input<T>,
    c: Output<O>,
    source: Input<O>,
    bias: Input<O>,
    scales: [Input<f32>; 2],
}

fn stride<T>(columns: usize) -> usize {
    columns.next_multiple_of(unit::<T>())
}

/// A matrix whose rows begin at multiples of 16 bytes.
fn in_rows<T: DeviceElement>(
    tensor: &Input<T>,
    [rows, columns]: [usize; 2],
) -> TensorView<'_, T, Input<T>> {
    let view = tensor.view().with_shape([rows, columns]);
    view.with_strides([stride::<T>(columns), 1])
}

fn operand<T: SparseOperand>(case: &mut Case, name: &str, shape: [usize; 2]) -> Input<T> {
    if T::IS_INTEGER {
        return case.integers::<T>(name, shape, -128..128);
    }
    case.normal::<T>(name, shape)
}

impl<T: SparseOperand, O: ResultOf<T, Addend = O>> Sparse<T, O> {
    fn new(case: &mut Case, lies: Lies) -> Self {
        let size @ [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
        let pitch = stride::<T>(k);
        let given = operand::<T>(case, "given", [m, pitch]);
        // Only a case that runs is compressed: cases are listed for each command.
        let compressed = Arc::new(LazyLock::new(move || {
            let rows = given.host().chunks(pitch.max(1));
            let elements: Vec<T> = rows.flat_map(|row| row[..k].iter().copied()).collect();
            let compressed = HostSparse::compress(&elements, [m, k], Pruning::LargestTwo);
            compressed.expect("the shape is that of the elements")
        }));
        let of = Arc::clone(&compressed);
        let dense = LazyLock::new(move || of.dense());
        let whole = case.input("a", [m, pitch], move |at| {
            let (row, column) = (at / pitch, at % pitch);
            if column < k {
                dense[row * k + column]
            } else {
                T::NOTHING
            }
        });
        let of = Arc::clone(&compressed);
        let b_shape = if lies.b_along_n {
            [k, stride::<T>(n)]
        } else {
            [n, pitch]
        };
        let c_shape = if lies.turned { [n, m] } else { [m, n] };
        let c_shape = [c_shape[0], stride::<O>(c_shape[1])];
        Sparse {
            size,
            lies,
            whole,
            kept: case.input("kept", [m, kept_pitch::<T>(k)], move |at| of.kept[at]),
            places: case.input("places", [numbers::<T>([m, k])], move |at| {
                compressed.places[at]
            }),
            b: operand(case, "b", b_shape),
            c: case.output("c", c_shape),
            source: case.normal("source", c_shape),
            bias: case.normal("bias", [m.max(n)]),
            scales: [
                case.uniform("a_scales", [m.max(n)], 0.5..1.5),
                case.uniform("b_scales", [m.max(n)], 0.5..1.5),
            ],
        }
    }

    /// Extents of what is stored.
    fn stored(&self) -> [usize; 2] {
        let [m, n, _] = self.size;
        if self.lies.turned { [n, m] } else { [m, n] }
    }

    fn form<I, E>(&self, tile: I, epilogue: E) -> SparseForm<I, E> {
        SparseForm {
            tile,
            b: Side {
                is_mn_major: self.lies.b_along_n,
                is_batched: false,
                is_settled: false,
            },
            turned: self.lies.turned,
            epilogue,
        }
    }

    /// The tile that the case names: those of few columns follow the persistent ones.
    fn tile(case: &Case) -> SparseTile {
        let number = case.size("instance");
        match number.checked_sub(MANY.len()) {
            Some(number) => SparseTile::Few(FEW[number].fitted::<T>()),
            None => SparseTile::Many(MANY[number].fitted::<T>(size_of::<O>())),
        }
    }

    fn launch<E: Epilogue<O, Outputs = NoOutputs>>(
        &self,
        case: &mut Case,
        epilogue: E,
    ) -> CaseResult {
        let [m, n, k] = self.size;
        let tile = Self::tile(case);
        let b_shape = if self.lies.b_along_n { [k, n] } else { [n, k] };
        let stored = self.stored();
        let pitch = stride::<O>(stored[1]);
        let kept = in_rows(&self.kept, [m, kept(k)]);
        let b = in_rows(&self.b, b_shape);
        let c = self.c.view().with_shape(stored).with_strides([pitch, 1]);
        let [m, n, k] = self.size.map(|extent| extent as i32);
        let scales = self.scales.each_ref();
        let data = (
            ALPHA,
            BETA,
            &self.source,
            pitch as i32,
            0,
            &self.bias,
            scales,
            NoOutputs,
        );
        let grid = SparsePlan::of::<T>(tile, self.size, size_of::<O>()).grid;
        match tile {
            SparseTile::Few(tile) => {
                let kernel = fixed(sparse_few::<T, O, E>, self.form(tile, epilogue));
                let arguments = (kept, &self.places, b, &self.c, pitch as i32, m, n, k, data);
                case.launch_programmatic(kernel, grid, arguments)
            }
            SparseTile::Many(tile) => {
                // Of small products each CTA has several tiles.
                let programs = if m * n < 1 << 20 {
                    grid[0].min(2)
                } else {
                    grid[0]
                };
                let kernel = fixed(sparse_product::<T, O, E>, self.form(tile, epilogue));
                case.launch(kernel, programs, (kept, &self.places, b, c, m, n, k, data))
            }
        }
    }

    /// Has our dense product of the same matrix timed beside it.
    fn beside_dense(&self, case: &mut Case) -> CaseResult {
        let [m, n, k] = self.size;
        let need = Need {
            size: self.size,
            batches: 1,
            element_bytes: [size_of::<T>(), size_of::<O>()],
            is_mn_major: [false; 2],
            precision: Precision::Tf32,
            loose: None,
            ends_early: false,
            all_rows: false,
            together: Together::One,
            finishing: Finishing::Nothing,
        };
        let plans = INSTANCES.map(|instance| Plan::able(instance, &need));
        let plans = plans.into_iter().flatten();
        let of_many = plans.filter(|plan| matches!(plan.instance, Instance::Many(_)));
        let plan = of_many.min_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        let plan = plan.expect("tiles of many take any shape");
        let Instance::Many(tile) = plan.instance else {
            unreachable!("it was filtered")
        };
        let pitch = stride::<O>(n);
        let arguments = (
            in_rows(&self.whole, [m, k]),
            in_rows(&self.b, [n, k]),
            self.c.view().with_shape([m, n]).with_strides([pitch, 1]),
            m as i32,
            n as i32,
            k as i32,
            1,
            (
                ALPHA,
                BETA,
                &self.source,
                pitch as i32,
                0,
                &self.bias,
                self.scales.each_ref(),
                NoOutputs,
            ),
        );
        let kernel = fixed(dense::<T, O, Plain>, Form::new(tile, Plain));
        let tolerance = Close {
            relative: 8e-3,
            absolute: 0.05,
        };
        case.rival("dense", tolerance, kernel, plan.grid, arguments)
    }

    /// Compares results: `after` is what the epilogue makes of a sum, by row and column of what is stored.
    fn expect(&self, case: &mut Case, after: impl Fn(&Self, [usize; 2], f64) -> f64) -> CaseResult {
        let [m, n, k] = self.size;
        let b = |l: usize, j: usize| {
            let at = if self.lies.b_along_n { [l, j] } else { [j, l] };
            self.b[at].number().to_f64()
        };
        let want = || {
            let a = |i: usize, l: usize| self.whole[[i, l]].number().to_f64();
            let rows: Vec<f64> = (0..m * k).map(|at| a(at / k, at % k)).collect();
            let columns: Vec<f64> = (0..n * k).map(|at| b(at % k, at / k)).collect();
            let sums = products_of_rows(self.size, &rows, &columns);
            let [rows, width] = self.stored();
            let places = (0..rows).flat_map(|i| (0..width).map(move |j| [i, j]));
            let result = |at: [usize; 2]| {
                let [i, j] = if self.lies.turned { [at[1], at[0]] } else { at };
                after(self, at, sums[i * n + j])
            };
            places.map(result).collect()
        };
        case.expect_part_in_units(&self.c, self.stored(), want, tolerance::<T, O>(k))?;
        case.does_tensor_flops::<T>(2 * m * n * k);
        case.moves_bytes(size_of::<T>() * (m * k / 2 + n * k) + m * k / 8 + size_of::<O>() * m * n);
        Ok(())
    }
}

fn plain<T: SparseOperand, O: ResultOf<T, Addend = O>>(case: &mut Case, lies: Lies) -> CaseResult {
    let product = Sparse::<T, O>::new(case, lies);
    if !lies.b_along_n && !lies.turned {
        product.beside_dense(case)?;
    }
    product.launch(case, Plain)?;
    product.expect(case, |_, _, sum| sum)
}

/// Steps along K wrap the ring of each tile.
macro_rules! of_types {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [300, 200, 1, 136, 64],
            n = [264, 200, 130, 72, 136],
            k = [650, 720, 1096, 1288, 1160],
            instance = [0, 1, 2, 3, 4]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            plain::<$operand, $result>(case, Lies::default())
        }
    )*};
}

of_types! {
    sparse_product_bf16: bf16 => bf16;
    sparse_product_f16: f16 => f16;
    sparse_product_bf16_f32: bf16 => f32;
    sparse_product_e4m3_bf16: E4m3 => bf16;
    sparse_product_e5m2_f16: E5m2 => f16;
    sparse_product_i8_i32: i8 => i32;
}

/// CTAs and warpgroups share the steps along K, which wrap the ring of each tile; in the last case there are fewer of them than CTAs.
#[case(sizes(
    m = [130, 1, 72, 200, 70, 300, 130, 1, 72, 200, 70, 300, 130, 1, 72, 65],
    n = [16, 13, 1, 18, 8, 32, 29, 1, 34, 32, 64, 61, 1, 66, 32, 16],
    k = [1736, 1226, 3408, 4696, 9330, 1480, 1226, 2896, 3672, 1266, 968, 2122, 1360, 3160, 6258, 136],
    instance = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 9]
))]
fn sparse_few_bf16(case: &mut Case) -> CaseResult {
    plain::<bf16, bf16>(case, Lies::default())
}

/// Some of these by other types.
macro_rules! few_columns {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [130, 70, 130, 70, 1],
            n = [16, 8, 29, 64, 66],
            k = [1736, 9330, 1226, 968, 3160],
            instance = [5, 9, 11, 15, 18]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            plain::<$operand, $result>(case, Lies::default())
        }
    )*};
}

few_columns! {
    sparse_few_f16_f32: f16 => f32;
    sparse_few_e4m3_bf16: E4m3 => bf16;
    sparse_few_e5m2_f16: E5m2 => f16;
    sparse_few_i8_i32: i8 => i32;
}

/// The transpose of C is stored.
macro_rules! turned {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [300, 200, 1, 72, 200],
            n = [264, 200, 130, 33, 5],
            k = [136, 72, 200, 264, 1096],
            instance = [0, 1, 2, 11, 8]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            let lies = Lies { turned: true, ..Lies::default() };
            plain::<$operand, $result>(case, lies)
        }
    )*};
}

turned! {
    sparse_product_turned_bf16: bf16 => bf16;
    sparse_product_turned_f16_f32: f16 => f32;
    sparse_product_turned_e4m3_f16: E4m3 => f16;
    sparse_product_turned_i8_f32: i8 => f32;
}

/// Columns of B are contiguous along N.
#[case(sizes(
    m = [200, 130, 72, 1, 130, 200],
    n = [264, 200, 72, 1, 72, 64],
    k = [400, 137, 1096, 1, 1230, 137],
    instance = [0, 1, 4, 3, 16, 14],
    turned = [0, 1, 0, 1, 0, 1]
))]
fn sparse_product_along_n_bf16(case: &mut Case) -> CaseResult {
    let lies = Lies {
        b_along_n: true,
        turned: case.size("turned") == 1,
    };
    plain::<bf16, bf16>(case, lies)
}

/// An epilogue that reads all that a call has.
const ALL: Standard = Standard {
    scales: [Scales::Each; 2],
    bias: Some(Axis::Columns),
    has_source: true,
    activation: Activation::Relu,
};

#[case(sizes(m = [200, 72, 136], n = [264, 33, 70], k = [136, 1096, 700], instance = [0, 11, 17], turned = [0, 1, 0]))]
fn sparse_product_options(case: &mut Case) -> CaseResult {
    let lies = Lies {
        b_along_n: false,
        turned: case.size("turned") == 1,
    };
    let product = Sparse::<bf16, bf16>::new(case, lies);
    product.launch(case, ALL)?;
    product.expect(case, |of, [row, column], sum| {
        let number = |x: bf16| f64::from(x.to_f32());
        let scales = [(0, row), (1, column)].map(|(which, at)| f64::from(of.scales[which][[at]]));
        let scaled = f64::from(ALPHA) * scales[0] * scales[1] * sum;
        let source = f64::from(BETA) * number(of.source[[row, column]]);
        (scaled + number(of.bias[[column]]) + source).max(0.0)
    })
}

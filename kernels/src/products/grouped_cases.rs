//! Cases of products of groups of rows, against f64.

use std::ops::Range;

use tilekit::prelude::*;
use tilekit::reference::products_of_rows;

use super::case_product::tolerance;
use super::epilogue::{Activation, Axis, Epilogue, Plain, Scales, Standard};
use super::epilogue_kind::{Finishing, Together};
use super::factor::{Operand, ResultOf, unit};
use super::form::{Form, Side};
use super::grouped::{grouped, plan, tiles};
use super::need::Need;
use super::options::Precision;
use super::output_handles::NoOutputs;

/// The factors of epilogues.
const ALPHA: f32 = 0.75;
const BETA: f32 = -0.5;

/// The tensors of a case: rows of A and C begin at multiples of 16 bytes.
struct Grouped<T, O> {
    /// Groups, N and K.
    size: [usize; 3],
    /// Where groups begin, and where the last ends.
    offsets: Vec<usize>,
    a: Input<T>,
    b: Input<T>,
    c: Output<O>,
    source: Input<O>,
    bias: Input<O>,
    scales: [Input<f32>; 2],
    begins: Input<i32>,
}

impl<T: Operand, O: ResultOf<T, Addend = O>> Grouped<T, O> {
    /// Groups of `rows` rows each, or where that is 0, of 0 to 299.
    fn new(case: &mut Case) -> Self {
        let size @ [groups, n, k] = ["groups", "n", "k"].map(|name| case.size(name));
        let rows = case.size("rows");
        let mut offsets = vec![0];
        for group in 0..groups {
            let of_group = if rows == 0 {
                (group * 170 + 130) % 300
            } else {
                rows
            };
            offsets.push(offsets[group] + of_group);
        }
        let (m, begin) = (offsets[groups], offsets.clone());
        let depth = k.next_multiple_of(unit::<T>());
        let rows_of_c = [m, n.next_multiple_of(unit::<O>())];
        Grouped {
            size,
            offsets,
            a: case.normal::<T>("a", [m, depth]),
            b: case.normal::<T>("b", [groups * n, depth]),
            c: case.output::<O>("c", rows_of_c),
            source: case.normal::<O>("source", rows_of_c),
            bias: case.normal::<O>("bias", [groups * n]),
            scales: [
                case.uniform::<f32>("a_scales", [m], 0.5..1.5),
                case.uniform::<f32>("b_scales", [groups * n], 0.5..1.5),
            ],
            begins: case.input::<i32>("offsets", [groups + 1], move |at| begin[at] as i32),
        }
    }

    fn rows(&self) -> usize {
        self.offsets[self.size[0]]
    }

    fn launch<E: Epilogue<O, Outputs = NoOutputs>>(
        &self,
        case: &mut Case,
        epilogue: E,
    ) -> CaseResult {
        let ([groups, n, k], m) = (self.size, self.rows());
        let need = Need {
            size: [m, n, k],
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
        let (planned, programs) = plan(m, groups, &need);
        let tile = match case.size("tile") {
            0 => planned,
            number => tiles(size_of::<O>())
                .nth(number - 1)
                .expect("a case names a tile that has room for its results"),
        };
        let of_b = Side {
            is_mn_major: false,
            is_batched: true,
            is_settled: false,
        };
        let form = Form {
            sides: [Side::default(), of_b],
            ..Form::new(tile, epilogue)
        };
        let depth = k.next_multiple_of(unit::<T>());
        let pitch = n.next_multiple_of(unit::<O>());
        let b = self.b.view().with_shape([groups, n, k]);
        // Fewer programs than tiles, at small sizes too.
        let programs = if m < 4096 { programs.min(3) } else { programs };
        let of_result = self.c.view().with_shape([m, n]).with_strides([pitch, 1]);
        case.launch(
            fixed(grouped::<T, O, E>, form),
            programs,
            (
                T::loaded(self.a.view().with_shape([m, k]).with_strides([depth, 1])),
                T::loaded(b.with_strides([n * depth, depth, 1])),
                of_result,
                &self.c,
                pitch as i32,
                &self.begins,
                groups as i32,
                m as i32,
                n as i32,
                k as i32,
                ALPHA,
                BETA,
                &self.source,
                pitch as i32,
                &self.bias,
                n as i32,
                &self.scales[0],
                &self.scales[1],
                n as i32,
            ),
        )
    }

    /// The sums in f64, row by row, with their groups.
    fn sums(&self) -> Vec<(usize, f64)> {
        let [groups, n, k] = self.size;
        let rows_of = |x: &Input<T>, rows: Range<usize>| -> Vec<f64> {
            let places = rows.flat_map(|row| (0..k).map(move |at| [row, at]));
            places.map(|place| x[place].number().to_f64()).collect()
        };
        let of_group = |group: usize| {
            let rows = self.offsets[group]..self.offsets[group + 1];
            let size = [rows.len(), n, k];
            let columns = rows_of(&self.b, group * n..(group + 1) * n);
            let sums = products_of_rows(size, &rows_of(&self.a, rows), &columns);
            sums.into_iter().map(move |sum| (group, sum))
        };
        (0..groups).flat_map(of_group).collect()
    }
}

/// Runs products of groups by the tile of that number, or by the model's plan if it is 0; `after` is what the epilogue makes of a sum, by group, row and column.
fn product<T: Operand, O: ResultOf<T, Addend = O>, E: Epilogue<O, Outputs = NoOutputs>>(
    case: &mut Case,
    epilogue: E,
    after: impl Fn(&Grouped<T, O>, [usize; 3], f64) -> f64,
) -> CaseResult {
    let product = Grouped::<T, O>::new(case);
    let ([groups, n, k], m) = (product.size, product.rows());
    product.launch(case, epilogue)?;
    let want = || {
        let sums = product.sums().into_iter().enumerate();
        sums.map(|(at, (group, sum))| after(&product, [group, at / n, at % n], sum))
            .collect()
    };
    case.expect_part_in_units(&product.c, [m, n], want, tolerance::<T, O>(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    let of_operands = size_of::<T>() * (m * k + groups * n * k);
    case.moves_bytes(of_operands + size_of::<O>() * m * n);
    Ok(())
}

#[case(sizes(groups = [1, 5, 3, 2, 3], n = [128, 264, 8, 40, 264], k = [128, 200, 8, 1, 264], rows = [0, 0, 0, 1, 0], tile = [0, 0, 0, 0, 1]))]
fn product_grouped_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16, Plain>(case, Plain, |_, _, sum| sum)
}

#[case(sizes(groups = [5, 3], n = [264, 8], k = [208, 16], rows = [0, 0], tile = [0, 0]))]
fn product_grouped_e4m3(case: &mut Case) -> CaseResult {
    let epilogue = Standard {
        scales: [Scales::Each, Scales::Each],
        bias: Some(Axis::Columns),
        activation: Activation::Relu,
        has_source: true,
    };
    product::<E4m3, bf16, Standard>(case, epilogue, |p, [group, i, j], sum| {
        let of_group = group * p.size[1] + j;
        let scale = f64::from(p.scales[0][i]) * f64::from(p.scales[1][of_group]);
        let source = p.source[[i, j]].to_f64() * f64::from(BETA);
        let x = sum * scale * f64::from(ALPHA) + p.bias[of_group].to_f64() + source;
        x.max(0.0)
    })
}

#[case(sizes(groups = [4], n = [136], k = [72], rows = [0], tile = [0]))]
fn product_grouped_f16_f32(case: &mut Case) -> CaseResult {
    product::<f16, f32, Plain>(case, Plain, |_, _, sum| sum)
}

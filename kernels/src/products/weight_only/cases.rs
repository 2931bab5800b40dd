//! Cases of products with packed weights, against f64.

use std::sync::LazyLock;

use tilekit::prelude::*;
use tilekit::reference::products_of_rows;

use super::decode::Unquantised;
use super::few::{FewWeights, weight_only_few};
use super::form::WeightForm;
use super::format::{STRIP, WeightFormat, WeightGroup, WeightValues, place_of};
use super::many::{ManyWeights, weight_only_many};
use super::plan::{FEW, MANY, grid_of, programs_of};
use crate::products::case_product::{ALPHA, BETA};
use crate::products::epilogue::{Activation, Axis, Epilogue, Plain, Scales, Standard};
use crate::products::factor::{ResultOf, unit};
use crate::products::output_handles::NoOutputs;

/// The tensors of a product. Rows begin at multiples of 16 bytes.
struct Weighted<T, O> {
    /// M, N, K.
    size: [usize; 3],
    format: WeightFormat,
    x: Input<T>,
    words: Input<u32>,
    scales: Input<T>,
    y: Output<O>,
    source: Input<O>,
    bias: Input<O>,
    factors: [Input<f32>; 2],
}

/// A code for each place. Those of e4m3 are no NaN.
fn quantised(values: WeightValues, row: usize, k: usize) -> u8 {
    let mixed = (row * 0x9e37 + k * 0x85eb).wrapping_mul(0x27d4_eb2d) >> 13;
    let code = (mixed % (1 << values.bits())) as u8;
    match values {
        WeightValues::E4m3 if code & 0x7f == 0x7f => code - 1,
        _ => code,
    }
}

/// What a code stands for.
fn meant(values: WeightValues, code: u8, zero: u32) -> f64 {
    match values {
        WeightValues::Int4 => f64::from(code) - 8.0,
        WeightValues::Int4Zeros => f64::from(code) - f64::from(zero),
        WeightValues::E2m1 => E2m1::from_bits(code).to_f64(),
        WeightValues::E4m3 => E4m3::from_bits(code).to_f64(),
    }
}

/// The zero of a group.
fn zero(row: usize, group: usize) -> u32 {
    (row * 5 + group * 3) as u32 % 16
}

/// The scale of a group, exact in both types, as is its product with what a code stands for.
fn scale(values: WeightValues, row: usize, group: usize) -> f64 {
    let number = (row * 7 + group * 11) as u32;
    match values {
        WeightValues::Int4 | WeightValues::Int4Zeros => f64::from(number % 13 + 4) / 64.0,
        WeightValues::E2m1 => f64::from(1 << (number % 4)) / 16.0,
        WeightValues::E4m3 => f64::from(1 << (number % 4)) / 512.0,
    }
}

/// The values of this number, and groups of so many weights, or whole rows.
pub(super) fn format_of(case: &Case) -> WeightFormat {
    let [values, group] = ["values", "group"].map(|name| case.size(name));
    let all = [
        WeightValues::Int4,
        WeightValues::Int4Zeros,
        WeightValues::E2m1,
        WeightValues::E4m3,
    ];
    WeightFormat {
        values: all[values],
        group: match group {
            0 => WeightGroup::Row,
            weights => WeightGroup::Of(weights),
        },
    }
}

/// The packed codes of a matrix of N rows.
fn words_of(format: WeightFormat, [n, k]: [usize; 2]) -> Vec<u32> {
    let mut words = vec![0; format.words([n, k])];
    for row in 0..n {
        for at in 0..k {
            let (word, bit) = place_of(format.values, [row, at], k);
            words[word] |= u32::from(quantised(format.values, row, at)) << bit;
        }
    }
    words
}

/// The scales of its groups, and their zeros above `base`.
fn scales_of(format: WeightFormat, [n, k]: [usize; 2], base: f64) -> Vec<f64> {
    let mut scales = vec![0.0; format.scales([n, k])];
    for row in 0..n {
        for group in 0..format.group.count(k) {
            let at = format.scale_place([row, group], k);
            scales[at] = scale(format.values, row, group);
            if format.values.has_zeros() {
                scales[at + STRIP] = base + f64::from(zero(row, group));
            }
        }
    }
    scales
}

impl<T: Unquantised, O: ResultOf<T, Addend = O>> Weighted<T, O> {
    fn new(case: &mut Case) -> Self {
        let size @ [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
        let format = format_of(case);
        // Only a case that runs is packed: cases are listed for each command.
        let words = LazyLock::new(move || words_of(format, [n, k]));
        let scales = LazyLock::new(move || scales_of(format, [n, k], f64::from(T::BASE)));
        let pitch = n.next_multiple_of(unit::<O>());
        Weighted {
            size,
            format,
            x: case.normal("x", [m, k.next_multiple_of(unit::<T>())]),
            words: case.input("words", [format.words([n, k])], move |at| words[at]),
            scales: case.input("scales", [format.scales([n, k])], move |at| {
                T::of(scales[at])
            }),
            y: case.output("y", [m, pitch]),
            source: case.normal("source", [m, pitch]),
            bias: case.normal("bias", [m.max(n)]),
            factors: [
                case.uniform("a_scales", [m], 0.5..1.5),
                case.uniform("b_scales", [n], 0.5..1.5),
            ],
        }
    }

    fn x(&self) -> TensorView<'_, T, Input<T>> {
        let [m, _, k] = self.size;
        let view = self.x.view().with_shape([m, k]);
        view.with_strides([k.next_multiple_of(unit::<T>()), 1])
    }

    fn few<E: Epilogue<O, Outputs = NoOutputs>>(
        &self,
        case: &mut Case,
        form: WeightForm<FewWeights, E>,
    ) -> CaseResult {
        let ([m, n, k], pitch) = (self.size, self.pitch() as i32);
        let arguments = (
            &self.words,
            &self.scales,
            self.x(),
            &self.y,
            pitch,
            m as i32,
            n as i32,
            k as i32,
            (
                ALPHA,
                BETA,
                &self.source,
                pitch,
                0,
                &self.bias,
                self.factors.each_ref(),
                NoOutputs,
            ),
        );
        let grid = grid_of(form.tile, [m, n]);
        case.launch_programmatic(fixed(weight_only_few::<T, O, E>, form), grid, arguments)
    }

    fn many<E: Epilogue<O, Outputs = NoOutputs>>(
        &self,
        case: &mut Case,
        form: WeightForm<ManyWeights, E>,
    ) -> CaseResult {
        let ([m, n, k], pitch) = (self.size, self.pitch());
        let y = self.y.view().with_shape([m, n]).with_strides([pitch, 1]);
        let arguments = (
            &self.words,
            &self.scales,
            self.x(),
            y,
            m as i32,
            n as i32,
            k as i32,
            (
                ALPHA,
                BETA,
                &self.source,
                pitch as i32,
                0,
                &self.bias,
                self.factors.each_ref(),
                NoOutputs,
            ),
        );
        let programs = programs_of(form.tile, [m, n]);
        // Of small products each CTA has several tiles.
        let programs = if m * n < 1 << 20 {
            programs.min(2)
        } else {
            programs
        };
        case.launch(
            fixed(weight_only_many::<T, O, E>, form),
            programs,
            arguments,
        )
    }

    /// Elements from one row of Y to the next.
    fn pitch(&self) -> usize {
        self.size[1].next_multiple_of(unit::<O>())
    }

    /// The sums in f64.
    fn sums(&self) -> Vec<f64> {
        let [m, n, k] = self.size;
        let weight = |row: usize, at: usize| {
            let group = match self.format.group {
                WeightGroup::Of(weights) => at / weights,
                WeightGroup::Row => 0,
            };
            let values = self.format.values;
            scale(values, row, group) * meant(values, quantised(values, row, at), zero(row, group))
        };
        let weights: Vec<f64> = (0..n * k).map(|at| weight(at / k, at % k)).collect();
        let x = |row: usize, at: usize| self.x[[row, at]].number().to_f64();
        let x: Vec<f64> = (0..m * k).map(|at| x(at / k, at % k)).collect();
        products_of_rows(self.size, &x, &weights)
    }
}

/// Half a step of the result's type for a rounding, and the rounding of `k` terms accumulated: these weights are exact.
fn tolerance(k: usize) -> Tolerance {
    Close {
        relative: 4e-3,
        absolute: 1e-3 * (k as f64).sqrt(),
    }
}

/// Compares results: `after` is what the epilogue makes of a sum, by row and column.
fn expect<T: Unquantised, O: ResultOf<T, Addend = O>>(
    case: &mut Case,
    product: &Weighted<T, O>,
    after: impl Fn(&Weighted<T, O>, [usize; 2], f64) -> f64,
) -> CaseResult {
    let [m, n, k] = product.size;
    let want = || {
        let sums = product.sums().into_iter().enumerate();
        sums.map(|(at, sum)| after(product, [at / n, at % n], sum))
            .collect()
    };
    case.expect_part_in_units(&product.y, [m, n], want, tolerance(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    case.moves_bytes(n * k * product.format.values.bits() / 8 + 2 * (m * k + m * n));
    Ok(())
}

fn few<T: Unquantised, O: ResultOf<T, Addend = O>, E: Epilogue<O, Outputs = NoOutputs>>(
    case: &mut Case,
    epilogue: E,
    after: impl Fn(&Weighted<T, O>, [usize; 2], f64) -> f64,
) -> CaseResult {
    let product = Weighted::<T, O>::new(case);
    let form = WeightForm {
        tile: FEW[case.size("instance")].fitted(product.format),
        format: product.format,
        epilogue,
    };
    product.few(case, form)?;
    expect(case, &product, after)
}

fn many<T: Unquantised, O: ResultOf<T, Addend = O>, E: Epilogue<O, Outputs = NoOutputs>>(
    case: &mut Case,
    epilogue: E,
    after: impl Fn(&Weighted<T, O>, [usize; 2], f64) -> f64,
) -> CaseResult {
    let product = Weighted::<T, O>::new(case);
    let tile = MANY[case.size("instance")];
    let form = WeightForm {
        tile: tile.fitted(product.format, size_of::<O>()),
        format: product.format,
        epilogue,
    };
    product.many(case, form)?;
    expect(case, &product, after)
}

/// Sums that are stored as they are.
fn sum<T, O>(_: &Weighted<T, O>, _: [usize; 2], sum: f64) -> f64 {
    sum
}

/// An epilogue that reads all that a call has, and what it makes of a sum.
const ALL: Standard = Standard {
    scales: [Scales::Each; 2],
    bias: Some(Axis::Columns),
    has_source: true,
    activation: Activation::Relu,
};

fn all<T: Unquantised, O: ResultOf<T, Addend = O>>(
    product: &Weighted<T, O>,
    [row, column]: [usize; 2],
    sum: f64,
) -> f64 {
    let number = |x: O| x.number().to_f64();
    let scales = [(0, row), (1, column)].map(|(of, at)| f64::from(product.factors[of][[at]]));
    let scaled = f64::from(ALPHA) * scales[0] * scales[1] * sum;
    let source = f64::from(BETA) * number(product.source[[row, column]]);
    (scaled + number(product.bias[[column]]) + source).max(0.0)
}

// Steps along K wrap the ring of each tile.
#[case(sizes(
    m = [8, 5, 8, 1, 7, 3, 16, 11, 9, 1, 15, 16, 32, 17, 20, 33, 31, 64, 50, 70, 64, 70],
    n = [128, 200, 72, 64, 128, 200, 72, 64, 128, 200, 72, 64, 128, 200, 72, 264, 128, 200, 72, 64, 200, 72],
    k = [2056, 4104, 4104, 2056, 4104, 4104, 2056, 4104, 4104, 2056, 4104, 4104, 2056, 4104, 5128, 2056, 4104, 1288, 3080, 2568, 2056, 4104],
    instance = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21],
    group = [128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128],
    values = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn weight_only_few_bf16(case: &mut Case) -> CaseResult {
    few::<bf16, bf16, Plain>(case, Plain, sum)
}

/// Groups of every size, with zeros and without; 0 stands for whole rows.
macro_rules! of_groups {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [3, 16, 9, 40, 33, 8, 20, 5, 60, 16, 30, 7, 50, 64, 50],
            n = [72, 200, 136, 72, 64, 200, 136, 72, 136, 200, 64, 136, 136, 72, 136],
            k = [296, 2088, 648, 520, 272, 264, 650, 2088, 520, 650, 296, 1288, 1160, 1160, 2080],
            instance = [2, 6, 7, 18, 13, 1, 16, 1, 17, 7, 12, 3, 21, 20, 19],
            group = [32, 32, 64, 64, 128, 0, 0, 32, 128, 0, 32, 64, 128, 0, 32],
            values = [0, 1, 0, 1, 1, 0, 1, 2, 2, 3, 3, 3, 3, 3, 3]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            few::<$operand, $result, Plain>(case, Plain, sum)
        }
    )*};
}

of_groups! {
    weight_only_groups_bf16: bf16 => bf16;
    weight_only_groups_f16: f16 => f16;
    weight_only_groups_bf16_f32: bf16 => f32;
}

#[case(sizes(m = [9, 70], n = [200, 72], k = [640, 1160], instance = [7, 19], group = [64, 128], values = [1, 0]))]
fn weight_only_few_options(case: &mut Case) -> CaseResult {
    few::<bf16, bf16, Standard>(case, ALL, all)
}

#[case(sizes(m = [300, 200], n = [200, 264], k = [272, 136], instance = [0, 1], group = [128, 32], values = [0, 1]))]
fn weight_only_many_options(case: &mut Case) -> CaseResult {
    many::<bf16, bf16, Standard>(case, ALL, all)
}

/// Many rows, of each tile.
macro_rules! of_many {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [300, 200, 1, 520, 264, 130, 140, 260, 130],
            n = [200, 264, 8, 136, 392, 136, 72, 136, 200],
            k = [272, 136, 650, 1160, 520, 392, 296, 520, 200],
            instance = [0, 1, 1, 0, 1, 1, 1, 0, 1],
            group = [128, 128, 0, 32, 64, 128, 32, 128, 0],
            values = [0, 1, 0, 1, 0, 0, 2, 3, 3]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            many::<$operand, $result, Plain>(case, Plain, sum)
        }
    )*};
}

of_many! {
    weight_only_many_bf16: bf16 => bf16;
    weight_only_many_f16: f16 => f16;
    weight_only_many_bf16_f32: bf16 => f32;
}

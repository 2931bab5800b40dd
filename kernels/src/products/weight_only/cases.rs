//! Cases of products with packed weights, against f64.

use tilekit::prelude::*;

use super::decode::Unquantised;
use super::few::{FewWeights, WeightForm, weight_only_few};
use super::format::{STRIP, WeightFormat, WeightGroup, place_of};
use super::plan::{FEW, grid_of};
use crate::products::epilogue::{Epilogue, Plain};
use crate::products::factor::{ResultOf, unit};

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

/// A number from 0 to 15 for each place.
fn quantised(row: usize, k: usize) -> u32 {
    let mixed = (row * 0x9e37 + k * 0x85eb).wrapping_mul(0x27d4_eb2d) >> 13;
    (mixed % 16) as u32
}

/// The zero of a group.
fn zero(row: usize, group: usize) -> u32 {
    (row * 5 + group * 3) as u32 % 16
}

/// The scale of a group, exact in both types.
fn scale(row: usize, group: usize) -> f64 {
    f64::from((row * 7 + group * 11) as u32 % 13 + 4) / 64.0
}

/// Groups of so many weights, or whole rows.
pub(super) fn format_of(group: usize, has_zeros: bool) -> WeightFormat {
    WeightFormat {
        group: match group {
            0 => WeightGroup::Row,
            weights => WeightGroup::Of(weights),
        },
        has_zeros,
    }
}

impl<T: Unquantised, O: ResultOf<T>> Weighted<T, O> {
    fn new(case: &mut Case) -> Self {
        let size @ [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
        let format = format_of(case.size("group"), case.size("zeros") == 1);
        let mut words = vec![0_u32; format.words([n, k])];
        let mut scales = vec![0.0; format.scales([n, k])];
        for row in 0..n {
            for at in 0..k {
                let (word, bit) = place_of([row, at], k);
                words[word] |= quantised(row, at) << bit;
            }
            for group in 0..format.group.count(k) {
                let at = format.scale_place([row, group], k);
                scales[at] = scale(row, group);
                if format.has_zeros {
                    scales[at + STRIP] = f64::from(T::BASE) + f64::from(zero(row, group));
                }
            }
        }
        let pitch = n.next_multiple_of(unit::<O>());
        Weighted {
            size,
            format,
            x: case.normal("x", [m, k.next_multiple_of(unit::<T>())]),
            words: case.input("words", [words.len()], move |at| words[at]),
            scales: case.input("scales", [scales.len()], move |at| T::of(scales[at])),
            y: case.output("y", [m, pitch]),
            source: case.normal("source", [m, pitch]),
            bias: case.normal("bias", [m.max(n)]),
            factors: [
                case.uniform("a_scales", [m], 0.5..1.5),
                case.uniform("b_scales", [n], 0.5..1.5),
            ],
        }
    }

    fn few<E: Epilogue<O>>(&self, case: &mut Case, form: WeightForm<FewWeights, E>) -> CaseResult {
        let [m, n, k] = self.size;
        let pitch = n.next_multiple_of(unit::<O>()) as i32;
        let x = self.x.view().with_shape([m, k]);
        let arguments = (
            &self.words,
            &self.scales,
            x.with_strides([k.next_multiple_of(unit::<T>()), 1]),
            &self.y,
            pitch,
            m as i32,
            n as i32,
            k as i32,
            0.75,
            -0.5,
            &self.source,
            pitch,
            0,
            &self.bias,
            &self.factors[0],
            &self.factors[1],
        );
        let grid = grid_of(form.tile, [m, n]);
        case.launch_programmatic(fixed(weight_only_few::<T, O, E>, form), grid, arguments)
    }

    /// The sums in f64.
    fn sums(&self) -> Vec<f64> {
        let [m, n, k] = self.size;
        let weight = |row: usize, at: usize| {
            let group = match self.format.group {
                WeightGroup::Of(weights) => at / weights,
                WeightGroup::Row => 0,
            };
            let zero = if self.format.has_zeros {
                zero(row, group)
            } else {
                8
            };
            scale(row, group) * (f64::from(quantised(row, at)) - f64::from(zero))
        };
        let weights: Vec<Vec<f64>> = (0..n)
            .map(|row| (0..k).map(|at| weight(row, at)).collect())
            .collect();
        let of_row = |row: usize| -> Vec<f64> {
            let x: Vec<f64> = (0..k)
                .map(|at| self.x[[row, at]].number().to_f64())
                .collect();
            let dot = |w: &Vec<f64>| w.iter().zip(&x).map(|(w, x)| w * x).sum();
            weights.iter().map(dot).collect()
        };
        (0..m).flat_map(of_row).collect()
    }
}

/// Half a step of the result's type for a rounding, and the rounding of `k` terms accumulated: these weights are exact.
fn tolerance(k: usize) -> Tolerance {
    Close {
        relative: 4e-3,
        absolute: 1e-3 * (k as f64).sqrt(),
    }
}

fn few<T: Unquantised, O: ResultOf<T>>(case: &mut Case) -> CaseResult {
    let product = Weighted::<T, O>::new(case);
    let [m, n, k] = product.size;
    let form = WeightForm {
        tile: FEW[case.size("instance")].fitted(product.format),
        format: product.format,
        is_early: case.size("early") == 1,
        epilogue: Plain,
    };
    product.few(case, form)?;
    case.expect_part_in_units(&product.y, [m, n], || product.sums(), tolerance(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    case.moves_bytes(n * k / 2 + 2 * (m * k + m * n));
    Ok(())
}

#[case(sizes(
    m = [8, 5, 8, 1, 7, 3, 16, 11, 9, 1, 15, 16, 32, 17, 20, 33, 31, 64, 50, 70],
    n = [128, 200, 72, 64, 128, 200, 72, 64, 128, 200, 72, 64, 128, 200, 72, 264, 128, 200, 72, 64],
    k = [1024, 296, 640, 1160, 1024, 296, 640, 1160, 1024, 296, 640, 1160, 1024, 296, 640, 1160, 640, 1160, 1024, 2056],
    instance = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
    group = [128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128],
    zeros = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    early = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn weight_only_few_bf16(case: &mut Case) -> CaseResult {
    few::<bf16, bf16>(case)
}

#[case(sizes(
    m = [8, 5, 8, 1, 7, 3, 16, 11, 9, 1, 15, 16, 32, 17, 20, 33, 31, 64, 50, 70],
    n = [128, 200, 72, 64, 128, 200, 72, 64, 128, 200, 72, 64, 128, 200, 72, 264, 128, 200, 72, 64],
    k = [2056, 4104, 4104, 2056, 4104, 4104, 2056, 4104, 4104, 2056, 4104, 4104, 1032, 2056, 4104, 1032, 2056, 648, 1288, 2568],
    instance = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
    group = [128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128],
    zeros = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    early = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
))]
fn weight_only_early_bf16(case: &mut Case) -> CaseResult {
    few::<bf16, bf16>(case)
}

/// Groups of every size, with zeros and without; 0 stands for whole rows.
macro_rules! of_groups {
    ($($name:ident: $operand:ty => $result:ty;)*) => {$(
        #[case(sizes(
            m = [3, 16, 9, 40, 33, 8, 20],
            n = [72, 200, 136, 72, 64, 200, 136],
            k = [296, 2088, 648, 520, 272, 264, 650],
            instance = [2, 6, 7, 18, 13, 1, 16],
            group = [32, 32, 64, 64, 128, 0, 0],
            zeros = [0, 1, 0, 1, 1, 0, 1],
            early = [0, 1, 0, 0, 0, 0, 0]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            few::<$operand, $result>(case)
        }
    )*};
}

of_groups! {
    weight_only_groups_bf16: bf16 => bf16;
    weight_only_groups_f16: f16 => f16;
    weight_only_groups_bf16_f32: bf16 => f32;
}

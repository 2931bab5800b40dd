//! Cases of products with epilogues: scales, bias, another matrix, activations, a closure.

use tilekit::prelude::*;

use super::case_product::{ALPHA, BETA, Lies, Product};
use super::case_run::product;
use super::epilogue::{Activation, Author, Axis, Place, Scales, Standard};
use super::factor::{Operand, ResultOf};
use super::form::Side;
use super::numbers::{few, few_exchanged, many};

/// What [`Standard`] makes of a sum.
pub(super) fn standard<T: Operand, O: ResultOf<T, Addend = O>>(
    p: &Product<T, O>,
    epilogue: Standard,
    [batch, i, j]: [usize; 3],
    sum: f64,
) -> f64 {
    let at = |axis: Axis| match axis {
        Axis::Rows => i,
        Axis::Columns => j,
    };
    let mut x = sum * f64::from(ALPHA);
    for ((scales, numbers), place) in epilogue.scales.iter().zip(&p.scales).zip([i, j]) {
        x *= match scales {
            Scales::None => 1.0,
            Scales::One => f64::from(numbers[0]),
            Scales::Each => f64::from(numbers[place]),
        };
    }
    if let Some(axis) = epilogue.bias {
        x += p.bias[at(axis)].number().to_f64();
    }
    if epilogue.has_source {
        let row = batch * p.size[0] + i;
        x += p.source[[row, j]].number().to_f64() * f64::from(BETA);
    }
    match epilogue.activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => {
            let inner = (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

fn finished<T: Operand, O: ResultOf<T, Addend = O>>(
    case: &mut Case,
    lies: Lies,
    epilogue: Standard,
) -> CaseResult {
    product::<T, O, Standard>(case, lies, epilogue, move |p, at, sum| {
        standard(p, epilogue, at, sum)
    })
}

/// Cases of an epilogue.
macro_rules! of_epilogues {
    ($($name:ident: $operand:ty => $result:ty, $epilogue:expr;)*) => {$(
        #[case(sizes(
            m = [320, 24, 132, 72, 1],
            n = [328, 68, 136, 129, 1],
            k = [72, 520, 200, 136, 1],
            instance = [
                many([2, 64, 256, 4]), few_exchanged(2, [1, 16, 8]), few(1, [2, 128, 6]),
                few_exchanged(2, [1, 16, 8]), few_exchanged(2, [1, 16, 8])
            ],
            rivals = [0, 0, 0, 0, 0]
        ))]
        fn $name(case: &mut Case) -> CaseResult {
            finished::<$operand, $result>(case, Lies::ALONG_K, $epilogue)
        }
    )*};
}

of_epilogues! {
    product_scaled_source: bf16 => bf16, Standard {
        has_source: true,
        ..Standard::default()
    };
    product_bias_gelu: bf16 => bf16, Standard {
        bias: Some(Axis::Columns),
        activation: Activation::Gelu,
        ..Standard::default()
    };
    product_bias_of_rows_silu: f16 => f16, Standard {
        bias: Some(Axis::Rows),
        has_source: true,
        activation: Activation::Silu,
        ..Standard::default()
    };
    product_relu_f32: bf16 => f32, Standard {
        has_source: true,
        activation: Activation::Relu,
        ..Standard::default()
    };
    product_e4m3_scaled: E4m3 => bf16, Standard {
        scales: [Scales::One, Scales::One],
        ..Standard::default()
    };
    product_e4m3_scales_of_lines: E4m3 => bf16, Standard {
        scales: [Scales::Each, Scales::Each],
        bias: Some(Axis::Columns),
        ..Standard::default()
    };
    product_i8_scaled: i8 => bf16, Standard {
        scales: [Scales::Each, Scales::One],
        ..Standard::default()
    };
}

/// By the tile whose results lie in shared memory without a swizzle: all that an epilogue may do, and ragged edges.
#[case(sizes(m = [300, 129], n = [328, 500], k = [200, 72], instance = [many([2, 128, 152, 3]), many([2, 128, 152, 3])], rivals = [0, 0]))]
fn product_epilogue_without_swizzle(case: &mut Case) -> CaseResult {
    let epilogue = Standard {
        bias: Some(Axis::Columns),
        has_source: true,
        scales: [Scales::Each, Scales::Each],
        activation: Activation::Relu,
    };
    finished::<bf16, bf16>(case, Lies::ALONG_K, epilogue)
}

/// Of batches, each product with a source of its own.
#[case(sizes(m = [136, 24], n = [264, 68], k = [72, 520], instance = [many([2, 64, 256, 4]), few_exchanged(2, [1, 16, 8])], rivals = [0, 0]))]
fn product_batched_source(case: &mut Case) -> CaseResult {
    let batched = Side {
        is_mn_major: false,
        is_batched: true,
        is_settled: false,
    };
    let lies = Lies {
        sides: [batched; 2],
        batches: 2,
    };
    let epilogue = Standard {
        has_source: true,
        ..Standard::default()
    };
    finished::<bf16, bf16>(case, lies, epilogue)
}

/// A closure of an author's.
#[case(sizes(
    m = [200, 24, 72],
    n = [264, 68, 129],
    k = [72, 520, 136],
    instance = [many([2, 64, 256, 4]), few_exchanged(2, [1, 16, 8]), few(8, [1, 64, 8])],
    rivals = [0, 0, 0]
))]
fn product_author(case: &mut Case) -> CaseResult {
    let squared = |sums: Tensor<f32>, at: Place<bf16>| {
        let x = sums * 0.125 + at.bias(Axis::Columns);
        x * x + at.row.cast::<f32>() - at.source()
    };
    let epilogue = Author::new(squared).expect("the closure captures nothing");
    product::<bf16, bf16, _>(case, Lies::ALONG_K, epilogue, |p, [_, i, j], sum| {
        let x = sum * 0.125 + p.bias[j].to_f64();
        x * x + i as f64 - p.source[[i, j]].to_f64()
    })
}

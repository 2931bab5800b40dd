//! Cases of attention forward of 8-bit floats, against f64.

use tilekit::prelude::*;

use super::fp8::forward_fp8;
use super::kernel::reset;
use super::square::Square;
use crate::attention::inputs::Inputs;
use crate::attention::plan::Sizes;
use crate::attention::reference::numbers;

/// The elements of `[heads, ..]`, times the factors of the heads.
fn scaled(elements: &Input<E4m3>, factors: &Input<f32>) -> Vec<f64> {
    let (elements, factors) = (numbers(elements), numbers(factors));
    let of_head = elements.len() / factors.len();
    let heads = elements.chunks(of_head).zip(factors);
    heads
        .flat_map(|(head, factor)| head.iter().map(move |x| x * factor))
        .collect()
}

/// A case of one instance.
fn attention<
    const D: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const CAUSAL: bool,
    const TURNS: bool,
>(
    case: &mut Case,
    inputs: Inputs,
) -> CaseResult {
    let square = Square::of(case, D, CAUSAL);
    let Square {
        attention,
        query_heads,
        ..
    } = &square;
    let Sizes {
        batch,
        heads,
        kv_heads,
        keys: tokens,
        ..
    } = attention.sizes;
    let [of_q, of_kv] = square.shapes();
    let [q, k] = inputs.of::<E4m3, 4>(case, [of_q, of_kv], attention.scale());
    // No value is negative: each P is rounded with a relative error of 2^-4, and then so is the output.
    let v = case.uniform::<E4m3>("v", of_kv, 0.0..2.0);
    let factors = [
        ("q_factors", heads),
        ("k_factors", kv_heads),
        ("v_factors", kv_heads),
    ]
    .map(|(name, heads)| case.uniform::<f32>(name, [batch, heads], 0.5..2.0));
    let out = case.output::<bf16>("out", of_q);
    let lse = case.output::<f32>("lse", [batch, heads, tokens]);
    let counter = case.output::<i32>("counter", [1]);
    case.launch(reset, 1, (&counter,))?;
    let [programs, section] = square.launch(GROUPS, 2 * D);
    case.launch(
        forward_fp8::<D, GROUPS, KEYS, CAUSAL, TURNS>,
        programs,
        (
            &q,
            &k,
            &v,
            &out,
            &lse,
            &counter,
            &factors[0],
            &factors[1],
            &factors[2],
            batch as i32,
            heads as i32,
            *query_heads as i32,
            tokens as i32,
            section as i32,
            (attention.scale() * LOG2_E) as f32,
        ),
    )?;
    let made = std::sync::OnceLock::new();
    let reference = || {
        made.get_or_init(|| {
            let [q, k, v] = [(&q, 0), (&k, 1), (&v, 2)].map(|(x, at)| scaled(x, &factors[at]));
            attention.reference([&q, &k, &v], [&[], &[]])
        })
    };
    // 2^-4 of P, 2^-9 of the output, and some where the 14 bits of a sum of products round P the other way.
    let tolerance = Close {
        relative: 0.07,
        absolute: 1e-3,
    };
    case.expect_all(&out, || reference()[0].clone(), tolerance)?;
    // Scores are such sums: on an H200 errors of LSE up to 7e-3 at depth 256.
    let tolerance = Close {
        relative: 1e-3,
        absolute: 4e-3,
    };
    case.expect_all(&lse, || reference()[1].clone(), tolerance)?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;
    case.does_tensor_flops::<E4m3>(square.flops());
    case.moves_bytes(batch * tokens * D * (heads * 3 + 2 * kv_heads));
    Ok(())
}

macro_rules! cases {
    ($batch:tt $heads:tt $query_heads:tt $tokens:tt
     $($name:ident: $d:literal, $groups:literal, $keys:literal, $causal:literal, $turns:literal, $inputs:ident;)*) => {$(
        #[case(sizes(batch = $batch, heads = $heads, query_heads = $query_heads, tokens = $tokens))]
        fn $name(case: &mut Case) -> CaseResult {
            attention::<$d, $groups, $keys, $causal, $turns>(case, Inputs::$inputs)
        }
    )*};
}

cases! {
    [1, 2, 1, 1, 1] [2, 4, 1, 1, 8] [1, 2, 1, 1, 8] [384, 389, 1, 63, 129]
    forward_fp8_64: 64, 2, 128, false, false, Normal;
    forward_fp8_64_causal: 64, 2, 128, true, false, Normal;
    forward_fp8_128: 128, 2, 192, false, false, Normal;
    forward_fp8_128_causal: 128, 2, 128, true, true, Normal;
    forward_fp8_256: 256, 2, 96, false, false, Normal;
    forward_fp8_256_causal: 256, 2, 96, true, false, Normal;
}

// Rows that keep their maxima and rows that may not, each warpgroup by itself.
cases! {
    [1] [2] [1] [389]
    forward_fp8_64_low: 64, 2, 128, false, false, Low;
    forward_fp8_64_rising: 64, 2, 128, false, false, Rising;
    forward_fp8_64_overlong: 64, 2, 128, false, false, Overlong;
    forward_fp8_64_causal_rising: 64, 2, 128, true, false, Rising;
    forward_fp8_128_rising: 128, 2, 192, false, false, Rising;
    forward_fp8_128_causal_rising: 128, 2, 128, true, true, Rising;
    forward_fp8_128_causal_overlong: 128, 2, 128, true, true, Overlong;
    forward_fp8_256_causal_rising: 256, 2, 96, true, false, Rising;
}

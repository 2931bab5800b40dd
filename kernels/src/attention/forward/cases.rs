//! Cases of attention forward, against f64.

use tilekit::prelude::*;

use super::kernel::{forward, reset};
use super::square::Square;
use crate::attention::inputs::Inputs;
use crate::attention::plan::Sizes;
use crate::attention::reference::numbers;

/// The instance of `forward` for a type, depth and mask.
fn attention<
    T,
    const D: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const CAUSAL: bool,
    const TURNS: bool,
>(
    case: &mut Case,
    inputs: Inputs,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let square = Square::of(case, D, CAUSAL);
    let Square {
        attention,
        query_heads,
        ..
    } = &square;
    let Sizes {
        batch,
        heads,
        keys: tokens,
        ..
    } = attention.sizes;
    let [of_q, of_kv] = square.shapes();
    let [q, k] = inputs.of::<T, 4>(case, [of_q, of_kv], attention.scale());
    let v = case.normal::<T>("v", of_kv);
    let out = case.output::<T>("out", of_q);
    let lse = case.output::<f32>("lse", [batch, heads, tokens]);
    let counter = case.output::<i32>("counter", [1]);
    case.launch(reset, 1, (&counter,))?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;
    let [programs, section] = square.launch(GROUPS, 2 * D * size_of::<T>());
    case.launch(
        forward::<T, D, GROUPS, KEYS, CAUSAL, TURNS>,
        programs,
        (
            &q,
            &k,
            &v,
            &out,
            &lse,
            &counter,
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
            attention.reference([&numbers(&q), &numbers(&k), &numbers(&v)], [&[], &[]])
        })
    };
    // P and results are rounded to `T`, an error of 2^-9 each.
    let tolerance = Close {
        relative: 8e-3,
        absolute: 4e-3,
    };
    case.expect_part_in_units(&out, of_q, || reference()[0].clone(), tolerance)?;
    let tolerance = Close {
        relative: 1e-5,
        absolute: 1e-4,
    };
    case.expect_part_in_units(
        &lse,
        [batch, heads, tokens],
        || reference()[1].clone(),
        tolerance,
    )?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;
    case.does_tensor_flops::<T>(square.flops());
    case.moves_bytes(4 * size_of::<T>() * batch * heads * tokens * D);
    Ok(())
}

macro_rules! cases {
    ($batch:tt $heads:tt $query_heads:tt $tokens:tt
     $($name:ident: $ty:ty, $d:literal, $groups:literal, $keys:literal, $causal:literal, $turns:literal, $inputs:ident;)*) => {$(
        #[case(sizes(batch = $batch, heads = $heads, query_heads = $query_heads, tokens = $tokens))]
        fn $name(case: &mut Case) -> CaseResult {
            attention::<$ty, $d, $groups, $keys, $causal, $turns>(case, Inputs::$inputs)
        }
    )*};
}

cases! {
    [1, 2, 1] [2, 4, 1] [1, 2, 1] [384, 389, 1]
    forward_64: bf16, 64, 3, 128, false, true, Normal;
    forward_64_causal: bf16, 64, 3, 128, true, true, Normal;
    forward_128: bf16, 128, 2, 176, false, true, Normal;
    forward_128_causal: bf16, 128, 2, 128, true, true, Normal;
    forward_128_f16: f16, 128, 2, 176, false, true, Normal;
    forward_256: bf16, 256, 2, 80, false, false, Normal;
    forward_256_causal: bf16, 256, 2, 64, true, false, Normal;
}

// Rows that keep their maxima and rows that may not, each warpgroup by itself.
cases! {
    [1] [2] [1] [389]
    forward_64_low: bf16, 64, 3, 128, false, true, Low;
    forward_64_causal_low: bf16, 64, 3, 128, true, true, Low;
    forward_64_rising: bf16, 64, 3, 128, false, true, Rising;
    forward_64_causal_rising: bf16, 64, 3, 128, true, true, Rising;
    forward_64_f16_rising: f16, 64, 3, 128, false, true, Rising;
    forward_64_overlong: bf16, 64, 3, 128, false, true, Overlong;
    forward_128_rising: bf16, 128, 2, 176, false, true, Rising;
    forward_128_causal_rising: bf16, 128, 2, 128, true, true, Rising;
    forward_128_f16_rising: f16, 128, 2, 176, false, true, Rising;
    forward_128_causal_overlong: bf16, 128, 2, 128, true, true, Overlong;
}

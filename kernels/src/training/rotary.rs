//! Rotary embedding: pairs of columns are rotated by an angle that depends on the token and on the pair.

use tilekit::prelude::*;

use super::rows_case::close;

/// Heads of a program.
const HEADS: usize = 16;

/// `out` is `x` with the pairs of columns `(j, j + HALF)` of each head rotated by the token's angle `j`, of which `cos` and `sin` have cosine
/// and sine. `direction` is 1, or -1 for the gradient. `out` may take the place of `x`.
#[kernel(warps = 4, instances(<bf16, 64>), signature(
    x: [tokens, heads, 2 * HALF],
    cos: [tokens, HALF],
    sin: [tokens, HALF],
    out: [tokens, heads, 2 * HALF],
    token_stride = x.stride(0),
    head_stride = x.stride(1),
    out_token_stride = out.stride(0),
    out_head_stride = out.stride(1),
    grid = cdiv(heads, HEADS) * tokens,
    requires(cos.stride(0) == HALF, sin.stride(0) == HALF),
))]
pub fn rotary<T: Float, const HALF: usize>(
    x: Ptr<T>,
    #[readonly] cos: Ptr<f32>,
    #[readonly] sin: Ptr<f32>,
    out: Ptr<T>,
    #[multiple_of(8)] token_stride: i64,
    #[multiple_of(8)] head_stride: i64,
    #[multiple_of(8)] out_token_stride: i64,
    #[multiple_of(8)] out_head_stride: i64,
    heads: i32,
    direction: f32,
) {
    launch_dependents();
    launch_wait();
    // One dimension of the grid: the others take fewer programs than there may be tokens.
    let of_token = cdiv(heads, HEADS);
    let token = program_id(0) / of_token;
    let part = program_id(0) - token * of_token;
    let token = token.cast::<i64>();
    let wide = 16 / size_of::<T>();
    let lanes = (HALF / wide).min(32);
    let tile = Blocked::new([1, wide], [32 / lanes, lanes], [4, 1], [1, 0]);
    let head = part * HEADS + arange(0..HEADS, Slice::new(1, tile.clone()));
    let head = head.expand_dims(1);
    let pair = arange(0..HALF, Slice::new(0, tile)).expand_dims(0);
    let inside = (head < heads) & (pair < HALF);
    let at = head.cast::<i64>() * head_stride + pair;
    let out_at = head.cast::<i64>() * out_head_stride + pair;
    let of_token = token * token_stride;
    let low = (x + of_token).at(at).mask(inside);
    let high = (x + of_token + HALF).at(at).mask(inside);
    let [a, b] = [low, high].map(|source| source.other(0).load().cast::<f32>());
    let [cos, sin] = [cos, sin].map(|table| (table + token * HALF).at(pair).load());
    let sin = sin * direction;
    let store = |first: Scalar<i64>, v: Tensor<f32>| {
        (out + first).at(out_at).mask(inside).store(v.cast::<T>());
    };
    let of_token = token * out_token_stride;
    store(of_token, a * cos - b * sin);
    store(of_token + HALF, b * cos + a * sin);
}

fn rotary_of<T: Float + DeviceElement, const HALF: usize>(
    case: &mut Case,
    direction: f32,
) -> CaseResult {
    let (tokens, heads) = (case.size("tokens"), case.size("heads"));
    let shape = [tokens, heads, 2 * HALF];
    let x = case.normal::<T>("x", shape);
    let angle =
        |at: usize| (at / HALF) as f64 * 10_000_f64.powf(-((at % HALF) as f64) / HALF as f64);
    let cos = case.input::<f32>("cos", [tokens, HALF], move |at| angle(at).cos() as f32);
    let sin = case.input::<f32>("sin", [tokens, HALF], move |at| angle(at).sin() as f32);
    let out = case.output::<T>("out", shape);
    let (of_token, of_head) = ((heads * 2 * HALF) as i64, 2 * HALF as i64);
    let arguments = (
        &x,
        &cos,
        &sin,
        &out,
        of_token,
        of_head,
        of_token,
        of_head,
        heads as i32,
        direction,
    );
    let programs = heads.div_ceil(HEADS) * tokens;
    case.launch_programmatic(rotary::<T, HALF>, programs, arguments)?;
    let reference = || {
        let of = |at: usize| {
            let (token, column) = (at / (heads * 2 * HALF), at % (2 * HALF));
            let pair = token * HALF + column % HALF;
            let [cos, sin] = [&cos, &sin].map(|table| f64::from(table.host()[pair]));
            let sin = sin * f64::from(direction);
            let number = |at: usize| x.host()[at].number().to_f64();
            if column < HALF {
                number(at) * cos - number(at + HALF) * sin
            } else {
                number(at) * cos + number(at - HALF) * sin
            }
        };
        (0..tokens * heads * 2 * HALF).map(of).collect()
    };
    case.expect_all(&out, reference, close::<T>(2e-6))?;
    case.moves_bytes(2 * tokens * heads * 2 * HALF * size_of::<T>());
    Ok(())
}

#[case(sizes(tokens = [5, 1], heads = [8, 33]))]
fn rotary_bf16_64(case: &mut Case) -> CaseResult {
    rotary_of::<bf16, 64>(case, 1.0)
}

#[case(sizes(tokens = [5, 65_537], heads = [3, 1]))]
fn rotary_bf16_32_backward(case: &mut Case) -> CaseResult {
    rotary_of::<bf16, 32>(case, -1.0)
}

#[case(sizes(tokens = [5], heads = [17]))]
fn rotary_f32_64(case: &mut Case) -> CaseResult {
    rotary_of::<f32, 64>(case, 1.0)
}

//! Dropout: which elements are dropped follows from a seed and their places alone, so that the gradient drops the same without a mask in
//! memory.

use tilekit::prelude::*;

use super::rows_case::close;
use crate::philox;

/// Elements of a program, eight for each of its threads.
const BLOCK: usize = 1024;

/// The last word of a counter, which tells these from the counters of attention, where it is a sequence.
const TAG: u32 = u32::MAX;

/// `out = x / (1 - threshold / 2^32)` where an element is kept and 0 where it is dropped, over contiguous tensors of `n` elements. Element `i` is
/// dropped where word `i % 4` of Philox 4x32-10, of the key `seed` and the counter `i / 4`, is less than `threshold`: the rate times 2^32. The
/// gradient is the same of `dout`. `out` may take the place of `x`.
#[kernel(warps = 4, instances(<bf16>, <f32>), signature(
    x: [n],
    out: [n],
    grid = cdiv(n, BLOCK),
))]
pub fn dropout<T: Float>(x: Ptr<T>, out: Ptr<T>, n: i64, seed: i64, threshold: u32) {
    launch_dependents();
    launch_wait();
    let first = program_id(0).cast::<i64>() * BLOCK;
    let wide = 16 / size_of::<T>();
    let tile = Blocked::new([wide / 4, 4], [32, 1], [4, 1], [1, 0]);
    let quarter = arange(0..BLOCK / 4, Slice::new(1, tile.clone()));
    let word = arange(0..4, Slice::new(0, tile)).expand_dims(0);
    let at = quarter.expand_dims(1) * 4 + word;
    let inside = at < minimum(n - first, BLOCK).cast::<i32>();
    let counter = first / 4 + quarter.cast::<i64>();
    let all = |x: u32| full_like(quarter, 0).cast::<u32>() + x;
    let counter = [
        counter.cast::<u32>(),
        (counter >> 32).cast::<u32>(),
        all(0),
        all(TAG),
    ];
    let [w0, w1, w2, w3] = philox(seed.cast::<u64>(), counter).map(|w| w.expand_dims(1));
    let drawn = select(
        word < 2,
        select(word == 0, w0, w1),
        select(word == 2, w2, w3),
    );
    let source = (x + first).at(at).mask(inside).other(0);
    let v = source.policy(L2Policy::EvictLast).load().cast::<f32>();
    let kept = select(drawn >= threshold, v * philox::factor(threshold), 0.0);
    (out + first).at(at).mask(inside).store(kept.cast::<T>());
}

fn dropout_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let (rate, seed) = (0.3_f32, 0x0123_4567_89ab_cdef_u64);
    let threshold = philox::threshold(rate);
    let x = case.normal::<T>("x", [n]);
    let out = case.output::<T>("out", [n]);
    let arguments = (&x, &out, n as i64, seed as i64, threshold);
    case.launch_programmatic(dropout::<T>, n.div_ceil(BLOCK), arguments)?;
    let reference = || {
        let of = |at: usize| {
            let words = philox::philox_on_host(seed, [(at / 4) as u32, 0, 0, TAG]);
            if words[at % 4] < threshold {
                0.0
            } else {
                x.host()[at].number().to_f64() * philox::factor_on_host(threshold)
            }
        };
        (0..n).map(of).collect::<Vec<f64>>()
    };
    case.expect_all(&out, reference, close::<T>(1e-7))?;
    case.moves_bytes(2 * n * size_of::<T>());
    Ok(())
}

#[case(sizes(n = [5000, 1]))]
fn dropout_bf16(case: &mut Case) -> CaseResult {
    dropout_of::<bf16>(case)
}

#[case(sizes(n = [5001]))]
fn dropout_f32(case: &mut Case) -> CaseResult {
    dropout_of::<f32>(case)
}

//! Cases of attention backward, against f64.

use tilekit::prelude::*;

use super::backward::{KEYS, backward, backward_begin, backward_end};

/// Sizes of a case.
#[derive(Clone, Copy)]
struct Problem {
    heads: usize,
    query_heads: usize,
    tokens: usize,
    depth: usize,
    is_causal: bool,
}

/// Numbers of rows of `depth`.
struct Rows<'a> {
    numbers: &'a [f64],
    depth: usize,
}

impl Rows<'_> {
    fn row(&self, row: usize) -> &[f64] {
        &self.numbers[row * self.depth..][..self.depth]
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn add(sums: &mut [f64], factor: f64, terms: &[f64]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += factor * term;
    }
}

impl Problem {
    fn scale(self) -> f64 {
        1.0 / (self.depth as f64).sqrt()
    }

    /// The row of K and V at which the head of a row of Q begins, and how many of them the query sees.
    fn keys_of(self, row: usize) -> (usize, usize) {
        let (head, at) = (row / self.tokens, row % self.tokens);
        let seen = if self.is_causal { at + 1 } else { self.tokens };
        (head / self.query_heads * self.tokens, seen)
    }

    /// P of a row, and its LSE.
    fn powers(self, [q, k]: [&Rows<'_>; 2], row: usize) -> (Vec<f64>, f64) {
        let (base, seen) = self.keys_of(row);
        let score = |key| dot(q.row(row), k.row(base + key)) * self.scale();
        let scores: Vec<f64> = (0..seen).map(score).collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let lse = max + scores.iter().map(|s| (s - max).exp()).sum::<f64>().ln();
        (scores.iter().map(|s| (s - lse).exp()).collect(), lse)
    }

    /// The output and LSE.
    fn forward(self, [q, k, v]: [&Rows<'_>; 3]) -> [Vec<f64>; 2] {
        let (mut out, mut all_lse) = (Vec::new(), Vec::new());
        for row in 0..self.heads * self.tokens {
            let (powers, lse) = self.powers([q, k], row);
            let mut sums = vec![0.0; self.depth];
            for (key, power) in powers.iter().enumerate() {
                add(&mut sums, *power, v.row(self.keys_of(row).0 + key));
            }
            out.extend(sums);
            all_lse.push(lse);
        }
        [out, all_lse]
    }

    /// Gradients of Q, K and V for that of the output.
    fn gradients(self, [q, k, v, dout]: [&Rows<'_>; 4]) -> [Vec<f64>; 3] {
        let mut dq = vec![0.0; q.numbers.len()];
        let [mut dk, mut dv] = [k, v].map(|x| vec![0.0; x.numbers.len()]);
        let depth = self.depth;
        for row in 0..self.heads * self.tokens {
            let base = self.keys_of(row).0;
            let (powers, _) = self.powers([q, k], row);
            let of = |key: usize| (base + key) * depth..(base + key + 1) * depth;
            let dp: Vec<f64> = (0..powers.len())
                .map(|key| dot(dout.row(row), v.row(base + key)))
                .collect();
            let delta = dot(&powers, &dp);
            for (key, power) in powers.iter().enumerate() {
                let ds = power * (dp[key] - delta) * self.scale();
                add(&mut dv[of(key)], *power, dout.row(row));
                add(&mut dk[of(key)], ds, q.row(row));
                add(
                    &mut dq[row * depth..(row + 1) * depth],
                    ds,
                    k.row(base + key),
                );
            }
        }
        [dq, dk, dv]
    }
}

fn numbers<T: DeviceElement>(x: &Input<T>) -> Vec<f64> {
    x.host().iter().map(|x| x.number().to_f64()).collect()
}

/// The instance of `backward` for a type, depth and mask.
fn gradients<T, const D: usize, const CAUSAL: bool>(case: &mut Case) -> CaseResult
where
    T: Float + Factor<T, f32> + DeviceElement,
{
    let [heads, query_heads, tokens] =
        ["heads", "query_heads", "tokens"].map(|name| case.size(name));
    let problem = Problem {
        heads,
        query_heads,
        tokens,
        depth: D,
        is_causal: CAUSAL,
    };
    let kv_heads = heads / query_heads;
    let [of_q, of_kv] = [heads, kv_heads].map(|heads| [heads, tokens, D]);
    let q = case.normal::<T>("q", of_q);
    let [k, v] = ["k", "v"].map(|name| case.normal::<T>(name, of_kv));
    let dout = case.normal::<T>("dout", of_q);
    // What forward gives, rounded as it rounds.
    let (of_forward, of_lse) = (
        (q.clone(), k.clone(), v.clone()),
        (q.clone(), k.clone(), v.clone()),
    );
    let forward = move |(q, k, v): &(Input<T>, Input<T>, Input<T>)| {
        let [q, k, v] = [q, k, v].map(numbers);
        let [q, k, v] = [&q, &k, &v].map(|numbers| Rows { numbers, depth: D });
        problem.forward([&q, &k, &v])
    };
    let made = std::sync::OnceLock::new();
    let out = case.input::<T>("out", of_q, move |at| {
        T::nearest(Number::Float(
            made.get_or_init(|| forward(&of_forward))[0][at],
        ))
        .expect("an average of V is a number of its type")
    });
    let made = std::sync::OnceLock::new();
    let lse = case.input::<f32>("lse", [heads, tokens], move |at| {
        made.get_or_init(|| forward(&of_lse))[1][at] as f32
    });
    let rows = heads * tokens;
    let [delta, log2_sum] = ["delta", "log2_sum"].map(|name| case.output::<f32>(name, [rows]));
    let sums = case.output::<f32>("sums", of_q);
    let dq = case.output::<T>("dq", of_q);
    let [dk, dv] = ["dk", "dv"].map(|name| case.output::<T>(name, of_kv));
    let scale = problem.scale();
    case.launch(
        backward_begin::<T, D>,
        rows.div_ceil(16),
        (&out, &dout, &lse, &delta, &log2_sum, &sums, rows as i32),
    )?;
    case.launch(
        backward::<T, D, CAUSAL>,
        grid([tokens.div_ceil(KEYS), kv_heads]),
        (
            &q,
            &k,
            &v,
            &dout,
            &dk,
            &dv,
            &log2_sum,
            &delta,
            &sums,
            query_heads as i32,
            tokens as i32,
            (scale * LOG2_E) as f32,
            scale as f32,
        ),
    )?;
    case.launch(
        backward_end::<T>,
        (rows * D).div_ceil(1024),
        (&sums, &dq, (rows * D) as i32, scale as f32),
    )?;
    let reference = || {
        let [q, k, v, dout] = [&q, &k, &v, &dout].map(numbers);
        let [q, k, v, dout] = [&q, &k, &v, &dout].map(|numbers| Rows { numbers, depth: D });
        problem.gradients([&q, &k, &v, &dout])
    };
    // P and dS are rounded to `T` before they are multiplied, and so is the output of which delta is made: 2^-9 of each term.
    let tolerance = Close {
        relative: 1e-2,
        absolute: 2e-2,
    };
    case.expect_all(&dq, || reference()[0].clone(), tolerance)?;
    case.expect_all(&dk, || reference()[1].clone(), tolerance)?;
    case.expect_all(&dv, || reference()[2].clone(), tolerance)?;
    let products = 10 * heads * tokens * tokens * D;
    case.does_tensor_flops::<T>(if CAUSAL { products / 2 } else { products });
    Ok(())
}

macro_rules! cases {
    ($($name:ident: $ty:ty, $d:literal, $causal:literal;)*) => {$(
        #[case(sizes(heads = [2, 4, 1, 8], query_heads = [1, 2, 1, 8], tokens = [256, 131, 1, 65]))]
        fn $name(case: &mut Case) -> CaseResult {
            gradients::<$ty, $d, $causal>(case)
        }
    )*};
}

cases! {
    backward_64: bf16, 64, false;
    backward_64_causal: bf16, 64, true;
    backward_128: bf16, 128, false;
    backward_128_causal: bf16, 128, true;
}

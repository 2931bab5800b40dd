//! Cases of new tokens for a cache, against f64.

use tilekit::prelude::*;

use super::kernel::{AppendForm, HEADS, RotaryForm, Scaling, append};
use crate::attention::decode::cached_cases::{Factors, Scaled, Sequences};
use crate::attention::decode::table::CacheElement;
use crate::attention::reference::numbers;

/// Zeros, so that what a case leaves out is known.
#[kernel(warps = 4)]
fn zero_rows<C: Element>(out: Ptr<C>, len: i32) {
    let at = program_id(0) * 1024 + arange(0..1024, Coalesced);
    let zeros = zeros_like(at).cast::<f32>().cast::<C>();
    out.at(at).mask(at < len).store(zeros);
}

/// The setting of a case.
struct Setting {
    form: AppendForm,
    page: Option<usize>,
    by: Scaled,
    /// Sequences of several lengths: all tokens, all but one, none, ..
    is_ragged: bool,
}

/// The rows of a case: so many new tokens of each sequence, and where they begin in the tensors.
struct New {
    sequences: Sequences,
    counts: Vec<usize>,
    is_ragged: bool,
    tokens: usize,
}

impl New {
    /// Batches and tokens of tensors of new rows.
    fn extents(&self) -> [usize; 2] {
        if self.is_ragged {
            [1, self.counts.iter().sum()]
        } else {
            [self.counts.len(), self.tokens]
        }
    }

    /// The row of a token in a tensor with so many heads.
    fn row(&self, heads: usize, [sequence, head, token]: [usize; 3]) -> usize {
        let [_, tokens] = self.extents();
        if self.is_ragged {
            let start: usize = self.counts[..sequence].iter().sum();
            head * tokens + start + token
        } else {
            (sequence * heads + head) * tokens + token
        }
    }

    /// The position of a token.
    fn position(&self, sequence: usize, token: usize) -> i64 {
        let [length, count] = [self.sequences.lengths[sequence], self.counts[sequence]];
        (length + token) as i64 - count as i64
    }

    /// The sequence and new token of a line of the cache.
    fn token_at(&self, line: usize) -> Option<[usize; 2]> {
        let [sequence, key] = self.sequences.key_at(line)?;
        let first = self.position(sequence, 0);
        let token = key as i64 - first;
        (token >= 0).then_some([sequence, token as usize])
    }
}

/// A row after the rotation by its position.
fn rotate(row: &[f64], rotary: Option<RotaryForm>, position: i64, angles: [&[f64]; 2]) -> Vec<f64> {
    let mut rotated = row.to_vec();
    let Some(RotaryForm {
        pairs,
        is_interleaved,
    }) = rotary
    else {
        return rotated;
    };
    for pair in 0..pairs {
        let [a, b] = if is_interleaved {
            [2 * pair, 2 * pair + 1]
        } else {
            [pair, pairs + pair]
        };
        let at = |table: &[f64]| table[position as usize * pairs + pair];
        let [cos, sin] = angles.map(at);
        rotated[a] = row[a] * cos - row[b] * sin;
        rotated[b] = row[b] * cos + row[a] * sin;
    }
    rotated
}

fn appended<T, C>(case: &mut Case, setting: &Setting) -> CaseResult
where
    T: Float + DeviceElement,
    C: CacheElement<T>,
{
    let Setting {
        form,
        page,
        by,
        is_ragged,
    } = *setting;
    let [batch, kv_heads, heads, tokens, keys] =
        ["batch", "kv_heads", "heads", "tokens", "keys"].map(|name| case.size(name));
    let depth = form.depth;
    let new = New {
        sequences: Sequences::new(kv_heads, [batch, keys], page),
        counts: (0..batch)
            .map(|sequence| {
                if is_ragged {
                    tokens - sequence.min(tokens)
                } else {
                    tokens
                }
            })
            .collect(),
        is_ragged,
        tokens,
    };
    let [batches, rows] = new.extents();
    let q = case.normal::<T>("q", [batches, heads, rows, depth]);
    let k = case.normal::<T>("k", [batches, kv_heads, rows, depth]);
    let v = case.normal::<T>("v", [batches, kv_heads, rows, depth]);
    let pairs = form.rotary.map_or(1, |rotary| rotary.pairs);
    let angle =
        move |at: usize| (at / pairs) as f64 * 1e4_f64.powf(-((at % pairs) as f64) / pairs as f64);
    let cos = case.input::<f32>("cos", [keys, pairs], move |at| angle(at).cos() as f32);
    let sin = case.input::<f32>("sin", [keys, pairs], move |at| angle(at).sin() as f32);
    let [lengths, table] = new.sequences.inputs(case);
    let offsets: Vec<i32> = (0..=batch)
        .map(|end| new.counts[..end].iter().sum::<usize>() as i32)
        .collect();
    let starts = case.input::<i32>("starts", [batch + 1], move |at| offsets[at]);
    let shape = new.sequences.shape(depth);
    let lines = shape[..3].iter().product::<usize>();
    let out_q = case.output::<T>("out_q", [batches, heads, rows, depth]);
    let caches = ["keys", "values"].map(|name| case.output::<C>(name, shape));
    for cache in &caches {
        let len = lines * depth;
        case.launch(zero_rows::<C>, len.div_ceil(1024), (cache, len as i32))?;
    }
    let given = Factors::new(case, "scales", &new.sequences, by);
    let computed = ["key_scales", "value_scales"].map(|name| case.output::<f32>(name, &shape[..3]));
    let is_computed = matches!(form.scaling, Scaling::Computed(_));
    if is_computed {
        for scales in &computed {
            case.launch(
                zero_rows::<f32>,
                lines.div_ceil(1024),
                (scales, lines as i32),
            )?;
        }
    }
    let strides = given.strides.map(|stride| stride as i64);
    let query_jobs = heads.div_ceil(HEADS);
    let jobs = query_jobs + 2 * kv_heads.div_ceil(HEADS);
    let programs = grid([tokens * jobs, batch]);
    macro_rules! launch {
        ($scales:expr) => {
            case.launch(
                fixed(append::<T, C>, form),
                programs,
                (
                    &q,
                    &k,
                    &v,
                    &out_q,
                    &caches[0],
                    &caches[1],
                    $scales[0],
                    $scales[1],
                    &cos,
                    &sin,
                    &lengths,
                    &starts,
                    &table,
                    kv_heads as i32,
                    query_jobs as i32,
                    tokens as i32,
                    rows as i32,
                    i32::from(is_ragged),
                    i32::from(new.sequences.is_paged),
                    new.sequences.page as i32,
                    new.sequences.row as i32,
                    new.sequences.pages() as i32,
                    keys as i32,
                    0,
                    strides[0],
                    strides[1],
                    strides[2],
                    strides[0],
                    strides[1],
                    strides[2],
                ),
            )?
        };
    }
    if is_computed {
        launch!([&computed[0], &computed[1]]);
    } else {
        launch!([&given.scales, &given.scales]);
    }

    let angles = [numbers(&cos), numbers(&sin)];
    let angles = [&angles[0][..], &angles[1][..]];
    let of_q = || {
        let q = numbers(&q);
        let mut wanted = vec![0.0; q.len()];
        for (sequence, &count) in new.counts.iter().enumerate() {
            for (head, token) in
                (0..heads).flat_map(|head| (0..count).map(move |token| (head, token)))
            {
                let row = new.row(heads, [sequence, head, token]) * depth;
                let position = new.position(sequence, token);
                let rotary = form.rotary.filter(|_| position >= 0);
                let rotated = rotate(&q[row..row + depth], rotary, position, angles);
                wanted[row..row + depth].copy_from_slice(&rotated);
            }
        }
        wanted
    };
    // Rows of the cache before they become 8-bit floats, by line; zeros where no new token is.
    let of_cache = |x: &[f64], rotary: Option<RotaryForm>| {
        let mut wanted = vec![vec![0.0; depth]; lines];
        for (line, wanted) in wanted.iter_mut().enumerate() {
            if let Some([sequence, token]) = new.token_at(line) {
                let head = line / new.sequences.page % kv_heads;
                let row = new.row(kv_heads, [sequence, head, token]) * depth;
                let position = new.position(sequence, token);
                *wanted = rotate(&x[row..row + depth], rotary, position, angles);
            }
        }
        wanted
    };
    let of_k = of_cache(&numbers(&k), form.rotary);
    let of_v = of_cache(&numbers(&v), None);
    let factor = |line: usize, row: &[f64]| match form.scaling {
        Scaling::None => 1.0,
        Scaling::Given => given.of_line(line, new.sequences.shape(depth)),
        Scaling::Computed(largest) => {
            row.iter().fold(0.0_f64, |most, x| most.max(x.abs())) / f64::from(largest)
        }
    };
    let mantissa_bits = [
        (bf16::DTYPE, 7),
        (f16::DTYPE, 10),
        (E4m3::DTYPE, 3),
        (E5m2::DTYPE, 2),
    ];
    let bits = mantissa_bits.iter().find(|(dtype, _)| *dtype == C::DTYPE);
    let half_step = 0.5_f64.powi(1 + bits.map_or(0, |&(_, bits)| bits));
    let close = Close {
        relative: half_step * 1.0001,
        // Half of the smallest e4m3 and e5m2, or nothing to speak of.
        absolute: if form.scaling == Scaling::None {
            1e-6
        } else {
            0.000_976_7
        },
    };
    case.expect_all(
        &out_q,
        of_q,
        Close {
            relative: 0.0040,
            absolute: 1e-6,
        },
    )?;
    for (cache, rows) in caches.iter().zip([&of_k, &of_v]) {
        let wanted = || {
            let line = |(line, row): (usize, &Vec<f64>)| {
                let factor = factor(line, row);
                let number = move |x: &f64| {
                    let number = if *x == 0.0 { 0.0 } else { x / factor };
                    number.clamp(-f64::from(C::LARGEST), f64::from(C::LARGEST))
                };
                row.iter().map(number).collect::<Vec<f64>>()
            };
            rows.iter().enumerate().flat_map(line).collect::<Vec<f64>>()
        };
        case.expect_all(cache, wanted, close)?;
    }
    if is_computed {
        for (scales, rows) in computed.iter().zip([&of_k, &of_v]) {
            let wanted = || rows.iter().map(|row| factor(0, row)).collect::<Vec<f64>>();
            case.expect_all(
                scales,
                wanted,
                Close {
                    relative: 1e-6,
                    absolute: 0.0,
                },
            )?;
        }
    }
    let moved = batches * rows * depth;
    case.moves_bytes(
        moved * (2 * heads * size_of::<T>() + 2 * kv_heads * (size_of::<T>() + size_of::<C>())),
    );
    Ok(())
}

const HALVES: Option<RotaryForm> = Some(RotaryForm {
    pairs: 64,
    is_interleaved: false,
});
const PARTIAL: Option<RotaryForm> = Some(RotaryForm {
    pairs: 16,
    is_interleaved: false,
});
const INTERLEAVED: Option<RotaryForm> = Some(RotaryForm {
    pairs: 32,
    is_interleaved: true,
});
const BY_HEAD: Scaled = [false, true, false];
const BY_TOKEN: Scaled = [true; 3];

macro_rules! cases {
    ($($name:ident: <$t:ty, $c:ty>, $depth:literal, $rotary:expr, $scaling:expr, $by:expr, $page:expr, $ragged:literal,
       batch = $batch:tt, kv_heads = $kv:tt, heads = $heads:tt, tokens = $tokens:tt, keys = $keys:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, heads = $heads, tokens = $tokens, keys = $keys))]
        fn $name(case: &mut Case) -> CaseResult {
            let form = AppendForm { depth: $depth, rotary: $rotary, scaling: $scaling };
            appended::<$t, $c>(case, &Setting { form, page: $page, by: $by, is_ragged: $ragged })
        }
    )*};
}

cases! {
    append_128: <bf16, bf16>, 128, HALVES, Scaling::None, BY_HEAD, Some(16), false,
        batch = [4], kv_heads = [2, 9], heads = [16, 9], tokens = [1, 3], keys = [70, 33];
    append_128_partial: <bf16, bf16>, 128, PARTIAL, Scaling::None, BY_HEAD, None, false,
        batch = [3], kv_heads = [1], heads = [5], tokens = [2], keys = [40];
    append_64_interleaved: <f16, f16>, 64, INTERLEAVED, Scaling::None, BY_HEAD, Some(32), true,
        batch = [3], kv_heads = [1], heads = [8], tokens = [5], keys = [70];
    append_256_none: <bf16, bf16>, 256, None, Scaling::None, BY_HEAD, Some(16), false,
        batch = [2], kv_heads = [1], heads = [8], tokens = [1], keys = [20];
    append_128_e4m3: <bf16, E4m3>, 128, HALVES, Scaling::Given, BY_HEAD, Some(64), false,
        batch = [3], kv_heads = [2], heads = [16], tokens = [2], keys = [130];
    append_128_e4m3_computed: <bf16, E4m3>, 128, INTERLEAVED, Scaling::Computed(448.0), BY_TOKEN, Some(16), true,
        batch = [3], kv_heads = [3], heads = [6], tokens = [4], keys = [50];
    append_64_e5m2: <f16, E5m2>, 64, PARTIAL, Scaling::Given, BY_TOKEN, None, false,
        batch = [2], kv_heads = [1], heads = [1], tokens = [3], keys = [9];
}

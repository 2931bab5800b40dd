//! Attention to caches of latent vectors.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit::reference::dot;
use tilekit_kernels::attention::{Attention, LatentCache, Operand, Result};

use crate::attention::mask::{Mask, Scores};
use crate::attention::query::{Query, Rows};
use crate::broken::{Broken, Views, refused};
use crate::calls::{device, each, extent, is_on_gpu};
use crate::near::near;
use crate::numbers::{Number, fractions, noise};
use crate::tensor::{MemoryLayout, Tensor, rows};

const DEPTH: usize = 576;
const VALUES: usize = 512;
const PAGE: usize = 64;

/// A call.
#[derive(Clone, Debug)]
struct Call {
    batches: usize,
    heads: usize,
    queries: usize,
    /// Pages of a sequence, and of none.
    pages: [usize; 2],
    scale: Option<f32>,
    /// Of queries, the cache and the output.
    places: [MemoryLayout<4>; 3],
    has_plan: bool,
    is_checked: bool,
    seed: u64,
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let [most, products] = if is_on_gpu() {
            [10_000, 1 << 29]
        } else {
            [400, 1 << 23]
        };
        let heads = prop_oneof![Just(16_usize), Just(128), 1..129_usize];
        let queries = prop_oneof![2 => Just(1_usize), 1 => 2..5_usize];
        let pages = (
            extent(most).prop_map(|tokens| tokens.max(1).div_ceil(PAGE)),
            0..3_usize,
        );
        let scale = prop_oneof![1 => Just(None), 1 => (0.01_f32..0.3).prop_map(Some)];
        // Heads inside of tokens, or tokens inside of heads.
        let order = prop_oneof![Just([0, 2, 1, 3]), Just([0, 1, 2, 3])];
        let places = (order, [rows(8), rows(8), rows(8)]).prop_map(|(order, mut places)| {
            places[0].order = order;
            places
        });
        let flags = (any::<bool>(), any::<bool>(), 0..1000_u64);
        let call = ((1..5_usize, heads, queries), pages, scale, places, flags);
        let call = call.prop_map(|((batches, heads, queries), pages, scale, places, flags)| {
            let (has_plan, is_checked, seed) = flags;
            Call {
                batches,
                heads,
                queries,
                pages: [pages.0, pages.1],
                scale,
                places,
                has_plan,
                is_checked,
                seed,
            }
        });
        call.prop_filter("too long on the host", move |call| {
            call.batches * call.heads * call.queries * call.pages[0] * PAGE * DEPTH <= products
        })
    }

    fn lengths(&self) -> Vec<usize> {
        let most = self.pages[0] * PAGE;
        let of = |bits: u64| match bits % 8 {
            0 => most,
            1 => 0,
            _ => (bits >> 8) as usize % (most + 1),
        };
        noise(self.batches, self.seed).map(of).collect()
    }

    /// The pages of sequences; those past the last token are none.
    fn table(&self) -> Vec<i32> {
        let [each, spare] = self.pages;
        let of_sequences = self.batches * each;
        let mut pages: Vec<(u64, i32)> = noise(of_sequences + spare, self.seed + 1)
            .zip(0..)
            .collect();
        pages.sort_unstable();
        let lengths = self.lengths();
        let entry = |at: usize| {
            let is_used = at % each < lengths[at / each].div_ceil(PAGE);
            if is_used { pages[at].1 } else { -1 }
        };
        (0..of_sequences).map(entry).collect()
    }
}

/// The tensors of a call.
struct Problem<T> {
    call: Call,
    q: Tensor<T, 4>,
    rows: Tensor<T, 4>,
    out: Tensor<T, 4>,
    lse: Buffer<f32>,
}

impl<T: Operand + Number> Problem<T> {
    fn new(device: &Device, call: Call) -> Problem<T> {
        let pages = call.batches * call.pages[0] + call.pages[1];
        let of_q = [call.batches, call.heads, call.queries, DEPTH];
        let shapes = [
            of_q,
            [pages, 1, PAGE, DEPTH],
            [of_q[0], of_q[1], of_q[2], VALUES],
        ];
        let tensor = |at: usize| {
            Tensor::new(device, shapes[at], &call.places[at], |len| {
                fractions(len, at as u64 + 1)
            })
        };
        let lse = vec![f32::NAN; of_q[..3].iter().product()];
        Problem {
            q: tensor(0),
            rows: tensor(1),
            out: tensor(2),
            lse: Buffer::from_slice(device, &lse).unwrap(),
            call,
        }
    }

    /// With a view of queries, the cache or the output broken.
    fn run(&self, attention: &Attention, device: &Device, broken: Option<Broken>) -> Result<()> {
        let views = Views {
            broken,
            count: 3,
            results: 2..3,
            // A cache has any number of pages.
            is_fixed: |dimension, _| dimension > 0,
        };
        let lengths: Vec<i32> = self
            .call
            .lengths()
            .into_iter()
            .map(|length| length as i32)
            .collect();
        let lengths = Buffer::from_slice(device, &lengths).unwrap();
        let table = Buffer::from_slice(device, &self.call.table()).unwrap();
        let q = views.view(0, &self.q.view(0));
        let rows = views.view(1, &self.rows.view(0));
        let out = views.view(2, &self.out.view(0));
        let cache = LatentCache {
            rows: &rows,
            lengths: &lengths,
            table: &table,
            checked: self.call.is_checked,
        };
        let stream = Stream::new(device).unwrap();
        let Call {
            heads,
            queries,
            scale,
            ..
        } = self.call;
        if self.call.has_plan {
            let plan = attention.plan_latent(&stream, &cache, [heads, queries])?;
            let to = (&out, &self.lse);
            attention.decode_latent_planned_into(&stream, &q, &cache, &plan, to, scale)
        } else {
            attention.decode_latent_into(&stream, &q, &cache, &out, &self.lse, scale)
        }?;
        stream.synchronize()?;
        Ok(())
    }

    /// The output by places in its buffer, and LSE.
    fn wanted(&self) -> [Vec<Option<f64>>; 2] {
        let Call {
            batches,
            heads,
            queries,
            scale,
            ..
        } = self.call;
        let (q, rows) = (Rows::of(&self.q), Rows::of(&self.rows));
        let (lengths, table) = (self.call.lengths(), self.call.table());
        let mut out = vec![None; self.out.buffer.len()];
        let mut lse = Vec::new();
        for row in 0..batches * heads * queries {
            let [sequence, head, token] =
                [row / queries / heads, row / queries % heads, row % queries];
            let key = |key: usize| {
                let page = table[sequence * self.call.pages[0] + key / PAGE];
                rows.row([page as usize, 0, key % PAGE])
            };
            let query = Query {
                place: (lengths[sequence] + token) as i64 - queries as i64,
                mask: Mask {
                    causal: true,
                    ..Mask::NONE
                },
                scale: scale.map_or(1.0 / (DEPTH as f64).sqrt(), f64::from),
                scores: Scores::Plain,
                slope: 0.0,
                sink: None,
            };
            let elements = q.row([sequence, head, token]);
            let seen = query.attend(lengths[sequence], |at| dot(elements, key(at)));
            let first = self.out.at([sequence, head, token, 0]);
            let sums = seen.sum(VALUES, |at| &key(at)[..VALUES]);
            sums.iter()
                .enumerate()
                .for_each(|(column, sum)| out[first + column] = Some(*sum));
            lse.push(Some(seen.lse));
        }
        [out, lse]
    }
}

fn check<T: Operand + Number>() {
    let device = device();
    let attention = Attention::new(&device);
    each(5, &Call::any(), |call| {
        let problem = Problem::<T>::new(&device, call);
        let before = problem.out.numbers();
        problem.run(&attention, &device, None).unwrap();
        let [out, lse] = problem.wanted();
        near("out", &problem.out.numbers(), &out, &before, [6e-3, 8e-3]);
        let found: Vec<f64> = problem
            .lse
            .to_vec()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect();
        near("lse", &found, &lse, &[], [2e-4, 1e-5]);
    });
}

#[test]
fn of_bf16() {
    check::<bf16>();
}

#[test]
fn of_f16() {
    check::<f16>();
}

#[test]
fn broken() {
    let device = device();
    let attention = Attention::new(&device);
    each(20, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::<bf16>::new(&device, call);
        let before = problem.out.numbers();
        let result = problem.run(&attention, &device, Some(broken));
        refused(result, &[[before, problem.out.numbers()]]);
    });
}

//! Attention of the last tokens of sequences to their caches.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit::reference::dot;
use tilekit_kernels::attention::{Attention, Cache, CacheElement, Operand, Options, Result};

use super::room::{Memory, Room};
use crate::attention::mask::{Mask, Scores, scale};
use crate::attention::query::{Factors, Query, Rows};
use crate::broken::{Broken, Views, refused};
use crate::calls::{device, each, is_on_gpu};
use crate::near::near;
use crate::numbers::{Number, fractions};
use crate::tensor::{MemoryLayout, Tensor, rows};

/// A call.
#[derive(Clone, Debug)]
struct Call {
    room: Room,
    /// Query heads for each head of the cache.
    group: usize,
    queries: usize,
    mask: Mask,
    scores: Scores,
    scale: Option<f32>,
    has_sinks: bool,
    /// Of queries and the output.
    places: [MemoryLayout<4>; 2],
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let [most, products] = if is_on_gpu() {
            [20_000, 1 << 26]
        } else {
            [1000, 1 << 22]
        };
        let group = prop_oneof![2 => Just(1_usize), 2 => Just(8_usize), 1 => 2..65_usize];
        let queries = prop_oneof![2 => Just(1_usize), 1 => 2..6_usize, 1 => 6..80_usize];
        let sizes = (Room::any(1..5_usize, most), group, queries);
        let options = (Mask::any(), Scores::any(), scale(), any::<bool>());
        let call = (sizes, options, [rows(8), rows(8)]);
        let call = call.prop_map(|((room, group, queries), options, places)| {
            let (mask, scores, scale, has_sinks) = options;
            Call {
                room,
                group,
                queries,
                // The last query has the last key's position, and there are no chunks.
                mask: Mask {
                    chunk: None,
                    from_first: false,
                    ..mask
                },
                scores,
                scale,
                has_sinks,
                places,
            }
        });
        call.prop_filter("too long on the host", move |call| {
            let rows = call.room.batches * call.heads() * call.queries;
            rows * call.room.tokens() * call.room.depth <= products
        })
    }

    fn heads(&self) -> usize {
        self.room.kv_heads * self.group
    }

    fn scale(&self) -> f64 {
        let of_depth = || 1.0 / (self.room.depth as f64).sqrt();
        self.scale.map_or_else(of_depth, f64::from)
    }
}

/// The tensors of a call.
struct Problem<T, C> {
    call: Call,
    cache: Memory<C>,
    q: Tensor<T, 4>,
    out: Tensor<T, 4>,
    lse: Buffer<f32>,
}

impl<T: Operand + Number, C: CacheElement<T> + Number> Problem<T, C> {
    fn new(device: &Device, call: Call) -> Problem<T, C> {
        let shape = [
            call.room.batches,
            call.heads(),
            call.queries,
            call.room.depth,
        ];
        let tensor = |at: usize| {
            Tensor::new(device, shape, &call.places[at], |len| {
                fractions(len, 3 + at as u64)
            })
        };
        let lse = vec![f32::NAN; shape[..3].iter().product()];
        Problem {
            cache: Memory::new(device, call.room.clone(), C::DTYPE != T::DTYPE, false),
            q: tensor(0),
            out: tensor(1),
            lse: Buffer::from_slice(device, &lse).unwrap(),
            call,
        }
    }

    /// With a view of queries, keys, values or the output broken.
    fn run(&self, attention: &Attention, device: &Device, broken: Option<Broken>) -> Result<()> {
        let views = Views {
            broken,
            count: 4,
            results: 3..4,
            is_fixed: |_, _| true,
        };
        let factors = Factors::of(self.call.heads());
        let numbers = |numbers: &[f32]| Buffer::from_slice(device, numbers).unwrap();
        let (slopes, sinks) = (numbers(&factors.slopes), numbers(&factors.sinks));
        let options = Options {
            causal: self.call.mask.causal,
            window: self.call.mask.window,
            scale: self.call.scale,
            softcap: self.call.scores.softcap(),
            alibi: matches!(self.call.scores, Scores::Alibi).then_some(&slopes),
            sinks: self.call.has_sinks.then_some(&sinks),
            ..Options::default()
        };
        let stream = Stream::new(device).unwrap();
        let q = views.view(0, &self.q.view(0));
        let out = views.view(3, &self.out.view(0));
        self.cache.with(|cache| {
            let cache = Cache {
                keys: &views.view(1, cache.keys),
                values: &views.view(2, cache.values),
                ..*cache
            };
            attention.decode_into(&stream, &q, &cache, &out, &self.lse, &options)
        })?;
        stream.synchronize()?;
        Ok(())
    }

    /// The output by places in its buffer, and LSE.
    fn wanted(&self) -> [Vec<Option<f64>>; 2] {
        let Call {
            room,
            group,
            queries,
            ..
        } = &self.call;
        let factors = Factors::of(self.call.heads());
        let q = Rows::of(&self.q);
        let [keys, values] = self.cache.rows();
        let lengths = room.lengths();
        let mut out = vec![None; self.out.buffer.len()];
        let mut lse = Vec::new();
        for row in 0..room.batches * self.call.heads() * queries {
            let [sequence, head, token] = [
                row / queries / self.call.heads(),
                row / queries % self.call.heads(),
                row % queries,
            ];
            let length = lengths[sequence];
            let key = |key: usize| {
                let [page, place] = self.cache.place(sequence, key);
                [page, head / group, place]
            };
            let query = Query {
                place: (length + token) as i64 - *queries as i64,
                mask: self.call.mask,
                scale: self.call.scale(),
                scores: self.call.scores,
                slope: f64::from(factors.slopes[head]),
                sink: self.call.has_sinks.then(|| f64::from(factors.sinks[head])),
            };
            let elements = q.row([sequence, head, token]);
            let seen = query.attend(length, |at| dot(elements, keys.row(key(at))));
            let first = self.out.at([sequence, head, token, 0]);
            let sums = seen.sum(room.depth, |at| values.row(key(at)));
            sums.iter()
                .enumerate()
                .for_each(|(column, sum)| out[first + column] = Some(*sum));
            lse.push(Some(seen.lse));
        }
        [out, lse]
    }
}

fn check<T: Operand + Number, C: CacheElement<T> + Number>() {
    let device = device();
    let attention = Attention::new(&device);
    each(5, &Call::any(), |call| {
        let problem = Problem::<T, C>::new(&device, call);
        let before = problem.out.numbers();
        problem.run(&attention, &device, None).unwrap();
        let [out, lse] = problem.wanted();
        let cap = problem.call.scores.error();
        near(
            "out",
            &problem.out.numbers(),
            &out,
            &before,
            [8e-3 + 4.0 * cap, 8e-3],
        );
        let found: Vec<f64> = problem
            .lse
            .to_vec()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect();
        near("lse", &found, &lse, &[], [2e-4 + cap, 1e-5]);
    });
}

macro_rules! decode {
    ($($name:ident: $queries:ty, $cache:ty;)*) => {$(
        #[test]
        fn $name() {
            check::<$queries, $cache>();
        }
    )*};
}

decode! {
    bf16_from_bf16: bf16, bf16;
    f16_from_f16: f16, f16;
    bf16_from_e4m3: bf16, E4m3;
    bf16_from_e5m2: bf16, E5m2;
    f16_from_e4m3: f16, E4m3;
    f16_from_e5m2: f16, E5m2;
}

/// Lengths and pages that no cache has: checked ones end in an error, and without the check nothing outside of the cache is read, nor stored beside the output. On the emulator alone, which
/// sees such accesses; an assertion of a GPU ends all of its work.
#[test]
fn wild() {
    let device = Device::emulator();
    each(20, &(Call::any(), 0..1000_u64), |(call, seed)| {
        let mut problem = Problem::<bf16, bf16>::new(&device, call);
        let is_wild = problem.cache.spoil(&device, seed);
        let before = problem.out.numbers();
        let attention = Attention::new(&device);
        let result = problem.run(&attention, &device, None);
        if problem.cache.room.is_checked {
            assert!(result.is_err() || !is_wild, "a wild length is not found");
            return;
        }
        result.unwrap();
        let mut rows = vec![false; before.len()];
        let [batches, heads, tokens, depth] = problem.out.shape;
        for row in 0..batches * heads * tokens {
            let at = [row / tokens / heads, row / tokens % heads, row % tokens, 0];
            rows[problem.out.at(at)..][..depth].fill(true);
        }
        let after = problem.out.numbers();
        let is_kept = |at: usize| rows[at] || before[at].total_cmp(&after[at]).is_eq();
        assert!(
            (0..before.len()).all(is_kept),
            "what lies beside the output is written"
        );
    });
}

#[test]
fn broken() {
    let device = device();
    let attention = Attention::new(&device);
    each(40, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::<bf16, E4m3>::new(&device, call);
        let before = problem.out.numbers();
        let result = problem.run(&attention, &device, Some(broken));
        refused(result, &[[before, problem.out.numbers()]]);
    });
}

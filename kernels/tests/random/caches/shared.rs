//! Sequences that share their first keys, and results merged.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit::reference::dot;
use tilekit_kernels::attention::{Attention, CacheElement, Operand, Options, PartialResult};

use super::room::{Memory, Room};
use crate::attention::mask::{Mask, Scores, scale};
use crate::attention::query::{Factors, Query, Rows};
use crate::calls::{device, each, extent, is_on_gpu};
use crate::near::near;
use crate::numbers::{Number, fractions, noise};
use crate::tensor::{MemoryLayout, Tensor, rows};

/// A call of queries that attend to a prefix and then to their own sequences.
#[derive(Clone, Debug)]
struct Shared {
    prefix: Room,
    own: Room,
    group: usize,
    queries: usize,
    causal: bool,
    softcap: Option<f32>,
    scale: Option<f32>,
    has_sinks: bool,
    place: MemoryLayout<4>,
}

impl Shared {
    fn any() -> impl Strategy<Value = Shared> {
        let [most, products] = if is_on_gpu() {
            [10_000, 1 << 26]
        } else {
            [500, 1 << 21]
        };
        let rooms = (Room::any(Just(1_usize), most), Room::any(1..6_usize, most));
        let group = prop_oneof![1 => Just(1_usize), 1 => Just(8_usize), 1 => 2..20_usize];
        let softcap = Scores::any().prop_map(Scores::softcap);
        let options = (any::<bool>(), softcap, scale(), any::<bool>());
        let call = (rooms, group, 1..5_usize, options, rows(8));
        let call = call.prop_map(|((prefix, own), group, queries, options, place)| {
            let (causal, softcap, scale, has_sinks) = options;
            Shared {
                prefix: prefix.like(&own),
                own,
                group,
                queries,
                causal,
                softcap,
                scale,
                has_sinks,
                // Tokens of all sequences are equally far apart.
                place: MemoryLayout {
                    order: [0, 2, 1, 3],
                    ..place
                },
            }
        });
        call.prop_filter("too long on the host", move |call| {
            let keys = call.prefix.tokens() + call.own.tokens();
            let rows = call.own.batches * call.own.kv_heads * call.group * call.queries;
            rows * keys * call.own.depth <= products
        })
    }

    /// The call, and what it gives: output and LSE without gaps.
    fn check<T: Operand + CacheElement<T> + Number, P: CacheElement<T> + Number>(
        self,
        attention: &Attention,
        device: &Device,
    ) {
        let heads = self.own.kv_heads * self.group;
        let shape = [self.own.batches, heads, self.queries, self.own.depth];
        let q: Tensor<T, 4> = Tensor::new(device, shape, &self.place, |len| fractions(len, 3));
        let is_scaled = P::DTYPE != T::DTYPE;
        let prefix: Memory<P> = Memory::new(device, self.prefix.clone(), is_scaled, false);
        let own: Memory<T> = Memory::new(device, self.own.clone(), false, false);
        let factors = Factors::of(heads);
        let sinks = Buffer::from_slice(device, &factors.sinks).unwrap();
        let options = Options {
            causal: self.causal,
            scale: self.scale,
            softcap: self.softcap,
            sinks: self.has_sinks.then_some(&sinks),
            ..Options::default()
        };
        let stream = Stream::new(device).unwrap();
        let view = q.view(0);
        let found = prefix.with(|prefix| {
            own.with(|own| attention.decode_shared(&stream, &view, prefix, own, &options))
        });
        let found = found.unwrap();
        stream.synchronize().unwrap();
        let [out, lse] = self.wanted(&q, &prefix, &own, &factors);
        let found_out: Vec<f64> = found
            .out
            .to_vec()
            .unwrap()
            .into_iter()
            .map(T::back)
            .collect();
        let cap = self.softcap.map_or(0.0, |cap| Scores::Softcap(cap).error());
        near("out", &found_out, &out, &[], [1.6e-2 + 4.0 * cap, 1.6e-2]);
        let found: Vec<f64> = found
            .lse
            .to_vec()
            .unwrap()
            .into_iter()
            .map(f64::from)
            .collect();
        near("lse", &found, &lse, &[], [2e-4 + cap, 1e-5]);
    }

    fn wanted<T: Number, P: Number>(
        &self,
        q: &Tensor<T, 4>,
        prefix: &Memory<P>,
        own: &Memory<T>,
        factors: &Factors,
    ) -> [Vec<Option<f64>>; 2] {
        let of_q = Rows::of(q);
        let ([prefix_keys, prefix_values], [keys, values]) = (prefix.rows(), own.rows());
        let (first, lengths) = (self.prefix.lengths()[0], self.own.lengths());
        let [_, heads, queries, depth] = q.shape;
        let (mut out, mut lse) = (Vec::new(), Vec::new());
        for row in 0..self.own.batches * heads * queries {
            let [sequence, head, token] =
                [row / queries / heads, row / queries % heads, row % queries];
            let place = |key: usize| {
                let [page, place] = if key < first {
                    prefix.place(0, key)
                } else {
                    own.place(sequence, key - first)
                };
                [page, head / self.group, place]
            };
            let of_depth = || 1.0 / (depth as f64).sqrt();
            let query = Query {
                // A query sees all of the prefix, whatever it sees of its own sequence.
                place: ((first + lengths[sequence] + token) as i64 - queries as i64)
                    .max(first as i64 - 1),
                mask: Mask {
                    causal: self.causal,
                    ..Mask::NONE
                },
                scale: self.scale.map_or_else(of_depth, f64::from),
                scores: self.softcap.map_or(Scores::Plain, Scores::Softcap),
                slope: 0.0,
                sink: self.has_sinks.then(|| f64::from(factors.sinks[head])),
            };
            let elements = of_q.row([sequence, head, token]);
            let key = |key: usize| {
                let rows = if key < first {
                    prefix_keys.row(place(key))
                } else {
                    keys.row(place(key))
                };
                dot(elements, rows)
            };
            let value = |key: usize| {
                if key < first {
                    prefix_values.row(place(key))
                } else {
                    values.row(place(key))
                }
            };
            let seen = query.attend(first + lengths[sequence], key);
            out.extend(seen.sum(depth, value).into_iter().map(Some));
            lse.push(Some(seen.lse));
        }
        [out, lse]
    }
}

#[test]
fn with_a_prefix() {
    let device = device();
    let attention = Attention::new(&device);
    each(5, &Shared::any(), |call| {
        call.check::<bf16, bf16>(&attention, &device);
    });
}

#[test]
fn with_a_prefix_of_8_bits() {
    let device = device();
    let attention = Attention::new(&device);
    each(4, &Shared::any(), |call| {
        call.check::<f16, E4m3>(&attention, &device);
    });
}

/// Results of several sets of keys.
#[derive(Clone, Debug)]
struct Parts {
    shape: [usize; 4],
    places: Vec<MemoryLayout<4>>,
    of_out: MemoryLayout<4>,
    seed: u64,
}

impl Parts {
    fn any() -> impl Strategy<Value = Parts> {
        let depth = prop_oneof![
            Just(64_usize),
            Just(128),
            Just(256),
            Just(512),
            (1..40_usize).prop_map(|eights| 8 * eights)
        ];
        let shape = (1..4_usize, 1..5_usize, extent(40), depth);
        let shape =
            shape.prop_map(|(batch, heads, tokens, depth)| [batch, heads, tokens.max(1), depth]);
        let places = proptest::collection::vec(rows(8), 2..6);
        (shape, places, rows(8), 0..1000_u64).prop_map(|(shape, places, of_out, seed)| Parts {
            shape,
            places,
            of_out,
            seed,
        })
    }

    /// LSE of part `at`; one in four is that of no keys.
    fn lse(&self, at: usize) -> Vec<f32> {
        let rows = self.shape[..3].iter().product();
        let of = |bits: u64| {
            if bits.is_multiple_of(4) {
                f32::NEG_INFINITY
            } else {
                (bits >> 20) as f32 / (1_u64 << 42) as f32
            }
        };
        noise(rows, self.seed + at as u64).map(of).collect()
    }

    fn check<T: Operand + Number>(self, attention: &Attention, device: &Device) {
        let tensor = |place: &MemoryLayout<4>, seed: u64| {
            Tensor::<T, 4>::new(device, self.shape, place, |len| fractions(len, seed))
        };
        let parts: Vec<_> = self
            .places
            .iter()
            .zip(1..)
            .map(|(place, seed)| tensor(place, seed))
            .collect();
        let lines: Vec<Vec<f32>> = (0..parts.len()).map(|at| self.lse(at)).collect();
        let of_lines: Vec<Buffer<f32>> = lines
            .iter()
            .map(|line| Buffer::from_slice(device, line).unwrap())
            .collect();
        let (out, lse) = (
            tensor(&self.of_out, 9),
            Buffer::<f32>::zeros(device, lines[0].len()).unwrap(),
        );
        let before = out.numbers();
        let views: Vec<_> = parts.iter().map(|part| part.view(0)).collect();
        let results = views
            .iter()
            .zip(&of_lines)
            .map(|(out, lse)| PartialResult { out, lse });
        let stream = Stream::new(device).unwrap();
        attention
            .merge_into(&stream, &results.collect::<Vec<_>>(), &out.view(0), &lse)
            .unwrap();
        stream.synchronize().unwrap();
        let rows: Vec<_> = parts.iter().map(Rows::of).collect();
        let mut wanted = vec![None; before.len()];
        let mut wanted_lse = Vec::new();
        let [_, heads, tokens, _] = self.shape;
        for row in 0..lines[0].len() {
            let at = [row / tokens / heads, row / tokens % heads, row % tokens];
            let powers: Vec<f64> = lines
                .iter()
                .map(|line| f64::from(line[row]).exp())
                .collect();
            let sum: f64 = powers.iter().sum();
            let first = out.at([at[0], at[1], at[2], 0]);
            for column in 0..self.shape[3] {
                let terms = powers.iter().zip(&rows).filter(|(power, _)| **power > 0.0);
                let total: f64 = terms
                    .map(|(power, rows)| power / sum * rows.row(at)[column])
                    .sum();
                wanted[first + column] = Some(total);
            }
            wanted_lse.push(Some(sum.ln()));
        }
        near(
            "out",
            &out.numbers(),
            &wanted,
            &before,
            [1e-5, T::ROUNDING * 1.01],
        );
        let found: Vec<f64> = lse.to_vec().unwrap().into_iter().map(f64::from).collect();
        near("lse", &found, &wanted_lse, &[], [1e-5, 1e-5]);
    }
}

#[test]
fn results_are_merged() {
    let device = device();
    let attention = Attention::new(&device);
    each(12, &Parts::any(), |parts| {
        parts.check::<bf16>(&attention, &device);
    });
    each(6, &Parts::any(), |parts| {
        parts.check::<f16>(&attention, &device);
    });
}

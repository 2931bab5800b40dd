//! New tokens stored to a cache.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Cache, CacheElement, NewLengths, NewTokens, Operand, Result, Rotary,
};

use super::room::{Memory, Room};
use crate::attention::query::Rows;
use crate::broken::{Broken, Views, refused};
use crate::calls::{device, each, is_on_gpu};
use crate::near::near;
use crate::numbers::{Number, fractions, noise};
use crate::tensor::{MemoryLayout, Tensor, rows};

/// A call.
#[derive(Clone, Debug)]
struct Call {
    room: Room,
    /// Query heads for each head of the cache.
    group: usize,
    /// New tokens of a sequence at most.
    tokens: usize,
    is_ragged: bool,
    /// The logarithm of pairs, and whether they are interleaved.
    rotary: Option<(u32, bool)>,
    computes_scales: bool,
    is_in_place: bool,
    /// Of keys, values, queries and rotated queries.
    places: [MemoryLayout<4>; 4],
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let most = if is_on_gpu() { 5000 } else { 200 };
        let rotary = prop_oneof![1 => Just(None), 3 => (3..8_u32, any::<bool>()).prop_map(Some)];
        let tokens = prop_oneof![Just(1_usize), 2..20_usize];
        let sizes = (Room::any(1..5_usize, most), 1..12_usize, tokens);
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        let places = [rows(8), rows(8), rows(8), rows(8)];
        let call = (sizes, rotary, flags, places);
        call.prop_map(|((room, group, tokens), rotary, flags, places)| {
            let (is_ragged, computes_scales, is_in_place) = flags;
            let most = room.depth.ilog2() - 1;
            Call {
                // Tokens in front of the first position are left out, which the check refuses.
                room: if is_ragged { room } else { room.unchecked() },
                group,
                tokens,
                is_ragged,
                rotary: rotary.map(|(pairs, interleaved)| (pairs.min(most), interleaved)),
                computes_scales,
                is_in_place,
                places,
            }
        })
    }

    /// New tokens of each sequence.
    fn counts(&self) -> Vec<usize> {
        let lengths = self.room.lengths();
        let drawn = noise(lengths.len(), 21).map(|bits| bits as usize % (self.tokens + 1));
        let of_sequence = |(drawn, length): (usize, usize)| {
            if self.is_ragged {
                drawn.min(length)
            } else {
                self.tokens
            }
        };
        drawn.zip(lengths).map(of_sequence).collect()
    }

    fn shape(&self, heads: usize) -> [usize; 4] {
        let [batches, tokens] = if self.is_ragged {
            [1, self.counts().iter().sum::<usize>().max(self.tokens)]
        } else {
            [self.room.batches, self.tokens]
        };
        [batches, heads, tokens, self.room.depth]
    }

    /// Where the token `token` of the new ones of a sequence is in tensors of new ones, and its position.
    fn tokens(&self) -> Vec<(usize, [usize; 2], i64)> {
        let lengths = self.room.lengths();
        let mut first = 0;
        let mut all = Vec::new();
        for (sequence, count) in self.counts().into_iter().enumerate() {
            for token in 0..count {
                let at = if self.is_ragged {
                    [0, first + token]
                } else {
                    [sequence, token]
                };
                all.push((
                    sequence,
                    at,
                    (lengths[sequence] + token) as i64 - count as i64,
                ));
            }
            first += count;
        }
        all
    }

    /// Cosines or sines of positions and pairs.
    fn angles(&self, of: fn(f64) -> f64) -> Vec<f32> {
        let pairs = 1 << self.rotary.map_or(0, |(pairs, _)| pairs);
        let angle =
            |at: usize| (at / pairs) as f64 * 1e4_f64.powf(-((at % pairs) as f64) / pairs as f64);
        (0..self.room.tokens() * pairs)
            .map(|at| of(angle(at)) as f32)
            .collect()
    }
}

/// Angles on the host.
struct Angles {
    pairs: usize,
    is_interleaved: bool,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Angles {
    fn of(call: &Call) -> Option<Angles> {
        call.rotary.map(|(pairs, is_interleaved)| Angles {
            pairs: 1 << pairs,
            is_interleaved,
            cos: call.angles(f64::cos),
            sin: call.angles(f64::sin),
        })
    }

    fn rotate(&self, row: &mut [f64], position: usize) {
        for pair in 0..self.pairs {
            let [a, b] = if self.is_interleaved {
                [2 * pair, 2 * pair + 1]
            } else {
                [pair, self.pairs + pair]
            };
            let [cos, sin] =
                [&self.cos, &self.sin].map(|table| f64::from(table[position * self.pairs + pair]));
            [row[a], row[b]] = [row[a] * cos - row[b] * sin, row[b] * cos + row[a] * sin];
        }
    }
}

/// The tensors of a call.
struct Problem<T, C> {
    call: Call,
    cache: Memory<C>,
    /// Keys, values, queries, and where these go.
    new: [Tensor<T, 4>; 4],
    is_scaled: bool,
}

impl<T: Operand + Number, C: CacheElement<T> + Number> Problem<T, C> {
    fn new(device: &Device, call: Call) -> Problem<T, C> {
        let is_scaled = C::DTYPE != T::DTYPE;
        let heads = [call.room.kv_heads, call.room.kv_heads * call.group];
        let tensor = |at: usize| {
            let shape = call.shape(heads[at / 2]);
            Tensor::new(device, shape, &call.places[at], |len| {
                fractions(len, 30 + at as u64)
            })
        };
        let own = is_scaled && call.computes_scales;
        Problem {
            cache: Memory::new(device, call.room.clone(), is_scaled, own),
            new: [0, 1, 2, 3].map(tensor),
            is_scaled,
            call,
        }
    }

    /// With a view of new keys, values or queries, of where these go, or of the cache broken.
    fn run(&self, attention: &Attention, device: &Device, broken: Option<Broken>) -> Result<()> {
        let views = Views {
            broken,
            count: 6,
            results: 3..6,
            is_fixed: |_, _| true,
        };
        let numbers = |numbers: &[f32]| Buffer::from_slice(device, numbers).unwrap();
        let angles = Angles::of(&self.call);
        let tables = angles
            .as_ref()
            .map(|angles| [numbers(&angles.cos), numbers(&angles.sin)]);
        let ends = self.call.counts().into_iter().scan(0, |end, count| {
            *end += count as i32;
            Some(*end)
        });
        let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
        let offsets = Buffer::from_slice(device, &offsets).unwrap();
        let [keys, values, from, to] = [0, 1, 2, 3].map(|at| views.view(at, &self.new[at].view(0)));
        let new = NewTokens {
            keys: &keys,
            values: &values,
            queries: Some([&from, if self.call.is_in_place { &from } else { &to }]),
            rotary: angles
                .iter()
                .zip(&tables)
                .next()
                .map(|(angles, [cos, sin])| Rotary {
                    cos,
                    sin,
                    pairs: angles.pairs,
                    interleaved: angles.is_interleaved,
                }),
            lengths: self.call.is_ragged.then_some(NewLengths {
                offsets: &offsets,
                longest: self.call.tokens,
            }),
            computes_scales: self.is_scaled && self.call.computes_scales,
        };
        let stream = Stream::new(device).unwrap();
        self.cache.with(|cache| {
            let cache = Cache {
                keys: &views.view(4, cache.keys),
                values: &views.view(5, cache.values),
                ..*cache
            };
            attention.append(&stream, &new, &cache)
        })?;
        stream.synchronize()?;
        Ok(())
    }

    /// A new row of tensor `at`, rotated unless it is of values.
    fn row(&self, rows: &Rows<'_, T>, at: usize, index: [usize; 3], position: i64) -> Vec<f64> {
        let mut row = rows.row(index).to_vec();
        if let (true, Some(angles), Ok(position)) =
            (at != 1, Angles::of(&self.call), usize::try_from(position))
        {
            angles.rotate(&mut row, position);
        }
        row
    }

    /// Rotated queries by their places.
    fn wanted_queries(&self, before: &[f64]) -> Vec<Option<f64>> {
        let to = &self.new[if self.call.is_in_place { 2 } else { 3 }];
        let from = Rows::of(&self.new[2]);
        let mut wanted = vec![None; before.len()];
        for (_, [batch, token], position) in self.call.tokens() {
            for head in 0..to.shape[1] {
                let row = self.row(&from, 2, [batch, head, token], position);
                let first = to.at([batch, head, token, 0]);
                row.iter()
                    .enumerate()
                    .for_each(|(column, x)| wanted[first + column] = Some(*x));
            }
        }
        wanted
    }

    /// Rows of keys (0) or values (1) by page, head and token of the page.
    fn wanted_rows(&self, side: usize) -> Vec<([usize; 3], Vec<f64>)> {
        let from = Rows::of(&self.new[side]);
        let mut rows = Vec::new();
        for (sequence, [batch, token], position) in self.call.tokens() {
            let Ok(place) = usize::try_from(position) else {
                continue;
            };
            let [page, place] = self.cache.place(sequence, place);
            for head in 0..self.call.room.kv_heads {
                let row = self.row(&from, side, [batch, head, token], position);
                rows.push(([page, head, place], row));
            }
        }
        rows
    }

    /// Compares a side of the cache, and its factors, with what they were before and what is stored.
    fn compare(
        &self,
        side: usize,
        before: &[f64],
        factors: &[f32],
        rows: Vec<([usize; 3], Vec<f64>)>,
    ) {
        let tensor = [&self.cache.keys, &self.cache.values][side];
        let found_factors = self
            .cache
            .scales
            .as_ref()
            .map(|scales| scales[side].buffer.to_vec().unwrap());
        let mut wanted = vec![None; before.len()];
        let mut wanted_factors = vec![None; factors.len()];
        for (at, row) in rows {
            let mut factor = 1.0;
            if let (Some(scales), Some(found)) = (&self.cache.scales, &found_factors) {
                let place = scales[side].at(at);
                factor = f64::from(found[place]);
                if self.call.computes_scales {
                    let largest = row
                        .iter()
                        .fold(1e-30_f64, |largest, x| largest.max(x.abs()));
                    wanted_factors[place] = Some(largest / f64::from(C::LARGEST));
                }
            }
            let first = tensor.at([at[0], at[1], at[2], 0]);
            row.iter()
                .enumerate()
                .for_each(|(column, x)| wanted[first + column] = Some(x / factor));
        }
        let smallest = if self.is_scaled { 1e-3 } else { 1e-6 };
        near(
            ["keys", "values"][side],
            &tensor.numbers(),
            &wanted,
            before,
            [smallest, C::ROUNDING],
        );
        let found: Vec<f64> = found_factors.into_iter().flatten().map(f64::from).collect();
        let factors: Vec<f64> = factors.iter().copied().map(f64::from).collect();
        near("factors", &found, &wanted_factors, &factors, [0.0, 1e-5]);
    }
}

fn check<T: Operand + Number, C: CacheElement<T> + Number>(count: u32) {
    let device = device();
    let attention = Attention::new(&device);
    each(count, &Call::any(), |call| {
        let problem = Problem::<T, C>::new(&device, call);
        let to = &problem.new[if problem.call.is_in_place { 2 } else { 3 }];
        let of_queries = to.numbers();
        let wanted = problem.wanted_queries(&of_queries);
        let rows = [0, 1].map(|side| problem.wanted_rows(side));
        let before = [problem.cache.keys.numbers(), problem.cache.values.numbers()];
        let scales = problem.cache.scales.as_ref();
        let factors = [0, 1]
            .map(|side| scales.map_or(vec![], |scales| scales[side].buffer.to_vec().unwrap()));
        problem.run(&attention, &device, None).unwrap();
        near(
            "queries",
            &to.numbers(),
            &wanted,
            &of_queries,
            [1e-6, T::ROUNDING],
        );
        for (side, rows) in rows.into_iter().enumerate() {
            problem.compare(side, &before[side], &factors[side], rows);
        }
    });
}

#[test]
fn to_a_cache_of_the_same_elements() {
    check::<bf16, bf16>(8);
    check::<f16, f16>(5);
}

#[test]
fn to_a_cache_of_8_bits() {
    check::<bf16, E4m3>(8);
    check::<f16, E5m2>(5);
}

#[test]
fn broken() {
    let device = device();
    let attention = Attention::new(&device);
    each(40, &(Call::any(), Broken::any()), |(call, broken)| {
        let call = Call {
            is_in_place: false,
            ..call
        };
        let problem = Problem::<bf16, E4m3>::new(&device, call);
        let results = || {
            let cache = &problem.cache;
            [
                problem.new[3].numbers(),
                cache.keys.numbers(),
                cache.values.numbers(),
            ]
        };
        let before = results();
        let result = problem.run(&attention, &device, Some(broken));
        let pairs = before
            .into_iter()
            .zip(results())
            .map(|(before, after)| [before, after]);
        refused(result, &pairs.collect::<Vec<_>>());
    });
}

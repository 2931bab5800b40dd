//! The sequences of a cache in cases, and their attention in f64.

use tilekit::prelude::*;

use crate::attention::plan::Sizes;
use crate::attention::reference::{Attention, numbers};
use crate::attention::setup::Setup;

/// Sequences of these lengths, whose pages are in another order than the sequences, or of which each has one page.
#[derive(Clone)]
pub(in crate::attention) struct Sequences {
    pub(in crate::attention) kv_heads: usize,
    pub(in crate::attention) lengths: Vec<usize>,
    /// Tokens of a page, and entries of a row of the table.
    pub(in crate::attention) page: usize,
    pub(in crate::attention) row: usize,
    pub(in crate::attention) is_paged: bool,
}

impl Sequences {
    /// The sequences of a case, with pages of so many tokens. In a small case the first sequence is the longest, and others have one token, none, a
    /// half, .. Sequences of timed cases have one length.
    pub(in crate::attention) fn new(
        kv_heads: usize,
        [batch, keys]: [usize; 2],
        page: Option<usize>,
    ) -> Sequences {
        let length = |batch: usize| match batch {
            _ if keys >= 1024 => keys,
            0 => keys,
            1 => 1,
            2 => 0,
            batch => keys / batch + 1,
        };
        let tokens = page.unwrap_or(keys);
        Sequences {
            kv_heads,
            lengths: (0..batch).map(length).collect(),
            page: tokens,
            row: keys.div_ceil(tokens),
            is_paged: page.is_some(),
        }
    }

    pub(in crate::attention) fn pages(&self) -> usize {
        self.lengths.len() * self.row
    }

    /// The page of an entry of the table, and the entry of a page.
    fn page_of(&self, entry: usize) -> usize {
        if self.is_paged {
            self.pages() - 1 - entry
        } else {
            entry
        }
    }

    /// The extents of a cache with so many columns.
    pub(in crate::attention) fn shape(&self, columns: usize) -> [usize; 4] {
        [self.pages(), self.kv_heads, self.page, columns]
    }

    /// The sequence and the key at a line of a cache, unless that lies past the sequence's last key.
    pub(in crate::attention) fn key_at(&self, line: usize) -> Option<[usize; 2]> {
        let (page, in_page) = (line / self.page / self.kv_heads, line % self.page);
        let entry = self.page_of(page);
        let (batch, key) = (entry / self.row, entry % self.row * self.page + in_page);
        (key < self.lengths[batch]).then_some([batch, key])
    }

    /// Whether a line of a cache has a token.
    pub(super) fn is_used(&self, line: usize) -> bool {
        self.key_at(line).is_some()
    }

    /// A cache whose rows past the last key of a sequence are NaN.
    pub(in crate::attention) fn cache<T: DeviceElement>(
        &self,
        case: &mut Case,
        name: &'static str,
        columns: usize,
    ) -> Input<T> {
        let sequences = self.clone();
        let seed = name.len() as u64;
        case.input::<T>(name, self.shape(columns), move |at| {
            let number = if sequences.key_at(at / columns).is_some() {
                let bits = (at as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                (bits >> 40) as f64 / f64::from(1 << 22) - 2.0
            } else {
                f64::NAN
            };
            T::nearest(Number::Float(number)).expect("a float holds every number")
        })
    }

    /// The lengths, and the table of pages. Its entries past the last key name no page, and are not read.
    pub(in crate::attention) fn inputs(&self, case: &mut Case) -> [Input<i32>; 2] {
        let of_lengths = self.clone();
        let lengths = case.input::<i32>("lengths", [self.lengths.len()], move |at| {
            of_lengths.lengths[at] as i32
        });
        let of_table = self.clone();
        let table = case.input::<i32>("table", [self.pages()], move |entry| {
            let in_row = entry % of_table.row * of_table.page;
            if in_row < of_table.lengths[entry / of_table.row] {
                of_table.page_of(entry) as i32
            } else {
                i32::MAX
            }
        });
        [lengths, table]
    }

    /// The first `columns` of the rows of one sequence, `[kv_heads, keys, columns]`.
    fn gathered(&self, (cache, row): (&[f64], usize), batch: usize, columns: usize) -> Vec<f64> {
        let mut rows = Vec::new();
        for head in 0..self.kv_heads {
            for key in 0..self.lengths[batch] {
                let page = self.page_of(batch * self.row + key / self.page);
                let line = (page * self.kv_heads + head) * self.page + key % self.page;
                rows.extend(&cache[line * row..][..columns]);
            }
        }
        rows
    }

    /// The sizes of one sequence and its attention; `sizes` has the rest.
    pub(in crate::attention) fn attention(
        &self,
        batch: usize,
        sizes: Sizes,
        setup: Setup,
    ) -> Attention {
        let keys = self.lengths[batch];
        let sizes = Sizes {
            batch: 1,
            keys,
            ..sizes
        };
        Attention::new(sizes, setup)
    }

    /// Output and LSE of all sequences, of which the keys' and the values' caches have rows of so many elements.
    pub(in crate::attention) fn reference<T: DeviceElement>(
        &self,
        (sizes, setup): (Sizes, Setup),
        q: &Input<T>,
        caches: [(&[f64], usize); 2],
        factors: [&[f64]; 2],
    ) -> [Vec<f64>; 2] {
        let (q, [depth, values]) = (numbers(q), sizes.depths);
        let of_one = sizes.heads * sizes.queries * depth;
        let mut all = [Vec::new(), Vec::new()];
        for batch in 0..self.lengths.len() {
            let k = self.gathered(caches[0], batch, depth);
            let v = self.gathered(caches[1], batch, values);
            let attention = self.attention(batch, sizes, setup);
            let of_batch = attention.reference([&q[batch * of_one..][..of_one], &k, &v], factors);
            for (all, of_batch) in all.iter_mut().zip(of_batch) {
                all.extend(of_batch);
            }
        }
        all
    }
}

/// Which of page, head and token of a cache's elements have factors of their own.
pub(in crate::attention) type Scaled = [bool; 3];

/// Factors of a cache, their strides by page, head and token, and the numbers that its elements stand for.
pub(in crate::attention) struct Factors {
    pub(in crate::attention) scales: Input<f32>,
    pub(in crate::attention) strides: [usize; 3],
}

impl Factors {
    /// Those of tokens past the last one of their sequence are NaN.
    pub(in crate::attention) fn new(
        case: &mut Case,
        name: &'static str,
        sequences: &Sequences,
        by: Scaled,
    ) -> Factors {
        let [pages, heads, tokens, _] = sequences.shape(1);
        let mut strides = [0; 3];
        let mut count = 1;
        for (dim, extent) in [(2, tokens), (1, heads), (0, pages)] {
            if by[dim] {
                strides[dim] = count;
                count *= extent;
            }
        }
        let of_tokens = (by == [true; 3]).then(|| sequences.clone());
        let seed = name.len();
        let scales = case.input::<f32>(name, [count], move |at| {
            let is_used = of_tokens.as_ref().is_none_or(|of| of.is_used(at));
            let factor = 0.4 + (at * 37 + seed * 11) as f32 % 29.0 / 32.0;
            if is_used { factor } else { f32::NAN }
        });
        Factors { scales, strides }
    }

    /// The numbers of a cache's elements, `[pages, heads, tokens, columns]`: products in f32, of which `round` says how they are rounded.
    pub(super) fn numbers<C: DeviceElement>(
        &self,
        cache: &Input<C>,
        shape: [usize; 4],
        round: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let number = |at: usize| {
            let element = cache.host()[at].number().to_f64() as f32;
            round(f64::from(element * self.scale(at / shape[3], shape)))
        };
        (0..cache.host().len()).map(number).collect()
    }

    /// The factor of a line of a cache.
    fn scale(&self, line: usize, [_, heads, tokens, _]: [usize; 4]) -> f32 {
        let at = [line / tokens / heads, line / tokens % heads, line % tokens];
        let at = at.iter().zip(self.strides).map(|(at, stride)| at * stride);
        self.scales.host()[at.sum::<usize>()]
    }

    /// [`scale`](Factors::scale) in f64.
    pub(in crate::attention) fn of_line(&self, line: usize, shape: [usize; 4]) -> f64 {
        f64::from(self.scale(line, shape))
    }
}

/// Compares output and LSE with the reference, which is made at the first comparison.
#[track_caller]
pub(in crate::attention) fn expect_results<T: DeviceElement>(
    case: &mut Case,
    (out, lse): (&Output<T>, &Output<f32>),
    [of_out, of_lse]: [Tolerance; 2],
    reference: impl Fn() -> [Vec<f64>; 2],
) -> CaseResult {
    let made = std::sync::OnceLock::new();
    let reference = || made.get_or_init(&reference);
    case.expect_all(out, || reference()[0].clone(), of_out)?;
    case.expect_all(lse, || reference()[1].clone(), of_lse)
}

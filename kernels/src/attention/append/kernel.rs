//! New tokens for a cache: their keys and values are stored to it, and keys and queries are rotated by their positions (rotary embedding).

use std::fmt;

use tilekit::prelude::*;

use crate::attention::decode::page_scales::PageScales;
use crate::attention::mainloop::shape::swizzle;

/// Heads of a program.
pub(super) const HEADS: usize = 8;

/// What is rotated: the first `2 · pairs` columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotaryForm {
    /// Pairs of columns, a power of two from 8 to half of the depth.
    pub pairs: usize,
    /// Columns `2 j` and `2 j + 1` are a pair; otherwise `j` and `pairs + j`.
    pub is_interleaved: bool,
}

/// The factors of rows of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// None: the cache has the elements of the new rows.
    None,
    /// Those that the cache has.
    Given,
    /// A row's largest magnitude becomes this number, the largest of the cache's type (448 of e4m3, 57344 of e5m2), and its factor is stored to the cache.
    Computed(f32),
}

/// An instance of [`append`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppendForm {
    /// Columns of a row: 64, 128 or 256 elements.
    pub depth: usize,
    /// How queries and keys are rotated, if they are.
    pub rotary: Option<RotaryForm>,
    /// Where the factors of the cache's rows come from.
    pub scaling: Scaling,
}

impl fmt::Display for AppendForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.depth)?;
        if let Some(rotary) = self.rotary {
            let way = if rotary.is_interleaved {
                "interleaved"
            } else {
                "halves"
            };
            write!(f, "+{}_{way}", rotary.pairs)?;
        }
        match self.scaling {
            Scaling::None => Ok(()),
            Scaling::Given => write!(f, "+given"),
            Scaling::Computed(_) => write!(f, "+computed"),
        }
    }
}

/// Stores rows of K and V, `[batch, kv_heads, tokens, depth]`, to the cache, `[pages, kv_heads, page_tokens, depth]`, as the last tokens of each sequence, and rotates
/// rows of K, and of Q into `out_q`, by the angles of their positions, of which row `position` of `cos` and `sin`, `[positions, pairs]`, has cosines and sines.
///
/// `lengths` has the tokens of each sequence, the new ones among them. With `is_ragged`, batches are concatenated sequences of `rows` tokens in all, each of at most `tokens`, and `starts`
/// says where each begins and the last ends: what a sequence has past `tokens` is left out, and rows outside of the tensors count as zeros; with `is_checked` both fail an assertion. The
/// page of a token is as for [`decode`](crate::attention::decode::kernel::decode): tokens that have none are dropped; with `is_checked` they fail an assertion. Program `(token · jobs + job, sequence)`
/// has 8 heads of a token: of Q in the first `query_jobs` jobs, then of K, then of V. Elements of 8 bits are divided by the factors of `key_scales` and `value_scales`.
#[kernel(warps = 4)]
pub fn append<T: Float, C: Element>(
    #[fixed] form: AppendForm,
    #[block([1, HEADS, 1, form.depth], swizzle::<T>(form.depth, 4))] q: TensorMap<T>,
    #[block([1, HEADS, 1, form.depth], swizzle::<T>(form.depth, 4))] k: TensorMap<T>,
    #[block([1, HEADS, 1, form.depth], swizzle::<T>(form.depth, 4))] v: TensorMap<T>,
    #[block([1, HEADS, 1, form.depth], swizzle::<T>(form.depth, 4))] out_q: TensorMap<T>,
    #[block([1, HEADS, 1, form.depth], swizzle::<C>(form.depth, 4))] keys: TensorMap<C>,
    #[block([1, HEADS, 1, form.depth], swizzle::<C>(form.depth, 4))] values: TensorMap<C>,
    #[align(4)] key_scales: Ptr<f32>,
    #[align(4)] value_scales: Ptr<f32>,
    #[align(4)] cos: Ptr<f32>,
    #[align(4)] sin: Ptr<f32>,
    #[align(4)] lengths: Ptr<i32>,
    #[align(4)] starts: Ptr<i32>,
    #[align(4)] table: Ptr<i32>,
    kv_heads: i32,
    query_jobs: i32,
    tokens: i32,
    rows: i32,
    is_ragged: i32,
    is_paged: i32,
    page_tokens: i32,
    table_row: i32,
    pages: i32,
    positions: i32,
    is_checked: i32,
    keys_page: i64,
    keys_head: i64,
    keys_token: i64,
    values_page: i64,
    values_head: i64,
    values_token: i64,
) {
    assume((kv_heads > 0) & (page_tokens > 0) & (query_jobs >= 0));
    let source = Smem::<T>::alloc([HEADS, form.depth], swizzle::<T>(form.depth, 2));
    let target = Smem::<C>::alloc([HEADS, form.depth], swizzle::<C>(form.depth, 2));
    let full = Mbarrier::alloc(1);
    launch_dependents();
    launch_wait();
    let kv_jobs = cdiv(kv_heads, HEADS);
    let jobs = query_jobs + 2 * kv_jobs;
    let (token, job) = (program_id(0) / jobs, program_id(0) % jobs);
    let sequence = program_id(1);
    let [start, end] = [0, 1].map(|after| {
        let offset = starts.at(sequence + after).mask(is_ragged != 0);
        offset.other(0).load()
    });
    let count = select(is_ragged != 0, end - start, tokens);
    let is_ordered = (start >= 0) & (count >= 0) & (count <= tokens) & (end <= rows);
    device_assert(
        is_ordered | (is_checked == 0),
        "attention: `new.lengths`: found offsets that fall, lie outside of the new rows, or are further apart than `longest`",
    );
    let length = lengths.at(sequence).load();
    let position = length - count + token;
    let has_place = (position >= 0) & (position < table_row * page_tokens);
    let angles = Angles {
        cos,
        sin,
        position,
        positions,
        is_checked: is_checked != 0,
    };
    let batch = select(is_ragged != 0, 0, sequence);
    let begin = |map: TensorMap<T>, job: Scalar<i32>| {
        full.expect(map.block_bytes());
        let at = [batch, job * HEADS as i32, start + token, scalar(0)];
        map.load(at, source.reshape(map.block()), full);
        full.wait(0);
    };
    if token < count {
        if job < query_jobs {
            begin(q, job);
            let rows = Rows::load(source, form.rotary, Some(angles));
            for (first, part) in rows.parts {
                let columns = part.shape()[1] as usize;
                source
                    .slice(1, first..first + columns)
                    .store(part.cast::<T>());
            }
            let at = [batch, job * HEADS as i32, start + token, scalar(0)];
            out_q.store(at, source.reshape(out_q.block()));
        } else {
            let entry = sequence * table_row + position / page_tokens;
            let of_table = table.at(entry).mask(has_place & (is_paged != 0));
            let page = select(is_paged != 0, of_table.other(-1).load(), sequence);
            let in_page = select(is_paged != 0, position % page_tokens, position);
            let is_there = has_place & (page >= 0) & (page < pages);
            device_assert(
                is_there | (is_checked == 0),
                "attention: `cache.lengths` or `cache.table`: found a new token without a place in the cache",
            );
            let job = job - query_jobs;
            let scales = |scales, strides| PageScales {
                scales,
                strides,
                pages,
                columns: form.depth,
            };
            let place = |job: Scalar<i32>| Place {
                at: [page, job * HEADS as i32, in_page],
                kv_heads,
                scaling: form.scaling,
            };
            if is_there {
                if job < kv_jobs {
                    begin(k, job);
                    let rows = Rows::load(source, form.rotary, Some(angles));
                    let scales = scales(key_scales, [keys_page, keys_head, keys_token]);
                    place(job).store(rows, scales, target, keys);
                } else {
                    begin(v, job - kv_jobs);
                    let rows = Rows::load(source, form.rotary, None);
                    let scales = scales(value_scales, [values_page, values_head, values_token]);
                    place(job - kv_jobs).store(rows, scales, target, values);
                }
            }
        }
    }
    tma_store_wait_read(0);
}

/// The angles of a token.
#[derive(Clone, Copy)]
struct Angles {
    cos: Ptr<f32>,
    sin: Ptr<f32>,
    position: Scalar<i32>,
    /// Rows of the tables.
    positions: Scalar<i32>,
    is_checked: Scalar<bool>,
}

impl Angles {
    /// Cosines and sines of all pairs, as columns in this layout. A token before the first position keeps its row; past the tables all is NaN.
    #[device]
    fn of(self, pairs: usize, layout: Slice) -> [Tensor<f32>; 2] {
        let (is_early, is_late) = (self.position < 0, self.position >= self.positions);
        device_assert(
            !(is_late & self.is_checked),
            "attention: `new.rotary`: found a position past the tables of angles",
        );
        let pair = arange(0..pairs, layout).expand_dims(0);
        let row = self.position.cast::<i64>() * pairs as i64;
        [(self.cos, 1.0), (self.sin, 0.0)].map(|(table, of_early)| {
            let angle = (table + row).at(pair).mask(!(is_early | is_late));
            select(is_early, of_early, angle.other(f32::NAN).load())
        })
    }
}

/// Threads over columns of all heads of a program: each has two or more columns beside each other.
fn layout(columns: usize) -> Blocked {
    let each = (columns * HEADS / 128).max(2);
    let lanes = (columns / each).min(32);
    Blocked::new([1, each], [32 / lanes, lanes], [4, 1], [1, 0])
}

/// The rows of a program, in parts that begin at these columns.
struct Rows {
    parts: Vec<(usize, Tensor<f32>)>,
}

impl Rows {
    /// Reads rows, and rotates the columns of `rotary` if there are angles.
    #[device]
    fn load<T: Float>(tile: Smem<T>, rotary: Option<RotaryForm>, angles: Option<Angles>) -> Rows {
        let depth = tile.shape()[1] as usize;
        let read = |first: usize, columns: usize| {
            let part = tile.slice(1, first..first + columns);
            part.load(layout(columns)).cast::<f32>()
        };
        let (
            Some(RotaryForm {
                pairs,
                is_interleaved,
            }),
            Some(angles),
        ) = (rotary, angles)
        else {
            return Rows {
                parts: vec![(0, read(0, depth))],
            };
        };
        let mut parts = if is_interleaved {
            let (low, high) = read(0, 2 * pairs).reshape([HEADS, pairs, 2]).split();
            let [low, high] = rotated([low, high], pairs, angles);
            vec![(0, low.join(high).reshape([HEADS, 2 * pairs]))]
        } else {
            let [low, high] = rotated([read(0, pairs), read(pairs, pairs)], pairs, angles);
            vec![(0, low), (pairs, high)]
        };
        // What is not rotated, in powers of two.
        let mut first = 2 * pairs;
        while first < depth {
            parts.push((first, read(first, first)));
            first *= 2;
        }
        Rows { parts }
    }
}

/// The pairs `low` and `high` after the rotation by their angles.
#[device]
fn rotated([low, high]: [Tensor<f32>; 2], pairs: usize, angles: Angles) -> [Tensor<f32>; 2] {
    let [cos, sin] = angles.of(pairs, Slice::new(0, low.layout()));
    [low * cos - high * sin, high * cos + low * sin]
}

/// Where a program's rows go in the cache: page, first head, token of the page.
#[derive(Clone, Copy)]
struct Place {
    at: [Scalar<i32>; 3],
    kv_heads: Scalar<i32>,
    scaling: Scaling,
}

impl Place {
    #[device]
    fn store<C: Element>(self, rows: Rows, scales: PageScales, tile: Smem<C>, to: TensorMap<C>) {
        let factor = self.factor(&rows, scales);
        for (first, part) in rows.parts {
            let columns = part.shape()[1] as usize;
            let part = match factor {
                Some(factor) => {
                    let of_rows = Slice::new(1, part.layout());
                    part / factor.convert_layout(of_rows).expand_dims(1)
                }
                None => part,
            };
            tile.slice(1, first..first + columns)
                .store(part.cast::<C>());
        }
        let [page, head, token] = self.at;
        to.store([page, head, token, scalar(0)], tile.reshape(to.block()));
    }

    /// The factor of each row; one that is computed is stored.
    #[device]
    fn factor(self, rows: &Rows, scales: PageScales) -> Option<Tensor<f32>> {
        let Scaling::Computed(largest) = self.scaling else {
            let is_given = self.scaling == Scaling::Given;
            return is_given.then(|| {
                let (at, is_head) = self.places(scales);
                let factor = scales.scales.at(at).mask(is_head).other(1.0).load();
                // What is read is 0 whatever the elements are, but NaN.
                select(factor == 0.0, 1.0, factor)
            });
        };
        let mut most = full([HEADS], 1e-30f32, Slice::new(1, layout(16)));
        for (_, part) in &rows.parts {
            let of_part = part.abs().max(1);
            most = maximum(most, of_part.convert_layout(most.layout()));
        }
        let factor = most / largest;
        let (at, is_head) = self.places(scales);
        scales.scales.at(at).mask(is_head).store(factor);
        Some(factor)
    }

    /// Where the factors of the rows are, and whether the rows are heads.
    #[device]
    fn places(self, scales: PageScales) -> (Tensor<i64>, Tensor<bool>) {
        let [page, head, token] = self.at;
        let [of_page, of_head, of_token] = scales.strides;
        let row = arange(0..HEADS, Slice::new(1, layout(16)));
        let first = page.cast::<i64>() * of_page + token.cast::<i64>() * of_token;
        let head = head + row;
        (head.cast::<i64>() * of_head + first, head < self.kv_heads)
    }
}

//! What a case of attention backward is given, the results of forward among it, and what its kernels write.

use std::sync::Arc;

use tilekit::TensorSource;
use tilekit::prelude::*;

use super::beside::{has_passes, least_ahead, lines};
use super::lines::parts_of_block;
use super::part::{GROUPS, OfCluster, block_stride, queries_of};
use super::sections::Plan;
use crate::attention::blocks::lists::UNIT;
use crate::attention::inputs::of_sequences;
use crate::attention::modifier::Plain;
use crate::attention::plan::Sizes;
use crate::attention::reference::{Attention, numbers};
use crate::attention::setup::{Scores, Setup};

/// The results of forward, rounded as it rounds them.
fn results<T: DeviceElement>(
    case: &mut Case,
    attention: &Arc<Attention>,
    qkv: [&Input<T>; 3],
    factors: [&Input<f32>; 2],
) -> (Input<T>, Input<f32>) {
    let Sizes { heads, depths, .. } = attention.sizes;
    let (batches, tokens) = attention.rows(0);
    let made = Arc::new(std::sync::OnceLock::new());
    let inputs = (qkv.map(Clone::clone), factors.map(Clone::clone));
    let forward = move |attention: &Attention| {
        let ([q, k, v], [slopes, sinks]) = &inputs;
        let sinks = attention.sinks(sinks);
        attention.reference(
            [&numbers(q), &numbers(k), &numbers(v)],
            [&numbers(slopes), &sinks],
        )
    };
    let of = |at: usize| {
        let (made, forward, attention) = (made.clone(), forward.clone(), attention.clone());
        move |element: usize| made.get_or_init(|| forward(&attention))[at][element]
    };
    let (of_out, of_lse) = (of(0), of(1));
    let out = case.input::<T>("out", attention.shape(0, heads, depths[1]), move |at| {
        T::nearest(Number::Float(of_out(at))).expect("an average of V is a number of its type")
    });
    let lse = case.input::<f32>("lse", [batches, heads, tokens], move |at| of_lse(at) as f32);
    (out, lse)
}

/// What a call for gradients is given.
pub(super) struct Given<T> {
    pub(super) attention: Arc<Attention>,
    pub(super) setup: Setup,
    pub(super) q: Input<T>,
    pub(super) k: Input<T>,
    pub(super) v: Input<T>,
    pub(super) dout: Input<T>,
    pub(super) out: Input<T>,
    pub(super) lse: Input<f32>,
    pub(super) data: Input<f32>,
    pub(super) sinks: Input<f32>,
    pub(super) offsets: [Input<i32>; 2],
}

impl<T: Float + DeviceElement> Given<T> {
    pub(super) fn new(case: &mut Case, setup: Setup, depths: [usize; 2]) -> Given<T> {
        let [batch, kv_heads, query_heads, queries, keys] =
            ["batch", "kv_heads", "query_heads", "queries", "keys"].map(|name| case.size(name));
        let heads = kv_heads * query_heads;
        let sizes = Sizes {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            depths,
        };
        let attention = Arc::new(Attention::new(sizes, setup));
        let [depth, values] = depths;
        let spread = setup.spread * 3f64.sqrt();
        let of_q = (0, heads, depth);
        let q = if setup.is_ragged {
            of_sequences::<T>(case, "q", &attention, of_q, setup.spread)
        } else {
            case.uniform::<T>("q", attention.shape(0, heads, depth), -spread..spread)
        };
        let mut normal = |name: &str, (side, heads, columns): (usize, usize, usize)| {
            if setup.is_ragged {
                of_sequences::<T>(case, name, &attention, (side, heads, columns), 1.0)
            } else {
                case.normal::<T>(name, attention.shape(side, heads, columns))
            }
        };
        let k = normal("k", (1, kv_heads, depth));
        let v = normal("v", (1, kv_heads, values));
        let dout = normal("dout", (0, heads, values));
        let data = case.uniform::<f32>("data", [heads], 0.0..0.5);
        let sinks = case.normal::<f32>("sinks", [heads]);
        let (out, lse) = results(case, &attention, [&q, &k, &v], [&data, &sinks]);
        let offsets = [0, 1].map(|side| {
            let offsets = attention.offsets[side].clone();
            case.input::<i32>(
                ["query_offsets", "key_offsets"][side],
                [batch + 1],
                move |at| offsets[at] as i32,
            )
        });
        Given {
            attention,
            setup,
            q,
            k,
            v,
            dout,
            out,
            lse,
            data,
            sinks,
            offsets,
        }
    }

    /// Elements from one batch, head and token to the next of a tensor of queries with these columns.
    pub(super) fn strides_of_queries(&self, columns: usize) -> [i64; 3] {
        let strides = self
            .attention
            .strides(0, self.attention.sizes.heads, columns);
        strides.map(|stride| stride as i64)
    }

    /// Blocks of queries of the longest sequence, and of a head in the workspace: both up to the end of a mask's last block.
    pub(super) fn blocks(&self) -> [usize; 2] {
        let Sizes { batch, queries, .. } = self.attention.sizes;
        let (_, tokens) = self.attention.rows(0);
        let block = self.block();
        if self.setup.blocks.is_some() {
            return [queries.div_ceil(UNIT) * (UNIT / block); 2];
        }
        let stride = block_stride(block, tokens, batch, self.setup.is_ragged);
        [queries.div_ceil(block), stride]
    }

    /// Queries of a block.
    pub(super) fn block(&self) -> usize {
        let reads_place = matches!(self.setup.scores, Scores::Alibi);
        let is_crowded = reads_place || self.setup.dropout.is_some();
        queries_of(self.attention.sizes.depths[0], is_crowded)
    }

    /// Blocks of keys, and those of a cluster.
    pub(super) fn of_cluster(&self) -> OfCluster {
        let depth = self.attention.sizes.depths[0];
        match self.setup.blocks {
            Some(_) => OfCluster::of_lists(depth),
            None => OfCluster::of_window(depth, self.setup.dropout.is_some()),
        }
    }

    /// The sections of a call, but of two heads at most, so that small cases have several.
    pub(super) fn sections<const ORDERED: bool>(&self) -> Plan {
        let (sizes, setup) = (self.attention.sizes, self.setup);
        let keys = self.of_cluster();
        let plan = Plan::new(sizes, setup.mask, ORDERED, keys, size_of::<T>());
        Plan {
            heads: plan.heads.min(2),
            ..plan
        }
    }

    /// Heads of K and V of either pass: as few as may be.
    pub(super) fn ahead<const ORDERED: bool>(&self) -> usize {
        let Sizes {
            batch,
            kv_heads,
            depths: [depth, _],
            ..
        } = self.attention.sizes;
        let (all, setup) = (batch * kv_heads, self.setup);
        let is_whole = setup.blocks.is_none() && !setup.is_ragged;
        let is_plain = matches!(setup.scores, Scores::Plain) && setup.dropout.is_none();
        if !(is_whole && is_plain && has_passes::<Plain>(depth)) {
            return all;
        }
        let blocks = self.of_cluster().programs(self.attention.sizes.keys);
        least_ahead(self.sections::<ORDERED>(), blocks).min(all)
    }

    /// The lines of a pass, and the first line of the second.
    pub(super) fn lines<const ORDERED: bool>(&self) -> ([usize; 2], usize) {
        lines(self.attention.sizes, self.ahead::<ORDERED>())
    }

    /// The view by which blocks of queries (side 0) or keys (1) with so many columns are moved.
    pub(super) fn blocked<'a, S: TensorSource<T>>(
        &self,
        view: TensorView<'a, T, S>,
        side: usize,
        columns: usize,
    ) -> TensorView<'a, T, S> {
        let ([batches, heads, tokens, _], [batch, head, token, _]) = self.place(side, columns);
        let view = view
            .with_shape([1, batches, heads, tokens, columns])
            .with_strides([1, batch, head, token, 1]);
        if self.setup.is_ragged {
            view.with_sequences(3)
        } else {
            view
        }
    }

    /// Batch, heads, tokens and columns of queries or keys, and the strides.
    pub(super) fn place(&self, side: usize, columns: usize) -> ([usize; 4], [usize; 4]) {
        let Sizes {
            heads, kv_heads, ..
        } = self.attention.sizes;
        let heads = [heads, kv_heads][side];
        let (batches, tokens) = self.attention.rows(side);
        let [batch, head, token] = self.attention.strides(side, heads, columns);
        ([batches, heads, tokens, columns], [batch, head, token, 1])
    }
}

/// What the kernels of a call write.
pub(super) struct Made<T> {
    pub(super) delta: Output<f32>,
    pub(super) log2_sum: Output<f32>,
    pub(super) parts: Output<bf16>,
    pub(super) sums: Output<f32>,
    pub(super) turns: Output<i32>,
    pub(super) progress: Output<i32>,
    pub(super) dq: Output<T>,
    pub(super) dk: Output<T>,
    pub(super) dv: Output<T>,
}

impl<T: Float + DeviceElement> Made<T> {
    pub(super) fn new(case: &mut Case, given: &Given<T>) -> Made<T> {
        let attention = &given.attention;
        let Sizes {
            heads,
            kv_heads,
            depths: [depth, values],
            ..
        } = attention.sizes;
        let (batches, _) = attention.rows(0);
        let blocks = batches * heads * given.blocks()[1];
        let rows = blocks * given.block();
        let [delta, log2_sum] = ["delta", "log2_sum"].map(|name| case.output::<f32>(name, [rows]));
        Made {
            delta,
            log2_sum,
            parts: case.output::<bf16>("parts", [parts_of_block(rows)]),
            sums: case.output::<f32>("sums", [rows, depth]),
            turns: case.output::<i32>("turns", [1 + blocks * GROUPS]),
            progress: case.output::<i32>("progress", [attention.sizes.batch * kv_heads * 2]),
            dq: case.output::<T>("dq", attention.shape(0, heads, depth)),
            dk: case.output::<T>("dk", attention.shape(1, kv_heads, depth)),
            dv: case.output::<T>("dv", attention.shape(1, kv_heads, values)),
        }
    }
}

//! Cases of attention backward with masks, sequences of any lengths, strides and modified scores, against f64.

use std::sync::Arc;

use tilekit::prelude::*;

use super::kernel::{backward, backward_arguments};
use super::part::{GROUPS, block_stride, keys_of, listed_keys_of, queries_of};
use super::passes::{backward_begin, backward_end};
use super::sections::Plan;
use crate::attention::blocks::lists::UNIT;
use crate::attention::dropout::Dropout;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::{Alibi, Differentiable, Dropped, Plain, Softcap};
use crate::attention::plan::{Mask, Numbers, Sizes, Tile};
use crate::attention::reference::{Attention, CAUSAL, FULL, Scores, Setup, WINDOW, numbers};

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
        let q = case.uniform::<T>("q", attention.shape(0, heads, depth), -spread..spread);
        let k = case.normal::<T>("k", attention.shape(1, kv_heads, depth));
        let v = case.normal::<T>("v", attention.shape(1, kv_heads, values));
        let dout = case.normal::<T>("dout", attention.shape(0, heads, values));
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
    fn strides_of_queries(&self, columns: usize) -> [i64; 3] {
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

    /// Keys of a block.
    pub(super) fn block_keys(&self) -> usize {
        let depth = self.attention.sizes.depths[0];
        match self.setup.blocks {
            Some(_) => listed_keys_of(depth),
            None => keys_of(depth, self.setup.dropout.is_some()),
        }
    }

    /// The sections of a call, but of two heads at most, so that small cases have several.
    pub(super) fn sections<const ORDERED: bool>(&self) -> Plan {
        let (sizes, setup) = (self.attention.sizes, self.setup);
        let keys = self.block_keys();
        let plan = Plan::new(sizes, setup.mask, ORDERED, keys, size_of::<T>());
        Plan {
            heads: plan.heads.min(2),
            ..plan
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
    pub(super) sums: Output<f32>,
    pub(super) turns: Output<i32>,
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
            sums: case.output::<f32>("sums", [rows, depth]),
            turns: case.output::<i32>("turns", [1 + blocks * GROUPS]),
            dq: case.output::<T>("dq", attention.shape(0, heads, depth)),
            dk: case.output::<T>("dk", attention.shape(1, kv_heads, depth)),
            dv: case.output::<T>("dv", attention.shape(1, kv_heads, values)),
        }
    }
}

/// A case of one instance.
fn gradients<T, const D: usize, const DV: usize, const ORDERED: bool, M: Differentiable>(
    case: &mut Case,
    setup: Setup,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let launch = launch_gradients::<T, D, DV, ORDERED, M>;
    let Sizes {
        batch,
        heads,
        queries,
        keys,
        ..
    } = between_passes::<T, D, DV>(case, setup, launch)?;
    let products = batch * heads * queries * keys * (6 * D + 4 * DV);
    let is_causal = setup.mask.right == Some(0) && queries == keys;
    case.does_tensor_flops::<T>(if is_causal { products / 2 } else { products });
    Ok(())
}

/// Launches the kernel in front of the main loop, the main loop by `launch`, and the kernel behind it, and compares what they make.
pub(super) fn between_passes<T, const D: usize, const DV: usize>(
    case: &mut Case,
    setup: Setup,
    launch: impl FnOnce(&mut Case, &Given<T>, &Made<T>) -> CaseResult,
) -> tilekit::Result<Sizes>
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let given = Given::<T>::new(case, setup, [D, DV]);
    let made = Made::new(case, &given);
    let is_wide = given.block() > ROWS;
    if is_wide {
        launch_begin::<T, D, DV, { GROUPS * ROWS }>(case, &given, &made)?;
    } else {
        launch_begin::<T, D, DV, ROWS>(case, &given, &made)?;
    }
    launch(case, &given, &made)?;
    if is_wide {
        launch_end::<T, D, { GROUPS * ROWS }>(case, &given, &made)?;
    } else {
        launch_end::<T, D, ROWS>(case, &given, &made)?;
    }
    expect(case, &given, &made)?;
    Ok(given.attention.sizes)
}

fn launch_begin<T, const D: usize, const DV: usize, const QUERIES: usize>(
    case: &mut Case,
    given: &Given<T>,
    made: &Made<T>,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let Sizes {
        batch,
        heads,
        queries,
        ..
    } = given.attention.sizes;
    let [of_longest, of_head] = given.blocks();
    let (_, tokens) = given.attention.rows(0);
    let strides = given.strides_of_queries(DV);
    case.launch(
        backward_begin::<T, D, DV, QUERIES>,
        grid([of_longest, heads, batch]),
        (
            &given.out,
            &given.dout,
            &given.lse,
            &made.delta,
            &made.log2_sum,
            &made.sums,
            &made.turns,
            &given.offsets[0],
            queries as i32,
            i32::from(given.setup.is_ragged),
            tokens as i32,
            of_head as i32,
            strides,
            strides,
        ),
    )?;
    Ok(())
}

fn launch_gradients<T, const D: usize, const DV: usize, const ORDERED: bool, M: Differentiable>(
    case: &mut Case,
    given: &Given<T>,
    made: &Made<T>,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let Given {
        attention, setup, ..
    } = given;
    let sizes = attention.sizes;
    let tile = Tile {
        rows: 1,
        keys: given.block_keys(),
        pack: 1,
    };
    let numbers_of_launch = Numbers::new(sizes, setup.mask, tile, size_of::<T>());
    let places = [
        [D, DV].map(|n| given.place(0, n)),
        [D, DV].map(|n| given.place(1, n)),
    ];
    macro_rules! map {
        ($x:expr, $side:literal, $columns:literal) => {{
            let (shape, strides) = places[$side][$columns];
            $x.view().with_shape(shape).with_strides(strides)
        }};
    }
    let [q_map, k_map] = [map!(given.q, 0, 0), map!(given.k, 1, 0)];
    let [v_map, dout_map] = [map!(given.v, 1, 1), map!(given.dout, 0, 1)];
    let [dk_map, dv_map] = [map!(made.dk, 1, 0), map!(made.dv, 1, 1)];
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let scale = attention.scale() as f32;
    let [of_dk, of_dv] = [0, 1].map(|columns| places[1][columns].1);
    case.launch(
        backward::<T, D, DV, ORDERED, M>,
        grid([sizes.keys.div_ceil(tile.keys), sizes.kv_heads, sizes.batch]),
        backward_arguments!(
            maps: [&q_map, &k_map, &v_map, &dout_map, &dk_map, &dv_map],
            workspace: (&made.log2_sum, &made.delta, &made.sums, &made.turns),
            offsets: [&given.offsets[0], &given.offsets[1]],
            data: &given.data,
            numbers: numbers_of_launch,
            is_ragged: setup.is_ragged,
            block_stride: given.blocks()[1],
            sections: given.sections::<ORDERED>(),
            factors: M::factors(scale, cap as f32),
            scale: scale,
            strides: [[of_dk[1], of_dk[2]], [of_dv[1], of_dv[2]]],
            dropout: setup.dropout
        ),
    )?;
    Ok(())
}

fn launch_end<T, const D: usize, const QUERIES: usize>(
    case: &mut Case,
    given: &Given<T>,
    made: &Made<T>,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let Sizes {
        batch,
        heads,
        queries,
        ..
    } = given.attention.sizes;
    let [of_longest, of_head] = given.blocks();
    case.launch(
        backward_end::<T, D, QUERIES>,
        grid([of_longest * GROUPS, heads, batch]),
        (
            &made.sums,
            &made.dq,
            &given.offsets[0],
            queries as i32,
            i32::from(given.setup.is_ragged),
            of_head as i32,
            given.attention.scale() as f32,
            given.strides_of_queries(D),
        ),
    )?;
    Ok(())
}

/// Compares every element of the gradients with f64.
fn expect<T: Float + DeviceElement>(
    case: &mut Case,
    given: &Given<T>,
    made: &Made<T>,
) -> CaseResult {
    let Given {
        attention,
        q,
        k,
        v,
        dout,
        data,
        sinks,
        ..
    } = given;
    let wanted = std::sync::OnceLock::new();
    let reference = || {
        wanted.get_or_init(|| {
            attention.gradients(
                [&numbers(q), &numbers(k), &numbers(v), &numbers(dout)],
                [&numbers(data), &attention.sinks(sinks)],
            )
        })
    };
    // P and dS are rounded to `T` before they are multiplied, and so is the output of which delta is made: 2^-9 of each term, which dK has
    // times Q.
    let tolerance = Close {
        relative: 1e-2,
        absolute: 2e-2 * given.setup.spread.max(1.0),
    };
    case.expect_all(&made.dq, || reference()[0].clone(), tolerance)?;
    case.expect_all(&made.dk, || reference()[1].clone(), tolerance)?;
    case.expect_all(&made.dv, || reference()[2].clone(), tolerance)
}

/// Three weights of ten are dropped.
const DROPOUT: Option<Dropout> = Some(Dropout {
    rate: 0.3,
    seed: 0x1234_5678_9abc_def0,
});

macro_rules! cases {
    ($($name:ident: <$ty:ty, $d:literal, $dv:literal, $ordered:literal, $modifier:ty>, $setup:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks))]
        fn $name(case: &mut Case) -> CaseResult {
            gradients::<$ty, $d, $dv, $ordered, $modifier>(case, $setup)
        }
    )*};
}

cases! {
    backward_64: <bf16, 64, 64, false, Plain>, FULL,
        batch = [1], kv_heads = [2, 1, 1], query_heads = [1, 2, 1], queries = [256, 127, 1], keys = [256, 127, 1];
    backward_64_causal: <bf16, 64, 64, false, Plain>, CAUSAL,
        batch = [1, 2, 1], kv_heads = [1], query_heads = [1, 1, 8], queries = [129, 65, 63], keys = [129, 65, 63];
    backward_64_ordered: <bf16, 64, 64, true, Plain>, CAUSAL,
        batch = [2, 1, 1, 1], kv_heads = [1, 1, 3, 10], query_heads = [1, 2, 1, 1], queries = [300, 129, 400, 260], keys = [300, 300, 400, 260];
    backward_128: <bf16, 128, 128, false, Plain>, FULL,
        batch = [1, 1, 2], kv_heads = [1], query_heads = [8, 1, 1], queries = [65, 256, 1], keys = [63, 256, 129];
    backward_128_causal: <bf16, 128, 128, false, Plain>, CAUSAL,
        batch = [1, 1, 1, 2], kv_heads = [2, 1, 1, 3], query_heads = [1], queries = [256, 131, 200, 150], keys = [256, 131, 70, 150];
    backward_128_window: <bf16, 128, 128, false, Plain>, Setup { tokens_first: true, ..WINDOW },
        batch = [2, 1], kv_heads = [1], query_heads = [1], queries = [127, 300], keys = [127, 420];
    backward_128_chunked: <bf16, 128, 128, false, Plain>,
        Setup { mask: Mask { chunk: Some(100), ..CAUSAL.mask }, tokens_first: true, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200, 129], keys = [200, 350];
    backward_128_from_first: <bf16, 128, 128, false, Plain>,
        Setup { mask: Mask { from_first: true, ..CAUSAL.mask }, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [129, 200], keys = [257, 100];
    backward_128_ragged: <bf16, 128, 128, false, Plain>, Setup { is_ragged: true, tokens_first: true, ..CAUSAL },
        batch = [5, 3], kv_heads = [1, 2], query_heads = [2, 1], queries = [100, 150], keys = [130, 129];
    backward_128_sinks: <bf16, 128, 128, false, Plain>, Setup { has_sinks: true, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [129], keys = [65];
    backward_128_overlong: <bf16, 128, 128, false, Plain>, Setup { spread: 1e2, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [100], keys = [100];
    backward_128_ordered: <bf16, 128, 128, true, Plain>, FULL,
        batch = [1, 2], kv_heads = [1], query_heads = [1], queries = [129, 65], keys = [300, 257];
    backward_128_ordered_window: <bf16, 128, 128, true, Plain>, WINDOW,
        batch = [1], kv_heads = [1, 1, 10], query_heads = [2, 1, 1], queries = [200, 300, 300], keys = [260, 420, 420];
    backward_128_ordered_causal: <bf16, 128, 128, true, Plain>, CAUSAL,
        batch = [1, 3, 2], kv_heads = [5, 1, 6], query_heads = [1, 2, 2], queries = [260, 70, 150], keys = [260, 150, 290];
    backward_128_ordered_ragged: <bf16, 128, 128, true, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4, 12], kv_heads = [1], query_heads = [1], queries = [150], keys = [200, 290];
    backward_128_softcap: <bf16, 128, 128, false, Softcap>, Setup { scores: Scores::Softcap(5.0), spread: 2.0, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [200];
    backward_128_alibi: <bf16, 128, 128, false, Alibi>, Setup { scores: Scores::Alibi, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [200];
    backward_128_f16: <f16, 128, 128, false, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [127], keys = [127];
    backward_96: <bf16, 96, 96, false, Plain>, FULL,
        batch = [1, 2], kv_heads = [1], query_heads = [2, 1], queries = [65, 129], keys = [130, 257];
    backward_96_causal: <bf16, 96, 96, false, Plain>, Setup { tokens_first: true, ..CAUSAL },
        batch = [1], kv_heads = [2, 1], query_heads = [1], queries = [127, 1], keys = [127, 1];
    backward_96_ordered: <bf16, 96, 96, true, Plain>, WINDOW,
        batch = [1], kv_heads = [1, 9], query_heads = [2, 1], queries = [200], keys = [260];
    backward_96_ragged: <bf16, 96, 96, false, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4], kv_heads = [1], query_heads = [1], queries = [150], keys = [200];
    backward_192: <bf16, 192, 128, false, Plain>, FULL,
        batch = [1, 2], kv_heads = [1], query_heads = [2, 1], queries = [65, 129], keys = [63, 130];
    backward_192_causal: <bf16, 192, 128, false, Plain>, Setup { tokens_first: true, ..CAUSAL },
        batch = [1], kv_heads = [2, 1], query_heads = [1], queries = [127, 1], keys = [127, 1];
    backward_192_window: <bf16, 192, 128, false, Plain>, WINDOW,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [200], keys = [260];
    backward_192_ordered: <bf16, 192, 128, true, Plain>, FULL,
        batch = [1, 2], kv_heads = [1, 3], query_heads = [1], queries = [200, 65], keys = [257, 130];
    backward_192_ordered_causal: <bf16, 192, 128, true, Plain>, CAUSAL,
        batch = [1, 2], kv_heads = [5, 6], query_heads = [1, 2], queries = [260, 150], keys = [260, 290];
    backward_192_ordered_window: <bf16, 192, 128, true, Plain>, WINDOW,
        batch = [1], kv_heads = [1, 10], query_heads = [2, 1], queries = [200, 300], keys = [260, 420];
    backward_192_ordered_chunked: <bf16, 192, 128, true, Plain>, Setup { mask: Mask { chunk: Some(100), ..CAUSAL.mask }, ..FULL },
        batch = [1, 1], kv_heads = [8], query_heads = [1], queries = [300, 150], keys = [300, 397];
    backward_192_ordered_from_first: <bf16, 192, 128, true, Plain>, Setup { mask: Mask { from_first: true, ..CAUSAL.mask }, ..FULL },
        batch = [1], kv_heads = [8], query_heads = [1], queries = [300, 150], keys = [200, 397];
    backward_192_ordered_ragged: <bf16, 192, 128, true, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4, 12], kv_heads = [1], query_heads = [1], queries = [150], keys = [200, 290];
    backward_256: <bf16, 256, 256, false, Plain>, FULL,
        batch = [1, 2], kv_heads = [1], query_heads = [2, 1], queries = [65, 129], keys = [63, 130];
    backward_256_causal: <bf16, 256, 256, false, Plain>, Setup { tokens_first: true, ..CAUSAL },
        batch = [1], kv_heads = [2, 1], query_heads = [1], queries = [127, 1], keys = [127, 1];
    backward_256_ordered: <bf16, 256, 256, true, Plain>, CAUSAL,
        batch = [1], kv_heads = [1, 3, 10], query_heads = [2, 1, 1], queries = [200, 129, 200], keys = [200, 129, 200];
    backward_256_ragged: <bf16, 256, 256, false, Plain>, Setup { is_ragged: true, tokens_first: true, ..CAUSAL },
        batch = [4], kv_heads = [1], query_heads = [1], queries = [150], keys = [200];
    backward_64_dropout: <bf16, 64, 64, false, Dropped<Plain>>, Setup { dropout: DROPOUT, ..CAUSAL },
        batch = [2], kv_heads = [1], query_heads = [2], queries = [65, 129], keys = [130, 129];
    backward_128_dropout: <bf16, 128, 128, false, Dropped<Plain>>, Setup { dropout: DROPOUT, tokens_first: true, ..FULL },
        batch = [1, 2], kv_heads = [2, 1], query_heads = [1, 2], queries = [200, 63], keys = [300, 65];
    backward_192_dropout: <bf16, 192, 128, false, Dropped<Plain>>, Setup { dropout: DROPOUT, ..CAUSAL },
        batch = [1], kv_heads = [2], query_heads = [1], queries = [129], keys = [200];
    backward_256_dropout: <bf16, 256, 256, false, Dropped<Plain>>, Setup { dropout: DROPOUT, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [100], keys = [131];
    backward_128_dropout_ragged: <bf16, 128, 128, false, Dropped<Plain>>,
        Setup { dropout: DROPOUT, is_ragged: true, ..CAUSAL },
        batch = [4], kv_heads = [1], query_heads = [1], queries = [150], keys = [200];
}

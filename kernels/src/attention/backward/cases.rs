//! Cases of attention backward with masks, sequences of any lengths, strides and modified scores, against f64.

use tilekit::prelude::*;

use super::case_tensors::{Given, Made};
use super::kernel::{backward, backward_arguments};
use super::part::GROUPS;
use super::passes::{backward_begin, backward_end};
use super::sections::Plan;
use crate::attention::dropout::Dropout;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::{Alibi, Differentiable, Dropped, Plain, Softcap};
use crate::attention::plan::{Mask, Numbers, Sizes, Tile};
use crate::attention::reference::numbers;
use crate::attention::setup::{CAUSAL, FULL, Scores, Setup, WINDOW};

/// A case of one instance.
fn gradients<T, const D: usize, const DV: usize, const ORDERED: bool, M: Differentiable>(
    case: &mut Case,
    setup: Setup,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32> + DeviceElement,
{
    let launch = launch_gradients::<T, D, DV, ORDERED, M>;
    let Sizes {
        batch,
        heads,
        queries,
        keys,
        ..
    } = between_passes::<T, D, DV, ORDERED>(case, setup, launch)?;
    let products = batch * heads * queries * keys * (6 * D + 4 * DV);
    let is_causal = setup.mask.right == Some(0) && queries == keys;
    case.does_tensor_flops::<T>(if is_causal { products / 2 } else { products });
    Ok(())
}

/// Launches the kernel in front of the main loop, the main loop by `launch`, and the kernel behind it, and compares what they make.
pub(super) fn between_passes<T, const D: usize, const DV: usize, const ORDERED: bool>(
    case: &mut Case,
    setup: Setup,
    launch: impl FnOnce(&mut Case, &Given<T>, &Made<T>) -> CaseResult,
) -> tilekit::Result<Sizes>
where
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32> + DeviceElement,
{
    let given = Given::<T>::new(case, setup, [D, DV]);
    let made = Made::new(case, &given);
    let is_wide = given.block() > ROWS;
    let (lines, _) = given.lines::<ORDERED>();
    if is_wide {
        launch_begin::<T, D, DV, { GROUPS * ROWS }>(case, &given, &made, lines)?;
    } else {
        launch_begin::<T, D, DV, ROWS>(case, &given, &made, lines)?;
    }
    launch(case, &given, &made)?;
    if is_wide {
        launch_end::<T, D, { GROUPS * ROWS }>(case, &given, &made, given.lines::<ORDERED>())?;
    } else {
        launch_end::<T, D, ROWS>(case, &given, &made, given.lines::<ORDERED>())?;
    }
    expect(case, &given, &made)?;
    Ok(given.attention.sizes)
}

fn launch_begin<T, const D: usize, const DV: usize, const QUERIES: usize>(
    case: &mut Case,
    given: &Given<T>,
    made: &Made<T>,
    [lines, sequences]: [usize; 2],
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32> + DeviceElement,
{
    let Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        ..
    } = given.attention.sizes;
    let [of_longest, of_head] = given.blocks();
    let (_, tokens) = given.attention.rows(0);
    let strides = given.strides_of_queries(DV);
    case.launch(
        backward_begin::<T, D, DV, QUERIES>,
        grid([of_longest, lines, sequences]),
        (
            &given.out,
            &given.dout,
            &given.lse,
            &made.delta,
            &made.log2_sum,
            &made.parts,
            &made.sums,
            &made.turns,
            &made.progress,
            &given.offsets[0],
            queries as i32,
            i32::from(given.setup.is_ragged),
            tokens as i32,
            of_head as i32,
            heads as i32,
            (batch * kv_heads * 2) as i32,
            given.attention.scale() as f32,
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
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32> + DeviceElement,
{
    let Given {
        attention, setup, ..
    } = given;
    let sizes = attention.sizes;
    let of_cluster = given.of_cluster();
    let tile = Tile {
        rows: 1,
        keys: of_cluster.block_keys,
        pack: 1,
    };
    let numbers_of_launch = Numbers::new(sizes, setup.mask, tile, size_of::<T>());
    let [q, k] = [
        given.blocked(given.q.view(), 0, D),
        given.blocked(given.k.view(), 1, D),
    ];
    let [v, dout] = [
        given.blocked(given.v.view(), 1, DV),
        given.blocked(given.dout.view(), 0, DV),
    ];
    let [dk, dv] = [
        given.blocked(made.dk.view(), 1, D),
        given.blocked(made.dv.view(), 1, DV),
    ];
    let [out_rows, dout_rows] = [&given.out, &given.dout].map(|x| {
        let (shape, strides) = given.place(0, DV);
        x.view().with_shape(shape).with_strides(strides)
    });
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let scale = attention.scale() as f32;
    case.launch(
        backward::<T, D, DV, ORDERED, M>,
        grid([of_cluster.programs(sizes.keys), sizes.kv_heads, sizes.batch]),
        backward_arguments!(
            maps: [&q, &k, &v, &dout, &dk, &dv],
            workspace: (&made.log2_sum, &made.delta, &made.parts, &made.sums, &made.turns),
            offsets: [&given.offsets[0], &given.offsets[1]],
            data: &given.data,
            numbers: numbers_of_launch,
            is_ragged: setup.is_ragged,
            block_stride: given.blocks()[1],
            sections: given.sections::<ORDERED>(),
            passes: [&out_rows, &dout_rows, &given.lse, &made.dq, &made.progress],
            ahead: given.ahead::<ORDERED>(),
            is_causal: setup.mask.is_causal(),
            row_stride: attention.rows(0).1,
            factors: M::factors(scale, cap as f32),
            scale: scale,
            strides_of_dq: given.strides_of_queries(D),
            dropout: setup.dropout
        ),
    )?;
    Ok(())
}

fn launch_end<T, const D: usize, const QUERIES: usize>(
    case: &mut Case,
    given: &Given<T>,
    made: &Made<T>,
    ([lines, sequences], first_line): ([usize; 2], usize),
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + MmaOperand<T, f32> + DeviceElement,
{
    let Sizes { heads, queries, .. } = given.attention.sizes;
    let [of_longest, of_head] = given.blocks();
    case.launch(
        backward_end::<T, D, QUERIES>,
        grid([of_longest * GROUPS, lines, sequences]),
        (
            &made.sums,
            &made.dq,
            &given.offsets[0],
            queries as i32,
            i32::from(given.setup.is_ragged),
            of_head as i32,
            heads as i32,
            first_line as i32,
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
        batch = [2, 1, 1, 1, 1], kv_heads = [1, 1, 3, 10, 1], query_heads = [1, 2, 1, 1, 8], queries = [300, 129, 400, 260, 260], keys = [300, 300, 400, 260, 260];
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
    backward_64_ragged: <bf16, 64, 64, false, Plain>, Setup { is_ragged: true, tokens_first: true, ..FULL },
        batch = [5], kv_heads = [1], query_heads = [2], queries = [150], keys = [200];
    backward_64_ordered_ragged: <bf16, 64, 64, true, Plain>, Setup { is_ragged: true, ..WINDOW },
        batch = [5], kv_heads = [2], query_heads = [1], queries = [150], keys = [200];
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
        batch = [1, 3, 2, 1, 1], kv_heads = [5, 1, 6, 3, 2], query_heads = [1, 2, 2, 4, 2], queries = [260, 70, 150, 200, 130], keys = [260, 150, 290, 200, 2100];
    backward_128_ordered_ragged: <bf16, 128, 128, true, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4, 12], kv_heads = [1], query_heads = [1], queries = [150], keys = [200, 290];
    backward_128_softcap: <bf16, 128, 128, false, Softcap>, Setup { scores: Scores::Softcap(5.0), spread: 2.0, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [200];
    backward_128_alibi: <bf16, 128, 128, false, Alibi>, Setup { scores: Scores::Alibi, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [130], keys = [200];
    backward_128_f16: <f16, 128, 128, false, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [127], keys = [127];
    backward_64_heads: <bf16, 64, 64, false, Plain>, FULL,
        batch = [1, 2], kv_heads = [5, 3], query_heads = [1, 2], queries = [130, 300], keys = [260, 129];
    backward_64_heads_causal: <bf16, 64, 64, false, Plain>, CAUSAL,
        batch = [1, 3], kv_heads = [7, 2], query_heads = [1, 3], queries = [400, 130], keys = [400, 290];
    backward_128_heads: <bf16, 128, 128, false, Plain>, Setup { tokens_first: true, ..FULL },
        batch = [1, 2], kv_heads = [5, 2], query_heads = [1, 4], queries = [200, 65], keys = [300, 129];
    backward_128_heads_causal: <bf16, 128, 128, false, Plain>, CAUSAL,
        batch = [1, 2, 4], kv_heads = [7, 3, 2], query_heads = [1, 2, 1], queries = [390, 130, 63], keys = [390, 300, 200];
    backward_128_heads_window: <bf16, 128, 128, false, Plain>, WINDOW,
        batch = [1], kv_heads = [6], query_heads = [1], queries = [300], keys = [420];
    backward_128_heads_f16: <f16, 128, 128, false, Plain>, CAUSAL,
        batch = [1], kv_heads = [5], query_heads = [1], queries = [127], keys = [127];
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
    backward_256_window: <bf16, 256, 256, false, Plain>, WINDOW,
        batch = [1], kv_heads = [1, 2], query_heads = [2, 1], queries = [200, 330], keys = [260, 330];
    backward_256_ordered_window: <bf16, 256, 256, true, Plain>, Setup { tokens_first: true, ..WINDOW },
        batch = [1], kv_heads = [1, 3], query_heads = [2, 1], queries = [200, 330], keys = [260, 330];
    backward_256_ordered_ragged: <bf16, 256, 256, true, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4], kv_heads = [2], query_heads = [1], queries = [150], keys = [400];
    backward_256_ordered_group: <bf16, 256, 256, true, Plain>, CAUSAL,
        batch = [1, 2], kv_heads = [2, 3], query_heads = [4, 2], queries = [200, 81], keys = [200, 81];
    backward_256_ordered_full: <bf16, 256, 256, true, Plain>, FULL,
        batch = [1], kv_heads = [3, 1], query_heads = [1, 2], queries = [129, 1], keys = [481, 161];
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

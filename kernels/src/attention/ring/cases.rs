//! Cases of ring attention, against f64.

use std::cell::LazyCell;

use tilekit::prelude::*;
use tilekit::reference::{add, dot};
use tilekit::{TensorSource, TensorView};

use super::call::{extents_in_chunks, extents_in_pieces};
use super::kernel::ring_attention;
use super::plan::{Need, Numbers};
use super::table::arguments;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::plan::{Sizes, Tile};

/// Nanoseconds that senders rest, which take no time on the emulator.
const PAUSE: i32 = 10;

/// Nanoseconds of a wait for other ranks, which none of them takes.
const LIMIT: i64 = 5_000_000_000;

/// The tensors of a case, by rank.
struct OfRanks<T> {
    need: Need,
    q: Vec<Input<T>>,
    k: Vec<Input<T>>,
    v: Vec<Input<T>>,
    out: Vec<Output<T>>,
    lse: Vec<Output<f32>>,
}

/// A row of the output in f64, and its LSE.
struct Row {
    out: Vec<f64>,
    lse: f64,
}

impl<T: DeviceElement> OfRanks<T> {
    fn new(case: &mut Case, depths: [usize; 2], is_causal: bool, chunks: usize) -> Self {
        let [batch, heads, kv_heads, tokens] =
            ["batch", "heads", "kv_heads", "tokens"].map(|name| case.size(name));
        let ranks = case.ranks();
        let names =
            |name: &'static str| (0..ranks).map(move |rank| format!("{name} of rank {rank}"));
        let mut inputs = |name, heads, depth| -> Vec<Input<T>> {
            let shape = [batch, heads, tokens, depth];
            names(name).map(|name| case.normal(&name, shape)).collect()
        };
        let [depth, values] = depths;
        let q = inputs("q", heads, depth);
        let (k, v) = (inputs("k", kv_heads, depth), inputs("v", kv_heads, values));
        let shape = [batch, heads, tokens, values];
        let out = names("out").map(|name| case.output(&name, shape)).collect();
        let rows = [batch, heads, tokens];
        let lse = names("lse").map(|name| case.output(&name, rows)).collect();
        let sizes = Sizes {
            batch,
            heads,
            kv_heads,
            queries: tokens,
            keys: tokens,
            depths,
        };
        let need = Need {
            sizes,
            ranks,
            chunks,
            is_causal,
            element_bytes: size_of::<T>(),
        };
        OfRanks {
            need,
            q,
            k,
            v,
            out,
            lse,
        }
    }

    fn scale(&self) -> f64 {
        1.0 / (self.need.sizes.depths[0] as f64).sqrt()
    }

    /// The position of a token of a rank in the sequence.
    fn position(&self, rank: usize, token: usize) -> usize {
        let Need { ranks, chunks, .. } = self.need;
        let of_chunk = self.need.sizes.keys / chunks;
        let chunk = match token / of_chunk {
            0 => rank,
            _ => 2 * ranks - 1 - rank,
        };
        chunk * of_chunk + token % of_chunk
    }

    fn rows(inputs: &[Input<T>], rank: usize, line: usize) -> Vec<Vec<f64>> {
        let input = &inputs[rank];
        let [_, _, tokens, depth] = [0, 1, 2, 3].map(|dim| input.shape()[dim]);
        let of_line = &input.host()[line * tokens * depth..(line + 1) * tokens * depth];
        let numbers = |row: &[T]| row.iter().map(|x| x.number().to_f64()).collect();
        of_line.chunks_exact(depth).map(numbers).collect()
    }

    /// The results of a rank.
    fn reference(&self, rank: usize) -> Vec<Row> {
        let Sizes {
            batch,
            heads,
            kv_heads,
            keys: tokens,
            depths: [_, values],
            ..
        } = self.need.sizes;
        let mut rows = Vec::new();
        for line in 0..batch * heads {
            let kv_line = line / (heads / kv_heads);
            let of_all =
                |inputs| (0..self.need.ranks).map(move |of| Self::rows(inputs, of, kv_line));
            let (k, v): (Vec<_>, Vec<_>) = (of_all(&self.k).collect(), of_all(&self.v).collect());
            for (token, q) in Self::rows(&self.q, rank, line).iter().enumerate() {
                let own = self.position(rank, token);
                let all = (0..self.need.ranks).flat_map(|of| (0..tokens).map(move |key| (of, key)));
                let seen =
                    all.filter(|&(of, key)| !self.need.is_causal || self.position(of, key) <= own);
                let seen: Vec<(usize, usize)> = seen.collect();
                let scores = seen
                    .iter()
                    .map(|&(of, key)| dot(q, &k[of][key]) * self.scale());
                let scores: Vec<f64> = scores.collect();
                let most = scores.iter().copied().fold(f64::MIN, f64::max);
                let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                let mut out = vec![0.0; values];
                for (score, &(of, key)) in scores.iter().zip(&seen) {
                    let weight = (score - most).exp() / total;
                    add(&mut out, weight, &v[of][key]);
                }
                let lse = most + total.ln();
                rows.push(Row { out, lse });
            }
        }
        rows
    }

    fn compare(&self, case: &mut Case) -> CaseResult {
        let Sizes {
            batch,
            heads,
            keys: tokens,
            depths: [_, values],
            ..
        } = self.need.sizes;
        for rank in 0..self.need.ranks {
            // Cases are listed for each command: only one that runs pays for its reference.
            let rows = LazyCell::new(|| self.reference(rank));
            let out = || {
                rows.iter()
                    .flat_map(|row| row.out.clone())
                    .collect::<Vec<_>>()
            };
            // P and results are rounded to `T`, an error of 2^-9 each.
            let tolerance = Close {
                relative: 8e-3,
                absolute: 4e-3,
            };
            case.expect_part_in_units(
                &self.out[rank],
                [batch, heads, tokens, values],
                out,
                tolerance,
            )?;
            let lse = || rows.iter().map(|row| row.lse).collect::<Vec<_>>();
            let tolerance = Close {
                relative: 1e-5,
                absolute: 1e-4,
            };
            case.expect_part_in_units(&self.lse[rank], [batch, heads, tokens], lse, tolerance)?;
        }
        Ok(())
    }
}

fn in_chunks<T: DeviceElement, S: TensorSource<T>>(
    view: TensorView<'_, T, S>,
    chunks: usize,
) -> TensorView<'_, T, S> {
    let place = view.place();
    let [shape, strides] = extents_in_chunks(&place.shape, &place.strides, chunks);
    view.with_shape(shape).with_strides(strides)
}

fn in_pieces<T: DeviceElement, S: TensorSource<T>>(
    view: TensorView<'_, T, S>,
) -> TensorView<'_, T, S> {
    let place = view.place();
    let [shape, strides] = extents_in_pieces(&place.shape, &place.strides);
    view.with_shape(shape).with_strides(strides)
}

/// Launches so often: a second time everything is overwritten. Two heads are sent together, and segments are short.
fn attends<
    T,
    const D: usize,
    const DV: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const CAUSAL: bool,
    const TURNS: bool,
>(
    case: &mut Case,
    chunks: usize,
) -> CaseResult
where
    T: Float + WgmmaOperand<T, f32> + DeviceElement,
{
    let of = OfRanks::<T>::new(case, [D, DV], CAUSAL, chunks);
    let tile = Tile {
        rows: GROUPS * ROWS,
        keys: KEYS,
        pack: 1,
    };
    let ctas = case.size("ctas");
    let numbers = Numbers {
        together: case.size("together"),
        pause: PAUSE,
        ..of.need.numbers(tile, ctas)
    };
    let needed = of.need.shared(numbers.segment);
    let [received_k, received_v] = [0, 1].map(|side| of.need.received(side));
    let received = case.shared::<T>(needed.elements)?;
    let (flags, launches) = (case.shared::<i64>(needed.flags)?, case.shared::<u64>(1)?);
    let (late, counter) = (case.shared::<i64>(1)?, case.shared::<i32>(1)?);
    let kernel = ring_attention::<T, D, DV, GROUPS, KEYS, CAUSAL, TURNS>;
    for _ in 0..case.size("launches") {
        case.launch_on_ranks(kernel, grid(ctas), |rank| {
            arguments!(
                [
                    in_chunks(of.q[rank].view(), chunks),
                    in_chunks(of.k[rank].view(), chunks),
                    in_chunks(of.v[rank].view(), chunks),
                    received.part(rank).view(received_k),
                    received
                        .part(rank)
                        .view(received_v)
                        .with_offset(received_k.iter().product()),
                    in_pieces(of.k[rank].view()),
                    in_pieces(of.v[rank].view()),
                    in_chunks(of.out[rank].view(), chunks),
                    &of.lse[rank],
                    counter.part(rank),
                    received.peers(rank),
                    (
                        flags.part(rank),
                        flags.peers(rank),
                        launches.part(rank),
                        (LIMIT, late.part(rank)),
                        rank as i32,
                        of.need.ranks as i32,
                    ),
                ],
                rank,
                (of.need, numbers, tile),
                (of.scale() * LOG2_E) as f32
            )
        })?;
    }
    of.compare(case)
}

macro_rules! cases {
    ($($name:ident: $ty:ty, [$d:literal, $dv:literal, $groups:literal, $keys:literal, $causal:literal, $turns:literal], $chunks:literal,
        ranks $ranks:tt, tokens $tokens:tt, batch $batch:tt, heads $heads:tt, kv_heads $kv_heads:tt, ctas $ctas:tt, launches $launches:tt, together $together:tt;)*) => {$(
        #[case(sizes(ranks = $ranks, tokens = $tokens, batch = $batch, heads = $heads, kv_heads = $kv_heads, ctas = $ctas, launches = $launches, together = $together))]
        fn $name(case: &mut Case) -> CaseResult {
            attends::<$ty, $d, $dv, $groups, $keys, $causal, $turns>(case, $chunks)
        }
    )*};
}

cases! {
    ring_64: bf16, [64, 64, 3, 128, false, true], 1, ranks [1, 2, 3, 4], tokens [130, 333, 40, 1],
        batch [1, 1, 2, 1], heads [2, 2, 4, 1], kv_heads [1, 1, 2, 1], ctas [2, 3, 2, 1], launches [1, 2, 1, 2], together [1, 1, 2, 1];
    ring_64_causal: bf16, [64, 64, 3, 128, true, true], 1, ranks [2, 3], tokens [333, 129], batch [1, 1],
        heads [2, 1], kv_heads [1, 1], ctas [3, 2], launches [2, 1], together [1, 1];
    ring_64_zigzag: bf16, [64, 64, 3, 128, true, true], 2, ranks [2, 4, 8, 1], tokens [422, 130, 24, 300], batch [1, 1, 1, 1],
        heads [2, 2, 1, 1], kv_heads [2, 1, 1, 1], ctas [3, 2, 1, 2], launches [2, 1, 1, 1], together [1, 1, 1, 1];
    ring_128: bf16, [128, 128, 2, 176, false, true], 1, ranks [2], tokens [200], batch [1], heads [1], kv_heads [1], ctas [2], launches [1], together [1];
    ring_128_zigzag: bf16, [128, 128, 2, 128, true, true], 2, ranks [2], tokens [300], batch [1], heads [1], kv_heads [1], ctas [2], launches [1], together [1];
    ring_192_zigzag: bf16, [192, 128, 2, 96, true, true], 2, ranks [2], tokens [300], batch [1], heads [1], kv_heads [1], ctas [2], launches [1], together [1];
    ring_256: bf16, [256, 256, 2, 64, false, false], 1, ranks [2], tokens [300], batch [1], heads [1], kv_heads [1], ctas [1], launches [1], together [1];
    ring_256_zigzag: bf16, [256, 256, 2, 64, true, false], 2, ranks [2], tokens [300], batch [1], heads [1], kv_heads [1], ctas [2], launches [1], together [1];
}

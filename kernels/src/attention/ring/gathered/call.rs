//! The forward pass as a program calls it, and what it shares with the gradients.

use std::any::TypeId;
use std::sync::Arc;

use tilekit::prelude::*;
use tilekit::{CompiledKernel, WorldKernel};

use super::kernels::{CTAS, MOVED, gather_shards, move_rows, sum_shards};
use super::span::{Span, distance, window_of};
use crate::attention::call::View;
use crate::attention::check::Strides;
use crate::attention::plan::Sizes;
use crate::attention::ring::check::Tensors;
use crate::attention::ring::options::RingOptions;
use crate::attention::ring::plan::Need;
use crate::attention::table::Operand;
use crate::error::Result;
use crate::handles::handles;
use crate::parallel::Parallel;
use crate::parallel::mail::{MOST_RANKS, Mailbox};
use crate::parallel::memory::Parts;
use crate::parallel::plan::Shared;

/// The parameters of `gather_shards`.
pub(super) type GatherHandles<T> = handles! {
    k v: Ptr<T>,
    k_strides v_strides: [Scalar<i64>; 3],
    all_of: PeerMap<T>,
    mail: Mailbox,
    chunks tokens lines kv_heads left right: Scalar<i32>,
};

/// The parameters of `sum_shards`.
pub(super) type SumHandles<T> = handles! {
    dk dv: Ptr<T>,
    k_strides v_strides: [Scalar<i64>; 3],
    parts: Scalar<i64>,
    all_of: PeerMap<T>,
    mail: Mailbox,
    chunks tokens lines kv_heads left right: Scalar<i32>,
};

/// The parameters of `move_rows`.
type MoveHandles = handles! {
    from to: Ptr<f32>,
    from_pitch to_pitch rows: Scalar<i32>,
};

/// The numbers that `gather_shards` and `sum_shards` end with.
macro_rules! numbers {
    ($parallel:expr, $memory:expr, $need:expr, $window:expr, $rank:expr, [$($first:expr),+]) => {{
        let (parallel, memory, need, rank) = ($parallel, $memory, $need, $rank);
        let ([left, right], sizes): ([i32; 2], Sizes) = ($window, need.sizes);
        (
            $($first,)+
            memory.elements.peers(rank),
            memory.mailbox([rank, need.ranks], parallel.limit_of(rank)),
            need.chunks as i32,
            (sizes.keys / need.chunks) as i32,
            need.lines() as i32,
            sizes.kv_heads as i32,
            left,
            right,
        )
    }};
}

/// LSE of each chunk of a rank.
pub(super) type ChunkRows = Arc<Vec<Vec<Buffer<f32>>>>;

/// How a tensor of the whole sequence lies in memory of a rank.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// The first element.
    pub(super) first: usize,
    sizes: Sizes,
    tokens: usize,
    columns: usize,
}

impl Whole {
    /// K (side 0) or V as they are gathered.
    pub(super) fn gathered(need: &Need, side: usize) -> Whole {
        let of = |side: usize| Whole {
            first: 0,
            sizes: need.sizes,
            tokens: need.ranks * need.sizes.keys,
            columns: need.sizes.depths[side],
        };
        let first = if side == 0 { 0 } else { of(0).elements() };
        Whole { first, ..of(side) }
    }

    /// Its gradients for the queries of a chunk, of which those of all chunks of a side follow each other.
    pub(super) fn gradient(need: &Need, side: usize, chunk: usize) -> Whole {
        let [keys, values] = [0, 1].map(|side| Whole::gathered(need, side));
        let of_side = [keys.elements(), values.elements()];
        let parts = of_side[0] + of_side[1];
        let before = if side == 0 {
            0
        } else {
            need.chunks * of_side[0]
        };
        Whole {
            first: parts + before + chunk * of_side[side],
            ..Whole::gathered(need, side)
        }
    }

    pub(super) fn elements(&self) -> usize {
        self.sizes.batch * self.sizes.kv_heads * self.tokens * self.columns
    }

    /// Some of its tokens.
    pub(super) fn view<'a, T: DeviceElement>(
        &self,
        memory: &'a Buffer<T>,
        [first, end]: [usize; 2],
    ) -> View<'a, T> {
        let Sizes {
            batch, kv_heads, ..
        } = self.sizes;
        let of_head = self.tokens * self.columns;
        let view = memory.view([batch, kv_heads, end - first, self.columns]);
        let view = view.with_strides([kv_heads * of_head, of_head, self.columns, 1]);
        view.with_offset(self.first + first * self.columns)
    }
}

/// The tokens of a span of a tensor of a rank.
pub(super) fn of_span<'a, T: DeviceElement>(view: &View<'a, T>, span: &Span) -> View<'a, T> {
    let place = view.place();
    let shape = [place.shape[0], place.shape[1], span.queries, place.shape[3]];
    let view = view.source().view(shape).with_strides(&place.strides[..]);
    view.with_offset(place.offset + span.first * place.strides[2])
}

/// The strides of a tensor as kernels take them.
pub(super) fn strides<T: DeviceElement>(view: &View<'_, T>) -> [i64; 3] {
    let Strides {
        batch, head, token, ..
    } = Strides::of(view);
    [batch, head, token].map(|stride| stride as i64)
}

impl Parallel<'_> {
    /// Attention of the keys that have been gathered before.
    pub(in crate::attention::ring) fn attend_gathered<T: Operand>(
        &self,
        need: &Need,
        tensors: Tensors<'_, '_, T>,
        options: &RingOptions<'_>,
    ) -> Result<()> {
        let Tensors {
            qkv: [q, k, v],
            out,
            lse,
        } = tensors;
        let memory = self.gather_keys(need, [k, v], options, false)?;
        let rows = self.rows_of_chunks(need)?;
        for (rank, attention) in self.attention.iter().enumerate() {
            let elements = memory.elements.part(rank);
            for (chunk, span) in Span::of_rank(need, options, rank).iter().enumerate() {
                let (of_q, of_out) = (of_span(&q[rank], span), of_span(&out[rank], span));
                let [of_k, of_v] =
                    [0, 1].map(|side| Whole::gathered(need, side).view(elements, span.keys));
                let of_lse = rows.as_ref().map_or(lse[rank], |rows| &rows[rank][chunk]);
                let stream = self.world.stream(rank);
                let options = span.options(options, rank);
                attention.forward_into(stream, [&of_q, &of_k, &of_v], &of_out, of_lse, &options)?;
            }
        }
        match &rows {
            Some(rows) => self.move_rows(need, rows, lse, true),
            None => Ok(()),
        }
    }

    /// Stores K and V of all ranks where they are seen. With `with_gradients` there is room for those behind them.
    pub(super) fn gather_keys<T: Operand>(
        &self,
        need: &Need,
        [k, v]: [&[View<'_, T>]; 2],
        options: &RingOptions<'_>,
        with_gradients: bool,
    ) -> Result<Parts<T>> {
        let whole = [0, 1].map(|side| Whole::gathered(need, side).elements());
        let times = if with_gradients { 1 + need.chunks } else { 1 };
        let ctas = self.mover_ctas();
        let shared = Shared {
            elements: times * (whole[0] + whole[1]),
            flags: MOST_RANKS + need.ranks * ctas,
        };
        let memory = self.memory.of::<T>(self.world, shared)?;
        let kernel = self.mover::<T, GatherHandles<T>>(
            "gather shards",
            need.sizes.depths,
            |compiler, depths| match depths {
                [64, _] => gather_shards::<T, 64, 64>.compile(compiler),
                [96, _] => gather_shards::<T, 96, 96>.compile(compiler),
                [128, _] => gather_shards::<T, 128, 128>.compile(compiler),
                [192, _] => gather_shards::<T, 192, 128>.compile(compiler),
                _ => gather_shards::<T, 256, 256>.compile(compiler),
            },
        )?;
        let window = window_of(options).map(distance);
        kernel.enqueue(self.world, ctas, |rank| {
            let [of_k, of_v] = [&k[rank], &v[rank]].map(strides);
            let [k, v] = [&k[rank], &v[rank]];
            numbers!(self, &memory, need, window, rank, [k, v, of_k, of_v])
        })?;
        Ok(memory)
    }

    /// Adds up the gradients of the tokens of each rank.
    pub(super) fn sum_gradients<T: Operand>(
        &self,
        need: &Need,
        memory: &Parts<T>,
        [dk, dv]: [&[View<'_, T>]; 2],
        options: &RingOptions<'_>,
    ) -> Result<()> {
        let kernel =
            self.mover::<T, SumHandles<T>>("sum shards", need.sizes.depths, |compiler, depths| {
                match depths {
                    [64, _] => sum_shards::<T, 64, 64>.compile(compiler),
                    [96, _] => sum_shards::<T, 96, 96>.compile(compiler),
                    [128, _] => sum_shards::<T, 128, 128>.compile(compiler),
                    [192, _] => sum_shards::<T, 192, 128>.compile(compiler),
                    _ => sum_shards::<T, 256, 256>.compile(compiler),
                }
            })?;
        let window = window_of(options).map(distance);
        let parts = Whole::gradient(need, 0, 0).first as i64;
        kernel.enqueue(self.world, self.mover_ctas(), |rank| {
            let [of_k, of_v] = [&dk[rank], &dv[rank]].map(strides);
            let [dk, dv] = [&dk[rank], &dv[rank]];
            numbers!(
                self,
                memory,
                need,
                window,
                rank,
                [dk, dv, of_k, of_v, parts]
            )
        })?;
        Ok(())
    }

    /// LSE of each chunk of each rank, where there are two: attention takes rows without gaps.
    pub(super) fn rows_of_chunks(&self, need: &Need) -> Result<Option<ChunkRows>> {
        if need.chunks == 1 {
            return Ok(None);
        }
        let rows = need.sizes.batch * need.sizes.heads * need.sizes.queries / need.chunks;
        self.memory.rows(self.world, rows).map(Some)
    }

    /// Moves LSE of all chunks to where the rows of a rank are, or back.
    pub(super) fn move_rows(
        &self,
        need: &Need,
        rows: &ChunkRows,
        lse: &[&Buffer<f32>],
        is_back: bool,
    ) -> Result<()> {
        let Sizes {
            batch,
            heads,
            queries,
            ..
        } = need.sizes;
        let (lines, of_chunk) = (batch * heads, queries / need.chunks);
        let kernel = self.mover::<f32, MoveHandles>("move rows", [0, 0], |compiler, _| {
            move_rows.compile(compiler)
        })?;
        let grid = grid(lines * of_chunk.div_ceil(MOVED));
        let pitches = [queries as i32, of_chunk as i32];
        for chunk in 0..need.chunks {
            let views = lse.iter().zip(rows.iter()).map(|(own, rows)| {
                let own = own.view([lines, of_chunk]).with_strides([queries, 1]);
                let own = own.with_offset(chunk * of_chunk);
                [own, rows[chunk].view([lines, of_chunk])]
            });
            let views: Vec<[View<'_, f32>; 2]> = views.collect();
            let [from, to] = if is_back { [1, 0] } else { [0, 1] };
            kernel.enqueue(self.world, grid, |rank| {
                let of_rank = &views[rank];
                let (from_pitch, to_pitch) = (pitches[from], pitches[to]);
                (
                    &of_rank[from],
                    &of_rank[to],
                    from_pitch,
                    to_pitch,
                    of_chunk as i32,
                )
            })?;
        }
        Ok(())
    }

    fn mover<T: DeviceElement, H: 'static>(
        &self,
        name: &str,
        depths: [usize; 2],
        compile: impl FnOnce(&Compiler, [usize; 2]) -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<Arc<WorldKernel<H>>> {
        let which = (TypeId::of::<T>(), format!("{name} {depths:?}"));
        self.memory
            .kernel(self.world, which, || compile(&self.compiler, depths))
    }

    /// CTAs that move shards: all that are resident, which is enough to fill a link; the emulator has no such limit.
    pub(super) fn mover_ctas(&self) -> usize {
        let devices = self.world.devices();
        let fewest = devices
            .iter()
            .map(|device| device.facts().multiprocessors as usize)
            .min();
        if devices.iter().all(Device::is_cuda) {
            CTAS * fewest.unwrap_or(1)
        } else {
            CTAS
        }
    }
}

#[cfg(test)]
mod tests {
    use tilekit::{EmulatorOptions, World};

    use super::*;

    /// Lines of a program each, more than the second dimension of a grid has room for.
    #[test]
    fn lse_of_any_number_of_heads_is_moved() {
        const LINES: usize = 65_537;
        let world = World::emulators(1, EmulatorOptions::default()).unwrap();
        let parallel = Parallel::new(&world);
        let need = Need {
            sizes: Sizes {
                batch: LINES,
                heads: 1,
                kv_heads: 1,
                queries: 4,
                keys: 4,
                depths: [64; 2],
            },
            ranks: 1,
            chunks: 2,
            is_causal: true,
            element_bytes: 2,
        };
        let rows = parallel.rows_of_chunks(&need).unwrap().unwrap();
        let numbers: Vec<f32> = (0..LINES * 4).map(|at| at as f32).collect();
        let device = &world.devices()[0];
        let from = Buffer::from_slice(device, &numbers).unwrap();
        let to = Buffer::<f32>::zeros(device, LINES * 4).unwrap();
        parallel.move_rows(&need, &rows, &[&from], false).unwrap();
        parallel.move_rows(&need, &rows, &[&to], true).unwrap();
        world.synchronize().unwrap();
        assert!(to.to_vec().unwrap() == numbers);
        assert_eq!(rows[0][1].to_vec().unwrap()[2..4], numbers[6..8]);
    }
}

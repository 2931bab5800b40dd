//! Strips of 64 queries: what the passes compute of them beside the main loop of attention backward, a warp at a time.

use tilekit::prelude::*;

use super::lines::{LineOfBlock, LinesFrom, WIDTH};
use super::part::{GROUPS, half_of_dq};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::swizzle;

/// Rows of O and of dO that are loaded at a time.
pub(super) const ROWS_OF_WARP: usize = 32;

/// Zeros that a copy writes, where sums of dQ have no buffer of their own.
const ZEROS: usize = 1 << 11;

/// Elements of 16 rows and 8 columns of dQ, which a consumer warp has.
const TILE: usize = 16 * 8;

/// The buffers of the warp.
#[derive(Clone, Copy)]
pub(super) struct Buffers<T> {
    /// Rows of O and of dO.
    rows: [Smem<T>; 2],
    rows_full: Mbarrier,
    /// Half of a block of dQ: `[tiles, TILE]`, 8 columns of four warps after the other.
    sums: Smem<f32>,
    sums_full: Mbarrier,
    /// Zeros, a part of a half of a block.
    zeros: Smem<f32>,
}

impl<T: Element> Buffers<T> {
    /// For blocks of `queries`. Rows are read before dQ, and zeros are copied. So where shared memory is full (`share`), dQ comes into the buffer of rows; elsewhere the zeros are as many as its buffer holds.
    #[device]
    pub(super) fn alloc([depth, values]: [usize; 2], queries: usize, share: bool) -> Self {
        let tiles = queries * depth / GROUPS / TILE;
        let of_sums = [tiles, TILE];
        let plain = Swizzled::plain([1, 0]);
        let rows = Smem::<T>::alloc([2, ROWS_OF_WARP, values], swizzle::<T>(values, 2));
        let (sums, zeros) = if share {
            let zeros = Smem::<f32>::alloc([ZEROS], Swizzled::plain([0]));
            (rows.reinterpret::<f32>(of_sums, plain), zeros)
        } else {
            let sums = Smem::<f32>::alloc(of_sums, plain);
            (sums, sums.reshape([tiles * TILE]))
        };
        Buffers {
            rows: [0, 1].map(|tensor: i32| rows.index(tensor)),
            rows_full: Mbarrier::alloc(1),
            sums,
            sums_full: Mbarrier::alloc(1),
            zeros,
        }
    }

    /// Half of a block of dQ as it lies in global memory.
    fn half(self) -> Smem<f32> {
        self.sums.reshape([self.sums.stages() * TILE])
    }
}

/// 64 queries.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// Batch, and head.
    pub(super) batch: Scalar<i32>,
    pub(super) head: Scalar<i32>,
    /// The head among those of all batches.
    pub(super) line: Scalar<i32>,
    /// The first query.
    pub(super) first: Scalar<i32>,
    /// Its index among the strips of all heads.
    pub(super) number: Scalar<i32>,
}

/// The tensors of strips.
#[derive(Clone, Copy)]
pub(super) struct Strips<T> {
    /// O and dO, by [`ROWS_OF_WARP`].
    pub(super) rows: [TensorMap<T>; 2],
    pub(super) lse: Ptr<f32>,
    /// LSE of a head.
    pub(super) row_stride: Scalar<i32>,
    /// LSE and delta of each row.
    pub(super) lines: LinesFrom,
    /// The accumulator of dQ.
    pub(super) sums: Ptr<f32>,
    /// Counters of halves of blocks of dQ, where terms are added in a fixed order.
    pub(super) turns: Option<Ptr<i32>>,
    pub(super) dq: Ptr<T>,
    /// Elements of dQ from one batch, head and token to the next.
    pub(super) strides: [Scalar<i64>; 3],
    pub(super) scale: Scalar<f32>,
    /// Queries of a head.
    pub(super) queries: Scalar<i32>,
    pub(super) depths: [usize; 2],
    /// Queries of a block.
    pub(super) block: usize,
}

impl<T: Float + MmaOperand<T, f32>> Strips<T> {
    /// Halves of blocks of dQ that a strip has.
    fn halves(self) -> usize {
        GROUPS * ROWS / self.block
    }

    /// Columns of half of a block of dQ.
    fn columns(self) -> usize {
        half_of_dq(0, self.depths[0], self.block)[1].len()
    }

    /// Fills the zeros that [`begin`](Strips::begin) copies.
    #[device]
    pub(super) fn clear(self, buffers: Buffers<T>) {
        let of_warp = Blocked::new([4], [32], [1], [0]);
        let zeros = buffers.zeros.shape()[0] as usize;
        buffers.zeros.store(full([zeros], 0.0f32, of_warp));
    }

    /// Writes row sums and zeros of the CTA's strip `index`. Bulk copies write the zeros.
    #[device]
    pub(super) fn begin(self, strip: Strip, index: Scalar<i32>, buffers: Buffers<T>) {
        let parts = ROWS / ROWS_OF_WARP;
        self.load_rows(strip, 0, buffers);
        self.zero(strip, buffers);
        self.write_sums(strip);
        for part in 0..parts {
            buffers.rows_full.wait((index * parts + part) & 1);
            self.sum_rows(strip, part, buffers);
            if part + 1 < parts {
                self.load_rows(strip, part + 1, buffers);
            }
        }
    }

    /// Rounds dQ of the CTA's strip `index`.
    #[device]
    pub(super) fn end(self, strip: Strip, index: Scalar<i32>, buffers: Buffers<T>) {
        let halves = self.halves();
        for half in 0..halves {
            self.load_sums(strip, half, buffers);
            buffers.sums_full.wait((index * halves + half) & 1);
            self.round(strip, half, buffers);
        }
    }

    /// Issues the loads of part `part` of a strip's rows.
    #[device]
    fn load_rows(self, strip: Strip, part: usize, buffers: Buffers<T>) {
        let token = strip.first + part * ROWS_OF_WARP;
        let full = buffers.rows_full;
        full.expect(self.rows[0].block_bytes() * 2);
        for (map, rows) in self.rows.into_iter().zip(buffers.rows) {
            let rows = rows.reshape(map.block());
            map.load((strip.batch, strip.head, token, 0), rows, full);
        }
    }

    /// Writes delta of part `part` of a strip's rows: the diagonal of dO · Oᵀ. By tensor cores it takes a tenth of the instructions, which gains 2 % at 2048 tokens with a causal mask, and nothing at others (bench/results/attention.md, "Passes beside the main loop").
    #[device]
    fn sum_rows(self, strip: Strip, part: usize, buffers: Buffers<T>) {
        let delta = self.line(strip, 1).after((part * ROWS_OF_WARP) as i32);
        let layout = Mma::new([1, 1], [16, 8]);
        // A product has 16 rows. Of twice as many columns at depth 128 it spills.
        let width = if self.depths[1] > 64 { 8 } else { 16 };
        let row = arange(0..16, Slice::new(1, layout.clone()));
        let column = arange(0..width, Slice::new(0, layout.clone())).expand_dims(0);
        let parts = 16 / width;
        let [out, dout] = [width, 16].map(|rows| [ROWS_OF_WARP / rows, rows, self.depths[1]]);
        let out = buffers.rows[0].reshape(out);
        let dout = buffers.rows[1].reshape(dout);
        // Unrolled, operands of dO that two products share would spill.
        for number in range(0, (ROWS_OF_WARP / width) as i32) {
            let (out, dout) = (out.index(number), dout.index(number / parts));
            let mut products = zeros([16, width], layout.clone());
            for depth in (0..self.depths[1]).step_by(16) {
                let [dout, out] = [dout, out].map(|rows| rows.slice(1, depth..depth + 16));
                let dout = dout.load(DotOperand::new(0, layout.clone(), 2));
                let out = out.transpose().load(DotOperand::new(1, layout.clone(), 2));
                products = mma_v2(dout, out, products);
            }
            let is_own = row.expand_dims(1) == column + number % parts * width;
            let sum = select(is_own, products, 0.0).sum(1);
            let sum = sum.reshape([parts, width]).sum(0);
            delta.store(number * width + arange(0..width, sum.layout()), sum);
        }
    }

    /// Writes LSE of a strip's rows.
    #[device]
    fn write_sums(self, strip: Strip) {
        let layout = Blocked::new([1, WIDTH as u32], [32, 1], [1, 1], [1, 0]);
        let row = arange(0..ROWS, Slice::new(1, layout.clone()));
        let query = strip.first + row;
        let lse = self.lse.at(strip.line * self.row_stride + query);
        let lse = lse.mask(query < self.queries).other(f32::NEG_INFINITY);
        let line = self.line(strip, 0);
        let sum = line.sum_of(lse.load(), self.scale);
        line.store(row, sum);
    }

    /// Where a strip's rows of `line` lie.
    fn line(self, strip: Strip, line: usize) -> LineOfBlock {
        self.lines.from_row(line, strip.number * ROWS, self.block)
    }

    /// Issues the copies that write the zeros of a strip, and writes those of its counters.
    #[device]
    fn zero(self, strip: Strip, buffers: Buffers<T>) {
        if let Some(turns) = self.turns {
            for half in 0..self.halves() {
                turns.at(strip.number * self.halves() + (half + 1)).store(0);
            }
        }
        for half in 0..self.halves() {
            let to = self.sums_of(strip, half);
            let zeros = buffers.zeros.shape()[0] as usize;
            for first in (0..ROWS * self.columns()).step_by(zeros) {
                to.bulk(first as i64).store(buffers.zeros);
            }
        }
    }

    /// Half `half` of a strip's dQ.
    #[device]
    fn sums_of(self, strip: Strip, half: usize) -> Ptr<f32> {
        let half = strip.number * self.halves() + half;
        self.sums + half.cast::<i64>() * (ROWS * self.columns()) as i64
    }

    /// Issues the load of half `half` of a strip's dQ.
    #[device]
    fn load_sums(self, strip: Strip, half: usize, buffers: Buffers<T>) {
        let from = self.sums_of(strip, half);
        buffers.sums_full.expect(buffers.sums.bytes());
        from.bulk(0).load(buffers.half(), buffers.sums_full);
    }

    /// Rounds half `half` of a strip's dQ, 16 rows and 8 columns at a time, as a consumer warp had them in the order of threads: lanes read consecutive 16 bytes.
    #[device]
    fn round(self, strip: Strip, half: usize, buffers: Buffers<T>) {
        let columns = self.columns();
        let layout = Mma::new([1, 1], [16, 8]);
        let order = zeros::<f32>([16, 8], layout.clone()).reshape([2, 8, 4, 2]);
        let order = order.permute([1, 2, 0, 3]).reshape([TILE]).layout();
        let [of_batch, of_head, of_token] = self.strides;
        let [batch, head] = [strip.batch, strip.head].map(|x| x.cast::<i64>());
        let of_strip = batch * of_batch + head * of_head;
        let column = arange(0..8, Slice::new(0, layout.clone())).expand_dims(0);
        let warps = ROWS / 16;
        for warp in range(0, warps as i32) {
            let row = arange(0..16, Slice::new(1, layout.clone())) + warp * 16;
            let query = strip.first + row;
            let is_query = (query < self.queries).expand_dims(1);
            let row = query.cast::<i64>() * of_token + of_strip;
            let to = row.expand_dims(1) + column.cast::<i64>();
            for first in (0..columns).step_by(8) {
                let tile = buffers.sums.index(warp + first / 8 * warps);
                let sums = tile.load(order.clone()) * self.scale;
                let sums = sums.reshape([8, 4, 2, 2]).permute([2, 0, 1, 3]);
                let sums = sums.reshape([16, 8]).cast::<T>();
                let sums = sums.convert_layout_trivial(layout.clone());
                let first = (half * columns + first) as i64;
                self.dq.at(to + first).mask(is_query).store(sums);
            }
        }
    }
}

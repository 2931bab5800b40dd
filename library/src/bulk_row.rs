//! Rows that no register file holds: bulk copies load a row into the shared memory of a cluster, in chunks that are reduced as they complete,
//! and the row is read again from there.

use gluon_lang::lang::prelude::*;

use crate::span::LOW;

/// Chunks of a CTA's part of a row, each with a barrier of its own.
const CHUNKS: usize = 4;

/// What all threads of a program read of a chunk at once, and how often they do it: `[times, threads, 16 bytes]`.
#[derive(Clone, Debug)]
struct Piece {
    layout: Blocked,
    shape: [usize; 3],
}

impl Piece {
    fn of<T>(elements: usize, warps: usize) -> Piece {
        let (threads, wide) = (32 * warps, 16 / size_of::<T>());
        let times = elements / (threads * wide);
        Piece {
            layout: Blocked::new([times, 1, wide], [1, 32, 1], [1, warps, 1], [2, 1, 0]),
            shape: [times, threads, wide],
        }
    }

    /// A number for each thread.
    fn per_thread(&self, value: f32) -> Tensor<f32> {
        let inner = Slice::new(2, self.layout.clone());
        full([self.shape[1]], value, Slice::new(0, inner))
    }

    /// The same number for all elements that a thread has.
    #[device]
    fn spread(&self, value: Tensor<f32>) -> Tensor<f32> {
        value.expand_dims(0).expand_dims(2)
    }

    /// The places of the elements of a piece that begins at `start`.
    #[device]
    fn places(&self, start: Scalar<i32>) -> Tensor<i32> {
        let [_, threads, wide] = self.shape;
        let along = |dim: usize| {
            let others = [[1, 2], [0, 2], [0, 1]][dim];
            let inner = Slice::new(others[1], self.layout.clone());
            arange(0..self.shape[dim], Slice::new(others[0], inner))
        };
        let time = along(0).expand_dims(1).expand_dims(2) * (threads * wide);
        let thread = along(1).expand_dims(0).expand_dims(2) * wide;
        time + thread + along(2).expand_dims(0).expand_dims(1) + start
    }
}

/// The largest element of a row and the sum of exponentials, from those of the parts that the CTAs of the cluster have.
#[device]
fn over_cluster<const CTAS: usize>(
    most: Scalar<f32>,
    sum: Scalar<f32>,
    warps: usize,
) -> (Scalar<f32>, Scalar<f32>) {
    let one = Blocked::new([1], [32], [warps], [0]);
    let parts = [most, sum].map(|part| {
        let all = Smem::<f32>::alloc([CTAS, 1], Swizzled::plain([1, 0]));
        for cta in 0..CTAS {
            let mine = all.index(cluster_rank()).in_cta(cta);
            mine.store(full([1], part, one.clone()));
        }
        all
    });
    cluster_barrier();
    let [largest, sums] = parts.map(|all| -> [Scalar<f32>; CTAS] {
        std::array::from_fn(|cta| all.index(cta).load(one.clone()).sum(0).scalar())
    });
    let most = largest.into_iter().fold(scalar(LOW), |a, b| maximum(a, b));
    let parts = largest.into_iter().zip(sums);
    let sum = parts.fold(scalar(0.0), |all, (m, s)| all + s * (m - most).exp2());
    (most, sum)
}

/// A row in the shared memory of a cluster, an equal part of it in each CTA.
///
/// ```text
/// let held = BulkRow::load::<PART, CTAS>(x, row, cols, WARPS, DIVISOR);
/// let (most, total) = held.statistics::<CTAS>();
/// for (at, v) in held.chunks() { out.at(row + at).mask(at < cols).store(..) }
/// ```
#[derive(Debug)]
pub struct BulkRow<T: Element> {
    piece: Piece,
    ring: Smem<T>,
    filled: Mbarriers,
    /// The first column of this CTA.
    first: Scalar<i32>,
    cols: Scalar<i32>,
    warps: usize,
    is_in_units: bool,
}

impl<T: Float> BulkRow<T> {
    /// Begins to load the row of `cols <= CTAS * PART` elements that begins `row` elements behind `x`: at a multiple of 16 bytes, and what
    /// lies between it and the next multiple behind its end may be read. `divisor` divides `cols`. All threads of a CTA of `warps` warps call
    /// it.
    #[device]
    pub fn load<const PART: usize, const CTAS: usize>(
        x: Ptr<T>,
        row: Scalar<i64>,
        cols: Scalar<i32>,
        warps: usize,
        divisor: usize,
    ) -> Self {
        let chunk = PART / CHUNKS;
        let unit = 16 / size_of::<T>();
        let piece = Piece::of::<T>(chunk, warps);
        let first = cluster_rank() * PART;
        let [times, threads, wide] = piece.shape;
        let ring = Smem::<T>::alloc(
            [CHUNKS, times, threads, wide],
            Swizzled::plain([3, 2, 1, 0]),
        );
        let filled = Mbarriers::alloc(CHUNKS, Arrivals(1)).labelled("filled");
        if CTAS > 1 {
            cluster_arrive_relaxed();
        }
        // Elements of each chunk, in whole units of 16 bytes.
        let counts: [Scalar<i32>; CHUNKS] = std::array::from_fn(|c| {
            let rest = minimum(cols - (first + c * chunk), chunk);
            maximum(cdiv(rest, unit) * unit, 0)
        });
        if counts[CHUNKS - 1] < chunk {
            // Elements that no copy fills are the identity of the reduction.
            for c in 0..CHUNKS {
                let nothing = full(piece.shape, T::NEG_INFINITY, piece.layout.clone());
                ring.index(c).store(nothing);
            }
        }
        for c in 0..CHUNKS {
            let barrier = filled.index(c);
            barrier.expect(counts[c] * size_of::<T>());
            let run = x
                .bulk(row + (first + c * chunk))
                .count(counts[c])
                .policy(L2Policy::EvictLast);
            run.load(ring.index(c), barrier);
        }
        BulkRow {
            piece,
            ring,
            filled,
            first,
            cols,
            warps,
            is_in_units: divisor >= unit,
        }
    }

    /// The columns of a chunk and its elements times log2(e), [`LOW`] past the end of the row.
    #[device]
    fn chunk(&self, c: usize) -> (Tensor<i32>, Tensor<f32>) {
        let [times, threads, wide] = self.piece.shape;
        let v = self.ring.index(c).load(self.piece.layout.clone());
        let v = v.cast::<f32>() * LOG2_E;
        let at = self.piece.places(self.first + c * (times * threads * wide));
        // A bulk copy moves whole units of 16 bytes, and so loads some elements behind the row.
        let v = if self.is_in_units {
            v
        } else {
            select(at < self.cols, v, LOW)
        };
        (at, v)
    }

    /// The largest element of the row times log2(e), and the sum over the row of the exponentials of the distances to it. Waits for each chunk
    /// in turn, and for the other CTAs of the cluster.
    #[device]
    pub fn statistics<const CTAS: usize>(&self) -> (Scalar<f32>, Scalar<f32>) {
        let piece = &self.piece;
        let (mut largest, mut sum) = (piece.per_thread(LOW), piece.per_thread(0.0));
        for c in 0..CHUNKS {
            self.filled.index(c).wait(0);
            let (_, v) = self.chunk(c);
            let new = largest.maximum(v.max(2).max(0));
            sum *= (largest - new).exp2();
            sum += (v - piece.spread(new)).exp2().sum(2).sum(0);
            largest = new;
        }
        let most = largest.max(0);
        let total = (sum * (largest - most).exp2()).sum(0);
        let (most, total) = (most.scalar(), total.scalar());
        if CTAS > 1 {
            cluster_wait();
            over_cluster::<CTAS>(most, total, self.warps)
        } else {
            (most, total)
        }
    }

    /// The columns and the elements times log2(e) of each chunk of this CTA, once more, after [`statistics`](Self::statistics). Past the end of
    /// the row elements have no meaning.
    pub fn chunks(&self) -> impl Iterator<Item = (Tensor<i32>, Tensor<f32>)> + '_ {
        (0..CHUNKS).map(|c| self.chunk(c))
    }
}

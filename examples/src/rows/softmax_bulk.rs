//! Softmax of rows that no register file holds: bulk copies load a row into the shared memory of a cluster, in chunks that
//! are reduced as they complete, and the row is read a second time from there. It moves through memory once each way.

use tilekit::prelude::*;

use crate::instance::{divided_instance, smallest_instance};
use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use crate::rows::softmax::reference;
use tilekit::library::span::LOW;

/// Chunks of a CTA's part of a row, each with a barrier of its own.
const CHUNKS: usize = 4;

/// What all threads of a program read of a chunk at once, and how often they do it: `[times, threads, 16 bytes]`.
#[derive(Clone)]
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

/// `out[row, :] = softmax(x[row, :])` for rows of `cols <= CTAS * PART` elements, a cluster of `CTAS` for each row. A row of
/// both begins every `row_stride` elements, and what lies between two rows of `x` may be read. `DIVISOR` divides `cols`.
#[kernel(warps = WARPS, cluster = CTAS, instances(<bf16, 32768, 1, 8, 8>, <bf16, 32768, 2, 8, 8>, <bf16, 32768, 8, 8, 8>))]
pub fn softmax_bulk<
    T: Float,
    const PART: usize,
    const CTAS: usize,
    const WARPS: usize,
    const DIVISOR: usize,
>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    let chunk = PART / CHUNKS;
    let unit = 16 / size_of::<T>();
    let piece = Piece::of::<T>(chunk, WARPS);
    let row = (program_id(0) / CTAS).cast::<i64>() * row_stride;
    let first = cluster_rank() * PART;
    let [times, threads, wide] = piece.shape;
    let ring = Smem::<T>::alloc(
        [CHUNKS, times, threads, wide],
        Swizzled::plain([3, 2, 1, 0]),
    );
    let filled = Mbarriers::alloc(CHUNKS, Arrivals(1));
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
    let read = |c: usize| {
        let v = ring.index(c).load(piece.layout.clone()).cast::<f32>() * LOG2_E;
        let at = piece.places(first + c * chunk);
        // A bulk copy moves whole units of 16 bytes, and so loads some elements behind the row.
        let v = if DIVISOR < unit {
            select(at < cols, v, LOW)
        } else {
            v
        };
        (at, v)
    };
    let (mut largest, mut sum) = (piece.per_thread(LOW), piece.per_thread(0.0));
    for c in 0..CHUNKS {
        filled.index(c).wait(0);
        let (_, v) = read(c);
        let new = largest.maximum(v.max(2).max(0));
        sum *= (largest - new).exp2();
        sum += (v - piece.spread(new)).exp2().sum(2).sum(0);
        largest = new;
    }
    let most = largest.max(0);
    let total = (sum * (largest - most).exp2()).sum(0);
    let (mut most, mut total) = (most.scalar(), total.scalar());
    if CTAS > 1 {
        cluster_wait();
        (most, total) = over_cluster::<CTAS>(most, total, WARPS);
    }
    // exp2(v - most) / total in one exponential per element.
    let shift = most + total.log2();
    for c in 0..CHUNKS {
        let (at, v) = read(c);
        let share = (v - shift).exp2().cast::<T>();
        out.at(row + at).mask(at < cols).store(share);
    }
}

fn softmax_bulk_of<T: Float + DeviceElement, const PART: usize>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (rows, cols) = (matrix.rows, matrix.cols);
    let (stride, _, width) = matrix.extents();
    let arguments = (&matrix.x, &matrix.out, stride, width);
    divided_instance!(DIVISOR for cols, {
        smallest_instance!(CTAS >= cols.div_ceil(PART), in [1, 2, 4, 8] {
            case.launch(softmax_bulk::<T, PART, CTAS, 8, DIVISOR>, grid(rows * CTAS), arguments)
        })
    })?;
    matrix.expect(case, reference, rounding::<T>())
}

#[case(sizes(rows = [2, 2, 1, 1], cols = [32768, 5003, 65536, 100_001]))]
fn softmax_bulk_bf16(case: &mut Case) -> CaseResult {
    softmax_bulk_of::<bf16, 32768>(case)
}

#[case(sizes(rows = [2], cols = [16384, 20_005]))]
fn softmax_bulk_f32(case: &mut Case) -> CaseResult {
    softmax_bulk_of::<f32, 16384>(case)
}

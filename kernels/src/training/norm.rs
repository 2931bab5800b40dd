//! Gradients of root-mean-square norm and layer norm. A CTA, or a cluster where rows are long, takes one row after another, and loads the next while it computes: the
//! gradient of each row is stored, and those of weight and bias are summed in registers, one partial sum for each of them.

use tilekit::prelude::*;

/// CTAs that share a row: each has 16 KiB of it at most, since the sums over rows and the row that is loaded ahead take its registers.
pub(super) const fn ctas<T>(cols: usize) -> usize {
    (cols * size_of::<T>()).div_ceil(16384)
}

/// Warps of a CTA: a thread has 32 bytes of a row.
pub(super) const fn warps<T>(cols: usize) -> usize {
    (cols * size_of::<T>()).div_ceil(1024 * ctas::<T>(cols))
}

/// A row of up to `COLS` elements in registers, neighbouring threads next to each other.
fn line<T>(cols: usize) -> Blocked {
    let ctas = ctas::<T>(cols);
    let line = Blocked::new([16 / size_of::<T>()], [32], [warps::<T>(cols)], [0]);
    if ctas > 1 {
        line.split_over_ctas([ctas])
    } else {
        line
    }
}

/// The clusters of a launch, each of which takes a row at a time.
fn clusters<T>(cols: usize) -> Scalar<i32> {
    num_programs(0) / ctas::<T>(cols)
}

/// What a CTA has of a row before it is computed.
#[derive(Clone, Copy, Aggregate)]
struct Row<T: Element> {
    x: Tensor<T>,
    dout: Tensor<T>,
    rstd: Scalar<f32>,
    mean: Scalar<f32>,
}

/// The tensors of a backward pass. `mean` is that of a layer norm.
#[derive(Clone, Copy)]
struct Norm<T: Element> {
    x: Ptr<T>,
    weight: Ptr<T>,
    mean: Option<Ptr<f32>>,
    rstd: Ptr<f32>,
    dout: Ptr<T>,
    dx: Ptr<T>,
    row_stride: Scalar<i64>,
    rows: Scalar<i32>,
    cols: Scalar<i32>,
}

impl<T: Float> Norm<T> {
    #[device]
    fn read(self, row: Scalar<i32>, col: Tensor<i32>) -> Row<T> {
        let inside = (col < self.cols) & (row < self.rows);
        let at = row.cast::<i64>() * self.row_stride + col;
        let read = |p: Ptr<T>| {
            let source = p.at(at).mask(inside).other(0);
            source.policy(L2Policy::EvictLast).load()
        };
        let of_row = |p: Ptr<f32>| p.at(row).mask(row < self.rows).other(0).load();
        Row {
            x: read(self.x),
            dout: read(self.dout),
            rstd: of_row(self.rstd),
            mean: self.mean.map_or_else(|| scalar(0.0), of_row),
        }
    }

    /// Stores the gradients of this CTA's rows. Returns the sums over them of `dout * xhat` and of `dout`.
    #[device]
    fn rows<const COLS: usize>(self) -> [Tensor<f32>; 2] {
        let col = arange(0..COLS, line::<T>(COLS));
        let inside = col < self.cols;
        let count = self.cols.cast::<f32>();
        let weight = || {
            let w = self.weight.at(col).mask(inside).other(0).load();
            w.cast::<f32>()
        };
        let mut next = self.read(cluster_id(0), col);
        let mut sums = [full([COLS], 0.0, line::<T>(COLS)); 2];
        for row in range(cluster_id(0), self.rows).step(clusters::<T>(COLS)) {
            let Row {
                x,
                dout,
                rstd,
                mean,
            } = next;
            next = self.read(row + clusters::<T>(COLS), col);
            let dout = dout.cast::<f32>();
            let xhat = (x.cast::<f32>() - mean) * rstd;
            let g = dout * weight();
            // Outside of the row `dout` is 0, and with it every term.
            let dx = if self.mean.is_some() {
                let (along, whole) = reduce((g * xhat, g), 0, |(a, b), (c, d)| (a + c, b + d));
                (g - xhat * (along / count) - whole / count) * rstd
            } else {
                (g - xhat * ((g * xhat).sum(0) / count)) * rstd
            };
            let at = row.cast::<i64>() * self.row_stride + col;
            self.dx.at(at).mask(inside).store(dx.cast::<T>());
            sums[0] += dout * xhat;
            if self.mean.is_some() {
                sums[1] += dout;
            }
        }
        sums
    }
}

/// Stores this CTA's row of a matrix of partial sums, of `[cols, stride]`. Behind its end other sums may lie.
#[device]
fn store_partial<T: Float, const COLS: usize>(
    partial: Ptr<f32>,
    sum: Tensor<f32>,
    [cols, stride]: [Scalar<i32>; 2],
) {
    let col = arange(0..COLS, line::<T>(COLS));
    let at = cluster_id(0).cast::<i64>() * stride + col;
    partial.at(at).mask(col < cols).store(sum);
}

/// Gradients of `out = x * rstd * weight` with `rstd[row] = 1 / sqrt(mean(x[row, :]²) + epsilon)`, as the forward pass saved it:
/// `dx = rstd * (g - xhat * mean(g * xhat))` with `g = dout * weight` and `xhat = x * rstd`, for rows of `cols <= COLS` elements.
///
/// `partial[i, :]` is the sum of `dout * xhat` over the rows of a CTA or cluster; [`sum_partials`](super::sum_partials) adds them up to the
/// gradient of `weight`. A few for each multiprocessor are enough.
#[kernel(warps = warps::<T>(COLS), cluster = ctas::<T>(COLS), min_ctas_per_sm = 16 / warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>, <bf16, 16384, 8>), signature(
    x: [rows, cols],
    weight: [cols],
    rstd: [rows],
    dout: [rows, cols],
    dx: [rows, cols],
    partial: [programs, cols],
    row_stride = x.stride(0),
    partial_stride = partial.stride(0),
    grid = programs * ctas::<T>(COLS),
    requires(dout.stride(0) == x.stride(0), dx.stride(0) == x.stride(0), cols <= COLS),
))]
pub fn rmsnorm_backward<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    #[readonly] weight: Ptr<T>,
    #[readonly] rstd: Ptr<f32>,
    dout: Ptr<T>,
    dx: Ptr<T>,
    partial: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
    #[multiple_of(8)] partial_stride: i32,
) {
    launch_dependents();
    launch_wait();
    let norm = Norm {
        x,
        weight,
        mean: None,
        rstd,
        dout,
        dx,
        row_stride,
        rows,
        cols,
    };
    let [of_weight, _] = norm.rows::<COLS>();
    store_partial::<T, COLS>(partial, of_weight, [cols, partial_stride]);
}

/// Gradients of `out = (x - mean) * rstd * weight + bias`, with `mean` and `rstd` of each row as the forward pass saved them:
/// `dx = rstd * (g - mean(g) - xhat * mean(g * xhat))` with `g = dout * weight` and `xhat = (x - mean) * rstd`, for rows of
/// `cols <= COLS` elements.
///
/// `partial[i, :]` is the sum of `dout * xhat` over the rows of a CTA or cluster, and `partial_bias` that of `dout`;
/// [`sum_partials`](super::sum_partials) adds them up to the gradients of `weight` and `bias`, in one launch where both are halves of one
/// matrix's columns.
#[kernel(warps = warps::<T>(COLS), cluster = ctas::<T>(COLS), min_ctas_per_sm = 16 / warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>, <bf16, 16384, 8>), signature(
    x: [rows, cols],
    weight: [cols],
    mean: [rows],
    rstd: [rows],
    dout: [rows, cols],
    dx: [rows, cols],
    partial: [programs, cols],
    partial_bias: [programs, cols],
    row_stride = x.stride(0),
    partial_stride = partial.stride(0),
    grid = programs * ctas::<T>(COLS),
    requires(
        dout.stride(0) == x.stride(0),
        dx.stride(0) == x.stride(0),
        partial_bias.stride(0) == partial.stride(0),
        cols <= COLS
    ),
))]
pub fn layernorm_backward<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    #[readonly] weight: Ptr<T>,
    #[readonly] mean: Ptr<f32>,
    #[readonly] rstd: Ptr<f32>,
    dout: Ptr<T>,
    dx: Ptr<T>,
    partial: Ptr<f32>,
    partial_bias: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
    #[multiple_of(8)] partial_stride: i32,
) {
    launch_dependents();
    launch_wait();
    let norm = Norm {
        x,
        weight,
        mean: Some(mean),
        rstd,
        dout,
        dx,
        row_stride,
        rows,
        cols,
    };
    let [of_weight, of_bias] = norm.rows::<COLS>();
    store_partial::<T, COLS>(partial, of_weight, [cols, partial_stride]);
    store_partial::<T, COLS>(partial_bias, of_bias, [cols, partial_stride]);
}

//! A matrix product by `mma.sync`, which multiplies fragments in registers: it has types that `wgmma` lacks, and
//! works in CTAs of any number of warps. Blocks come by `cp.async` into a double buffer whose swizzle lets `ldmatrix` take
//! them from there without bank conflicts.

use tilekit::divided_instance;
use tilekit::prelude::*;

use crate::products::product::{Product, product};

/// The tile of `C` of one program, and bytes of a row of a block: the blocks of A and B hold so much of K.
const M: usize = 128;
const N: usize = 128;
const ROW_BYTES: usize = 128;
const STAGES: usize = 2;

/// Eight warps, each with an accumulator of 64 by 32.
fn sums() -> Mma {
    Mma::new([2, 4], [16, 8])
}

/// Blocks of one operand in shared memory, `[STAGES, rows, K]`, and where in global memory they come from.
#[derive(Clone, Copy, Aggregate)]
struct Blocks<T> {
    tiles: Smem<T>,
    source: Ptr<T>,
    first_row: Scalar<i32>,
    rows: Scalar<i32>,
    row_stride: Scalar<i32>,
}

impl<T: Element> Blocks<T> {
    /// Elements of K in a block.
    const DEPTH: usize = ROW_BYTES / size_of::<T>();

    #[device]
    fn alloc(
        source: Ptr<T>,
        rows: Scalar<i32>,
        row_stride: Scalar<i32>,
        first_row: Scalar<i32>,
        block_rows: usize,
    ) -> Self {
        // What four lanes read of a row stays together, 16 bytes or four f64. It changes places from row to row, so that the
        // rows that are read at once lie in different banks.
        let together = (16 / size_of::<T>()).max(4);
        let swizzle = Swizzled::new(together as u32, 1, (Self::DEPTH / together) as u32, [1, 0]);
        let tiles = Smem::alloc([STAGES, block_rows, Self::DEPTH], swizzle);
        Blocks {
            tiles,
            source,
            first_row,
            rows,
            row_stride,
        }
    }

    /// Starts the copy of block `step` of K, of which nothing lies at `k` and after it: zeros are put there.
    #[device]
    fn fetch(&self, step: Scalar<i32>, k: Scalar<i32>) {
        let per_thread = 16 / size_of::<T>();
        let layout = Blocked::new([1, per_thread], [4, 8], [8, 1], [1, 0]);
        let tile = self.tiles.index(step % STAGES);
        let rows = tile.shape()[0] as usize;
        let row = self.first_row + arange(0..rows, Slice::new(1, layout.clone())).expand_dims(1);
        let at_k =
            step * Self::DEPTH + arange(0..Self::DEPTH, Slice::new(0, layout)).expand_dims(0);
        let at = row * self.row_stride + at_k;
        self.source
            .at(at)
            .mask((row < self.rows) & (at_k < k))
            .copy_to(tile);
    }
}

/// `C = A[M, K] · B[N, K]ᵀ`, by `multiply` of a tile of A, a tile of B and the accumulator.
#[device]
fn accumulate<T: Element, S: Numeric>(
    a: Blocks<T>,
    b: Blocks<T>,
    k: Scalar<i32>,
    multiply: impl Fn(Tensor<T>, Tensor<T>, Tensor<S>) -> Tensor<S>,
) -> Tensor<S> {
    let width = (4 / size_of::<T>()).max(1);
    let (left, right) = (
        DotOperand::new(0, sums(), width),
        DotOperand::new(1, sums(), width),
    );
    let mut acc = zeros::<S>([M, N], sums());
    let steps = cdiv(k, Blocks::<T>::DEPTH);
    let fetch = |step: Scalar<i32>| {
        let end = select(step < steps, k, 0);
        a.fetch(step, end);
        b.fetch(step, end);
        async_copy_commit();
    };
    fetch(scalar(0));
    for step in range(0, steps) {
        fetch(step + 1);
        // All but the newest copies have completed.
        async_copy_wait(1);
        let (x, y) = (a.tiles.index(step % STAGES), b.tiles.index(step % STAGES));
        // A part of the block at a time, so that its registers are few.
        let part = Blocks::<T>::DEPTH / 2;
        for at in [0, part] {
            let x = x.slice(1, at..at + part).load(left.clone());
            let y = y.slice(1, at..at + part).transpose().load(right.clone());
            acc = multiply(x, y, acc);
        }
    }
    async_copy_wait(0);
    acc
}

/// The tile of this program of a product of m by n by k, stored as `O`. Rows of A and B begin at multiples of 16 bytes.
#[device]
fn multiply_tile<T: Element, S: Numeric, O: Element>(
    (a, b, c): (Ptr<T>, Ptr<T>, Ptr<O>),
    [m, n, k]: [Scalar<i32>; 3],
    (k_stride, c_stride): (Scalar<i32>, Scalar<i32>),
    multiply: impl Fn(Tensor<T>, Tensor<T>, Tensor<S>) -> Tensor<S>,
) {
    let (first_row, first_column) = (program_id(0) * M, program_id(1) * N);
    let acc = accumulate(
        Blocks::alloc(a, m, k_stride, first_row, M),
        Blocks::alloc(b, n, k_stride, first_column, N),
        k,
        multiply,
    );
    // Neighbouring lanes store neighbouring elements, whatever their alignment.
    let layout = Blocked::new([1, 1], [1, 32], [8, 1], [1, 0]);
    let row = first_row + arange(0..M, Slice::new(1, layout.clone())).expand_dims(1);
    let column = first_column + arange(0..N, Slice::new(0, layout.clone())).expand_dims(0);
    let tile = acc.cast::<O>().convert_layout(layout);
    c.at(row * c_stride + column)
        .mask((row < m) & (column < n))
        .store(tile);
}

/// One tile of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program, added up as `S`. `DIVISOR` divides K.
#[kernel(warps = 8, deny(bank_conflicts))]
pub fn mma_v2_matmul<T: MmaOperand<T, S>, S: Numeric, O: Element, const DIVISOR: usize>(
    a: Ptr<T>,
    b: Ptr<T>,
    c: Ptr<O>,
    m: i32,
    n: i32,
    #[multiple_of(DIVISOR)] k: i32,
    #[multiple_of(16 / size_of::<T>())] k_stride: i32,
    c_stride: i32,
) {
    multiply_tile(
        (a, b, c),
        [m, n, k],
        (k_stride, c_stride),
        mma_v2::<T, T, S>,
    );
}

/// The same of f32, which the tensor cores take for tf32.
#[kernel(warps = 8, deny(bank_conflicts))]
pub fn mma_v2_matmul_tf32(
    a: Ptr<f32>,
    b: Ptr<f32>,
    c: Ptr<f32>,
    m: i32,
    n: i32,
    k: i32,
    #[multiple_of(4)] k_stride: i32,
    c_stride: i32,
) {
    multiply_tile((a, b, c), [m, n, k], (k_stride, c_stride), mma_v2_tf32);
}

fn programs(case: &Case) -> Grid {
    grid([case.size("m").div_ceil(M), case.size("n").div_ceil(N)])
}

#[case(sizes(m = [256, 1, 136], n = [128, 1, 264], k = [512, 1, 200]))]
fn mma_v2_bf16(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        divided_instance!(DIVISOR for case.size("k"), {
            let kernel = mma_v2_matmul::<bf16, f32, bf16, DIVISOR>;
            case.launch(kernel, programs(case), p.pointers())
        })
    })
}

/// A product of small whole numbers, so that every sum is exact in every type.
fn exact<T: DeviceElement, S: DeviceElement>(
    case: &mut Case,
    launch: impl FnOnce(
        &mut Case,
        (&Input<T>, &Input<T>, &Output<S>, i32, i32, i32, i32, i32),
    ) -> CaseResult,
) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let stride = k.next_multiple_of(16 / size_of::<T>());
    let (a, b) = (
        case.integers::<T>("a", [m, stride], 0..4),
        case.integers::<T>("b", [n, stride], 0..4),
    );
    let c = case.output::<S>("c", [m, n]);
    launch(
        case,
        (
            &a,
            &b,
            &c,
            m as i32,
            n as i32,
            k as i32,
            stride as i32,
            n as i32,
        ),
    )?;
    let number = |x: T| x.number().to_f64();
    let sum = |[i, j]: [usize; 2]| {
        (0..k)
            .map(|l| number(a[[i, l]]) * number(b[[j, l]]))
            .sum::<f64>()
    };
    case.expect(&c, sum, Exactly)?;
    case.does_flops(2 * m * n * k);
    Ok(())
}

macro_rules! exact_cases {
    ($($name:ident: $ty:ty => $sum:ty;)*) => {$(
        #[case(sizes(m = [128, 1, 130], n = [128, 1, 72], k = [128, 1, 195]))]
        fn $name(case: &mut Case) -> CaseResult {
            exact::<$ty, $sum>(case, |case, arguments| {
                case.launch(mma_v2_matmul::<$ty, $sum, $sum, 1>, programs(case), arguments)
            })
        }
    )*};
}

exact_cases! {
    mma_v2_f16: f16 => f32;
    mma_v2_f16_f16: f16 => f16;
    mma_v2_f64: f64 => f64;
    mma_v2_e4m3: E4m3 => f32;
    mma_v2_e5m2_f16: E5m2 => f16;
    mma_v2_i8: i8 => i32;
    mma_v2_u8: u8 => i32;
}

#[case(sizes(m = [128, 1, 130], n = [128, 1, 72], k = [128, 1, 195]))]
fn mma_v2_tf32_case(case: &mut Case) -> CaseResult {
    exact::<f32, f32>(case, |case, arguments| {
        case.launch(mma_v2_matmul_tf32, programs(case), arguments)
    })
}

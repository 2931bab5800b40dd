//! Mainloops of matrix products: pipelines of blocks of A and B.

use std::ops::Range as HostRange;

use gluon_lang::lang::prelude::*;

use super::{Pipeline, PipelineState};
use crate::schedule::TileScheduler;

/// The mainloop of `C[M, N] = A[M, K] · B[N, K]ᵀ`, for stages of a block of A, `[rows, depth]`, and a block of B, `[columns, depth]`. Kernels
/// whose stages hold more, whose loads are multicast or whose products overlap write these loops themselves, as
/// `matmul_sparse`, `matmul_cluster` and `matmul_ping_pong` do; either half can be replaced alone.
///
/// ```
/// use tilekit::prelude::*;
///
/// const TILE: usize = 64;
///
/// /// `C[M, N] = A[M, K] · B[N, K]ᵀ`, a tile a program.
/// #[kernel(warps = 4)]
/// fn product(
///     #[block([TILE, TILE], Nvmma::B128)] a: TensorMap<f16>,
///     #[block([TILE, TILE], Nvmma::B128)] b: TensorMap<f16>,
///     #[block([TILE, TILE], Nvmma::B128)] c: TensorMap<f16>,
///     k: i32,
/// ) {
///     let pipeline = Pipeline::tma((a, b), 3, Consumers::warpgroups(1));
///     let (row, column, steps) = (program_id(0), program_id(1), steps_along(k, TILE));
///     let multiply = || {
///         let acc = Accumulator::<f32>::zeros([TILE, TILE], Wgmma::new([4, 1], [64, TILE, 16]));
///         let acc = pipeline.multiply(&mut pipeline.start(), range(0, steps), acc, 0..TILE);
///         let staging = Smem::alloc_with(acc.wait_all().cast::<f16>(), c.layout());
///         c.store([row * TILE, column * TILE], staging);
///         tma_store_wait_read(0);
///     };
///     let copy = || {
///         pipeline.load_operands(&mut pipeline.start(), range(0, steps), (a, b), [row, column]);
///     };
///     warp_specialize().main(multiply).worker(Warps(1), copy).run();
/// }
///
/// # fn main() -> tilekit::Result<()> {
/// let device = Device::emulator();
/// let (m, n, k) = (100, 72, 200);
/// let number = |i: usize| f16::from_f32((i * 5 % 7) as f32 - 3.0);
/// let [x, y]: [Vec<f16>; 2] = [m * k, n * k].map(|len| (0..len).map(number).collect());
/// let (a, b) = (Buffer::from_slice(&device, &x)?, Buffer::from_slice(&device, &y)?);
/// let c = Buffer::<f16>::zeros(&device, m * n)?;
/// let kernel = product.compile(&Compiler::default())?.load(&device)?;
/// let arguments = (a.view([m, k]), b.view([n, k]), c.view([m, n]), k as i32);
/// kernel.launch(&Stream::new(&device)?, grid([2, 2]), arguments)?;
/// for (at, found) in c.to_vec()?.iter().enumerate() {
///     let terms = (0..k).map(|l| x[at / n * k + l].to_f32() * y[at % n * k + l].to_f32());
///     assert_eq!(found.to_f32(), f16::from_f32(terms.sum()).to_f32());
/// }
/// # Ok(())
/// # }
/// ```
impl<A: Element, B: Element> Pipeline<(Smem<A>, Smem<B>)> {
    /// The producer's part of one tile: for each of `steps` it waits until a stage is empty and issues the TMA loads of a block of each
    /// operand. `row` counts blocks of rows of A, `column` blocks of rows of B, and a step is a block of each along K.
    #[device]
    pub fn load_operands(
        self,
        state: &mut PipelineState,
        steps: Range<i32>,
        (a, b): (TensorMap<A>, TensorMap<B>),
        [row, column]: [Scalar<i32>; 2],
    ) {
        let (of_a, of_b) = (sides(a), sides(b));
        let mut at = state.same();
        for step in steps {
            let stage = self.producer_acquire(at);
            let (a_tile, b_tile) = stage.tiles;
            a.load([row * of_a[0], step * of_a[1]], a_tile, stage.full);
            b.load([column * of_b[0], step * of_b[1]], b_tile, stage.full);
            at = self.commit(stage).advance();
        }
        *state = at;
    }

    /// The producer of a persistent kernel: [`load_operands`](Self::load_operands) for each tile of this program, in `steps` steps. The scheduler's
    /// tiles have as many rows and columns as the blocks of `a` and of `b` have rows.
    #[device]
    pub fn load_tiles(
        self,
        tiles: impl TileScheduler,
        steps: Scalar<i32>,
        (a, b): (TensorMap<A>, TensorMap<B>),
    ) {
        let mut at = self.start();
        for tile in tiles.of_program() {
            let place = tiles.place(tile);
            self.load_operands(&mut at, range(0, steps), (a, b), place);
        }
    }

    /// The part of a consumer warpgroup in one tile: adds the products of `rows` of each stage's block of A with its block of B to `acc`, and
    /// releases the stage when its product is complete. While one warpgroup waits, others keep the tensor cores busy; a single warpgroup
    /// keeps another product in flight (`.wait(1)`, `hold`), as in `matmul_small`.
    #[device]
    pub fn multiply<S: Element>(
        self,
        state: &mut PipelineState,
        steps: Range<i32>,
        mut acc: Accumulator<S>,
        rows: HostRange<usize>,
    ) -> Accumulator<S>
    where
        A: WgmmaOperand<B, S>,
    {
        let mut at = state.same();
        for _ in steps {
            let stage = self.consumer_wait(at);
            let (a, b) = stage.tiles;
            let is_whole = rows.len() == a.shape()[0] as usize;
            let a = if is_whole {
                a
            } else {
                a.slice(0, rows.clone())
            };
            acc = acc.mma(a, b.transpose()).wait(0);
            at = self.consumer_release(stage).advance(); // mutate: equivalent(bar.warp.sync): products alone read the stage; it is kept where lanes have accessed something else since the last barrier, such as what an epilogue stores
        }
        *state = at;
        acc
    }
}

/// Rows and K extent of an operand's block. TMA loads refuse a map of another rank.
#[track_caller]
fn sides<T: Element>(map: TensorMap<T>) -> [usize; 2] {
    let block = map.block();
    [0, 1].map(|dim| block.get(dim).map_or(1, |extent| *extent as usize))
}

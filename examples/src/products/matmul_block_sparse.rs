//! `C = A · B` of a matrix A that has only some of its blocks (block-sparse rows, BSR): which ones is known in memory only. A producer warp
//! reads the numbers of a row's blocks and loads the rows of B that they multiply, wherever these lie. Rows of blocks have different
//! lengths, so programs draw their tiles from a counter: one that has short rows makes more of them.

use tilekit::prelude::*;

/// Rows and columns of a block of A; columns of a tile of C.
const BM: usize = 128;
const BK: usize = 64;
const BN: usize = 128;
const STAGES: usize = 4;
const GROUPS: usize = 2;

/// `counter[0] = 0`, as kernels that draw their tiles find it at their first launch, and leave it behind.
#[kernel(warps = 1)]
pub fn clear_counter(counter: Ptr<i32>) {
    counter.store(0);
}

/// `C[M, N] = A · B[K, N]` where A has `block_rows` rows of blocks. Block `i` of A is `blocks[i * BM.., ..]`, and its first column is
/// `columns[i] * BK`; row `r` of blocks has those from `starts[r]` to `starts[r + 1]`.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_block_sparse(
    #[block([BM, BK], Nvmma::B128)] blocks: TensorMap<bf16>,
    #[block([BK, BN], Nvmma::B128)] b: TensorMap<bf16>,
    #[block([BM / GROUPS, BN], Nvmma::B128)] c: TensorMap<bf16>,
    #[readonly] starts: Ptr<i32>,
    #[readonly] columns: Ptr<i32>,
    counter: Ptr<i32>,
    block_rows: i32,
    n: i32,
) {
    let pipeline = Pipeline::tma((blocks, b), STAGES, Consumers::warpgroups(GROUPS));
    let staging = [(); GROUPS].map(|()| Smem::<bf16>::alloc(c.block(), c.layout()));
    let tiles = block_rows * cdiv(n, BN);
    let drawn = DynamicTiles::new(counter, tiles, Consumers::warpgroups(GROUPS));
    // Tiles of one row of blocks follow each other: they load the same blocks of A.
    let place = |tile: &DynamicTile| {
        let columns = cdiv(n, BN);
        (tile.number() / columns, tile.number() % columns * BN)
    };

    let multiply = |group: usize| {
        let rows = group * 64..(group + 1) * 64;
        let mut at = pipeline.start();
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let (row, column) = place(&tile);
            let sums = Wgmma::new([4, 1], [64, BN, 16]);
            let mut acc = Accumulator::<f32>::zeros([BM / GROUPS, BN], sums);
            for _ in range(starts.at(row).load(), starts.at(row + 1).load()) {
                let stage = pipeline.consumer_wait(at);
                let (block, b) = stage.tiles;
                acc = acc.mma(block.slice(0, rows.clone()), b).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            tma_store_wait_read(0);
            staging[group].store(acc.wait_all().cast::<bf16>());
            c.store([row * BM + group * 64, column], staging[group]);
            tile = drawn.receive(tile);
        }
        tma_store_wait_read(0);
    };
    let copy = || {
        let mut at = pipeline.start();
        let mut tile = drawn.start();
        while tile.number() < drawn.count() {
            let next = drawn.draw();
            let (row, column) = place(&tile);
            for block in range(starts.at(row).load(), starts.at(row + 1).load()) {
                let stage = pipeline.producer_acquire(at);
                let (a_tile, b_tile) = stage.tiles;
                blocks.load([block * BM, scalar(0)], a_tile, stage.full);
                let first = columns.at(block).load() * BK;
                b.load([first, column], b_tile, stage.full);
                at = pipeline.commit(stage).advance();
            }
            tile = drawn.send(tile, next); // mutate: equivalent(bar.warp.sync, fence.proxy.async): the first lane alone stores the number and arrives, and no copy reads it
        }
        drawn.end(tile);
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .worker(Warps(4).registers(232), || multiply(1))
        .worker(Warps(1).registers(40), copy)
        .run();
}

/// Which blocks a matrix of so many rows and columns of blocks has: none to all of a row, in ascending order.
fn pattern(block_rows: usize, block_columns: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut starts, mut columns) = (vec![0], Vec::new());
    for row in 0..block_rows {
        let is_there = |column: &usize| (row * 7 + column * 5 + row * column) % 6 < row % 4 * 2;
        columns.extend((0..block_columns).filter(is_there));
        starts.push(columns.len());
    }
    (starts, columns)
}

#[case(sizes(m = [512, 700, 1], n = [256, 200, 8], k = [512, 328, 1]))]
fn matmul_block_sparse_bf16(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let (block_rows, block_columns) = (m.div_ceil(BM), k.div_ceil(BK));
    let (starts, columns) = pattern(block_rows, block_columns);
    let count = columns.len();
    // A tensor map has no dimension of 0: a matrix without blocks has one that nobody loads.
    let blocks = case.normal::<bf16>("blocks", [count.max(1) * BM, BK]);
    let b = case.normal::<bf16>("b", [k, n]);
    let c = case.output::<bf16>("c", [m, n]);
    let counter = case.output::<i32>("counter", [1]);
    let (of_rows, of_blocks) = (starts.clone(), columns.clone());
    let first = case.input::<i32>("starts", [block_rows + 1], move |at| of_rows[at] as i32);
    let column = case.input::<i32>("columns", [count.max(1)], move |at| {
        of_blocks.get(at).copied().unwrap_or(0) as i32
    });
    // No comparison in between: whoever is compared with the kernel starts with a counter of 0 too.
    case.launch(clear_counter, 1, (&counter,))?;
    let tiles = block_rows * n.div_ceil(BN);
    // Fewer programs than tiles, at small sizes too.
    let programs = tiles.div_ceil(3).min(132);
    let (rows, columns_of_c) = (block_rows as i32, n as i32);
    let arguments = (
        &blocks,
        &b,
        &c,
        &first,
        &column,
        &counter,
        rows,
        columns_of_c,
    );
    case.launch(matmul_block_sparse, programs, arguments)?;
    // Columns of A beyond the last row of B multiply zeros.
    let sum = |[row, j]: [usize; 2]| {
        let of_row = starts[row / BM]..starts[row / BM + 1];
        let terms = of_row.flat_map(|block| (0..BK).map(move |at| (block, at)));
        let inside = terms.filter(|&(block, at)| columns[block] * BK + at < k);
        let product = |(block, at): (usize, usize)| {
            blocks[[block * BM + row % BM, at]].to_f64() * b[[columns[block] * BK + at, j]].to_f64()
        };
        inside.map(product).sum::<f64>()
    };
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-4 * (k as f64).sqrt(),
    };
    case.expect(&c, sum, tolerance)?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;
    case.does_tensor_flops::<bf16>(2 * count * BM * BK * n);
    case.moves_bytes(2 * (count * BM * BK + k * n + m * n));
    Ok(())
}

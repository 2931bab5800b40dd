//! Products of groups of rows with a matrix of B each, as the experts of a mixture compute them: how many rows a group has is known in memory
//! only. A persistent kernel finds its tiles in the offsets of the groups. TMA loads may read rows of the next group, whose
//! products are not stored.

use tilekit::prelude::*;

/// Consumer warpgroups, and the rows of each.
const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;
const BN: usize = 128;
const BK: usize = 64;
const STAGES: usize = 4;

/// `C[r, :] = A[r, :] · B[g]ᵀ` for the rows `r` of each group `g`, from `offsets[g]` to `offsets[g + 1]`. A is `[M, K]`, B is `[groups, N, K]`,
/// and rows of C begin every `stride` elements.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn matmul_grouped(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<bf16>,
    #[block([1, BN, BK], Nvmma::B128.of(16).with_rank(3))] b: TensorMap<bf16>,
    c: Ptr<bf16>,
    #[readonly] offsets: Ptr<i32>,
    #[multiple_of(8)] stride: i32,
    groups: i32,
    n: i32,
    k: i32,
) {
    let buffers = (
        Smem::<bf16>::alloc([STAGES, BM, BK], Nvmma::B128),
        Smem::<bf16>::alloc([STAGES, BN, BK], Nvmma::B128),
    );
    let pipeline = Pipeline::new(buffers, Producers::Tma, Consumers::warpgroups(GROUPS));
    let staging = [(); GROUPS].map(|()| Smem::<bf16>::alloc([ROWS, BN], Nvmma::B128));
    let tiles = RaggedTiles::new(offsets, groups, n, [BM, BN]);
    let steps = steps_along(k, BK);

    let multiply = |part: usize| {
        let rows = part * ROWS..(part + 1) * ROWS;
        let stored = Blocked::new([1, 8], [2, 16], [4, 1], [1, 0]);
        let (mut at, mut tile) = (pipeline.start(), tiles.start());
        while tile.group() < groups {
            let acc = Accumulator::<f32>::zeros([ROWS, BN], Wgmma::new([4, 1], [64, BN, 16]));
            let acc = pipeline.multiply(&mut at, range(0, steps), acc, rows.clone());
            let [row, column] = tile.place();
            let row = tile.first_row() + row * BM + part * ROWS;
            // Through shared memory, so that neighbouring threads store 16 bytes each.
            staging[part].store(acc.wait_all().cast::<bf16>());
            let result = staging[part].load(stored.clone());
            let row = rows_of(stored.clone(), row, ROWS);
            let column = columns_of(stored.clone(), column * BN, BN);
            let inside = (row < tile.end_row()) & (column < stride);
            let place = row.cast::<i64>() * stride.cast::<i64>() + column;
            c.at(place).mask(inside).store(result);
            tile = tiles.next(tile);
        }
    };
    let copy = || {
        let (mut at, mut tile) = (pipeline.start(), tiles.start());
        while tile.group() < groups {
            let [row, column] = tile.place();
            let row = tile.first_row() + row * BM;
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (a_tile, b_tile) = stage.tiles;
                a.load([row, step * BK], a_tile, stage.full);
                let of_b = [tile.group(), column * BN, step * BK];
                b.load(of_b, b_tile.reshape(b.block()), stage.full);
                at = pipeline.commit(stage).advance();
            }
            tile = tiles.next(tile);
        }
    };
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), copy)
        .run();
}

#[case(sizes(groups = [1, 5, 3], n = [128, 264, 8], k = [128, 200, 8]))]
fn matmul_grouped_bf16(case: &mut Case) -> CaseResult {
    let [groups, n, k] = ["groups", "n", "k"].map(|name| case.size(name));
    // Groups of 0 to 299 rows.
    let mut offsets = vec![0_usize];
    for group in 0..groups {
        offsets.push(offsets[group] + (group * 170 + 130) % 300);
    }
    let m = offsets[groups];
    let stride = n.next_multiple_of(8);
    let (from, of_row) = (offsets.clone(), offsets.clone());
    let a = case.normal::<bf16>("a", [m, k]);
    let b = case.normal::<bf16>("b", [groups * n, k]);
    let c = case.output::<bf16>("c", [m, stride]);
    let begins = case.input::<i32>("offsets", [groups + 1], move |at| from[at] as i32);
    let resident = Resident {
        ctas: 132,
        cluster: 1,
    };
    let tiles = resident.tiles([m, n], [BM, BN]) + groups;
    // Fewer programs than tiles, at small sizes too.
    let programs = resident.programs(tiles.div_ceil(3));
    let arguments = (
        &a,
        b.view()
            .with_shape([groups, n, k])
            .with_strides([n * k, k, 1]),
        &c,
        &begins,
        stride as i32,
        groups as i32,
        n as i32,
        k as i32,
    );
    case.launch(matmul_grouped, programs, arguments)?;
    let reference = || {
        let numbers =
            |x: &Input<bf16>| -> Vec<f64> { x.host().iter().map(|x| x.to_f64()).collect() };
        let (a, b) = (numbers(&a), numbers(&b));
        let place = |row: usize| (row, of_row.partition_point(|&first| first <= row) - 1);
        let rows = (0..m)
            .map(place)
            .flat_map(|at| (0..n).map(move |j| (at, j)));
        let dot = |((row, group), j): ((usize, usize), usize)| {
            let (x, y) = (&a[row * k..][..k], &b[(group * n + j) * k..][..k]);
            x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>()
        };
        rows.map(dot).collect()
    };
    let tolerance = Close {
        relative: 4e-3,
        absolute: 1e-4 * (k as f64).sqrt(),
    };
    case.expect_part(&c, [m, n], reference, tolerance)?;
    case.does_tensor_flops::<bf16>(2 * m * n * k);
    case.moves_bytes(2 * (m * k + groups * n * k + m * n));
    Ok(())
}

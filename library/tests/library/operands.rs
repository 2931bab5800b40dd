//! The mainloop of a product: ragged sizes, fewer steps than stages and stages that are reused, tiles of several warpgroups.

use tilekit::TensorView;
use tilekit::prelude::*;

use crate::{launch, mistakes, numbers};

/// Rows of a warpgroup, columns of a tile, and the depth of a stage.
const ROWS: usize = 64;
const COLUMNS: usize = 32;
const DEPTH: usize = 64;

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` by tiles of `[HEIGHT, COLUMNS]`, a warpgroup for each 64 rows.
#[kernel(warps = 4)]
fn product<const HEIGHT: usize, const STAGES: usize>(
    #[block([HEIGHT, DEPTH], Nvmma::B128)] a: TensorMap<f16>,
    #[block([COLUMNS, DEPTH], Nvmma::B128)] b: TensorMap<f16>,
    #[block([ROWS, COLUMNS], Nvmma::PLAIN)] c: TensorMap<f32>,
    m: i32,
    n: i32,
    k: i32,
) {
    let groups = HEIGHT / ROWS;
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(groups));
    let epilogue = EpilogueStore::alloc(c, Turns::of_warpgroups(groups));
    let tiles = GroupedRows::new([m, n], [HEIGHT, COLUMNS], 2);
    let steps = steps_along(k, DEPTH);
    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for _ in tiles.of_program() {
            let sums = Wgmma::new([4, 1], [64, COLUMNS, 16]);
            let acc = Accumulator::<f32>::zeros([ROWS, COLUMNS], sums);
            let acc = pipeline.multiply(&mut at, range(0, steps), acc, rows.clone());
            turn = epilogue.fill(group, turn, acc.wait_all());
        }
    };
    let store = |group: usize| epilogue.store_tiles(group, tiles, c);
    warp_specialize()
        .main(|| multiply(0))
        .workers(1..groups, Warps(4), multiply)
        .worker(Warps(1), || pipeline.load_tiles(tiles, steps, (a, b)))
        .workers(0..groups, Warps(1), store)
        .run();
}

/// What the kernel is launched with.
type Arguments<'a> = (
    TensorView<'a, f16>,
    TensorView<'a, f16>,
    TensorView<'a, f32>,
    i32,
    i32,
    i32,
);

/// Compares every element of a product of small whole numbers, which is exact.
fn check(size: [usize; 3], run: impl Fn(&Device, Arguments<'_>) -> tilekit::Result<()>) {
    let [m, n, k] = size;
    let device = Device::emulator();
    // Rows begin at multiples of 16 bytes.
    let (k_stride, n_stride) = (k.next_multiple_of(8), n.next_multiple_of(4));
    let [x, y] = [m, n].map(|rows| numbers(rows * k_stride));
    let halves = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<f16>>();
    let a = Buffer::from_slice(&device, &halves(&x)).expect("memory of the host");
    let b = Buffer::from_slice(&device, &halves(&y)).expect("memory of the host");
    let c = Buffer::<f32>::zeros(&device, m * n_stride).expect("memory of the host");
    let arguments = (
        a.view([m, k]).with_strides([k_stride, 1]),
        b.view([n, k]).with_strides([k_stride, 1]),
        c.view([m, n]).with_strides([n_stride, 1]),
        m as i32,
        n as i32,
        k as i32,
    );
    run(&device, arguments).expect("it runs");
    let found = c.to_vec().expect("it has run");
    for i in 0..m {
        let term = |j: usize, l: usize| x[i * k_stride + l] * y[j * k_stride + l];
        let sum = |j: usize| (0..k).map(|l| term(j, l)).sum();
        let expected: Vec<f32> = (0..n).map(sum).collect();
        assert_eq!(found[i * n_stride..][..n], expected, "row {i} of {size:?}");
    }
}

/// Sizes of one tile and of several, ragged in all dimensions, of 1, 2 and 5 steps.
const SIZES: [[usize; 3]; 4] = [[1, 1, 1], [64, 32, 64], [100, 70, 90], [140, 40, 300]];

#[test]
fn one_warpgroup_multiplies_whole_blocks() {
    for size in SIZES {
        check(size, |device, arguments| {
            launch(device, product::<64, 3>, grid(2u32), arguments)
        });
    }
}

#[test]
fn two_warpgroups_multiply_their_rows_of_a_block() {
    for size in SIZES {
        check(size, |device, arguments| {
            launch(device, product::<128, 2>, grid(1u32), arguments)
        });
        check(size, |device, arguments| {
            launch(device, product::<128, 1>, grid(3u32), arguments)
        });
    }
}

/// A batch of matrices is not an operand.
#[kernel(warps = 4)]
fn operand_of_rank_3(
    #[block([1, ROWS, DEPTH], Nvmma::B128.of(16).with_rank(3))] a: TensorMap<f16>,
    #[block([COLUMNS, DEPTH], Nvmma::B128)] b: TensorMap<f16>,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), 2, Consumers::warpgroups(1));
    let (place, steps) = ([scalar(0), scalar(0)], steps_along(k, DEPTH));
    pipeline.load_operands(&mut pipeline.start(), range(0, steps), (a, b), place);
}

#[test]
fn a_batch_of_matrices_is_refused_as_an_operand() {
    let found = mistakes(operand_of_rank_3);
    assert!(
        found.contains("wants 3 coordinates, these are 2"),
        "{found}"
    );
    assert_eq!(found.matches("severity: Error").count(), 1, "{found}");
}

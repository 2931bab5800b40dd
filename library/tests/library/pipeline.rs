//! Pipelines of every kind of producer, whose stages are reused several times, and fewer steps than stages.

use tilekit::prelude::*;

use crate::{launch, mistakes, numbers};

/// Rows and columns of a block.
const SIDE: usize = 64;
const STEPS: [usize; 4] = [1, 2, 5, 9];

/// `out = X · Xᵀ` by blocks of columns of X from the pipeline.
#[device]
fn gram(pipeline: Pipeline<Smem<f16>>, steps: Scalar<i32>, out: Ptr<f32>) {
    let sums = Wgmma::new([4, 1], [64, SIDE, 16]);
    let mut acc = Accumulator::<f32>::zeros([SIDE, SIDE], sums.clone());
    let mut at = pipeline.start();
    for _ in range(0, steps) {
        let stage = pipeline.consumer_wait(at);
        acc = acc.mma(stage.tiles, stage.tiles.transpose()).wait(0);
        at = pipeline.consumer_release(stage).advance();
    }
    let row = arange(0..SIDE, Slice::new(1, sums.clone())).expand_dims(1);
    let column = arange(0..SIDE, Slice::new(0, sums)).expand_dims(0);
    out.at(row * SIDE + column).store(acc.wait_all());
}

/// Where the elements of a block lie: rows, and columns from `first` on.
fn places(layout: &Blocked, first: Scalar<i32>) -> (Tensor<i32>, Tensor<i32>) {
    let row = arange(0..SIDE, Slice::new(1, layout.clone())).expand_dims(1);
    let column = arange(0..SIDE, Slice::new(0, layout.clone())).expand_dims(0);
    (row, column + first)
}

fn alloc<const STAGES: usize>(producers: Producers) -> Pipeline<Smem<f16>> {
    let tiles = Smem::<f16>::alloc([STAGES, SIDE, SIDE], Nvmma::B128);
    Pipeline::new(tiles, producers, Consumers::warpgroups(1))
}

#[kernel(warps = 4)]
fn gram_by_copies<const STAGES: usize>(x: Ptr<f16>, out: Ptr<f32>, #[multiple_of(8)] k: i32) {
    let pipeline = alloc::<STAGES>(Producers::Copies { warps: 2 });
    let steps = steps_along(k, SIDE);
    let copy = || {
        let layout = Blocked::new([1, 8], [4, 8], [2, 1], [1, 0]);
        let mut at = pipeline.start();
        for step in range(0, steps) {
            let stage = pipeline.producer_acquire(at);
            let (row, column) = places(&layout, step * SIDE);
            let block = x.at(row * k + column).mask(column < k);
            block.copy_to(stage.tiles);
            at = pipeline.commit(stage).advance();
        }
    };
    warp_specialize()
        .main(|| gram(pipeline, steps, out))
        .worker(Warps(2), copy)
        .run();
}

#[kernel(warps = 4)]
fn gram_by_stores<const STAGES: usize>(x: Ptr<f16>, out: Ptr<f32>, k: i32) {
    let pipeline = alloc::<STAGES>(Producers::Stores { warps: 4 });
    let steps = steps_along(k, SIDE);
    let store = || {
        let layout = Blocked::new([1, 2], [1, 32], [4, 1], [1, 0]);
        let mut at = pipeline.start();
        for step in range(0, steps) {
            let (row, column) = places(&layout, step * SIDE);
            let block = x.at(row * k + column).mask(column < k).other(0).load();
            let stage = pipeline.producer_acquire(at);
            stage.tiles.store(block);
            at = pipeline.commit(stage).advance();
        }
    };
    warp_specialize()
        .main(|| gram(pipeline, steps, out))
        .worker(Warps(4), store)
        .run();
}

/// `X · Xᵀ` for `X` of 64 rows.
fn reference(x: &[f32], k: usize) -> Vec<f32> {
    let row = |i: usize| &x[i * k..(i + 1) * k];
    let dot = |i, j| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
    let places = (0..SIDE).flat_map(|i| (0..SIDE).map(move |j| (i, j)));
    places.map(|(i, j)| dot(i, j)).collect()
}

/// Runs with as many columns as [`STEPS`] blocks, of which the last has `last`.
fn check_gram(last: usize, run: impl Fn(&Device, &Buffer<f16>, &Buffer<f32>, i32)) {
    let device = Device::emulator();
    for steps in STEPS {
        let k = (steps - 1) * SIDE + last;
        let x = numbers(SIDE * k);
        let halves: Vec<f16> = x.iter().map(|x| f16::from_f32(*x)).collect();
        let input = Buffer::from_slice(&device, &halves).expect("memory of the host");
        let out = Buffer::<f32>::zeros(&device, SIDE * SIDE).expect("memory of the host");
        run(&device, &input, &out, k as i32);
        let found = out.to_vec().expect("it has run");
        assert!(found == reference(&x, k), "{steps} steps");
    }
}

#[test]
fn cp_async_producers_fill_stages() {
    check_gram(40, |device, x, out, k| {
        launch(device, gram_by_copies::<3>, grid(1u32), (x, out, k)).expect("3 stages");
        launch(device, gram_by_copies::<1>, grid(1u32), (x, out, k)).expect("1 stage");
    });
}

#[test]
fn storing_producers_fill_stages() {
    check_gram(23, |device, x, out, k| {
        launch(device, gram_by_stores::<2>, grid(1u32), (x, out, k)).expect("2 stages");
        launch(device, gram_by_stores::<4>, grid(1u32), (x, out, k)).expect("4 stages");
    });
}

/// A block of rows, and a factor for each column of it.
#[derive(Clone, Copy, Aggregate)]
struct Scaled {
    rows: Smem<f32>,
    factors: Smem<f32>,
}

impl Payload for Scaled {
    type Stage = Scaled;
    fn stages(self) -> usize {
        (self.rows, self.factors).stages()
    }
    fn stage(self, index: Scalar<i32>) -> Scaled {
        let (rows, factors) = (self.rows, self.factors).stage(index);
        Scaled { rows, factors }
    }
    fn stage_bytes(self) -> usize {
        (self.rows, self.factors).stage_bytes()
    }
}

/// `out[c] = sum over r of x[r, c] · f[r / 16, c]`, of `rows` rows of 64; factors are loaded ahead into all stages, or with the rows.
#[kernel(warps = 4)]
fn scaled_sums<const AHEAD: bool>(
    #[block([16, 64], Nvmma::PLAIN)] x: TensorMap<f32>,
    #[block([1, 64], Nvmma::PLAIN)] f: TensorMap<f32>,
    out: Ptr<f32>,
    rows: i32,
) {
    let payload = Scaled {
        rows: Smem::alloc([3, 16, 64], x.layout()),
        factors: Smem::alloc([3, 1, 64], f.layout()),
    };
    let pipeline = Pipeline::new(payload, Producers::Tma, Consumers::warps(4));
    let steps = cdiv(rows, 16);
    let add = || {
        let layout = Blocked::new([16, 1], [1, 32], [1, 4], [1, 0]);
        let mut sums = zeros::<f32>([SIDE], Slice::new(0, layout.clone()));
        let mut at = pipeline.start();
        // Releases lag behind by a stage.
        let mut before = pipeline.nothing_held(&at);
        for step in range(0, steps) {
            let stage = pipeline.consumer_wait(at);
            let Scaled { rows, factors } = stage.tiles;
            let factors = factors.load(layout.clone()).sum(0);
            sums += rows.load(layout.clone()).sum(0) * factors;
            pipeline.consumer_release_when(step > 0, before);
            before = stage.hold();
            at = before.next();
        }
        pipeline.consumer_release(before);
        out.at(arange(0..SIDE, Slice::new(0, layout))).store(sums);
    };
    let copy = || {
        let mut at = pipeline.start();
        let ahead = if AHEAD { minimum(steps, 3) } else { scalar(0) };
        for step in range(0, ahead) {
            let stage = pipeline.producer_acquire(at);
            f.load((step, 0), stage.tiles.factors, stage.full);
            at = pipeline.commit(stage).advance();
        }
        let mut again = pipeline.start();
        for step in range(0, ahead) {
            let stage = pipeline.producer_resume(again);
            x.load((step * 16, 0), stage.tiles.rows, stage.full);
            again = pipeline.commit(stage).advance();
        }
        for step in range(ahead, steps) {
            let stage = pipeline.producer_acquire(at);
            x.load((step * 16, 0), stage.tiles.rows, stage.full);
            f.load((step, 0), stage.tiles.factors, stage.full);
            at = pipeline.commit(stage).advance();
        }
        pipeline.producer_tail(at);
    };
    warp_specialize().main(add).worker(Warps(1), copy).run();
}

/// Runs at one row, fewer steps than stages, a ragged step and more steps than stages.
fn check_scaled(run: impl Fn(&Device, [&TensorView<'_, f32>; 2], &Buffer<f32>, i32)) {
    let device = Device::emulator();
    for rows in [1, 16, 33, 160] {
        let steps = (rows as usize).div_ceil(16);
        let (x, f) = (numbers(rows as usize * SIDE), numbers(steps * SIDE));
        let buffers = [&x, &f].map(|x| Buffer::from_slice(&device, x).expect("memory of the host"));
        let out = Buffer::<f32>::zeros(&device, SIDE).expect("memory of the host");
        let maps = [
            &buffers[0].view([rows as usize, SIDE]),
            &buffers[1].view([steps, SIDE]),
        ];
        run(&device, maps, &out, rows);
        let term = |r: usize, c: usize| x[r * SIDE + c] * f[r / 16 * SIDE + c];
        let sum = |c| (0..rows as usize).map(|r| term(r, c)).sum::<f32>();
        let expected: Vec<f32> = (0..SIDE).map(sum).collect();
        assert_eq!(out.to_vec().expect("it has run"), expected, "{rows} rows");
    }
}

#[test]
fn a_struct_of_an_author_is_a_payload() {
    check_scaled(|device, [x, f], out, rows| {
        launch(device, scaled_sums::<false>, grid(1u32), (x, f, out, rows)).expect("it runs");
    });
}

#[test]
fn a_stage_is_filled_in_parts() {
    check_scaled(|device, [x, f], out, rows| {
        launch(device, scaled_sums::<true>, grid(1u32), (x, f, out, rows)).expect("it runs");
    });
}

#[kernel(warps = 4)]
fn stages_that_differ(out: Ptr<f32>) {
    let tiles = (
        Smem::<f16>::alloc([3, 64, 64], Nvmma::B128),
        Smem::<f16>::alloc([4, 64, 64], Nvmma::B128),
    );
    let pipeline = Pipeline::new(tiles, Producers::Tma, Consumers::warps(4));
    out.store(pipeline.start().index().cast::<f32>());
}

#[test]
fn buffers_of_different_numbers_of_stages_are_refused() {
    let found = mistakes(stages_that_differ);
    assert!(
        found.contains("the buffers of a pipeline have 3 and 4 stages"),
        "{found}"
    );
}

/// Consumers that forget to release: the producer waits for ever once all stages are full.
#[kernel(warps = 4)]
fn never_released(#[block([16, 64], Nvmma::PLAIN)] x: TensorMap<f32>, out: Ptr<f32>, steps: i32) {
    let pipeline = Pipeline::tma(x, 2, Consumers::warpgroups(1));
    let read = || {
        let layout = Blocked::new([16, 1], [1, 32], [1, 4], [1, 0]);
        let mut sums = zeros::<f32>([SIDE], Slice::new(0, layout.clone()));
        for step in range(0, steps) {
            let stage = pipeline.consumer_wait(pipeline.of_fill(step));
            sums += stage.tiles.load(layout.clone()).sum(0);
        }
        out.at(arange(0..SIDE, Slice::new(0, layout))).store(sums);
    };
    let copy = || {
        let mut at = pipeline.start();
        for step in range(0, steps) {
            let stage = pipeline.producer_acquire(at);
            x.load((step * 16, 0), stage.tiles, stage.full);
            at = pipeline.commit(stage).advance();
        }
    };
    warp_specialize().main(read).worker(Warps(1), copy).run();
}

/// The emulator reports it where the author waits, not in the library.
#[test]
fn a_forgotten_release_is_a_deadlock_at_the_authors_line() {
    let device = Device::emulator();
    let x = Buffer::<f32>::zeros(&device, 80 * SIDE).expect("memory of the host");
    let out = Buffer::<f32>::zeros(&device, SIDE).expect("memory of the host");
    let run = |steps| {
        let arguments = (x.view([80, SIDE]), &out, steps);
        launch(&device, never_released, grid(1u32), arguments)
    };
    run(2).expect("there are stages for two steps");
    let stuck = run(5).expect_err("nobody releases a stage").to_string();
    assert!(stuck.contains("tests/library/pipeline.rs"), "{stuck}");
    assert!(!stuck.contains("src/pipeline"), "{stuck}");
}

/// The tile of a cluster of two rows and two columns of CTAs, of which one of each row loads A and one of each column loads B.
#[kernel(warps = 4, cluster = 4)]
fn multicast_twice(
    #[block([128, 64], Nvmma::B128.with_ctas([[0, 0], [1, 0]]))] a: TensorMap<f16>,
    #[block([128, 64], Nvmma::B128.with_ctas([[1, 0], [0, 0]]))] b: TensorMap<f16>,
    #[block([128, 128], Nvmma::B128.with_ctas([[0, 1], [1, 0]]))] c: TensorMap<f16>,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), 2, Consumers::warpgroups(1));
    let pipeline = pipeline.multicasting(a).multicasting(b);
    let steps = steps_along(k, 64);
    cluster_barrier_relaxed();
    let multiply = || {
        let sums = Wgmma::new([4, 1], [64, 64, 16]).with_ctas([[0, 1], [1, 0]]);
        let mut acc = Accumulator::<f32>::zeros([128, 128], sums);
        let mut at = pipeline.start();
        for _ in range(0, steps) {
            let stage = pipeline.consumer_wait(at);
            let (a, b) = stage.tiles;
            acc = acc.mma(a, b.transpose()).wait(0);
            at = pipeline.consumer_release(stage).advance();
        }
        let tile = Smem::alloc_with(acc.wait_all().cast::<f16>(), c.layout());
        c.store([0, 0], tile);
        tma_store_wait_read(0);
    };
    let copy = || {
        let mut at = pipeline.start();
        for step in range(0, steps) {
            let stage = pipeline.producer_acquire(at);
            let (a_tile, b_tile) = stage.tiles;
            let origin = (scalar(0), step * 64);
            a.copy().multicast_copies().load(origin, a_tile, stage.full);
            b.copy().multicast_copies().load(origin, b_tile, stage.full);
            at = pipeline.commit(stage).advance();
        }
        pipeline.producer_tail(at);
    };
    warp_specialize()
        .main(multiply)
        .worker(Warps(1), copy)
        .run();
}

#[test]
fn both_operands_are_multicast_to_the_ctas_that_share_them() {
    for seed in 0..4 {
        let device = Device::emulator_with_seed(seed);
        // More steps than stages, and a ragged tile.
        let (m, n, k) = (120, 104, 200);
        let factors = [m, n].map(|rows| {
            let numbers = numbers(rows * k).into_iter();
            numbers.map(f16::from_f32).collect::<Vec<_>>()
        });
        let [a, b] =
            [0, 1].map(|at| Buffer::from_slice(&device, &factors[at]).expect("memory of the host"));
        let c = Buffer::<f16>::zeros(&device, m * n).expect("memory of the host");
        let arguments = (a.view([m, k]), b.view([n, k]), c.view([m, n]), k as i32);
        launch(&device, multicast_twice, grid(4u32), arguments).expect("it runs");
        let sum = |at: usize| {
            let (x, y) = (
                &factors[0][at / n * k..][..k],
                &factors[1][at % n * k..][..k],
            );
            let terms = x.iter().zip(y).map(|(x, y)| x.to_f64() * y.to_f64());
            f16::from_f64(terms.sum())
        };
        let expected: Vec<f16> = (0..m * n).map(sum).collect();
        assert_eq!(c.to_vec().expect("it has run"), expected);
    }
}

#[kernel(warps = 4, cluster = 2)]
fn a_grid_of_another_size(#[block([64, 64], Nvmma::B128)] x: TensorMap<f16>, out: Ptr<i32>) {
    let consumers = Consumers::warpgroups(1).of_grid([2, 2]);
    out.store(Pipeline::tma(x, 2, consumers).start().index());
}

#[test]
fn a_consumer_grid_other_than_the_cluster_is_refused() {
    let found = mistakes(a_grid_of_another_size);
    let wanted = "a cluster has 2 CTAs, and 2 by 2 share tiles";
    assert!(found.contains(wanted), "{found}");
}

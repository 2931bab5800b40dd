//! Products over several ranks as a program calls them.

use tilekit::World;
use tilekit::prelude::*;
use tilekit_kernels::parallel::{Options, Parallel, ReducePlan, Variant};
use tilekit_kernels::products::Activation;

use crate::matrices::{Lies, Matrices, Whole};
use crate::ranks::world;

fn product(a: &[Vec<f64>], b: &[Vec<f64>], n: usize) -> Vec<Vec<f64>> {
    let dot = |x: &[f64], j: usize| x.iter().zip(b).map(|(x, y)| x * y[j]).sum::<f64>();
    let of_row = |x: &Vec<f64>| (0..n).map(|j| dot(x, j)).collect();
    a.iter().map(of_row).collect()
}

/// `[rows of a rank, N, K]`, and how A, B and C lie.
type Shape = ([usize; 3], [Lies; 3]);

fn gathers<T: Whole>(parallel: &Parallel<'_>, world: &World, (size, lies): Shape) {
    let (ranks, [m, n, k]) = (world.ranks(), size);
    let a = Matrices::<T>::new(world, [m, k], lies[0], 1);
    let b = Matrices::<T>::new(world, [k, n], lies[1], 20);
    let c = Matrices::<T>::of(world, [ranks * m, n], lies[2], |_, _| f32::NAN);
    parallel
        .gather_multiply(&a.views(), &b.views(), &c.views())
        .unwrap();
    world.synchronize().unwrap();
    let all: Vec<Vec<f64>> = a.rows().concat();
    for (rank, (b, c)) in b.rows().iter().zip(c.rows()).enumerate() {
        assert_eq!(c, product(&all, b, n), "{size:?} on rank {rank} of {ranks}");
    }
}

fn scatters<T: Whole>(parallel: &Parallel<'_>, world: &World, (size, lies): Shape) {
    let (ranks, [m, n, k]) = (world.ranks(), size);
    let a = Matrices::<T>::new(world, [ranks * m, k], lies[0], 1);
    let b = Matrices::<T>::new(world, [k, n], lies[1], 20);
    let c = Matrices::<T>::of(world, [m, n], lies[2], |_, _| f32::NAN);
    parallel
        .multiply_scatter(&a.views(), &b.views(), &c.views())
        .unwrap();
    world.synchronize().unwrap();
    let ranks_of = a.rows().into_iter().zip(b.rows());
    let products: Vec<Vec<Vec<f64>>> = ranks_of.map(|(a, b)| product(&a, &b, n)).collect();
    for (rank, c) in c.rows().iter().enumerate() {
        for (i, row) in c.iter().enumerate() {
            let sum = |j: usize| products.iter().map(|of| of[rank * m + i][j]).sum::<f64>();
            let want: Vec<f64> = (0..n).map(sum).collect();
            assert_eq!(row, &want, "{size:?}: row {i} on rank {rank} of {ranks}");
        }
    }
}

/// Which of the plans of a sum are taken.
#[derive(Clone, Copy)]
enum By {
    /// That with the least time.
    First,
    /// That by which sums pass from rank to rank.
    TwoShot,
    All,
    /// Those of one shot with tiles of so many columns, in clusters of 1 and 2.
    Columns(usize),
}

/// M is that of the sum.
fn reduces<T: Whole>(parallel: &Parallel<'_>, world: &World, (size, lies): Shape, by: By) {
    let (ranks, [m, n, k]) = (world.ranks(), size);
    let a = Matrices::<T>::new(world, [m, k], lies[0], 1);
    let b = Matrices::<T>::new(world, [k, n], lies[1], 20);
    let (of_a, of_b) = (a.views(), b.views());
    let c = || Matrices::<T>::of(world, [m, n], lies[2], |_, _| f32::NAN);
    let plans = parallel.reduce_plans(&of_a, &of_b, &c().views()).unwrap();
    let ranks_of = a.rows().into_iter().zip(b.rows());
    let products: Vec<Vec<Vec<f64>>> = ranks_of.map(|(a, b)| product(&a, &b, n)).collect();
    let is_taken = |at: usize, plan: &ReducePlan| match by {
        By::First => at == 0,
        By::TwoShot => matches!(plan.variant, Variant::TwoShot(_)),
        By::Columns(columns) => {
            matches!(plan.variant, Variant::OneShot(tile) if tile.columns == columns && tile.ctas < 4)
        }
        // Of some twenty tiles some: each takes a second on the emulator.
        By::All => at.is_multiple_of(4) || matches!(plan.variant, Variant::TwoShot(_)),
    };
    let taken = plans.iter().enumerate();
    for (_, plan) in taken.filter(|(at, plan)| is_taken(*at, plan)) {
        let c = c();
        let (both, options) = ([&of_a[..], &of_b[..]], Options::default());
        let called = parallel.multiply_reduce_planned(both, &c.views(), &options, plan);
        called.unwrap();
        world.synchronize().unwrap();
        for (rank, c) in c.rows().iter().enumerate() {
            for (i, row) in c.iter().enumerate() {
                let sum = |j: usize| products.iter().map(|of| of[i][j]).sum::<f64>();
                let want: Vec<f64> = (0..n).map(sum).collect();
                assert_eq!(
                    row, &want,
                    "{plan}, {size:?}: row {i} on rank {rank} of {ranks}"
                );
            }
        }
    }
}

use Lies::{Columns, Rows, Wide};

/// Numbers of ranks; sizes of a rank, which are no multiples of anything, in every way to lie.
const RANKS: &[(usize, &[Shape])] = &[
    (1, &[([24, 40, 24], [Rows; 3]), ([9, 65, 28], [Columns; 3])]),
    (
        2,
        &[
            ([9, 65, 28], [Rows, Columns, Wide(3)]),
            ([130, 17, 8], [Columns, Wide(7), Columns]),
            ([1, 1, 1], [Wide(7), Columns, Rows]),
        ],
    ),
    (3, &[([24, 40, 24], [Columns, Rows, Rows])]),
    (8, &[([8, 24, 24], [Rows; 3])]),
    (16, &[([3, 8, 9], [Rows; 3])]),
];

#[test]
fn all_numbers_of_ranks_gather_and_multiply() {
    for (ranks, shapes) in RANKS {
        let world = world(*ranks, *ranks as u64);
        let parallel = Parallel::new(&world);
        for shape in *shapes {
            gathers::<bf16>(&parallel, &world, *shape);
        }
    }
}

#[test]
fn all_numbers_of_ranks_multiply_and_scatter() {
    for (ranks, shapes) in RANKS {
        let world = world(*ranks, *ranks as u64);
        let parallel = Parallel::new(&world);
        for shape in *shapes {
            scatters::<bf16>(&parallel, &world, *shape);
        }
    }
}

#[test]
fn all_numbers_of_ranks_multiply_and_reduce() {
    for (ranks, shapes) in &RANKS[1..] {
        let world = world(*ranks, *ranks as u64);
        let parallel = Parallel::new(&world);
        for ([m, n, k], lies) in *shapes {
            let whole = ([ranks * m, *n, *k], *lies);
            reduces::<bf16>(&parallel, &world, whole, By::TwoShot);
        }
    }
}

#[test]
fn every_kernel_reduces_few_rows() {
    let world = world(2, 3);
    let parallel = Parallel::new(&world);
    let lies = [Rows, Columns, Wide(3)];
    reduces::<bf16>(&parallel, &world, ([18, 65, 72], lies), By::All);
    let lies = [Wide(7), Rows, Columns];
    reduces::<f16>(&parallel, &world, ([1, 129, 40], lies), By::First);
}

/// Pieces of the last ranks are empty, full and ragged in turns, and slots are used again.
#[test]
fn few_rows_pass_between_four_ranks_in_two_steps() {
    let world = world(4, 2);
    let parallel = Parallel::new(&world);
    for rows in [61, 20, 64, 3] {
        let shape = ([rows, 72, 40], [Rows, Columns, Wide(3)]);
        reduces::<bf16>(&parallel, &world, shape, By::Columns(64));
    }
    let shape = ([30, 136, 24], [Rows; 3]);
    reduces::<f16>(&parallel, &world, shape, By::Columns(32));
}

#[test]
fn rows_of_a_sum_need_not_be_divided_evenly() {
    for ranks in [3, 8] {
        let world = world(ranks, ranks as u64);
        let parallel = Parallel::new(&world);
        let reduce = |size, lies, by| reduces::<bf16>(&parallel, &world, (size, lies), by);
        reduce([1, 72, 24], [Rows; 3], By::First);
        reduce([19, 9, 8], [Rows; 3], By::First);
        reduce([19, 9, 8], [Rows; 3], By::TwoShot);
        reduce([17, 40, 24], [Wide(3), Rows, Columns], By::TwoShot);
        // A lies along M, and is copied to lie along K.
        reduce(
            [8 * (ranks + 1), 40, 24],
            [Columns, Rows, Wide(3)],
            By::TwoShot,
        );
        reduce([1, 8, 0], [Rows; 3], By::TwoShot);
    }
}

/// A bias, a residual and an activation, once for each element, by all kernels.
#[test]
fn sums_over_ranks_are_finished_once() {
    let world = world(2, 10);
    let parallel = Parallel::new(&world);
    let (m, n, k) = (6, 40, 24);
    let of = |shape, seed| Matrices::<bf16>::new(&world, shape, Rows, seed);
    let (a, b, whole_b) = (of([2 * m, k], 1), of([k, n], 2), of([k, n], 5));
    let (residual, part) = (of([2 * m, n], 3), of([m, n], 3));
    // The same on both ranks, as of a layer that they divide.
    let bias: Vec<bf16> = (0..n)
        .map(|j| bf16::from_f32((j % 7) as f32 - 3.0))
        .collect();
    let devices = world.devices().iter();
    let bias = devices.map(|device| Buffer::from_slice(device, &bias).unwrap());
    let bias: Vec<Buffer<bf16>> = bias.collect();
    let of_bias: Vec<&Buffer<bf16>> = bias.iter().collect();
    let finished =
        |sum: f64, j: usize, residual: f64| (sum + (j % 7) as f64 - 3.0 + residual).max(0.0);
    let check = |c: &Matrices<bf16>,
                 residual: &Matrices<bf16>,
                 sum: &dyn Fn(usize, usize, usize) -> f64| {
        let residuals = residual.rows();
        for (rank, c) in c.rows().iter().enumerate() {
            for (i, row) in c.iter().enumerate() {
                let want = |j: usize| finished(sum(rank, i, j), j, residuals[rank][i][j]);
                let want: Vec<f64> = (0..n).map(want).collect();
                assert_eq!(row, &want, "row {i} on rank {rank}");
            }
        }
    };
    let nan = |shape| Matrices::<bf16>::of(&world, shape, Rows, |_, _| f32::NAN);
    let ranks_of = a.rows().into_iter().zip(b.rows());
    let products: Vec<Vec<Vec<f64>>> = ranks_of.map(|(a, b)| product(&a, &b, n)).collect();
    let sum = |i: usize, j: usize| products.iter().map(|of| of[i][j]).sum::<f64>();

    let whole = Matrices::<bf16>::of(&world, [2 * m, n], Rows, |_, at| (at % 3) as f32 - 1.0);
    let of_whole = whole.views();
    let options = Options {
        bias: Some(&of_bias),
        residual: Some(&of_whole),
        activation: Activation::Relu,
    };
    let (of_a, of_b) = (a.views(), b.views());
    for plan in parallel
        .reduce_plans(&of_a, &of_b, &nan([2 * m, n]).views())
        .unwrap()
    {
        let c = nan([2 * m, n]);
        let called = parallel.multiply_reduce_planned([&of_a, &of_b], &c.views(), &options, &plan);
        called.unwrap();
        world.synchronize().unwrap();
        check(&c, &whole, &|_, i, j| sum(i, j));
    }

    let of_part = part.views();
    let options = Options {
        residual: Some(&of_part),
        ..options
    };
    let c = nan([m, n]);
    let called = parallel.multiply_scatter_with(&of_a, &of_b, &c.views(), &options);
    called.unwrap();
    world.synchronize().unwrap();
    check(&c, &part, &|rank, i, j| sum(rank * m + i, j));

    let own = of([m, k], 1);
    let of_residual = residual.views();
    let options = Options {
        residual: Some(&of_residual),
        ..options
    };
    let c = nan([2 * m, n]);
    let called =
        parallel.gather_multiply_with(&own.views(), &whole_b.views(), &c.views(), &options);
    called.unwrap();
    world.synchronize().unwrap();
    let all: Vec<Vec<f64>> = own.rows().concat();
    let products: Vec<Vec<Vec<f64>>> = whole_b.rows().iter().map(|b| product(&all, b, n)).collect();
    check(&c, &residual, &|rank, i, j| products[rank][i][j]);
}

/// Rows that are copied to where there is room for more of them are finished once too, and those behind them go nowhere.
#[test]
fn sums_of_rows_that_are_not_divided_evenly_are_finished_once() {
    for (ranks, rows) in [(3, 7), (8, 19)] {
        let world = world(ranks, ranks as u64);
        let parallel = Parallel::new(&world);
        let (n, k) = (24, 16);
        let of = |shape, seed| Matrices::<bf16>::new(&world, shape, Rows, seed);
        let (a, b) = (of([rows, k], 1), of([k, n], 2));
        // The same on all ranks, as of a layer that they divide.
        let alike =
            |shape, lies| Matrices::<bf16>::of(&world, shape, lies, |_, at| (at % 5) as f32 - 2.0);
        let residual = alike([rows, n], Wide(3));
        let of_column = |j: usize| (j % 7) as f32 - 3.0;
        let bias: Vec<bf16> = (0..n).map(of_column).map(bf16::from_f32).collect();
        let devices = world.devices().iter();
        let bias = devices.map(|device| Buffer::from_slice(device, &bias).unwrap());
        let bias: Vec<Buffer<bf16>> = bias.collect();
        let of_bias: Vec<&Buffer<bf16>> = bias.iter().collect();
        let of_residual = residual.views();
        let options = Options {
            bias: Some(&of_bias),
            residual: Some(&of_residual),
            activation: Activation::Relu,
        };
        let ranks_of = a.rows().into_iter().zip(b.rows());
        let products: Vec<Vec<Vec<f64>>> = ranks_of.map(|(a, b)| product(&a, &b, n)).collect();
        let added = residual.rows();
        let (of_a, of_b) = (a.views(), b.views());
        let nan = || Matrices::<bf16>::of(&world, [rows, n], Rows, |_, _| f32::NAN);
        let plans = parallel.reduce_plans(&of_a, &of_b, &nan().views()).unwrap();
        let two_shot = plans
            .iter()
            .find(|plan| matches!(plan.variant, Variant::TwoShot(_)));
        for plan in [plans.first(), two_shot].into_iter().flatten() {
            let c = nan();
            let called =
                parallel.multiply_reduce_planned([&of_a, &of_b], &c.views(), &options, plan);
            called.unwrap();
            world.synchronize().unwrap();
            for (rank, c) in c.rows().iter().enumerate() {
                for (i, row) in c.iter().enumerate() {
                    let want = |j: usize| {
                        let sum: f64 = products.iter().map(|of| of[i][j]).sum();
                        (sum + f64::from(of_column(j)) + added[0][i][j]).max(0.0)
                    };
                    let want: Vec<f64> = (0..n).map(want).collect();
                    assert_eq!(row, &want, "{plan}: row {i} on rank {rank} of {ranks}");
                }
            }
        }
    }
}

#[test]
fn calls_of_other_shapes_and_types_follow_each_other_on_the_same_memory() {
    let world = world(4, 5);
    let parallel = Parallel::new(&world);
    let small = ([8, 24, 40], [Rows; 3]);
    let large = ([136, 136, 40], [Rows; 3]);
    for _ in 0..2 {
        gathers::<bf16>(&parallel, &world, small);
        scatters::<bf16>(&parallel, &world, large);
        gathers::<bf16>(&parallel, &world, large);
        gathers::<f16>(&parallel, &world, small);
        reduces::<bf16>(&parallel, &world, ([32, 24, 40], [Rows; 3]), By::TwoShot);
        reduces::<f16>(&parallel, &world, ([5, 72, 40], [Rows; 3]), By::First);
        scatters::<f16>(&parallel, &world, small);
    }
}

#[test]
fn no_depth_is_a_product_of_zeros() {
    let world = world(2, 0);
    let parallel = Parallel::new(&world);
    gathers::<bf16>(&parallel, &world, ([8, 8, 0], [Rows; 3]));
    scatters::<bf16>(&parallel, &world, ([8, 8, 0], [Rows; 3]));
    gathers::<bf16>(&parallel, &world, ([0, 8, 8], [Rows; 3]));
    scatters::<bf16>(&parallel, &world, ([8, 0, 8], [Rows; 3]));
    reduces::<bf16>(&parallel, &world, ([8, 8, 0], [Rows; 3]), By::First);
    let of = |shape: [usize; 2]| Matrices::<bf16>::new(&world, shape, Rows, 1);
    for [m, n] in [[0, 8], [3, 0]] {
        let (a, b, c) = (of([m, 8]), of([8, n]), of([m, n]));
        let nothing = parallel.multiply_reduce(&a.views(), &b.views(), &c.views());
        nothing.unwrap();
    }
}

/// Results do not depend on who is faster.
#[test]
fn sums_of_ranks_are_the_same_bits_in_every_schedule() {
    let results = (0..4).map(|seed| {
        let world = world(4, seed);
        let parallel = Parallel::new(&world);
        let number = |rank: usize, at: usize| ((rank * 977 + at * 613) % 1009) as f32 / 504.5 - 1.0;
        let a = Matrices::<bf16>::of(&world, [4 * 16, 72], Rows, number);
        let b = Matrices::<bf16>::of(&world, [72, 24], Rows, |rank, at| number(rank + 4, at));
        let c = Matrices::<bf16>::of(&world, [16, 24], Rows, |_, _| f32::NAN);
        let few = Matrices::<bf16>::of(&world, [3, 72], Rows, number);
        let whole = Matrices::<bf16>::of(&world, [3, 24], Rows, |_, _| f32::NAN);
        parallel
            .multiply_scatter(&a.views(), &b.views(), &c.views())
            .unwrap();
        parallel
            .multiply_reduce(&few.views(), &b.views(), &whole.views())
            .unwrap();
        world.synchronize().unwrap();
        let whole = whole.rows();
        assert!(whole.iter().all(|of_rank| *of_rank == whole[0]));
        (c.rows(), whole)
    });
    let results: Vec<_> = results.collect();
    assert!(results.iter().all(|result| *result == results[0]));
}

/// Packets of launches that follow each other in a graph are told apart, of other shapes too.
#[test]
fn captured_sums_of_few_rows_are_replayed_with_new_numbers() {
    let world = world(2, 11);
    let parallel = Parallel::new(&world);
    let b = Matrices::<bf16>::new(&world, [40, 72], Rows, 2);
    let of_b = b.views();
    let shapes = [1, 3].map(|m| {
        let a = Matrices::<bf16>::new(&world, [m, 40], Rows, m);
        (
            a,
            Matrices::<bf16>::of(&world, [m, 72], Rows, |_, _| f32::NAN),
        )
    });
    let views = shapes.each_ref().map(|(a, c)| (a.views(), c.views()));
    let call = || {
        for (a, c) in &views {
            let plan = parallel.reduce_plans(a, &of_b, c).unwrap()[0];
            assert!(matches!(plan.variant, Variant::OneShot(_)), "{plan}");
            parallel.multiply_reduce(a, &of_b, c).unwrap();
        }
    };
    // What is compiled and allocated is so before.
    call();
    let graph = world.capture(|| {
        (0..2).for_each(|_| call());
        Ok(())
    });
    let graph = graph.unwrap();
    for round in 0..2 {
        for (a, _) in &shapes {
            for (rank, buffer) in a.buffers.iter().enumerate() {
                let numbers =
                    (0..buffer.len()).map(|at| ((at * 5 + rank + round) % 3) as f32 - 1.0);
                let numbers: Vec<bf16> = numbers.map(bf16::from_f32).collect();
                buffer.write(&numbers).unwrap();
            }
        }
        world.replay(&graph).unwrap();
        world.synchronize().unwrap();
        for (a, c) in &shapes {
            let ranks_of = a.rows().into_iter().zip(b.rows());
            let products: Vec<Vec<Vec<f64>>> = ranks_of.map(|(a, b)| product(&a, &b, 72)).collect();
            let sum = |i: usize, j: usize| products[0][i][j] + products[1][i][j];
            let want: Vec<Vec<f64>> = (0..a.shape[0])
                .map(|i| (0..72).map(|j| sum(i, j)).collect())
                .collect();
            assert!(c.rows().iter().all(|c| *c == want), "replay {round}");
        }
    }
}

#[test]
fn a_captured_call_is_replayed_with_new_numbers() {
    let world = world(2, 7);
    let parallel = Parallel::new(&world);
    let a = Matrices::<bf16>::new(&world, [16, 24], Rows, 1);
    let b = Matrices::<bf16>::new(&world, [24, 40], Rows, 2);
    let c = Matrices::<bf16>::of(&world, [32, 40], Rows, |_, _| f32::NAN);
    let (of_a, of_b, of_c) = (a.views(), b.views(), c.views());
    // What is compiled and allocated is so before.
    parallel.gather_multiply(&of_a, &of_b, &of_c).unwrap();
    let record = || {
        for _ in 0..2 {
            let called = parallel.gather_multiply(&of_a, &of_b, &of_c);
            called.expect("the same call as before");
        }
        Ok(())
    };
    let graph = world.capture(record).unwrap();
    for round in 0..3 {
        for (rank, buffer) in a.buffers.iter().enumerate() {
            let numbers = (0..buffer.len()).map(|at| ((at * 5 + rank + round) % 3) as f32 - 1.0);
            let numbers: Vec<bf16> = numbers.map(bf16::from_f32).collect();
            buffer.write(&numbers).unwrap();
        }
        world.replay(&graph).unwrap();
        world.synchronize().unwrap();
        let all: Vec<Vec<f64>> = a.rows().concat();
        for (b, c) in b.rows().iter().zip(c.rows()) {
            assert_eq!(c, product(&all, b, 40), "replay {round}");
        }
    }
}

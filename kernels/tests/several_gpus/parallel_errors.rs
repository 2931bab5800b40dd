//! What calls of products over several ranks refuse, and ranks that are late.

use std::time::Duration;

use tilekit::prelude::*;
use tilekit_kernels::parallel::{Options, Parallel, ReducePlan, Variant};

use crate::matrices::Lies::Rows;
use crate::matrices::Matrices;
use crate::ranks::{emulated, world};

#[track_caller]
fn says(result: tilekit_kernels::products::Result<()>, expected: &str) {
    assert_eq!(result.unwrap_err().to_string(), expected);
}

#[test]
fn a_wait_past_the_limit_ends_the_kernel_and_says_what_is_late() {
    // A GPU is of no more use to the process behind a trap.
    let world = emulated(2, 0);
    // No wait is that short, unless what it waits for was there before.
    let parallel = Parallel::new(&world).with_limit(Duration::from_nanos(1));
    let of = |shape: [usize; 2]| Matrices::<bf16>::new(&world, shape, Rows, 1);
    let (a, b, c) = (of([16, 24]), of([24, 40]), of([32, 40]));
    let ended = parallel.gather_multiply(&a.views(), &b.views(), &c.views());
    let ended = ended.and_then(|()| Ok(world.synchronize()?));
    ended.expect_err("rank 1 takes longer");
    let said = [0, 1].map(|rank| world.late(rank).read(0..1).unwrap()[0]);
    assert!(said.iter().any(|&word| word & 0xffff_ffff == 1), "{said:?}");
}

#[test]
fn a_rank_whose_part_of_few_rows_is_late_is_named() {
    // Between four ranks in two steps.
    for (ranks, rows, columns) in [(2, 3, 16), (4, 61, 64)] {
        // A GPU is of no more use to the process behind a trap.
        let world = emulated(ranks, 0);
        let parallel = Parallel::new(&world).with_limit(Duration::from_nanos(1));
        let of = |shape: [usize; 2]| Matrices::<bf16>::new(&world, shape, Rows, 1);
        let (a, b, c) = (of([rows, 24]), of([24, 40]), of([rows, 40]));
        let (of_a, of_b, of_c) = (a.views(), b.views(), c.views());
        let plans = parallel.reduce_plans(&of_a, &of_b, &of_c).unwrap();
        let is_taken = |plan: &&ReducePlan| matches!(plan.variant, Variant::OneShot(tile) if tile.columns == columns);
        let plan = plans.iter().find(is_taken).unwrap();
        let options = Options::default();
        let ended = parallel.multiply_reduce_planned([&of_a, &of_b], &of_c, &options, plan);
        let ended = ended.and_then(|()| Ok(world.synchronize()?));
        ended.expect_err("a rank takes longer");
        let said = (0..ranks).map(|rank| world.late(rank).read(0..1).unwrap()[0]);
        let said: Vec<i64> = said.collect();
        // Each waits for another.
        let is_named = |rank: usize| {
            let named = said[rank] >> 32;
            said[rank] & 0xffff_ffff == 1 && named != rank as i64 && named < ranks as i64
        };
        assert!((0..ranks).any(is_named), "{said:?}");
    }
}

#[test]
fn what_does_not_fit_is_named_with_its_rank() {
    let world = world(2, 0);
    let parallel = Parallel::new(&world);
    let of = |shape: [usize; 2]| Matrices::<bf16>::new(&world, shape, Rows, 1);
    let (a, b, c) = (of([16, 24]), of([24, 40]), of([32, 40]));
    let (of_a, of_b, of_c) = (a.views(), b.views(), c.views());
    says(
        parallel.gather_multiply(&of_a[..1], &of_b, &of_c),
        "product over ranks: `a`: found 1 matrices; expected 2: one for each rank",
    );
    let short = [[16, 24], [8, 24]];
    let short: Vec<_> = a
        .buffers
        .iter()
        .zip(short)
        .map(|(a, shape)| a.view(shape))
        .collect();
    says(
        parallel.gather_multiply(&short, &of_b, &of_c),
        "product over ranks: `a`: found shape [8, 24] on rank 1; expected [16, 24], as on rank 0",
    );
    says(
        parallel.gather_multiply(&of_b, &of_b, &of_c),
        "product over ranks: `b`: found 24 rows; expected 40, the columns of a",
    );
    says(
        parallel.gather_multiply(&of_a, &of_b, &of_a),
        "product over ranks: `c`: found shape [16, 24]; expected [32, 40]: the rows of a of all ranks, the columns of b",
    );
    let odd = of([15, 24]);
    says(
        parallel.multiply_scatter(&odd.views(), &of_b, &of_c),
        "product over ranks: `a`: found 15 rows; expected a multiple of 2: as many for each rank",
    );
    says(
        parallel.multiply_scatter(&of_a, &of_b, &of_c),
        "product over ranks: `c`: found shape [32, 40]; expected [8, 40]: rows of a for each rank, the columns of b",
    );
    let few = [&b.buffers[0]];
    let options = Options {
        bias: Some(&few),
        ..Options::default()
    };
    says(
        parallel.gather_multiply_with(&of_a, &of_b, &of_c, &options),
        "product over ranks: `options.bias`: found 1 buffers; expected 2: one for each rank",
    );
    let long: Vec<&Buffer<bf16>> = b.buffers.iter().collect();
    let options = Options {
        bias: Some(&long),
        ..Options::default()
    };
    says(
        parallel.gather_multiply_with(&of_a, &of_b, &of_c, &options),
        "product over ranks: `options.bias`: found 1000 numbers on rank 0; expected 40: one for each column of c",
    );
    let options = Options {
        residual: Some(&of_a),
        ..Options::default()
    };
    says(
        parallel.gather_multiply_with(&of_a, &of_b, &of_c, &options),
        "product over ranks: `options.residual`: found shape [16, 24]; expected [32, 40], as c",
    );
    // Other ranks still read A where C is stored.
    let room = of([34, 40]);
    let buffers = room.buffers.iter();
    let inside: Vec<_> = buffers.clone().map(|room| room.view([16, 24])).collect();
    let around: Vec<_> = buffers.clone().map(|room| room.view([32, 40])).collect();
    says(
        parallel.gather_multiply(&inside, &of_b, &around),
        "product over ranks: `c`: found memory of a on rank 0; expected memory of its own",
    );
    let shifted: Vec<_> = buffers
        .map(|room| room.view([32, 40]).with_offset(40))
        .collect();
    let options = Options {
        residual: Some(&shifted),
        ..Options::default()
    };
    says(
        parallel.gather_multiply_with(&of_a, &of_b, &around, &options),
        "product over ranks: `c`: found memory of options.residual on rank 0; expected memory of its own",
    );
    let devices = world.devices().iter();
    let row: Vec<_> = devices
        .map(|device| Buffer::<bf16>::zeros(device, 40).unwrap())
        .collect();
    let biases: Vec<&Buffer<bf16>> = row.iter().collect();
    let rows: Vec<_> = biases.iter().map(|bias| bias.view([1, 40])).collect();
    let of_row: Vec<_> = a.buffers.iter().map(|a| a.view([1, 24])).collect();
    let options = Options {
        bias: Some(&biases),
        ..Options::default()
    };
    says(
        parallel.multiply_reduce_with(&of_row, &of_b, &rows, &options),
        "product over ranks: `c`: found memory of options.bias on rank 0; expected memory of its own",
    );
    let in_place = Options {
        residual: Some(&around),
        ..Options::default()
    };
    parallel
        .gather_multiply_with(&of_a, &of_b, &around, &in_place)
        .unwrap();
}

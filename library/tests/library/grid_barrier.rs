//! Barriers of all CTAs of a launch.

use tilekit::prelude::*;

use crate::{launch, mistakes};

/// Each CTA writes its number in each round, and reads that of its neighbours after the barrier. A second barrier keeps it from overwriting what they
/// still read. `wrong` counts what was not from this round.
#[device]
fn rounds(numbers: Ptr<i32>, wrong: Ptr<i32>, word: Ptr<u64>, steps: Scalar<i32>, me: Scalar<i32>) {
    let ctas = num_programs(0) * num_programs(1) * num_programs(2);
    let barrier = GridBarrier::new(word);
    let mut bad = scalar(0);
    for step in range(0, steps) {
        numbers.at(me).store(me + step * 1000);
        let arrived = barrier.arrive();
        let next = (me + 1) % ctas;
        let previous = (me + ctas - 1) % ctas;
        barrier.wait(arrived);
        for other in [next, previous] {
            if numbers.at(other).load() != other + step * 1000 {
                bad += 1;
            }
        }
        barrier.sync();
    }
    wrong.at(me).store(bad);
}

#[kernel(warps = 2, cooperative)]
fn in_a_line(numbers: Ptr<i32>, wrong: Ptr<i32>, word: Ptr<u64>, steps: i32) {
    rounds(numbers, wrong, word, steps, program_id(0));
}

#[kernel(warps = 1, cooperative)]
fn in_a_box(numbers: Ptr<i32>, wrong: Ptr<i32>, word: Ptr<u64>, steps: i32) {
    let row = program_id(2) * num_programs(1) + program_id(1);
    let me = row * num_programs(0) + program_id(0);
    rounds(numbers, wrong, word, steps, me);
}

#[kernel(warps = 1, cluster = 2, cooperative)]
fn in_clusters(numbers: Ptr<i32>, wrong: Ptr<i32>, word: Ptr<u64>, steps: i32) {
    rounds(numbers, wrong, word, steps, program_id(0));
}

/// A partition of one warp synchronizes with that of the other CTAs, while the rest of the CTA does something else.
#[kernel(warps = 4, cooperative)]
fn in_a_partition(numbers: Ptr<i32>, wrong: Ptr<i32>, word: Ptr<u64>, steps: i32) {
    let me = program_id(0);
    warp_specialize()
        .main(|| {})
        .worker(Warps(1), || rounds(numbers, wrong, word, steps, me))
        .run();
}

fn buffers(device: &Device, ctas: usize) -> (Buffer<i32>, Buffer<i32>) {
    let numbers = Buffer::zeros(device, ctas).expect("memory of the host");
    let wrong = Buffer::from_slice(device, &vec![-1; ctas]).expect("memory of the host");
    (numbers, wrong)
}

#[test]
fn writes_before_a_grid_barrier_are_visible_to_all_ctas() {
    // Several orders of warps and CTAs.
    for seed in [0, 1, 2] {
        let device = Device::emulator_with_seed(seed);
        let word = Buffer::<u64>::zeros(&device, 1).expect("memory of the host");
        let mut epochs = 0;
        // One word for all launches, whatever their grids; more CTAs than an emulated GPU starts at once else.
        for (ctas, steps) in [(1, 2), (7, 5), (2, 3), (600, 2), (132, 0)] {
            let (numbers, wrong) = buffers(&device, ctas);
            launch(
                &device,
                in_a_line,
                grid(ctas),
                (&numbers, &wrong, &word, steps),
            )
            .expect("it runs");
            epochs += 2 * steps as u64;
            assert_eq!(wrong.to_vec().expect("it has run"), vec![0; ctas]);
            assert_eq!(word.to_vec().expect("it has run"), [epochs << 32]);
        }
    }
}

#[test]
fn a_grid_barrier_works_in_three_dimensional_grids_clusters_and_partitions() {
    let device = Device::emulator();
    let word = Buffer::<u64>::zeros(&device, 1).expect("memory of the host");
    let (numbers, wrong) = buffers(&device, 30);
    let arguments = (&numbers, &wrong, &word, 3);
    launch(&device, in_a_box, grid([2, 3, 5]), arguments).expect("it runs");
    assert_eq!(wrong.to_vec().expect("it has run"), vec![0; 30]);
    launch(&device, in_clusters, grid(30), arguments).expect("it runs");
    assert_eq!(wrong.to_vec().expect("it has run"), vec![0; 30]);
    launch(&device, in_a_partition, grid(30), arguments).expect("it runs");
    assert_eq!(wrong.to_vec().expect("it has run"), vec![0; 30]);
}

#[kernel(warps = 1)]
fn not_cooperative(word: Ptr<u64>) {
    GridBarrier::new(word).sync();
}

#[test]
fn a_grid_barrier_in_a_kernel_that_is_not_cooperative_is_refused() {
    let found = mistakes(not_cooperative);
    assert!(found.contains("cooperative"), "{found}");
}

//! Clusters: each other's shared memory, blocks for several CTAs at once, and barriers of others.

use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, buffer, fault, numbers, run, tensor};

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

/// Each CTA writes what the next one in its cluster computed, plus what the one before gave it.
#[kernel(warps = 4, cluster = CTAS)]
fn neighbours<const CTAS: usize>(out: Ptr<i32>) {
    let at = arange(0..128, line());
    let rank = cluster_rank();
    let next = (rank + 1) % cluster_size();
    let own = Smem::alloc_with(at + program_id(0) * 1000, Swizzled::plain([0]));
    let given = Smem::<i32>::alloc([128], Swizzled::plain([0]));
    cluster_barrier_relaxed();
    given.in_cta(next).store(at * program_id(0));
    cluster_barrier();
    let seen = own.in_cta(next).load(line()) + given.load(line());
    cluster_arrive_relaxed();
    out.at(program_id(0) * 128 + at).store(seen);
    cluster_wait();
}

#[test]
fn ctas_read_and_write_each_other() {
    check_neighbours(neighbours::<4>, 4);
}

/// A cluster of one CTA is its own neighbour: code that is generic over the size compiles, and reads and writes itself.
#[test]
fn a_cluster_of_one_reads_and_writes_itself() {
    check_neighbours(neighbours::<1>, 1);
}

#[track_caller]
fn check_neighbours(kernel: impl KernelFn<(Ptr<i32>,)>, ctas: i32) {
    let after = run(kernel, [8, 1, 1], &[buffer(&[0_i32; 1024])]);
    let wanted: Vec<i32> = (0..1024)
        .map(|i| {
            let (cta, at) = (i / 128, i % 128);
            let in_cluster = |rank: i32| cta / ctas * ctas + rank.rem_euclid(ctas);
            let rank = cta % ctas;
            let (next, before) = (in_cluster(rank + 1), in_cluster(rank - 1));
            at + next * 1000 + at * before
        })
        .collect();
    assert_eq!(numbers::<i32>(&after[0]), wanted);
}

/// Both CTAs of a cluster get both halves of a block: each asks for one half, for both.
#[kernel(warps = 4, cluster = [CTAS, 1, 1])]
fn shared_block<const CTAS: usize>(
    #[block([8, 64], Nvmma::B128)] a: TensorMap<f16>,
    out: Ptr<f16>,
    rounds: i32,
) {
    let rows = Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]);
    let tile = Smem::<f16>::alloc([CTAS, 8, 64], a.layout());
    let full = Mbarrier::alloc(1);
    // All consumers release the tile.
    let empty = Mbarrier::alloc(CTAS);
    cluster_barrier_relaxed();
    let rank = cluster_rank();
    let row_at = arange(0..8, Slice::new(1, rows.clone())).expand_dims(1);
    let col_at = arange(0..64, Slice::new(0, rows.clone())).expand_dims(0);
    let mut phase = scalar(0);
    for i in range(0, rounds) {
        empty.wait(phase ^ 1);
        full.expect(CTAS * a.block_bytes());
        a.copy().multicast((1 << CTAS) - 1).load(
            [i * (8 * CTAS) + rank * 8, scalar(0)],
            tile.index(rank),
            full,
        );
        full.wait(phase);
        let base = out + (program_id(0) * rounds + i) * (512 * CTAS);
        for half in 0..CTAS {
            let block = tile.index(half).load(rows.clone());
            base.at(row_at * 64 + col_at + half * 512).store(block);
        }
        for cta in 0..CTAS {
            empty.arrival().in_cta(cta).arrive();
        }
        phase ^= 1;
    }
    cluster_barrier();
}

#[test]
fn one_copy_reaches_all_ctas_of_a_cluster() {
    check_shared_block(shared_block::<2>, 2);
}

#[test]
fn a_multicast_in_a_cluster_of_one_reaches_that_one() {
    check_shared_block(shared_block::<1>, 1);
}

#[track_caller]
fn check_shared_block(kernel: impl KernelFn<(TensorMap<f16>, Ptr<f16>, Scalar<i32>)>, ctas: usize) {
    for rounds in [1, 3] {
        let from: Vec<f16> = (0..rounds * 512 * ctas)
            .map(|i| f16::from_bits(i as u16))
            .collect();
        let arguments = [
            tensor(&from, &[(rounds * 8 * ctas) as u64, 64]),
            buffer(&vec![f16::ZERO; rounds * 512 * ctas * ctas]),
            Argument::Int(rounds as i32),
        ];
        let after = run(kernel, [ctas as u32, 1, 1], &arguments);
        let wanted = from.repeat(ctas);
        assert_eq!(numbers::<f16>(&after[1]), wanted, "{rounds} rounds");
    }
}

/// A launch that overlaps the one before it: it reads what that one wrote only after the wait.
#[kernel(warps = 4)]
fn dependent(x: Ptr<i32>, out: Ptr<i32>) {
    let at = arange(0..128, line());
    launch_dependents();
    launch_wait();
    out.at(at).store(x.at(at).load() + 1);
}

#[test]
fn a_dependent_launch_waits() {
    let from: Vec<i32> = (0..128).collect();
    let after = run(dependent, [1; 3], &[buffer(&from), buffer(&[0_i32; 128])]);
    assert_eq!(numbers::<i32>(&after[1]), (1..129).collect::<Vec<_>>());
}

/// A block for the CTAs that the launch names.
#[kernel(warps = 4, cluster = 2)]
fn block_for(#[block([8, 64], Nvmma::B128)] a: TensorMap<f16>, ctas: i32) {
    let tile = Smem::<f16>::alloc([8, 64], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    cluster_barrier();
    let first = a.copy().multicast(ctas).when(cluster_rank() == 0);
    first.load((0, 0), tile, full);
    full.wait(0);
    cluster_barrier();
}

#[test]
fn a_multicast_stays_in_its_cluster() {
    let block = vec![f16::ONE; 8 * 64];
    let inputs = |ctas| [tensor(&block, &[8, 64]), Argument::Int(ctas)];
    run(block_for, [2, 1, 1], &inputs(0b11));
    let beyond = fault(block_for, [2, 1, 1], &inputs(0b111));
    assert!(
        beyond.contains("a multicast to CTA 2 of a cluster of 2: its mask is 0b111"),
        "{beyond}"
    );
}

/// The first CTA speaks to the other one late, and nobody waits for that.
#[kernel(warps = 4, cluster = 2)]
fn late_arrival(rounds: i32, out: Ptr<i32>) {
    let told = Mbarrier::alloc(1);
    cluster_barrier();
    if cluster_rank() == 0 {
        for round in range(0, rounds) {
            out.atomic_add(round);
        }
        told.arrival().in_cta(1).arrive();
    }
}

#[test]
fn a_cta_that_has_ended_has_no_memory() {
    let arguments = [Argument::Int(1000), buffer(&[0_i32])];
    let message = fault(late_arrival, [2, 1, 1], &arguments);
    assert!(
        message.contains("CTA 1 of the cluster has exited, and its shared memory with it"),
        "{message}"
    );
}

//! NCCL beside a world: on two GPUs where it is installed, else what is said instead.

use tilekit::prelude::*;
use tilekit::{CublasHandle, EmulatorOptions, Error, Nccl};

#[test]
fn emulated_devices_and_machines_without_it_are_told_so() {
    let world = World::emulators(2, EmulatorOptions::default()).unwrap();
    let Err(Error::Peer {
        peer: "NCCL",
        reason,
    }) = Nccl::new(&world)
    else {
        panic!("it needs GPUs");
    };
    let known = ["it needs GPUs", "no NCCL was found"];
    assert!(known.iter().any(|text| reason.contains(text)), "{reason}");
    let handle = CublasHandle::new(world.stream(0))
        .err()
        .expect("so does cuBLAS");
    assert_eq!(
        handle.to_string(),
        Error::Peer {
            peer: "cublasGemmEx",
            reason: "it needs a GPU".to_owned()
        }
        .to_string()
    );
}

/// A world of two GPUs with NCCL; says why not.
fn two_gpus() -> Option<(World, Nccl)> {
    let found = World::cuda(2).and_then(|world| Nccl::new(&world).map(|nccl| (world, nccl)));
    found.map_err(|why| println!("skipped: {why}")).ok()
}

#[test]
fn its_collectives_run_on_a_world_and_are_captured() {
    let Some((world, nccl)) = two_gpus() else {
        return;
    };
    println!("NCCL {}", nccl.version());
    let (send, receive) = (
        world.symmetric::<f32>(1000).unwrap(),
        world.symmetric::<f32>(1000).unwrap(),
    );
    let whole = world.symmetric::<f32>(2000).unwrap();
    for rank in 0..2 {
        let values: Vec<f32> = (0..1000).map(|at| (at * (rank + 1)) as f32).collect();
        send.part(rank).write(&values).unwrap();
    }
    let (from, to) = (
        [send.part(0), send.part(1)],
        [receive.part(0), receive.part(1)],
    );
    let all = [whole.part(0), whole.part(1)];
    let work = || {
        nccl.all_reduce(&world, &from, &to)?;
        nccl.all_gather(&world, &to, &all)?;
        nccl.reduce_scatter(&world, &all, &to)?;
        nccl.all_to_all(&world, &to, &from)
    };
    let check = || {
        for (rank, part) in from.iter().enumerate() {
            // Half `rank` of the sums, of each rank: their sum of two ranks is twice as much.
            let wanted = (0..1000).map(|at| (2 * 3 * (rank * 500 + at % 500)) as f32);
            assert_eq!(
                part.to_vec().unwrap(),
                wanted.collect::<Vec<_>>(),
                "rank {rank}"
            );
        }
    };
    work().unwrap();
    world.synchronize().unwrap();
    check();
    let graph = world.capture(work).unwrap();
    for rank in 0..2 {
        let values: Vec<f32> = (0..1000).map(|at| (at * (rank + 1)) as f32).collect();
        send.part(rank).write(&values).unwrap();
    }
    world.replay(&graph).unwrap();
    world.synchronize().unwrap();
    check();
    let short = nccl.all_reduce(&world, &[send.part(0), whole.part(1)], &to);
    let text = short.unwrap_err().to_string();
    assert!(
        text.contains("rank 1 sends from 2000 elements, and 1000 are wanted"),
        "{text}"
    );
    let swapped = nccl.all_gather(&world, &[from[1], from[0]], &all);
    assert!(matches!(swapped, Err(Error::DeviceMismatch { .. })));
}

#[test]
fn cublas_multiplies_on_each_rank() {
    let Some((world, _)) = two_gpus() else {
        return;
    };
    for rank in 0..2 {
        let handle = match CublasHandle::new(world.stream(rank)) {
            Ok(handle) => handle,
            Err(why) => return println!("skipped: {why}"),
        };
        let buffer = |values: &[f32]| Buffer::from_slice(world.device(rank), values).unwrap();
        let (a, b) = (
            buffer(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            buffer(&[1.0, 0.0, 2.0, 3.0, 0.0, 1.0]),
        );
        let c = buffer(&[0.0; 4]);
        handle.multiply([2, 2, 3], [&a, &b, &c], false).unwrap();
        assert_eq!(c.to_vec().unwrap(), [5.0, 9.0, 14.0, 21.0]);
        handle.multiply([2, 2, 3], [&a, &b, &c], true).unwrap();
        assert_eq!(c.to_vec().unwrap(), [7.0, 6.0, 16.0, 18.0]);
        let short = handle.multiply([2, 2, 2], [&a, &b, &c], true).unwrap_err();
        assert!(
            short
                .to_string()
                .contains("[6, 6, 4] elements hold no product of 2×2×2"),
            "{short}"
        );
    }
}

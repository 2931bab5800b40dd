//! Several emulated devices: what does not fit is refused, and buffers belong to their ranks.

use tilekit::prelude::*;
use tilekit::{EmulatorOptions, Error};

fn world(ranks: usize) -> World {
    World::emulators(ranks, EmulatorOptions::default()).expect("so many ranks can be")
}

/// Adds what the next rank has to its own.
#[kernel(warps = 1)]
fn add_next(own: Ptr<i32>, all: PeerMap<i32>, next: i32) {
    let at = arange(0..32, Coalesced);
    own.at(at)
        .store(own.at(at).load() + all.of(next).at(at + 32).load());
}

#[test]
fn every_rank_reads_the_memory_of_the_others() {
    for ranks in [1, 2, 5] {
        let world = world(ranks);
        let parts = world.symmetric::<i32>(64).unwrap();
        assert_eq!((parts.len(), parts.is_empty()), (64, false));
        for rank in 0..ranks {
            let start = 1000 * rank as i32;
            let values: Vec<i32> = (start..start + 64).collect();
            parts.part(rank).write(&values).unwrap();
        }
        let compiled = add_next.compile(&Compiler::default()).unwrap();
        let kernel = world.load(&compiled).unwrap();
        let next = |rank| (rank + 1) % ranks;
        let arguments = |rank| (parts.part(rank), parts.peers(rank), next(rank) as i32);
        kernel.launch(&world, grid(1), arguments).unwrap();
        for rank in 0..ranks {
            let sums = (0..32).map(|at| 1000 * (rank + next(rank)) as i32 + 2 * at + 32);
            assert_eq!(
                parts.part(rank).to_vec().unwrap()[..32],
                sums.collect::<Vec<_>>()
            );
            let stats = world.devices()[rank].emulator_stats().unwrap();
            assert!(stats.warp_instructions > 0);
        }
    }
}

#[test]
fn memory_that_is_no_symmetric_buffer_is_no_peers() {
    let world = world(2);
    let parts = world.symmetric::<i32>(64).unwrap();
    let own: Vec<Buffer<i32>> = world
        .devices()
        .iter()
        .map(|device| Buffer::zeros(device, 64).unwrap())
        .collect();
    let addresses = [own[0].address(), own[1].address()];
    let tables: Vec<Buffer<u64>> = world
        .devices()
        .iter()
        .map(|device| Buffer::from_slice(device, &addresses).unwrap())
        .collect();
    /// The same by a table.
    #[kernel(warps = 1)]
    fn by_table(own: Ptr<i32>, table: Ptr<u64>, next: i32) {
        let at = arange(0..32, Coalesced);
        let peer = PeerMap::<i32>::new(table).of(next);
        own.at(at).store(peer.at(at).load());
    }
    let compiled = by_table.compile(&Compiler::default()).unwrap();
    let kernel = world.load(&compiled).unwrap();
    let arguments = |rank: usize| (parts.part(rank), &tables[rank], 1 - rank as i32);
    let Err(Error::Fault(fault)) = kernel.launch(&world, grid(1), arguments) else {
        panic!("rank 0 has no window to rank 1's buffer");
    };
    let text = fault.to_string();
    assert!(
        text.contains("by rank 0") && text.contains("of rank 1"),
        "{text}"
    );
}

#[test]
fn windows_close_with_their_buffer() {
    let world = world(2);
    let parts = world.symmetric::<i32>(64).unwrap();
    let compiled = add_next.compile(&Compiler::default()).unwrap();
    let kernel = world.load(&compiled).unwrap();
    let empty = world.symmetric::<i32>(0).unwrap();
    assert!(empty.is_empty());
    let used = |device: &Device| device.memory_bytes().unwrap().0;
    let free = used(&world.devices()[1]);
    drop(world.symmetric::<i32>(4096).unwrap());
    assert_eq!(used(&world.devices()[1]), free);
    let arguments = |rank: usize| (parts.part(rank), parts.peers(rank), 1 - rank as i32);
    kernel.launch(&world, grid(1), arguments).unwrap();
}

#[test]
fn worlds_that_cannot_be_are_refused() {
    for ranks in [0, 17] {
        let refused = World::emulators(ranks, EmulatorOptions::default());
        let text = refused.err().expect("1 to 16 can be").to_string();
        assert_eq!(text, format!("{ranks} devices; 1 to 16 can run as one"));
    }
    assert!(World::cuda(0).is_err());
    let compiled = add_next.compile(&Compiler::default()).unwrap();
    let (two, three) = (world(2), world(3));
    let parts = three.symmetric::<i32>(64).unwrap();
    let kernel = two.load(&compiled).unwrap();
    let arguments = |rank: usize| (parts.part(rank), parts.peers(rank), 0);
    let text = kernel
        .launch(&three, grid(1), arguments)
        .unwrap_err()
        .to_string();
    assert_eq!(text, "a launch on 3 ranks of a kernel that is on 2");
    // Of another rank.
    let kernel = three.load(&compiled).unwrap();
    let arguments = |rank: usize| (parts.part((rank + 1) % 3), parts.peers(rank), 0);
    let refused = kernel.launch(&three, grid(1), arguments);
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })));
}

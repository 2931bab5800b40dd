//! Several emulated devices: what does not fit is refused, and buffers belong to their ranks.

use tilekit::prelude::*;
use tilekit::{EmulatorOptions, Error, WorldLaunch};

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

#[kernel(warps = 1)]
fn double(x: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    x.at(at).store(x.at(at).load() * 2);
}

#[test]
fn a_launch_on_one_rank_has_the_memory_of_that_rank() {
    let world = world(3);
    let compiled = double.compile(&Compiler::default()).unwrap();
    let kernel = world.load(&compiled).unwrap();
    for rank in 0..3 {
        let own = Buffer::from_slice(world.device(rank), &[rank as i32; 32]).unwrap();
        let stream = world.stream(rank);
        kernel
            .of_rank(rank)
            .launch(stream, grid(1), (&own,))
            .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(own.to_vec().unwrap(), [2 * rank as i32; 32]);
    }
}

/// Each rank adds what the one before had to its own. The number of calls so far lies in memory: a launch can be replayed.
#[kernel(warps = 4, cooperative)]
fn add_previous(
    x: Ptr<f32>,
    got: Ptr<f32>,
    got_of: PeerMap<f32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    calls: Ptr<i32>,
    next: i32,
    before: i32,
) {
    let (at, cta) = (
        program_id(0) * 128 + arange(0..128, Coalesced),
        program_id(0),
    );
    let signals = Signals::new(counts, counts_of);
    let call = calls.at(cta).load() + 1;
    // The rank behind has read what the last call gave it.
    signals.wait(cta + 4, call - 1);
    got_of.of(next).at(at).store(x.at(at).load());
    signals.signal(next, cta, scalar(1));
    signals.wait(cta, call);
    x.at(at).store(x.at(at).load() + got.at(at).load());
    signals.signal(before, cta + 4, scalar(1));
    calls.at(cta).store(call);
}

/// Memory of `add_previous` on a world, and its launch.
struct AddPrevious {
    world: World,
    x: Symmetric<f32>,
    launch: WorldLaunch,
}

impl AddPrevious {
    fn new(world: World) -> tilekit::Result<AddPrevious> {
        let ranks = world.ranks();
        let x = world.symmetric::<f32>(512)?;
        for rank in 0..ranks {
            x.part(rank).write(&[rank as f32; 512])?;
        }
        let got = world.symmetric::<f32>(512)?;
        let counts = world.symmetric::<i32>(8)?;
        let calls = world.symmetric::<i32>(4)?;
        let compiled = add_previous.compile(&Compiler::default())?;
        let kernel = world.load(&compiled)?;
        let neighbour = |rank, steps| ((rank + steps) % ranks) as i32;
        let launch = kernel.prepare(grid(4), |rank| {
            let (own, counts, of_counts) = (got.part(rank), counts.part(rank), counts.peers(rank));
            let (next, before) = (neighbour(rank, 1), neighbour(rank, ranks - 1));
            let (x, calls) = (x.part(rank), calls.part(rank));
            (
                x,
                own,
                got.peers(rank),
                counts,
                of_counts,
                calls,
                next,
                before,
            )
        });
        Ok(AddPrevious {
            launch: launch?,
            world,
            x,
        })
    }

    /// Every rank has what so many calls make of it.
    #[track_caller]
    fn check(&self, calls: usize) {
        let ranks = self.world.ranks();
        let mut wanted: Vec<f32> = (0..ranks).map(|rank| rank as f32).collect();
        for _ in 0..calls {
            let before = wanted.clone();
            for rank in 0..ranks {
                wanted[rank] += before[(rank + ranks - 1) % ranks];
            }
        }
        for (rank, wanted) in wanted.into_iter().enumerate() {
            assert_eq!(
                self.x.part(rank).to_vec().expect("it is read"),
                [wanted; 512],
                "rank {rank} after {calls} calls"
            );
        }
    }
}

/// Worlds of emulated devices under several schedules, and one of all GPUs, where there are two.
fn worlds() -> Vec<World> {
    let emulated = |(ranks, seed)| {
        let options = EmulatorOptions {
            seed,
            ..EmulatorOptions::default()
        };
        World::emulators(ranks, options).expect("so many ranks can be")
    };
    let mut worlds: Vec<World> = [(1, 0), (2, 1), (4, 2)].map(emulated).into();
    worlds.extend([World::cuda(1), World::cuda(2)].into_iter().flatten());
    worlds
}

#[test]
fn launches_are_enqueued_captured_and_replayed_on_all_ranks() {
    for world in worlds() {
        let test = AddPrevious::new(world).unwrap();
        let AddPrevious { world, launch, .. } = &test;
        for _ in 0..3 {
            launch.enqueue(world).unwrap();
        }
        world.synchronize().unwrap();
        test.check(3);
        let graph = world.capture(|| (0..2).try_for_each(|_| launch.enqueue(world)));
        let graph = graph.unwrap();
        test.check(3);
        assert!(graph.kept() >= 4 * world.ranks());
        world.replay(&graph).unwrap();
        world.replay(&graph).unwrap();
        launch.enqueue(world).unwrap();
        world.synchronize().unwrap();
        test.check(8);
    }
}

#[test]
fn work_of_one_rank_is_in_order_with_launches_on_all() {
    for world in worlds() {
        let ranks = world.ranks();
        let (x, y) = (
            world.symmetric::<i32>(64).unwrap(),
            world.symmetric::<i32>(64).unwrap(),
        );
        let compiled = add_next.compile(&Compiler::default()).unwrap();
        let kernel = world.load(&compiled).unwrap();
        let work = || {
            for rank in 0..ranks {
                world
                    .stream(rank)
                    .fill_bytes(x.part(rank), rank as u8 + 1)?;
            }
            // Nothing orders the fills of the other ranks before it: each reads its own.
            kernel.enqueue(&world, grid(1), |rank| {
                (x.part(rank), x.peers(rank), rank as i32)
            })?;
            (0..ranks).try_for_each(|rank| world.stream(rank).copy(x.part(rank), y.part(rank)))
        };
        let graph = world.capture(work).unwrap();
        assert_eq!(y.part(0).to_vec().unwrap(), [0; 64]);
        for _ in 0..2 {
            world.replay(&graph).unwrap();
            world.synchronize().unwrap();
            for rank in 0..ranks {
                let byte = i32::from_ne_bytes([rank as u8 + 1; 4]);
                let found = y.part(rank).to_vec().unwrap();
                assert_eq!((found[0], found[63]), (2 * byte, byte), "rank {rank}");
                y.part(rank).write(&[0; 64]).unwrap();
            }
        }
    }
}

#[test]
fn captures_that_cannot_be_are_refused() {
    let test = AddPrevious::new(world(2)).unwrap();
    let AddPrevious { world, launch, .. } = &test;
    let captured = "while it is captured";
    for refused in [
        world.capture(|| world.synchronize()).map(drop),
        world
            .capture(|| world.capture(|| Ok(())).map(drop))
            .map(drop),
        // Of one rank alone, a launch of all is no part.
        world.stream(0).capture(|| launch.enqueue(world)).map(drop),
        world.stream(1).capture(|| launch.enqueue(world)).map(drop),
        world
            .stream(1)
            .capture(|| world.capture(|| Ok(())).map(drop))
            .map(drop),
    ] {
        let text = refused.expect_err("it cannot be").to_string();
        assert!(text.contains(captured), "{text}");
    }
    launch.launch(world).unwrap();
    test.check(1);
    let graph = world.capture(|| launch.enqueue(world)).unwrap();
    let refused = self::world(3).replay(&graph).unwrap_err().to_string();
    assert_eq!(refused, "a graph on 2 ranks was given to a world of 3");
    // Of as many ranks, and yet other devices.
    let refused = self::world(2).replay(&graph);
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })));
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
    assert_eq!(text, "a kernel on 2 ranks was given to a world of 3");
    // Of another rank.
    let kernel = three.load(&compiled).unwrap();
    let arguments = |rank: usize| (parts.part((rank + 1) % 3), parts.peers(rank), 0);
    let refused = kernel.launch(&three, grid(1), arguments);
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })));
}

//! Barriers that partitions share: two of them take turns at one tile, and a third hears of the end.

use tilekit::prelude::*;

const N: usize = 128;

/// Four warps of the kernel and two of a worker change a tile in turns, `rounds` times each; a warp of its own stores it.
#[kernel(warps = 4)]
fn ping_pong(out: Ptr<i32>, rounds: i32) {
    let line = |per_thread: u32, warps: u32| Blocked::new([per_thread], [32], [warps], [0]);
    let tile = Smem::alloc_with(arange(0..N, line(1, 4)), Swizzled::plain([0]));
    let (first, second) = (NamedBarrier::new(192), NamedBarrier::new(192));
    let done = NamedBarrier::new(64 + 32);
    warp_specialize()
        .main(|| {
            for _ in range(0, rounds) {
                first.sync();
                tile.store(tile.load(line(1, 4)) * 3 + 1);
                second.arrive();
            }
        })
        .worker(Warps(2), || {
            first.arrive();
            for round in range(0, rounds) {
                second.sync();
                tile.store(tile.load(line(2, 2)) ^ 0x55);
                if round < rounds - 1 {
                    first.arrive();
                }
            }
            done.arrive();
        })
        .worker(Warps(1), || {
            done.sync();
            out.at(arange(0..N, line(4, 1)))
                .store(tile.load(line(4, 1)));
        })
        .run();
}

fn reference(rounds: usize) -> Vec<i32> {
    let round = |v: i32| v.wrapping_mul(3).wrapping_add(1) ^ 0x55;
    let all = (0..N as i32).map(|v| (0..rounds).fold(v, |v, _| round(v)));
    all.collect()
}

#[test]
fn partitions_take_turns() {
    for seed in 0..20 {
        let device = Device::emulator_with_seed(seed);
        let kernel = ping_pong.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let out = Buffer::<i32>::zeros(&device, N).unwrap();
        let stream = Stream::new(&device).unwrap();
        for rounds in [1, 2, 7] {
            kernel.launch(&stream, grid(1u32), (&out, rounds)).unwrap();
            assert_eq!(out.to_vec().unwrap(), reference(rounds as usize));
        }
    }
}

#[test]
fn barriers_are_immediate_numbers_behind_those_of_the_partitions() {
    let compiled = ping_pong.compile(&Compiler::default()).unwrap();
    let ptx = compiled.compiled().ptx();
    for wanted in [
        "bar.sync 4, 192;",
        "bar.arrive 5, 192;",
        "bar.sync 5, 192;",
        "bar.arrive 4, 192;",
        "bar.arrive 6, 96;",
        "bar.sync 6, 96;",
    ] {
        assert!(ptx.contains(wanted), "{wanted}\n{ptx}");
    }
    if std::env::var_os("PTXAS").is_none() {
        return eprintln!("skipped: no ptxas");
    }
    let ptxas = tilekit::ptxas::Ptxas::find(None).unwrap_or_else(|e| panic!("{e}"));
    let assembled = ptxas.assemble(ptx).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    assert!(
        assembled.report.messages.is_empty(),
        "{:?}",
        assembled.report.messages
    );
}

/// The worker forgets to come.
#[kernel(warps = 4)]
fn forgetful(n: i32) {
    let meeting = NamedBarrier::new(160);
    warp_specialize()
        .main(|| meeting.sync())
        .worker(Warps(1), || {
            if n > 0 {
                meeting.sync();
            }
        })
        .run();
}

#[test]
fn a_deadlock_names_the_waiting_partitions() {
    let device = Device::emulator();
    let kernel = forgetful.compile(&Compiler::default()).unwrap();
    let kernel = kernel.load(&device).unwrap();
    let stream = Stream::new(&device).unwrap();
    kernel.launch(&stream, grid(1u32), (1,)).unwrap();
    let told = kernel
        .launch(&stream, grid(1u32), (0,))
        .unwrap_err()
        .to_string();
    assert!(told.contains("barrier 3") && told.contains("160"), "{told}");
}

//! What the emulator says of kernels that do not keep to the order of [`Mail`].

use tilekit::diag::Code;
use tilekit::prelude::*;
use tilekit::report::fault_diagnostic;
use tilekit::{Compiler, EmulatorOptions, Error, World};

use super::check::Kind;
use super::gather::gather_product;
use super::mail::{MOST_RANKS, Mail, Mailbox};
use crate::products::dense::ManyTile;
use crate::products::epilogue::Plain;
use crate::products::form::Form;

/// Elements of a message.
const LEN: usize = 1024;

/// Nanoseconds of a wait that the emulator ends before: it sees that no rank can go on.
const LIMIT: i64 = 5_000_000_000;

/// Nanoseconds of a wait that ends.
const SHORT: i64 = 20;

const RIGHT: usize = 0;
/// Nobody raises the flag.
const SILENT: usize = 1;
/// Nobody waits for it.
const HASTY: usize = 2;
/// The flag is raised before the bulk store is complete.
const EARLY: usize = 3;

/// Each rank sends its numbers to the rank before, and stores what it got.
#[kernel(warps = 1, cooperative)]
fn send<const VARIANT: usize>(
    x: Ptr<f32>,
    out: Ptr<f32>,
    got: Ptr<f32>,
    got_of: PeerMap<f32>,
    mail: Mailbox,
) {
    let mail = Mail::open(mail);
    let tile = Smem::<f32>::alloc([LEN], Swizzled::plain([0]));
    let arrived = Mbarrier::alloc(1);
    let layout = Blocked::new([4], [32], [1], [0]);
    let to = mail.before(scalar(1));
    mail.announce();
    tile.store(x.at(arange(0..LEN, layout.clone())).load());
    mail.wait_begun(to);
    got_of.of(to).pointer().bulk(0).store(tile);
    if VARIANT == EARLY {
        tma_store_wait_read(0);
    } else {
        tma_store_wait(0);
    }
    if VARIANT != SILENT {
        mail.raise(to, scalar(0));
    }
    if VARIANT != HASTY {
        mail.wait(scalar(0));
    }
    arrived.expect(tile.bytes());
    got.bulk(0).load(tile, arrived);
    arrived.wait(0);
    out.at(arange(0..LEN, layout.clone()))
        .store(tile.load(layout));
}

/// Sends so often, with other numbers each time; ends with what was wrong.
fn sends<const VARIANT: usize>(
    ranks: usize,
    seed: u64,
    launches: usize,
    forgets: Option<usize>,
) -> Result<(), Error> {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    let world = World::emulators(ranks, options)?;
    let kernel = world.load(&send::<VARIANT>.compile(&Compiler::default())?)?;
    let [x, got, out] = [(); 3].map(|()| world.symmetric::<f32>(LEN).expect("memory"));
    let flags = world.symmetric::<i64>(MOST_RANKS + 1)?;
    let counts = world.symmetric::<u64>(1)?;
    for launch in 0..launches {
        let number = |rank: usize| (launch * ranks + rank) as f32;
        for rank in 0..ranks {
            x.part(rank).write(&[number(rank); LEN])?;
        }
        if let Some(rank) = forgets.filter(|_| launch == 1) {
            counts.part(rank).write(&[0])?;
        }
        kernel.launch(&world, grid(1), |rank| {
            (
                x.part(rank),
                out.part(rank),
                got.part(rank),
                got.peers(rank),
                (
                    flags.part(rank),
                    flags.peers(rank),
                    counts.part(rank),
                    (LIMIT, world.late(rank)),
                    rank as i32,
                    ranks as i32,
                ),
            )
        })?;
        for rank in 0..ranks {
            assert_eq!(world.late(rank).read(0..1)?, [0], "launch {launch}");
            let next = number((rank + 1) % ranks);
            assert_eq!(out.part(rank).to_vec()?, [next; LEN], "launch {launch}");
        }
    }
    Ok(())
}

/// Whether a seed shows the mistake, with this code and these words.
fn shows<const VARIANT: usize>(seed: u64, code: Code, words: &[&str]) -> bool {
    match sends::<VARIANT>(2, seed, 2, None) {
        Err(Error::Fault(fault)) => {
            let text = fault.to_string();
            assert_eq!(fault_diagnostic(&fault).code, code, "{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            true
        }
        Err(error) => panic!("{error}"),
        Ok(()) => false,
    }
}

#[test]
fn messages_arrive_in_launches_that_follow_each_other() {
    for (ranks, seed) in [(1, 0), (2, 1), (2, 2), (4, 3), (8, 4)] {
        sends::<RIGHT>(ranks, seed, 3, None).expect("it is right");
    }
}

#[test]
fn a_flag_that_nobody_raises_is_a_deadlock_that_names_it() {
    let words = ["deadlock across 2 devices", "polls the flag"];
    assert!((0..3).all(|seed| shows::<SILENT>(seed, Code::Deadlock, &words)));
}

#[test]
fn a_missing_wait_and_a_store_that_is_not_complete_are_races() {
    assert!((0..3).all(|seed| shows::<HASTY>(seed, Code::Race, &["rank"])));
    assert!((0..3).all(|seed| shows::<EARLY>(seed, Code::Race, &["rank"])));
}

#[test]
fn a_rank_that_forgets_its_launches_is_a_deadlock() {
    for seed in 0..3 {
        let Err(Error::Fault(fault)) = sends::<RIGHT>(2, seed, 2, Some(1)) else {
            panic!("seed {seed}: it is reported");
        };
        assert_eq!(fault_diagnostic(&fault).code, Code::Deadlock);
    }
}

/// Flags that follow each other: more than a warp has lanes.
const FLAGS: usize = 40;

/// The number of the launch that waits, which 32 bits do not hold.
const LAUNCH: i64 = (1 << 32) + 7;

/// One warp beside four others waits for rank 1 to begin, for the first flag, and for all.
#[kernel(warps = 4, cooperative)]
fn wait_in_a_warp(mail: Mailbox) {
    let mail = Mail::open(mail);
    let wait = || {
        if mail.rank == 0 {
            mail.wait_begun(scalar(1));
            mail.wait(scalar(0));
            mail.wait_all(scalar(0), scalar(FLAGS as i32));
        }
    };
    warp_specialize().main(|| {}).worker(Warps(1), wait).run();
}

/// What the launch ends with, and the word of rank 0, where all flags are raised but this one: the launches before it are forgotten by so many.
fn waits_in_a_warp(seed: u64, missing: Option<(usize, i64)>) -> (Result<(), Error>, i64) {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    let world = World::emulators(2, options).expect("devices");
    let compiled = wait_in_a_warp.compile(&Compiler::default());
    let kernel = world
        .load(&compiled.expect("it compiles"))
        .expect("it loads");
    let mut raised = [LAUNCH; MOST_RANKS + FLAGS];
    if let Some((slot, launches)) = missing {
        raised[slot] -= launches;
    }
    let flags = world.symmetric::<i64>(raised.len()).expect("memory");
    let counts = world.symmetric::<u64>(1).expect("memory");
    flags.part(0).write(&raised).expect("it is written");
    let before = (LAUNCH as u64 - 1) << 16;
    counts.part(0).write(&[before]).expect("it is written");
    let ended = kernel.launch(&world, grid(1), |rank| {
        let mail = (
            flags.part(rank),
            flags.peers(rank),
            counts.part(rank),
            (SHORT, world.late(rank)),
            rank as i32,
            2,
        );
        (mail,)
    });
    (ended, world.late(0).read(0..1).expect("it is read")[0])
}

#[test]
fn a_limit_changes_nothing_where_all_flags_are_raised() {
    for seed in 0..3 {
        let (ended, word) = waits_in_a_warp(seed, None);
        ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(word, 0);
    }
}

#[test]
fn a_wait_past_its_limit_names_the_flag_and_ends_the_kernel() {
    let flag = |flag: usize| MOST_RANKS + flag;
    // A rank that has not begun, the flag of one wait, one of the first and of the last that a warp waits for together.
    for (slot, launches) in [(1, 1), (flag(0), LAUNCH), (flag(9), 7), (flag(37), 3)] {
        for seed in 0..3 {
            let (ended, word) = waits_in_a_warp(seed, Some((slot, launches)));
            let Err(Error::Fault(fault)) = ended else {
                panic!("slot {slot}, seed {seed}: rank 0 waits in vain: {ended:?}");
            };
            let code = fault_diagnostic(&fault).code;
            assert_eq!(
                code,
                Code::DeviceAssert,
                "slot {slot}, seed {seed}: {fault}"
            );
            assert_eq!(
                word,
                (slot as i64) << 32 | launches.min(i32::MAX.into()),
                "seed {seed}"
            );
        }
    }
}

/// A rank multiplies for itself alone: the other one waits in vain and says so.
fn product_with_an_absent_rank(seed: u64) -> (Result<(), Error>, i64) {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    let world = World::emulators(2, options).expect("devices");
    let tile = ManyTile::of([1, 64, 64, 3]);
    let form = Form::new(tile, Plain);
    let compiled = fixed(gather_product::<bf16, Plain>, form).compile(&Compiler::default());
    let kernel = world
        .load(&compiled.expect("it compiles"))
        .expect("it loads");
    let size @ [m, n, k] = [64, 64, 64];
    let needed = Kind::Gather.shared(tile, 2, size);
    let matrices = |len: usize| world.symmetric::<bf16>(len).expect("memory");
    let [a, b, c, gathered] = [m * k, n * k, 2 * m * n, needed.elements].map(matrices);
    let flags = world.symmetric::<i64>(needed.flags).expect("memory");
    let counts = world.symmetric::<u64>(1).expect("memory");
    let ended = kernel.launch(&world, grid(1), |rank| {
        (
            a.part(rank).view([m, k]),
            a.part(rank).view([m, k]),
            b.part(rank).view([n, k]),
            c.part(rank).view([2, m, n]),
            (c.part(rank), n as i32, c.part(rank)),
            gathered.part(rank),
            gathered.peers(rank),
            (
                flags.part(rank),
                flags.peers(rank),
                counts.part(rank),
                (SHORT, world.late(rank)),
                0,
                if rank == 0 { 2 } else { 1 },
            ),
            m as i32,
            n as i32,
            k as i32,
            0,
        )
    });
    (ended, world.late(0).read(0..1).expect("it is read")[0])
}

#[test]
fn a_product_does_not_wait_longer_than_its_limit() {
    for seed in 0..2 {
        let (ended, word) = product_with_an_absent_rank(seed);
        let Err(Error::Fault(fault)) = ended else {
            panic!("seed {seed}: rank 0 waits in vain: {ended:?}");
        };
        assert_eq!(fault_diagnostic(&fault).code, Code::DeviceAssert, "{fault}");
        // The warp that sends waits for rank 1 to begin, another one for its rows.
        let said = [1_i64, MOST_RANKS as i64].map(|slot| slot << 32 | 1);
        assert!(said.contains(&word), "{word:#x}");
    }
}

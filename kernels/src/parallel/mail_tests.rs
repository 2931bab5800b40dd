//! What the emulator says of kernels that do not keep to the order of [`Mail`].

use tilekit::diag::Code;
use tilekit::prelude::*;
use tilekit::report::fault_diagnostic;
use tilekit::{Compiler, EmulatorOptions, Error, World};

use super::mail::{MOST_RANKS, Mail};

/// Elements of a message.
const LEN: usize = 1024;

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
    flags: Ptr<i32>,
    flags_of: PeerMap<i32>,
    launches: Ptr<u64>,
    rank: i32,
    ranks: i32,
) {
    let mail = Mail::open(launches, (flags, flags_of), [rank, ranks]);
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
    let flags = world.symmetric::<i32>(MOST_RANKS + 1)?;
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
                flags.part(rank),
                flags.peers(rank),
                counts.part(rank),
                rank as i32,
                ranks as i32,
            )
        })?;
        for rank in 0..ranks {
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

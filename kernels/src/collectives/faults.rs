//! What the emulator and the compiler say of steps that are written wrongly.

use tilekit::diag::Code;
use tilekit::prelude::*;
use tilekit::report::fault_diagnostic;
use tilekit::{Compiler, EmulatorOptions, Error, World};

use super::exchange::{Exchange, SLOT_BYTES, SLOTS};
use super::form::{Form, MOST_RANKS};
use super::one_shot::Chunk;

/// As the kernels do it.
const NONE: usize = 0;
/// The signal orders nothing.
const NO_RELEASE: usize = 1;
/// The signal has the scope of the GPU.
const SIGNAL_OF_GPU: usize = 2;
/// The wait has the scope of the GPU.
const WAIT_OF_GPU: usize = 3;

/// Nanoseconds of a wait.
const LIMIT: i64 = 5_000_000_000;

/// Rank 1 sends nothing.
const SILENT: usize = 4;

const FORM: Form = Form {
    ranks: 2,
    warps: 1,
    accesses: 1,
    is_aligned: true,
};

/// One step between two ranks: each gets what the other one has.
#[kernel(warps = 1, cooperative)]
fn step<const FAULT: usize>(x: Ptr<f32>, out: Ptr<f32>, exchange: Exchange<f32>) {
    let Exchange {
        counts,
        counts_of,
        rank,
        ..
    } = exchange;
    if FAULT == SILENT {
        if rank == 1 {
            return;
        }
    }
    let peer = exchange.peer(FORM, 1);
    let step = exchange.begin(scalar(1));
    let chunk = Chunk::of::<f32>(FORM, scalar(128), scalar(0));
    let place = (chunk.lanes, chunk.inside);
    exchange.send(FORM, (step, peer), place, chunk.load(x));
    let count = counts_of.of(peer).at(rank);
    match FAULT {
        NO_RELEASE => drop(count.relaxed().atomic_add(1)),
        SIGNAL_OF_GPU => drop(count.scope(Scope::Gpu).release().atomic_add(1)),
        _ => exchange.signal(FORM),
    }
    if FAULT == WAIT_OF_GPU {
        let seen = counts.at(peer).scope(Scope::Gpu).acquire();
        seen.atomic_poll(|seen| seen - step > 0);
    } else {
        exchange.wait(FORM, step);
    }
    let received = chunk.load(exchange.received(FORM, step, peer));
    out.at(chunk.lanes).store(received);
}

/// What the host does to epochs.
#[derive(Clone, Copy, PartialEq)]
enum Epochs {
    Kept,
    /// They are 0 before every call.
    Reset,
    /// They and the counts begin shortly before the largest number.
    Wrap,
}

/// Four calls after one another.
fn run<const FAULT: usize>(seed: u64, of_host: Epochs) -> tilekit::Result<()> {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    let world = World::emulators(2, options)?;
    let kernel = world.load(&step::<FAULT>.compile(&Compiler::default())?)?;
    let (x, out) = (world.symmetric::<f32>(128)?, world.symmetric::<f32>(128)?);
    let staging = world.symmetric::<f32>(2 * SLOTS * SLOT_BYTES / 4)?;
    let counts = world.symmetric::<i32>(MOST_RANKS)?;
    let epochs = world.symmetric::<i32>(1)?;
    if of_host == Epochs::Wrap {
        for rank in 0..2 {
            counts.part(rank).write(&[i32::MAX - 1; MOST_RANKS])?;
            epochs.part(rank).write(&[i32::MAX - 1])?;
        }
    }
    for call in 0..4 {
        for rank in 0..2 {
            x.part(rank).write(&[(10 * call + rank) as f32; 128])?;
            if of_host == Epochs::Reset {
                epochs.part(rank).write(&[0])?;
            }
        }
        let limit = if FAULT == SILENT { 20 } else { LIMIT };
        kernel.launch(&world, grid(1), |rank| {
            (
                x.part(rank),
                out.part(rank),
                (
                    staging.part(rank),
                    staging.peers(rank),
                    counts.part(rank),
                    counts.peers(rank),
                    epochs.part(rank),
                    rank as i32,
                    (limit, world.late(rank)),
                ),
            )
        })?;
        for rank in 0..2 {
            let other = (10 * call + 1 - rank) as f32;
            assert_eq!(out.part(rank).to_vec()?, [other; 128]);
        }
    }
    Ok(())
}

/// Every schedule ends with a race.
#[track_caller]
fn races(run: impl Fn(u64) -> tilekit::Result<()>) {
    for seed in 0..4 {
        match run(seed) {
            Err(Error::Fault(fault)) => {
                assert_eq!(fault_diagnostic(&fault).code, Code::Race, "seed {seed}");
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

#[test]
fn a_step_as_it_is_has_no_race() {
    for seed in 0..4 {
        run::<NONE>(seed, Epochs::Kept).expect("it is right");
    }
}

#[test]
fn epochs_wrap() {
    for seed in 0..4 {
        run::<NONE>(seed, Epochs::Wrap).expect("numbers are compared by their difference");
    }
}

#[test]
fn a_signal_without_its_release_is_a_race() {
    races(|seed| run::<NO_RELEASE>(seed, Epochs::Kept));
}

#[test]
fn a_wait_of_the_gpu_is_a_race() {
    races(|seed| run::<WAIT_OF_GPU>(seed, Epochs::Kept));
}

#[test]
fn epochs_that_are_reset_are_a_race() {
    races(|seed| run::<NONE>(seed, Epochs::Reset));
}

#[test]
fn a_signal_of_the_gpu_does_not_compile() {
    let compiled = step::<SIGNAL_OF_GPU>.compile(&Compiler::default());
    let text = compiled.err().expect("it leaves out the other GPU");
    let text = text.to_string();
    assert!(text.contains("TK0039"), "{text}");
}

#[test]
fn a_rank_that_sends_nothing_ends_the_kernel_of_the_other() {
    let Err(Error::Fault(fault)) = run::<SILENT>(0, Epochs::Kept) else {
        panic!("rank 0 waits in vain");
    };
    let text = fault.to_string();
    for part in ["the kernel executed trap", "rank 0", "in wait"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
